#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks of the built plugin with GStreamer's own tools, on whatever GStreamer this machine has:
#
#   tests/pipelines.sh PLUGIN_DIR CLIP EMBED  CLIP: an H.264 file of 24 frames at 24 fps, first PTS 0
#                                             EMBED: the built program of examples/embed
#   tests/pipelines.sh --bare PLUGIN_DIR      only what has to hold with no Vulkan on the machine at all
#
# Closes with 'N passed, N failed'.
set -euo pipefail

bare=
if [ "${1:-}" = --bare ]; then
    bare=1
    shift
fi
plugins=$(realpath -- "${1:?usage: tests/pipelines.sh [--bare] PLUGIN_DIR [CLIP EMBED]}")
if [ -z "$bare" ]; then
    clip=$(realpath -- "${2:?a CLIP is needed without --bare}")
    embed=$(realpath -- "${3:?the program EMBED is needed without --bare}")
fi

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"
export GST_PLUGIN_PATH=$plugins GST_PLUGIN_PATH_1_0=$plugins
export GST_REGISTRY=$work/registry.bin GST_REGISTRY_1_0=$work/registry.bin
export GST_DEBUG_NO_COLOR=1 LC_ALL=C.UTF-8
no_driver=(env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent VK_ADD_DRIVER_FILES= "GST_REGISTRY_1_0=$work/no-driver.bin")
formats=(RGBA BGRA ARGB ABGR RGBx BGRx xRGB xBGR RGB BGR I420 YV12 NV12 NV21 YUY2 UYVY Y42B Y444 GRAY8 I420_10LE P010_10LE)
hang=300 # seconds after which a pipeline counts as hung

passed=0
failed=0
check() { # NAME FUNCTION [ARGUMENT...]; a function that fails has printed why
    if "${@:2}" >why.txt 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$1"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$1"
        sed 's/^/        /' why.txt
    fi
}
no() { # prints a text, and what was seen, as the reason; fails
    printf '%s\n' "$1"
    [ -z "${2:-}" ] || tail -n 25 -- "$2"
    return 1
}

# --- Loading and gst-inspect-1.0 ---
loads() { # [COMMAND PREFIX...]
    "$@" gst-inspect-1.0 framecast >plugin.txt 2>&1 || no "gst-inspect-1.0 framecast failed" plugin.txt || return
    grep -q 'framecastinterp' plugin.txt || no "the plugin lists no framecastinterp" plugin.txt || return
    "$@" gst-inspect-1.0 --print-plugin-auto-install-info framecast >/dev/null 2>&1 || no "cannot be introspected" || return
    if "$@" gst-inspect-1.0 -b 2>&1 | grep -q gstframecast; then no "the plugin is blacklisted" || return; fi
}

properties=(fps model precision flow-scale static-guard scene-threshold adapter adapter-name skip-to-first
    max-duplication-time max-closing-segment-duplication-duration silent drop-only max-rate average-period rate qos
    in out duplicate drop interpolated stats)
inspects() { # [COMMAND PREFIX...]
    "$@" gst-inspect-1.0 framecastinterp >element.txt 2>&1 || no "gst-inspect-1.0 framecastinterp failed" element.txt || return
    local text property block
    for text in "SINK template: 'sink'" "SRC template: 'src'" 'Availability: Always' 'video/x-raw' \
        'Filter/Effect/Video/FrameRate' 'none (0)'; do
        grep -qF -- "$text" element.txt || no "gst-inspect-1.0 shows no: $text" element.txt || return
    done
    for text in "${formats[@]}"; do
        [ "$(grep -cw -- "$text" element.txt)" -ge 2 ] || no "format $text is not in both pad templates" element.txt || return
    done
    for property in "${properties[@]}"; do
        # From the property's line to the next property's.
        block=$(awk -v p="$property" '/^  [a-z][a-z-]* *: /{on = ($1 == p || $1 == p ":")} on' element.txt)
        [[ $block =~ ^\ \ $property\ *:\ [^$'\n']{10,} ]] || no "property $property is missing or has no description" element.txt || return
        [[ $block == *flags:\ readable* ]] || no "property $property shows no flags: $block" || return
        case $property in
            in | out | duplicate | drop | interpolated | stats | adapter-name)
                [[ $block != *writable* ]] || no "$property has to be read-only: $block" || return ;;
            *)
                [[ $block == *writable*changeable*[Dd]efault:* ]] ||
                    no "$property is not writable, or does not show its default and when it may change: $block" || return ;;
        esac
    done
}

# --- Running ---
# Runs a pipeline whose interpolator is named `framecast`; the counters' last values land in in=, out= and so on.
declare -A counter
play() {
    counter=()
    timeout "$hang" gst-launch-1.0 -v "$@" >play.txt 2>&1 || no "the pipeline failed (exit status $?)" play.txt || return
    local name value
    while read -r name value; do counter[$name]=$value; done \
        < <(sed -nE 's/^.*:framecast: ([a-z-]+) = (\([a-z0-9]+\))? *(.*)$/\1 \3/p' play.txt)
}
counts() { # NAME=VALUE...
    local pair
    for pair in "$@"; do
        [ "${counter[${pair%%=*}]:-none}" = "${pair#*=}" ] || no "${pair%%=*} is ${counter[${pair%%=*}]:-none}, not ${pair#*=}" play.txt || return
    done
}
ball_to_60() {
    # 50 frames of 1/25 s last 2 s: 120 output frames. Every 12th falls on an input frame (10 of them), the two after
    # the last input frame (at 1.96 s) repeat it, and the network draws the other 108.
    play videotestsrc pattern=ball num-buffers=50 ! video/x-raw,framerate=25/1 ! \
        framecastinterp name=framecast fps=60 silent=false ! fakesink || return
    counts in=50 out=120 interpolated=108
}
ball_format() { # FORMAT
    play videotestsrc pattern=ball num-buffers=4 ! "video/x-raw,format=$1,width=98,height=66,framerate=30/1" ! \
        framecastinterp name=framecast fps=60 silent=false ! "video/x-raw,format=$1,framerate=60/1" ! fakesink || return
    counts in=4 out=8 interpolated=3
}
rate_from_caps() {
    play videotestsrc pattern=ball num-buffers=10 ! video/x-raw,width=96,height=64,framerate=25/1 ! \
        framecastinterp name=framecast silent=false ! video/x-raw,framerate=50/1 ! fakesink || return
    counts in=10 out=20 interpolated=9
}
lower_rate() {
    play videotestsrc pattern=ball num-buffers=20 ! video/x-raw,width=96,height=64,framerate=50/1 ! \
        framecastinterp name=framecast fps=25 silent=false ! fakesink || return
    [ "${counter[interpolated]:-0}" = 0 ] || no "a lower rate ran the network: ${counter[interpolated]} frames" || return
    counts out=10
}
h264_to_60() {
    # 24 frames of 1/24 s last 1 s: 60 output frames. Every 5th falls on an input frame (12), two repeat the last.
    play filesrc location="$clip" ! decodebin ! videoconvert ! \
        framecastinterp name=framecast fps=60 silent=false ! fakesink || return
    counts in=24 out=60 interpolated=46
}
seek() {
    # 12 frames at 12 fps make 30 at 30 fps; from 0.5 s on, 15 more. The last of each repeats the last input frame.
    timeout "$hang" "$embed" --width 96 --height 64 --seek 0.5 >play.txt 2>&1 || no "embed failed (exit status $?)" play.txt || return
    local before after
    before=$(sed '/^seeking/,$d' play.txt | grep -c '^0:00:0') || true
    after=$(sed '1,/^seeking/d' play.txt | grep '^0:00:0') || true
    [ "$before" -eq 30 ] || no "$before frames before the seek, not 30" play.txt || return
    [ "$(wc -l <<<"$after")" -eq 15 ] || no "not 15 frames after the seek" play.txt || return
    [[ $after == '0:00:00.500000000  as it came'* ]] || no "the frame at 0.5 s does not come first" play.txt || return
    [ "$(grep -c drawn <<<"$after")" -eq 11 ] || no "not 11 drawn frames after the seek" play.txt || return
}
fails_with() { # TEXT PIPELINE...; with the command prefix in "${prefix[@]}"
    local status=0
    timeout "$hang" "${prefix[@]}" gst-launch-1.0 "${@:2}" >play.txt 2>&1 || status=$?
    [ $status -ne 124 ] || no "the pipeline hung" play.txt || return
    [ $status -ne 0 ] || no "the pipeline did not fail" play.txt || return
    # 255 is gst-launch-1.0's own; 129 to 192 stand for signals.
    { [ $status -lt 128 ] || [ $status -eq 255 ]; } || no "the pipeline crashed (exit status $status)" play.txt || return
    grep -qF -- "$1" play.txt || no "the error does not say: $1" play.txt || return
    if grep -q 'panicked' play.txt; then no "a panic" play.txt || return; fi
}
prefix=(env)
frames=(videotestsrc num-buffers=5 ! "video/x-raw,width=96,height=64,framerate=25/1")
no_adapter() {
    fails_with 'mesa-vulkan-drivers' "${frames[@]}" ! framecastinterp fps=50 ! fakesink
}

printf '%s, plugin in %s\n' "$(gst-launch-1.0 --version | sed -n 2p)" "$plugins"
if [ -n "$bare" ]; then
    check "loads with no Vulkan loader and no driver" loads
    check "gst-inspect-1.0 framecastinterp with no Vulkan loader and no driver" inspects
    check "no Vulkan loader: the pipeline fails and says what to install" no_adapter
else
    check "loads" loads
    check "loads with no Vulkan driver" loads "${no_driver[@]}"
    check "gst-inspect-1.0 framecastinterp: pads, formats, every property" inspects
    check "the same with no Vulkan driver" inspects "${no_driver[@]}"
    check "videotestsrc, 25 to 60 fps: exact counts" ball_to_60
    for format in "${formats[@]}"; do
        check "$format, 30 to 60 fps" ball_format "$format"
    done
    check "output rate from the caps" rate_from_caps
    check "a lower rate never runs the network" lower_rate
    check "H.264 file through decodebin, 24 to 60 fps: exact counts" h264_to_60
    check "a flushing seek, in a program that links the plugin statically" seek
    check "model= that does not exist: fails and names it" \
        fails_with '/nonexistent/model.safetensors' "${frames[@]}" ! \
        framecastinterp fps=50 model=/nonexistent/model.safetensors ! fakesink
    printf 'not a model' >bad.safetensors
    check "model= that is no model: fails and names it" \
        fails_with 'bad.safetensors' "${frames[@]}" ! framecastinterp fps=50 model="$work/bad.safetensors" ! fakesink
    check "interlaced caps: refused with a text that names deinterlace" \
        fails_with 'deinterlace' videotestsrc num-buffers=5 ! \
        video/x-raw,width=96,height=64,framerate=25/1,interlace-mode=interleaved ! framecastinterp fps=50 ! fakesink
    prefix=("${no_driver[@]}")
    check "no Vulkan driver: the pipeline fails and says what to install" no_adapter
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]

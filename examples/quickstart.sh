#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A 60 fps version of a clip, the missing frames drawn by the network, in one command:
#
#   examples/quickstart.sh [--force] [INPUT] [OUTPUT]
#
# Installs what is missing (examples/install-deps.sh), builds the plugin, and turns INPUT, any file that GStreamer's
# decodebin reads, into OUTPUT, an H.264 .mp4 with INPUT's audio. Without INPUT it makes a short test scene first.
# OUTPUT is by default NAME-60fps.mp4 in the current directory; a file that is already there is left alone unless
# --force is given, and nothing is left behind by a run that fails.
#
# FRAMECAST_PLUGIN_DIR=DIR takes libgstframecast.so from DIR: nothing is installed or built then.
set -euo pipefail

fps=60
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
say() { printf 'framecast: %s\n' "$*"; }
die() {
    printf 'framecast: %s\n' "$@" >&2
    exit 1
}

# --- Arguments, checked before anything is installed ---
force=
names=()
while [ $# -gt 0 ]; do
    case $1 in
        -f | --force) force=1 ;;
        -h | --help)
            sed -n '4,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --)
            shift
            names+=("$@")
            break
            ;;
        -?*) die "unknown option $1 (a file whose name begins with a dash: write ./$1)" ;;
        *) names+=("$1") ;;
    esac
    shift
done
[ ${#names[@]} -le 2 ] || die "too many arguments; usage: examples/quickstart.sh [--force] [INPUT] [OUTPUT]"
input=${names[0]:-}
output=${names[1]:-}

if [ -n "$input" ]; then
    [ -e "$input" ] || die "no such file: $input"
    [ -f "$input" ] || die "not a file: $input"
    [ -r "$input" ] || die "cannot read $input (permission denied)"
    [ -s "$input" ] || die "$input is empty"
    input=$(realpath -- "$input")
    stem=$(basename -- "$input")
    [ "${stem%.*}" = "" ] || stem=${stem%.*}
else
    stem=test-scene
fi
[ -n "$output" ] || output=$stem-${fps}fps.mp4
[ ! -d "$output" ] || output=${output%/}/$stem-${fps}fps.mp4
[[ "$output" == *.mp4 ]] || die "OUTPUT is written as MP4, so its name must end in .mp4: $output"
folder=$(dirname -- "$output")
{ [ -d "$folder" ] && [ -w "$folder" ]; } || die "cannot write into the folder $folder"
output=$(cd -- "$folder" && pwd)/$(basename -- "$output")
refuse_to_overwrite() {
    [ -n "$force" ] || [ ! -e "$output" ] || die "$output exists already; name another OUTPUT, or add --force"
}
refuse_to_overwrite

# --- Install and build ---
if [ -n "${FRAMECAST_PLUGIN_DIR:-}" ]; then
    plugins=$(realpath -- "$FRAMECAST_PLUGIN_DIR")
    [ -f "$plugins/libgstframecast.so" ] || die "FRAMECAST_PLUGIN_DIR holds no libgstframecast.so: $plugins"
else
    "$root/examples/install-deps.sh"
    export PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
    say "building the plugin (the first build takes several minutes)"
    plugins=$("$root/examples/build-plugin.sh")
fi
for tool in gst-launch-1.0 gst-inspect-1.0 gst-discoverer-1.0; do
    command -v "$tool" >/dev/null || die "$tool is missing; examples/install-deps.sh installs it"
done

# --- A work folder beside OUTPUT, so that the finished file is moved into place in one step. Plain names inside it:
# whatever the user's files are called, nothing in a pipeline description needs quoting. ---
work=$(mktemp -d -- "$(dirname -- "$output")/.framecast-XXXXXX")
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd -- "$work"

# GST_PLUGIN_PATH with its versioned twin, which would win over it; a registry of our own, not the user's.
GST_PLUGIN_PATH=$plugins${GST_PLUGIN_PATH_1_0:+:$GST_PLUGIN_PATH_1_0}${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}
export GST_PLUGIN_PATH GST_PLUGIN_PATH_1_0=$GST_PLUGIN_PATH
export GST_REGISTRY=$work/registry.bin GST_REGISTRY_1_0=$work/registry.bin
export LC_ALL=C.UTF-8 GST_DEBUG_NO_COLOR=1
has() { gst-inspect-1.0 --exists "$1" 2>/dev/null; }

gst-inspect-1.0 framecastinterp >inspect.txt 2>&1 || {
    cat inspect.txt >&2
    die "GStreamer does not find framecastinterp in $plugins"
}

# The `ERROR: from element ...` texts of gst-launch-1.0, without its source positions.
errors_of() { sed -nE 's/^ERROR: from element [^ ]+: //p' "$1" | awk '!seen[$0]++'; }
# The line that says more, where an element gave one below its "Additional debug info:".
details_of() { sed -nE '/^Additional debug info:/{n;n;/^(ERROR|WARNING|Additional)/!p}' "$1" | awk 'NF && !seen[$0]++'; }

# --- An H.264 encoder that works here: each candidate has to encode a few frames of this size ---
choose_encoder() { # WIDTH HEIGHT
    local kbit=$(($1 * $2 * fps / 10000)) candidate
    local candidates=(
        "x264enc pass=qual quantizer=18 speed-preset=veryfast key-int-max=$((2 * fps))"
        "openh264enc rate-control=bitrate bitrate=$((kbit * 1000)) gop-size=$((2 * fps))"
        "vah264enc bitrate=$kbit"
        "vah264lpenc bitrate=$kbit"
        "vaapih264enc bitrate=$kbit"
        "nvh264enc bitrate=$kbit"
        "v4l2h264enc"
    )
    for candidate in "${candidates[@]}"; do
        has "${candidate%% *}" || continue
        # shellcheck disable=SC2086  # a pipeline description is meant to be split
        if timeout 60 gst-launch-1.0 -q videotestsrc num-buffers=3 ! \
            "video/x-raw,width=$1,height=$2,framerate=$fps/1" ! videoconvert ! $candidate ! h264parse ! fakesink \
            >encoder.txt 2>&1; then
            encoder=$candidate
            return
        fi
        say "${candidate%% *} is installed but does not work here: $(errors_of encoder.txt | head -n 1)"
    done
    die "no H.264 encoder works here. Debian and Ubuntu have one each in gstreamer1.0-plugins-ugly (x264enc) and" \
        "gstreamer1.0-plugins-bad (openh264enc, vah264enc, nvh264enc)."
}

# --- INPUT, or a scene: scrolling bars behind a sweeping ball, two seconds at 24 fps, small enough for a CPU ---
if [ -n "$input" ]; then
    ln -s -- "$input" input
else
    choose_encoder 384 216
    say "making a test scene: 384x216, 2 seconds at 24 fps"
    scene="num-buffers=48 ! video/x-raw,width=384,height=216,framerate=24/1 ! queue"
    # shellcheck disable=SC2086
    gst-launch-1.0 -q compositor name=scene ! videoconvert ! video/x-raw,format=I420 ! \
        $encoder ! h264parse ! mp4mux ! filesink location=input \
        videotestsrc pattern=smpte75 horizontal-speed=6 $scene ! scene.sink_0 \
        videotestsrc pattern=ball motion=sweep animation-mode=frames background-color=0 $scene ! scene.sink_1 \
        >scene.txt 2>&1 || {
        cat scene.txt >&2
        die "could not make the test scene"
    }
fi

# --- What is in it ---
shown=${input:-the test scene}
gst-discoverer-1.0 -- input >media.txt 2>&1 || true
field() { sed -nE "s/^ +$1: //p" media.txt | head -n 1; }
width=$(field Width)
height=$(field Height)
rate=$(field 'Frame rate')
{ grep -qE '^ +video[ :#]' media.txt && [ "${width:-0}" -gt 0 ] && [ "${height:-0}" -gt 0 ]; } || {
    reason=$(sed -nE '/error was encountered|Missing plugins/,$p' media.txt | sed -E 's/^ +//' | awk 'NF' | head -n 4)
    if ! grep -qE '^ +video[ :#]' media.txt && grep -qE '^ +audio[ :#]' media.txt; then reason="it holds audio only"; fi
    die "no video to be read from $shown" "${reason:-$(tail -n 3 media.txt)}"
}
# H:MM:SS.nnnnnnnnn -> frames in OUTPUT; 0 where the file does not say.
expected=$(field Duration | awk -F: -v fps=$fps 'NF == 3 { n = int(($1 * 3600 + $2 * 60 + $3) * fps + 0.5) } END { print n + 0 }')
# H.264 in MP4 has even sizes.
even_width=$(((width + 1) / 2 * 2))
even_height=$(((height + 1) / 2 * 2))
[ -n "${encoder:-}" ] || choose_encoder "$even_width" "$even_height"

audio=()
with=
if grep -qE '^ +audio[ :#]' media.txt; then
    for candidate in "avenc_aac bitrate=160000 ! aacparse" "voaacenc bitrate=160000 ! aacparse" "opusenc ! opusparse"; do
        has "${candidate%% *}" || continue
        # shellcheck disable=SC2206
        audio=(source. ! audio/x-raw ! queue ! audioconvert ! audioresample ! $candidate !
            queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! file.)
        with=" and ${candidate%% *}"
        break
    done
    [ ${#audio[@]} -gt 0 ] || say "no audio encoder found (gstreamer1.0-libav has one): the result will have no sound"
fi

# --- Interpolate ---
# Reads gst-launch-1.0 -v, which prints each counter as it changes; shows one line, rewritten in place on a terminal.
follow() {
    local line now start=$SECONDS out=0 made=0 text left step=1
    [ -t 1 ] || step=5
    local shown_at=-$step
    local pattern='framecast: ([a-z-]+) = (.*)$'
    while IFS= read -r line; do
        [[ $line =~ $pattern ]] || continue
        case ${BASH_REMATCH[1]} in
            out) out=${BASH_REMATCH[2]} ;;
            interpolated) made=${BASH_REMATCH[2]} ;;
            adapter-name) [ "${BASH_REMATCH[2]}" = NULL ] || printf '%s\n' "${BASH_REMATCH[2]}" >adapter.txt ;;
        esac
        printf '%s %s\n' "$out" "$made" >counts.txt
        now=$((SECONDS - start))
        ((now >= shown_at + step)) || continue
        shown_at=$now
        text="$out frames, $made of them drawn"
        if ((expected > 0)); then
            text="$((out < expected ? out * 100 / expected : 100)) %, $out of $expected frames, $made of them drawn"
            if ((now >= 3 && out > 0 && out < expected)); then
                left=$((now * (expected - out) / out))
                text+=", about $((left / 60)):$(printf '%02d' $((left % 60))) left"
            fi
        fi
        if [ -t 1 ]; then printf '\r\033[Kframecast: %s' "$text"; else say "$text"; fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

say "interpolating ${shown##*/} (${width}x$height, ${rate/\/1/} fps) to $fps fps; encoding by ${encoder%% *}$with"
started=$SECONDS
status=0
# The scale is there for odd sizes only: even ones pass through it untouched.
# shellcheck disable=SC2086
gst-launch-1.0 -v filesrc location=input ! decodebin name=source \
    source. ! video/x-raw ! queue ! deinterlace ! videoconvert ! "video/x-raw,format=(string){I420,NV12}" ! \
    framecastinterp name=framecast fps=$fps/1 silent=false ! \
    videoconvert ! videoscale ! "video/x-raw,width=$even_width,height=$even_height" ! queue ! \
    $encoder ! h264parse ! queue ! mp4mux name=file ! filesink location=output.mp4 \
    "${audio[@]}" 2>errors.txt | follow || status=$?
if [ $status -ne 0 ] || [ ! -s output.mp4 ] || [ ! -s counts.txt ]; then
    reason=$(errors_of errors.txt; details_of errors.txt)
    die "the pipeline failed on $shown:" "${reason:-$(tail -n 5 errors.txt)}"
fi

# --- Put it in place ---
read -r out made <counts.txt
refuse_to_overwrite
chmod "$(printf '%o' $((0666 & ~0$(umask))))" output.mp4
mv -fT -- output.mp4 "$output"
took=$((SECONDS - started))
on=
[ ! -s adapter.txt ] || on=" on $(cat adapter.txt)"
say "$out frames, $made of them drawn by the network$on, in $((took / 60)):$(printf '%02d' $((took % 60)))"
say "wrote $output"

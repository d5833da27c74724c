#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks of examples/quickstart.sh as a person uses it, with an already built plugin:
#
#   tests/quickstart.sh PLUGIN_DIR
#
# Closes with 'N passed, N failed'.
set -euo pipefail

FRAMECAST_PLUGIN_DIR=$(realpath -- "${1:?usage: tests/quickstart.sh PLUGIN_DIR}")
export FRAMECAST_PLUGIN_DIR LC_ALL=C.UTF-8
quickstart=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")/../examples/quickstart.sh")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
export GST_REGISTRY=$work/registry.bin
mkdir -- "$work/here"
cd -- "$work/here"

passed=0
failed=0
check() { # NAME FUNCTION
    local name=$1
    shift
    if "$@" >"$work/why.txt" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$name"
        sed 's/^/        /' "$work/why.txt"
    fi
}
no() {
    printf '%s\n' "$1"
    return 1
}
run() {
    timeout 600 "$quickstart" "$@" >"$work/said.txt" 2>&1 || {
        cat -- "$work/said.txt"
        no "quickstart.sh failed: $*" || return
    }
}
# What is in a file, by its own decoding: FRAMES of video, WIDTHxHEIGHT, and whether there is audio.
holds() { # FILE FRAMES SIZE AUDIO(yes/no)
    local frames info
    ln -sf -- "$PWD/$1" "$work/looked-at"
    frames=$(gst-launch-1.0 -v filesrc location="$work/looked-at" ! decodebin ! video/x-raw ! \
        fakesink name=end silent=false 2>&1 | grep -c 'end: last-message = chain') || true
    [ "$frames" -eq "$2" ] || no "$1 has $frames frames, not $2" || return
    info=$(gst-discoverer-1.0 -- "$work/looked-at" 2>&1)
    [[ $info == *H.264* && $info == *"Frame rate: 60/1"* ]] || no "not H.264 at 60 fps: $info" || return
    [[ $info == *"Width: ${3%x*}"*"Height: ${3#*x}"* ]] || no "not $3: $info" || return
    if grep -qE '^ +audio[ :#]' <<<"$info"; then info=yes; else info=no; fi
    [ $info = "$4" ] || no "audio: $info" || return
}
says() { grep -qF -- "$1" "$work/said.txt" || { cat -- "$work/said.txt"; no "it does not say: $1"; }; }
refuses() { # TEXT ARGUMENT...; leaves the folder as it was
    local before
    before=$(find . -printf '%p %s %T@\n' | grep -v '^\. ' | sort)
    if timeout 600 "$quickstart" "${@:2}" >"$work/said.txt" 2>&1; then no "it did not fail: ${*:2}" || return; fi
    says "$1" || return
    [ "$before" = "$(find . -printf '%p %s %T@\n' | grep -v '^\. ' | sort)" ] || no "it left something behind: $(find .)"
}
clip() { # FILE WIDTH HEIGHT [audio]
    local sound=()
    [ -z "${4:-}" ] || sound=(audiotestsrc num-buffers=43 ! "audio/x-raw,rate=44100" ! avenc_aac ! aacparse ! mux.)
    (cd -- "$work" && gst-launch-1.0 -q videotestsrc pattern=ball animation-mode=frames num-buffers=10 ! \
        "video/x-raw,width=$2,height=$3,framerate=10/1" ! videoconvert ! \
        video/x-raw,format=I420 ! vp8enc deadline=1 ! matroskamux name=mux ! filesink location=made "${sound[@]}")
    mv -- "$work/made" "$1"
}

scene() {
    run || return
    # 48 frames at 24 fps: 120 at 60; 24 fall on input frames, two repeat the last.
    holds test-scene-60fps.mp4 120 384x216 no && says '120 frames, 94 of them drawn by the network on ' &&
        says "wrote $PWD/test-scene-60fps.mp4"
}
keeps() {
    refuses 'exists already' || return
    run --force
}
odd_name() {
    local name="it's \"one\" ! name=x \\ \$HOME é.mkv"
    clip "$name" 96 64 audio
    run "$name" || return
    holds "${name%.mkv}-60fps.mp4" 60 96x64 yes
}
odd_size() {
    clip odd.mkv 97 65
    run odd.mkv "a folder of results.mp4" || return
    holds "a folder of results.mp4" 60 98x66 no
}
into_folder() {
    mkdir -- "-out put"
    run ./odd.mkv "./-out put/" || return
    holds "-out put/odd-60fps.mp4" 60 98x66 no
}
noise() {
    head -c 20000 /dev/zero | tr '\0' 'x' >noise.mp4
    refuses 'no video to be read from' noise.mp4
}
truncated() {
    head -c 300 odd.mkv >truncated.mkv
    refuses 'no video to be read from' truncated.mkv
}
sound_only() {
    gst-launch-1.0 -q audiotestsrc num-buffers=20 ! vorbisenc ! oggmux ! filesink location=sound.ogg
    refuses 'it holds audio only' sound.ogg
}
empty() {
    : >empty.mp4
    refuses 'is empty' empty.mp4
}
no_driver() {
    VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent refuses 'mesa-vulkan-drivers' odd.mkv never.mp4
}

check "no INPUT: makes a scene, 24 to 60 fps" scene
check "an existing OUTPUT is refused, and replaced with --force" keeps
check "odd characters in the name; audio kept" odd_name
check "odd sizes" odd_size
check "OUTPUT that is a folder, names that begin with a dash" into_folder
check "INPUT that does not exist" refuses 'no such file: nowhere.mp4' nowhere.mp4
check "INPUT that is a folder" refuses 'not a file' .
check "INPUT that is empty" empty
check "INPUT that is no video" noise
check "INPUT that is cut off" truncated
check "INPUT with audio only" sound_only
check "OUTPUT that is no .mp4" refuses 'must end in .mp4' odd.mkv out.webm
check "no Vulkan driver" no_driver
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]

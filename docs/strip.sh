#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes docs/strip.png, the picture in README.md: two neighbouring frames of the scene in examples/embed/scene.rs at
# 5 frames per second, and between them the one that framecastinterp draws half-way.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cargo run --release --locked --example embed -- \
    --width 320 --height 192 --frames 2 --from 5 --to 10 --png "$work"
picture() { printf 'filesrc location=%s/00%d.png ! pngdec ! mix.sink_%d ' "$work" "$1" "$1"; }
# shellcheck disable=SC2046  # a pipeline description is meant to be split
gst-launch-1.0 -q compositor name=mix background=white sink_1::xpos=324 sink_2::xpos=648 ! \
    video/x-raw,width=968,height=192 ! videoconvert ! video/x-raw,format=RGB ! \
    pngenc compression-level=9 snapshot=true ! filesink location=docs/strip.png \
    $(picture 0) $(picture 1) $(picture 2)

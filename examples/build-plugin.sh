#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the plugin (release) and prints the folder for GST_PLUGIN_PATH: one that holds libgstframecast.so and nothing
# else. target/release itself would do, but GStreamer then scans the thousands of files below it.
#
#   export GST_PLUGIN_PATH=$(examples/build-plugin.sh)
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
cargo build --release --locked --lib >&2
target=$(cargo metadata --format-version 1 --no-deps --locked | sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
mkdir -p -- "$target/gstreamer-1.0"
ln -sfT -- ../release/libgstframecast.so "$target/gstreamer-1.0/libgstframecast.so"
printf '%s\n' "$target/gstreamer-1.0"

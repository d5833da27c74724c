#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Brings a Debian or Ubuntu machine to the point where framecast builds and runs: installs the packages that are
# missing (with apt-get, by sudo where you are not root) and checks GStreamer and Rust. Does nothing when all is there.
#
#   examples/install-deps.sh            what building and running needs
#   examples/install-deps.sh --tests    and what tests/run.sh needs
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
say() { printf 'framecast: %s\n' "$*"; }
die() {
    printf 'framecast: %s\n' "$@" >&2
    exit 1
}

packages=(
    gcc libc6-dev                                               # the linker, for Rust
    libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev        # to build against
    gstreamer1.0-tools gstreamer1.0-plugins-base-apps           # gst-launch-1.0, gst-discoverer-1.0
    gstreamer1.0-plugins-base gstreamer1.0-plugins-good         # containers, conversion
    gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly          # parsers, H.264 encoders
    gstreamer1.0-libav                                          # decoders, AAC
    mesa-vulkan-drivers                                         # Vulkan for AMD and Intel, and lavapipe for the CPU
)
case "${1:-}" in
    '') ;;
    --tests) packages+=(debootstrap shellcheck opencv-doc) ;;       # opencv-doc: real clips, for tests/quality.rs
    *) die "usage: install-deps.sh [--tests]" ;;
esac

# --- Packages ---
if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    missing=()
    for package in "${packages[@]}"; do
        # shellcheck disable=SC2016  # ${...} is dpkg-query's own format
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        as_root=()
        if [ "$(id -u)" -ne 0 ]; then
            command -v sudo >/dev/null || die \
                "these packages are missing, and neither root nor sudo is at hand to install them. As root, run:" \
                "    apt-get install --no-install-recommends ${missing[*]}"
            as_root=(sudo)
        fi
        say "installing ${#missing[@]} packages${as_root:+ with sudo}: ${missing[*]}"
        log=$(mktemp)
        trap 'rm -f -- "$log"' EXIT
        # Slim images leave out what is below /usr/share/doc, the clips among it.
        apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
            -o 'DPkg::Options::=--path-include=/usr/share/doc/opencv-doc/examples/data/*')
        # An update that only partly succeeds (one third-party source is down) need not stop the installation.
        "${apt[@]}" update >"$log" 2>&1 || say "apt-get update reported errors; trying to install all the same"
        if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
            cat -- "$log" >&2
            die "apt-get could not install the packages (its output is above)"
        fi
    fi
else
    for tool in pkg-config cc gst-launch-1.0 gst-inspect-1.0 gst-discoverer-1.0; do
        command -v "$tool" >/dev/null || die \
            "no apt-get here, and $tool is missing. Install with your system's own package manager what these Debian" \
            "packages hold, then try again: ${packages[*]}"
    done
fi

# --- GStreamer ---
pkg-config --atleast-version=1.22 gstreamer-1.0 || die \
    "GStreamer $(pkg-config --modversion gstreamer-1.0 2>/dev/null || echo '(none found by pkg-config)') is too old:" \
    "framecast needs 1.22 or later, as in Debian 12, Ubuntu 24.04 and later."

# --- Rust ---
PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$here/../Cargo.toml")
found=$(rustc --version 2>/dev/null | cut -d' ' -f2 || true)
if [ -z "$found" ] || ! command -v cargo >/dev/null; then
    problem="Rust is not installed"
elif [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
    problem="Rust $found at $(command -v rustc) is too old"
else
    say "packages, GStreamer $(pkg-config --modversion gstreamer-1.0) and Rust $found are in place"
    exit 0
fi
die "$problem: framecast needs Rust $wanted or later, which Debian 12 does not package." \
    "Get it by rustup (https://rustup.rs), without root, and run this again:" \
    "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" \
    "Where rustup is installed already:  rustup update stable" \
    "Debian 13 and Ubuntu 24.04 package it:  apt-get install rustup && rustup default stable"

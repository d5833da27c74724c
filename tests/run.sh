#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Everything that is tested, from a clean clone on Debian or Ubuntu: installs what is missing, checks the style, builds,
# runs the Rust tests, the pipelines and quickstart.sh here, and the same binary under Debian trixie and sid (GStreamer
# 1.26 and 1.28). Closes with the time of each step and 'N passed, N failed'.
#
#   tests/run.sh
#
# The Debian releases need root (or sudo), about 2.5 GB in the user's cache folder and two minutes once;
# FRAMECAST_SKIP_CHROOTS=1 leaves them out.
# shellcheck disable=SC2317,SC2329  # the functions are called by step
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH" CARGO_TERM_PROGRESS_WHEN=never

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
passed=0
failed=0
skipped=0
times=()
# Runs a step, and adds its own counts (cargo test's, or a closing 'N passed, N failed') to the totals; a step that has
# none counts as one.
step() { # NAME COMMAND...
    local name=$1 status=0 started=$SECONDS took verdict p f counted=
    shift
    printf '\n=== %s\n' "$name"
    "$@" 2>&1 </dev/null | tee -- "$work/step.txt" || status=$?
    took=$((SECONDS - started))
    while read -r p f; do
        passed=$((passed + p))
        failed=$((failed + f))
        counted=1
        [ "$f" -eq 0 ] || counted=failures
    done < <(case $name in
        chroot*) tail -n 1 -- "$work/step.txt" ;; # its last line sums up what came before
        *) cat -- "$work/step.txt" ;;
    esac | sed -nE 's/^(test result: [a-zA-Z]+\. )?([0-9]+) passed[,;] ([0-9]+) failed.*$/\2 \3/p')
    case $status in
        0)
            verdict=ok
            [ -n "$counted" ] || passed=$((passed + 1))
            ;;
        77)
            verdict=SKIPPED
            skipped=$((skipped + 1))
            ;;
        *)
            verdict=FAILED
            [ "$counted" = failures ] || failed=$((failed + 1))
            ;;
    esac
    times+=("$(printf '%-8s %3d:%02d  %s' "$verdict" $((took / 60)) $((took % 60)) "$name")")
    [ $status -eq 0 ] || printf '=== %s: %s (exit status %d)\n' "$verdict" "$name" $status
    return 0
}
finish() {
    printf '\n'
    printf '%s\n' "${times[@]}"
    printf '%d:%02d in all\n\n' $((SECONDS / 60)) $((SECONDS % 60))
    if [ $skipped -eq 0 ]; then
        printf '%d passed, %d failed\n' $passed $failed
    else
        printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    fi
    [ $failed -eq 0 ] || exit 1
    exit 0
}
# For a step that later ones rest on.
must() {
    local before=$failed
    step "$@"
    [ $failed -eq "$before" ] || finish
}

must "install" examples/install-deps.sh --tests
for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 || {
        echo "cargo $part is missing: rustup component add rustfmt clippy" >&2
        exit 1
    }
done

step "shellcheck" shellcheck .ci/run docs/*.sh examples/*.sh tests/*.sh
step "rustfmt" cargo fmt --all --check
step "clippy, all targets" cargo clippy --release --locked --all-targets -- -D warnings
step "clippy, without GStreamer" cargo clippy --release --locked --no-default-features --lib -- -D warnings
without_gstreamer() {
    if cargo tree --locked --no-default-features --edges normal --prefix none | grep -E '^(gstreamer|glib)'; then
        echo "the library needs GStreamer without the feature gst"
        return 1
    fi
}
step "no GStreamer in the tree without the feature gst" without_gstreamer

# Where cargo put the programs whose names match, one a line.
built() { # EXTENDED_REGEX CARGO_COMMAND...
    cargo "${@:2}" --release --locked --message-format json 2>/dev/null |
        sed -nE "s/.*\"name\":\"($1)\".*\"executable\":\"([^\"]*)\".*/\2/p"
}
build() {
    examples/build-plugin.sh >"$work/plugins" || return
    cargo build --release --locked --example embed || return
    built embed build --example embed >"$work/embed"
}
must "build" build
plugins=$(cat -- "$work/plugins")
embed=$(cat -- "$work/embed")

step "cargo test" cargo test --release --locked --no-fail-fast
step "soak" cargo test --release --locked --test element_soak -- --ignored

# A real H.264 file: 24 frames at 24 fps; without B-frames its first PTS is 0 and the grid of 60 fps is known.
make_clip() {
    GST_REGISTRY=$work/registry.bin gst-launch-1.0 -q videotestsrc pattern=ball animation-mode=frames num-buffers=24 ! \
        video/x-raw,format=I420,width=192,height=108,framerate=24/1 ! \
        x264enc bframes=0 pass=qual quantizer=20 ! h264parse ! mp4mux ! filesink location="$work/clip.mp4"
}
must "make an H.264 clip" make_clip
step "pipelines, GStreamer $(pkg-config --modversion gstreamer-1.0)" tests/pipelines.sh "$plugins" "$work/clip.mp4" "$embed"
step "quickstart" tests/quickstart.sh "$plugins"

in_chroot() { # SUITE PROGRAM...
    local as_root=() status=0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "needs root or sudo, or FRAMECAST_SKIP_CHROOTS=1"; return 1; }
        as_root=(sudo env "FRAMECAST_CHROOTS=${FRAMECAST_CHROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/framecast-ci/chroots}")
    fi
    "${as_root[@]}" tests/chroot.sh "$1" "$plugins" "$work/clip.mp4" "$embed" "${@:2}" || status=$?
    # sid changes every day and may be uninstallable for a while; trixie has no such excuse.
    if [ "$status" -eq 77 ] && [ "$1" != sid ]; then status=1; fi
    return "$status"
}
if [ -n "${FRAMECAST_SKIP_CHROOTS:-}" ]; then
    echo "=== SKIPPED: Debian trixie and sid, as FRAMECAST_SKIP_CHROOTS asks"
    skipped=$((skipped + 2))
else
    # Both run the comparison with videorate, the life cycle and the detection element against their own GStreamer; sid,
    # whose lavapipe has cooperative matrices, the tests on the GPU too.
    mapfile -t elements < <(built 'element_conformance|element_lifecycle|layout_element' test --no-run)
    [ "${#elements[@]}" -eq 3 ] || { echo "expected 3 test programs, found: ${elements[*]}" >&2; exit 1; }
    mapfile -t on_gpu < <(built 'gpu_[a-z0-9_]+' test --no-run)
    step "chroot trixie" in_chroot trixie "${elements[@]}"
    step "chroot sid" in_chroot sid "${elements[@]}" "${on_gpu[@]:?no test gpu_*}"
fi
finish

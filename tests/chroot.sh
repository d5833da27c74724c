#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs the checks of tests/pipelines.sh, and test programs, with the already built binaries under another Debian release:
#
#   tests/chroot.sh SUITE PLUGIN_DIR CLIP EMBED [TEST_PROGRAM...]      as root; SUITE: trixie, sid
#
# The release is installed by debootstrap once and kept in FRAMECAST_CHROOTS (default: framecast-ci/chroots in the
# user's cache folder); its packages come from the mirror that this machine's apt uses (or FRAMECAST_DEBIAN_MIRROR).
# Every run gets a throw-away overlay over it in a mount namespace of its own: the kept copy is not written to, and
# nothing stays mounted, however the run ends. Exit status 77: SUITE cannot be installed here; the reason is printed.
set -euo pipefail

[ $# -ge 4 ] || { echo "usage: tests/chroot.sh SUITE PLUGIN_DIR CLIP EMBED [TEST_PROGRAM...]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "tests/chroot.sh has to run as root" >&2; exit 2; }
suite=$1
plugins=$(realpath -- "$2")
clip=$(realpath -- "$3")
embed=$(realpath -- "$4")
shift 4
programs=()
for program; do programs+=("$(realpath -- "$program")"); done
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FRAMECAST_CHROOTS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/framecast-ci/chroots}
kept=$cache/$suite
packages=(gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
    gstreamer1.0-libav mesa-vulkan-drivers)
say() { printf 'chroot %s: %s\n' "$suite" "$*"; }
cannot() {
    say "CANNOT BE INSTALLED: $1"
    [ ! -f "${2:-}" ] || tail -n 15 -- "$2"
    exit 77
}

# --- Install it, unless a complete copy is there: the stamp is written last ---
stamp="1 $suite ${packages[*]}"
mkdir -p -- "$cache"
exec 9>"$cache/$suite.lock"
flock 9
if [ "$(cat -- "$kept/framecast-stamp" 2>/dev/null || true)" != "$stamp" ]; then
    command -v debootstrap >/dev/null || cannot "debootstrap is missing (examples/install-deps.sh --tests)"
    log=$cache/$suite.log
    making=$cache/$suite.making
    rm -rf --one-file-system -- "$kept" "$making"

    # shellcheck disable=SC2016  # $(...) is apt's own format
    mirror=${FRAMECAST_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' \
        'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)}
    [ -n "$mirror" ] || cannot "this machine's apt has no Debian mirror; name one in FRAMECAST_DEBIAN_MIRROR"
    # A newer release may be signed with keys that this machine's keyring lacks; that of a release installed (and so
    # checked) before has them.
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ "$suite" = sid ] && [ -f "$cache/trixie/framecast-stamp" ]; then
        for newer in "$cache"/trixie/usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
            [ ! -f "$newer" ] || keyring=$newer
        done
    fi
    [ -f "$keyring" ] || cannot "the package debian-archive-keyring is missing"
    include=()
    [[ $mirror != https:* ]] || include=(--include=ca-certificates)

    say "installing (into $kept)"
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [ -n "${proxy:-}" ]; then export http_proxy=$proxy; fi
    # debootstrap mounts proc and sys into its target; in a namespace of its own they go when it does.
    unshare --mount debootstrap --variant=minbase "${include[@]}" --keyring="$keyring" \
        "$suite" "$making" "$mirror" >"$log" 2>&1 9>&- </dev/null ||
        cannot "debootstrap failed" "$log"
    # How this machine's apt reaches its mirror (proxies, clock checks) holds inside as well.
    apt-config dump | grep -E '^Acquire::(http|https|Check-[A-Za-z-]+|Retries|ForceIPv[46])\b' \
        >"$making/etc/apt/apt.conf.d/99host" || true
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child bash -euc '
        mount -t proc proc "$1/proc"
        mount --bind /dev "$1/dev"
        cd "$1"
        exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive bash -euc "
            apt-get -qq update && apt-get -qq install -y --no-install-recommends $2 && apt-get clean
        "' install "$making" "${packages[*]}" >>"$log" 2>&1 9>&- </dev/null ||
        cannot "its packages cannot be installed" "$log"
    printf '%s\n' "$stamp" >"$making/framecast-stamp"
    mv -T -- "$making" "$kept"
    say "installed, $(du -shx -- "$kept" | cut -f1)"
fi
flock -u 9
exec 9>&-

# --- Run in it: the checkout, the plugin and the programs appear at their own paths, read-only ---
inside() { # COMMAND...; FORGET: packages to remove first
    unshare --mount --pid --fork --kill-child bash -s -- "$@" <<'INSIDE'
set -euo pipefail
mount -t tmpfs -o mode=0755 framecast "$KEPT.run"
mkdir "$KEPT.run"/{upper,work,root}
at=$KEPT.run/root
mount -t overlay -o "lowerdir=$KEPT,upperdir=$KEPT.run/upper,workdir=$KEPT.run/work" overlay "$at"
mount -t proc proc "$at/proc"
mount --rbind /dev "$at/dev"
mount -t tmpfs -o mode=1777 tmp "$at/tmp"
show() { # PATH
    if [ -d "$1" ]; then mkdir -p "$at$1"; else mkdir -p "$at$(dirname "$1")" && touch "$at$1"; fi
    mount --bind "$1" "$at$1"
    mount -o remount,bind,ro "$at$1"
}
while IFS= read -r path; do show "$path"; done <<<"$PATHS"
run=(chroot "$at" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 RUST_BACKTRACE=1)
if [ -n "$FORGET" ]; then
    # shellcheck disable=SC2086
    "${run[@]}" dpkg --purge --force-depends $FORGET >/dev/null 2>&1
fi
exec "${run[@]}" sh -c 'cd "$0" && exec "$@"' "$ROOT" "$@" </dev/null
INSIDE
}
export KEPT=$kept ROOT=$root FORGET=
# The plugin may be a link to where it was built.
PATHS=$(printf '%s\n' "$root" "$plugins" "$(realpath -- "$plugins/libgstframecast.so")" "$clip" "$embed" \
    "${programs[@]}")
export PATHS
mkdir -p -- "$kept.run"

failures=0
passed=0
failed=0
part() { # NAME COMMAND...; adds up the command's own closing lines
    say "$1"
    local text status=0
    text=$(mktemp)
    inside "${@:2}" 2>&1 | tee -- "$text" || status=$?
    local p f
    while read -r p f; do
        passed=$((passed + p))
        failed=$((failed + f))
    done < <(sed -nE 's/^(test result: [a-zA-Z]+\. )?([0-9]+) passed[,;] ([0-9]+) failed.*$/\2 \3/p' "$text")
    rm -f -- "$text"
    if [ $status -ne 0 ]; then
        failures=$((failures + 1))
        say "FAILED (exit status $status): $1"
    fi
}
# shellcheck disable=SC2016
say "$(inside dpkg-query -W -f '${Package} ${Version}; ' gstreamer1.0-tools mesa-vulkan-drivers libc6)"
part "pipelines" "$root/tests/pipelines.sh" "$plugins" "$clip" "$embed"
FORGET='mesa-vulkan-drivers libvulkan1' part "pipelines without any Vulkan package" \
    "$root/tests/pipelines.sh" --bare "$plugins"
for program in "${programs[@]}"; do
    part "${program##*/}" "$program"
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ $failures -eq 0 ]

#!/bin/bash
# Runs the newest supported releases (Python 3.13, lane 2 of uv.lock) in a Debian 13 root.
#
#   infra/ci/newest.sh                  run fast unit tests with two of their cases, then the quickstart pipeline
#   infra/ci/newest.sh --root           only create the root and print its path on the last line
#   infra/ci/newest.sh --prepare        only create the root and install the packages
#   infra/ci/newest.sh --run 'COMMAND'  run COMMAND in a copy of this work tree; standard input is passed on
#   infra/ci/newest.sh --bare 'COMMAND' the same, without the packages: with Python 3.13 and uv alone
#
# A lane is one set of dependency versions in uv.lock. Lane 2's wheels need glibc 2.39, hence the Debian root.
# The root is kept under $XDG_CACHE_HOME/tfx_gnn/newest (~/.cache by default) with uv's cache and one environment
# per uv.lock, so that later runs, in this clone or another, start at once. Needs root rights.
# TFX_GNN_DEBIAN_MIRROR names a mirror for debootstrap.
set -euo pipefail

repo=$(cd "$(dirname "$0")/../.." && pwd)
store=${XDG_CACHE_HOME:-$HOME/.cache}/tfx_gnn/newest
suite=trixie
packages=ca-certificates,g++,python3-dev
root=$store/root-$suite-$(printf %s "$packages" | sha256sum | cut -c1-8)
# uv.lock and pyproject.toml determine the installed packages; the copy of the work tree is always mounted as /repo.
environment=$(cat "$repo/uv.lock" "$repo/pyproject.toml" | sha256sum | cut -c1-12)

die() {
    echo "infra/ci/newest.sh: $*" >&2
    exit 1
}

main() {
    local mode=lane command=
    case ${1-} in
        '') ;;
        --root) mode=root ;;
        --prepare) mode=prepare ;;
        --run | --bare) mode=${1#--} command=${2:?"$1 needs a command"} ;;
        *) die "unknown argument '$1'; use --root, --prepare, --run 'COMMAND' or --bare 'COMMAND'" ;;
    esac
    if [ -z "${TFX_GNN_IN_NAMESPACES-}" ]; then
        [ "$(id -u)" = 0 ] || die "a Debian 13 root can only be made and entered as root; run it with sudo"
        "$repo/infra/bootstrap.sh" uv
        enter_namespaces "$@"
        exit
    fi

    mkdir -p "$store/work" "$store/uv-cache" "$store/environments"
    exec {store_lock}>"$store/lock"
    flock "$store_lock"
    sweep_ended_runs
    if [ ! -e "$root/.complete" ] || ! chroot "$root" /usr/bin/python3.13 -c '' 2>/dev/null; then
        make_root
    fi
    if [ $mode = root ]; then
        echo "$root"
        return
    fi
    start_run
    [ $mode = bare ] || install_environment
    exec {store_lock}>&-

    case $mode in
        prepare) ;;
        run | bare) in_root "$command" ;;
        lane)
            echo "newest: unit tests, $(in_root 'python --version')"
            # Every test and case runs on lane 1; here fast tests run with two cases, because it is the releases that
            # differ. What tests/slow_tests.txt names is tried on these releases by the quickstart alone.
            in_root 'python -m pytest --numprocesses auto --dist loadfile --durations 15 --fast --few-cases tests/unit'
            echo "newest: quickstart pipeline"
            # A few epochs: what a model learns is tested on lane 1.
            in_root 'tfx-gnn run debian_sections --runner local --epochs 4'
            ;;
    esac
}

# Runs this script again in its own mount and process namespaces: however this process ends, even by SIGKILL,
# its child processes end and its mounts disappear.
enter_namespaces() {
    TFX_GNN_IN_NAMESPACES=1 setpriv --pdeathsig KILL \
        unshare --mount --mount-proc --pid --fork --kill-child --propagation private "$0" "$@" <&0 &
    local child=$!
    trap 'kill -KILL $child' INT TERM HUP
    wait $child
}

# Removes leftovers of killed runs and environments of other uv.lock versions, unless a process uses them.
sweep_ended_runs() {
    local lock
    for lock in "$store"/work/*.lock "$store"/environments/*.lock; do
        case $lock in *'*'* | "$store/environments/$environment.lock") continue ;; esac
        flock --nonblock "$lock" rm -rf --one-file-system "${lock%.lock}" "$lock" || true
    done
}

make_root() {
    if ! command -v debootstrap >/dev/null; then
        command -v apt-get >/dev/null || die "debootstrap is missing and there is no apt-get; install debootstrap"
        echo "newest: installing debootstrap"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq debootstrap debian-archive-keyring; } \
            >"$store/apt.log" 2>&1 || { tail -n 20 "$store/apt.log" >&2; die "apt-get could not install debootstrap"; }
    fi
    echo "newest: making a Debian 13 root in $root"
    rm -rf --one-file-system "$store"/root-*
    # Without a mirror argument, debootstrap uses its default.
    debootstrap --variant=minbase --include="$packages" "$suite" "$root.partial" \
        ${TFX_GNN_DEBIAN_MIRROR:+"$TFX_GNN_DEBIAN_MIRROR"} >"$store/debootstrap.log" 2>&1 </dev/null ||
        { tail -n 20 "$store/debootstrap.log" >&2; die "debootstrap failed; its log is $store/debootstrap.log"; }
    umount --recursive "$root.partial/proc" "$root.partial/sys" 2>/dev/null || true
    mkdir -p "$root.partial/repo" "$root.partial/lane"
    touch "$root.partial/etc/resolv.conf" "$root.partial/.complete"
    mv "$root.partial" "$root"
}

# Copies the work tree and mounts the root (read-only, because runs share it) with this run's folders inside.
start_run() {
    work=$(mktemp -d "$store/work/run-XXXXXX")
    exec {work_lock}>"$work.lock" {environment_lock}>"$store/environments/$environment.lock"
    flock "$work_lock"
    flock --shared "$environment_lock"
    trap 'rm -rf --one-file-system "$work" "$work.lock"' EXIT
    mkdir "$work/repo" "$work/tmp" "$work/home"
    chmod 1777 "$work/tmp"
    # Tracked files in their current state, and untracked files that git does not ignore.
    git -C "$repo" -c safe.directory='*' ls-files -z --cached --others --exclude-standard --deduplicate |
        tar -C "$repo" --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -C "$work/repo" -xf -

    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount --bind "$(realpath /etc/resolv.conf)" "$root/etc/resolv.conf"
    mount --bind "$(realpath "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}")" "$root/etc/ssl/certs/ca-certificates.crt"
    mount --bind "$store" "$root/lane"
    mount --bind "$work/repo" "$root/repo"
    mount --bind "$work/tmp" "$root/tmp"
    mount -t tmpfs tmpfs "$root/opt"
    install -m 755 "$repo/.tools/uv/bin/uv" "$root/opt/uv"
}

install_environment() {
    local kept=$store/environments/$environment
    [ -e "$kept/.complete" ] && return
    echo "newest: installing from uv.lock"
    in_root 'uv sync --quiet --frozen --all-extras --group dev --python /usr/bin/python3.13'
    touch "$kept/.complete"
}

# Runs a shell command in the root's /repo, without any setting of the host's environment that could change results.
in_root() {
    local name passed_on=()
    for name in CI TERM NO_COLOR http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY; do
        [ -z "${!name+set}" ] || passed_on+=("$name=${!name}")
    done
    chroot "$root" /usr/bin/env -i "${passed_on[@]}" \
        PATH="/lane/environments/$environment/bin:/opt:/usr/local/bin:/usr/bin:/bin" \
        HOME="/lane/work/${work##*/}/home" \
        LANG=C.UTF-8 \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        TF_CPP_MIN_LOG_LEVEL=3 \
        UV_CACHE_DIR=/lane/uv-cache \
        UV_PROJECT_ENVIRONMENT="/lane/environments/$environment" \
        /bin/bash -c "cd /repo && $1"
}

main "$@"

#!/bin/bash
# Runs the test suite `containers`: builds the image of lane 2 and that of a new project, pushes both to a registry on
# this machine, and runs the project's compiled pipeline from there. Arguments are passed to pytest.
#
# The images are built from the Debian 13 root of newest.sh, with its cache of packages. Everything else is removed at
# the end. Needs root rights. On Debian and Ubuntu, missing tools are installed with apt-get.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tfx_gnn
newest=$cache/newest
store=$cache/containers
tools=(podman buildah runc docker-registry)
bundle=$(realpath "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}")

die() {
    echo "infra/ci/containers.sh: $*" >&2
    exit 1
}

# Tells what was done, after how many seconds of the clock and of processors.
say() {
    echo "containers: $* ($SECONDS s, $(awk '{ print int(($16 + $17) / 100) }' "/proc/$$/stat") s of processors)"
}

main() {
    if [ -z "${TFX_GNN_CONTAINERS_NAMESPACES-}" ]; then
        [ "$(id -u)" = 0 ] || die "a Debian 13 root can only be made as root; run it with sudo"
        infra/bootstrap.sh test
        install_tools
        root=$(infra/ci/newest.sh --root | tail -n 1)
        enter_namespaces "$root" "$@"
        exit
    fi
    root=$1
    shift
    unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
    mkdir -p "$store"
    exec {lock}>"$store/lock"
    flock "$lock"
    trap clean EXIT
    clean
    mkdir "$store/tmp" "$store/work"
    # Not in the store: images close the home folder of root, below which folders of the project would be mounted.
    project=$(mktemp -d)
    configure
    make_bases
    start_registry

    .venv/bin/tfx-gnn new "$project/web_shop" >/dev/null
    build_image "$registry/tfx-gnn:lane2" infra/docker/Dockerfile . --build-arg UV_CACHE_DIR=/mnt \
        --volume "$newest/uv-cache:/mnt" --build-arg BUILD_IMAGE=localhost/build --build-arg BASE_IMAGE=localhost/base
    buildah rmi --force localhost/build >/dev/null
    build_image "$registry/web_shop:1" "$project/web_shop/Dockerfile" "$project/web_shop" \
        --build-arg BASE_IMAGE="$registry/tfx-gnn:lane2"
    # What runs comes from the registry.
    buildah rmi --force "$registry/web_shop:1" >/dev/null

    TFX_GNN_TEST_PROJECT=$project/web_shop TFX_GNN_TEST_IMAGE=$registry/web_shop:1 \
        .venv/bin/python -m pytest -s tests/containers "$@" {lock}>&-
    say "done"
}

install_tools() {
    command -v "${tools[@]}" >/dev/null && [ "$(command -v "${tools[@]}" | wc -l)" = ${#tools[@]} ] && return
    command -v apt-get >/dev/null || die "${tools[*]} must be installed, and there is no apt-get to install them"
    say "installing ${tools[*]}"
    local log
    log=$(mktemp)
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${tools[@]}"; } \
        >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "apt-get could not install ${tools[*]}"; }
    rm "$log"
}

# Runs this script again in its own mount and process namespaces: however this process ends, even by SIGKILL,
# containers and mounts disappear, and what is left are files.
enter_namespaces() {
    TFX_GNN_CONTAINERS_NAMESPACES=1 setpriv --pdeathsig KILL \
        unshare --mount --mount-proc --pid --fork --kill-child --propagation private "$0" "$@" &
    local child=$!
    trap 'kill -KILL $child' INT TERM HUP
    wait $child
}

# Removes all but the lock, at the end, and what a killed run left.
clean() {
    [ -z "${registry_process-}" ] || kill "$registry_process" 2>/dev/null || true
    umount --lazy "$store/storage/overlay" 2>/dev/null || true
    find "$store" -mindepth 1 -maxdepth 1 -not -name lock -exec rm -rf --one-file-system {} +
    [ -z "${project-}" ] || rm -rf "$project"
}

# Storage of its own, and limits that this user can give.
configure() {
    cat >"$store/work/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$store/storage"
runroot = "$store/run"
END
    cat >"$store/work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
lock_type = "file"
tmp_dir = "$store/run/libpod"
END
    port=$(.venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    registry=127.0.0.1:$port
    cat >"$store/work/registries.conf" <<END
[[registry]]
location = "$registry"
insecure = true
END
    export CONTAINERS_STORAGE_CONF=$store/work/storage.conf CONTAINERS_CONF=$store/work/containers.conf
    export CONTAINERS_REGISTRIES_CONF=$store/work/registries.conf TMPDIR=$store/tmp
}

# Two images of the root: whole, with a compiler, to build in; and without it, as the base of what runs.
make_bases() {
    local container
    # No other run of newest.sh replaces the root meanwhile.
    flock --shared "$newest/lock" tar -C "$root" --one-file-system --exclude='./dev/*' --exclude='./repo' --exclude='./lane' \
        --exclude='./var/cache/apt/*.bin' --exclude='./var/cache/apt/archives/*.deb' --exclude='./.complete' -cf - . |
        podman import --quiet - localhost/build >/dev/null
    say "imported $root"
    container=$(buildah from --pull-never localhost/build)
    # debootstrap takes every package for one that was asked for.
    buildah run --isolation chroot "$container" -- sh -ec '
        apt-mark auto $(apt-mark showmanual) >/dev/null
        apt-mark manual apt ca-certificates passwd python3 >/dev/null
        apt-get -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false \
            autoremove --purge --yes -qq >/dev/null
        rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/apt/* /var/cache/debconf/*-old'
    buildah commit --quiet --squash --rm "$container" localhost/base >/dev/null
    say "made the base image"
}

start_registry() {
    cat >"$store/work/registry.yml" <<END
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $store/registry}}
http: {addr: $registry}
END
    docker-registry serve "$store/work/registry.yml" >"$store/work/registry.log" 2>&1 {lock}>&- &
    registry_process=$!
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        kill -0 $registry_process 2>/dev/null || break
        sleep 0.1
    done
    cat "$store/work/registry.log" >&2
    die "the registry did not start"
}

build_image() {
    local image=$1 file=$2 context=$3
    shift 3
    buildah build --isolation chroot --ulimit nofile=4096:4096 \
        --volume "$bundle:/etc/ssl/certs/ca-certificates.crt:ro" --file "$file" --tag "$image" "$@" "$context" \
        >"$store/work/build.log" 2>&1 || { tail -n 40 "$store/work/build.log" >&2; die "could not build $image"; }
    say "built $image"
    # A registry takes compressed layers alone; this compression costs the least.
    buildah push --quiet --compression-format zstd --compression-level 1 "$image" >/dev/null
    say "pushed $image"
}

main "$@"

#!/bin/bash
# Runs the test suite `containers`: builds the image of lane 2 and that of a new project, pushes both to a registry on
# this machine, and runs the project's compiled pipeline from there. Arguments are passed to pytest.
#
# The images are built from the Debian 13 root of newest.sh. Layers, uv's cache and the registry are kept under
# $XDG_CACHE_HOME/tfx_gnn/containers (~/.cache by default), so that later runs build only what changed. Needs root
# rights. On Debian and Ubuntu, missing tools are installed with apt-get.
set -euo pipefail
cd "$(dirname "$0")/../.."

store=${XDG_CACHE_HOME:-$HOME/.cache}/tfx_gnn/containers
tools=(podman buildah runc docker-registry)
bundle=$(realpath "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}")

die() {
    echo "infra/ci/containers.sh: $*" >&2
    exit 1
}

say() {
    echo "containers: $* ($SECONDS s)"
}

main() {
    [ "$(id -u)" = 0 ] || die "a Debian 13 root can only be made as root; run it with sudo"
    infra/bootstrap.sh test
    unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
    mkdir -p "$store/tmp"
    exec {lock}>"$store/lock"
    flock "$lock"
    work=$(mktemp -d)
    trap end EXIT
    install_tools
    configure
    make_bases
    start_registry

    local start=$SECONDS
    build_image "$registry/tfx-gnn:lane2" infra/docker/Dockerfile . \
        --build-arg BUILD_IMAGE="localhost/build:$key" --build-arg BASE_IMAGE="localhost/base:$key"
    push_image "$registry/tfx-gnn:lane2"
    .venv/bin/tfx-gnn new "$work/web_shop" >/dev/null
    build_image "$registry/web_shop:1" "$work/web_shop/Dockerfile" "$work/web_shop" \
        --build-arg BASE_IMAGE="$registry/tfx-gnn:lane2"
    push_image "$registry/web_shop:1"
    say "built and pushed both images in $((SECONDS - start)) s"
    # What runs is what the registry has.
    buildah rmi --force "$registry/web_shop:1" "$registry/tfx-gnn:lane2" >/dev/null

    TFX_GNN_TEST_PROJECT=$work/web_shop TFX_GNN_TEST_IMAGE=$registry/web_shop:1 \
        .venv/bin/python -m pytest -s tests/containers "$@" {lock}>&-
    say "done"
}

end() {
    [ -z "${registry_process-}" ] || kill "$registry_process" 2>/dev/null || true
    rm -rf "$work"
}

install_tools() {
    command -v "${tools[@]}" >/dev/null && [ "$(command -v "${tools[@]}" | wc -l)" = ${#tools[@]} ] && return
    command -v apt-get >/dev/null || die "${tools[*]} must be installed, and there is no apt-get to install them"
    say "installing ${tools[*]}"
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${tools[@]}"; } \
        >"$store/apt.log" 2>&1 || { tail -n 20 "$store/apt.log" >&2; die "apt-get could not install ${tools[*]}"; }
}

# Storage of its own, and limits that this user can give.
configure() {
    cat >"$work/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$store/storage"
runroot = "$work/run"
END
    cat >"$work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
END
    port=$(.venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    registry=127.0.0.1:$port
    cat >"$work/registries.conf" <<END
[[registry]]
location = "$registry"
insecure = true
END
    export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
    export CONTAINERS_REGISTRIES_CONF=$work/registries.conf TMPDIR=$store/tmp
}

# Two images of the root: whole, with a compiler, to build in; and without it, as the base of what runs.
make_bases() {
    local root container
    root=$(infra/ci/newest.sh --root | tail -n 1)
    key=$(stat --format %i-%Y "$root/.complete")
    if ! buildah inspect --type image "localhost/base:$key" >/dev/null 2>&1; then
        say "making base images from $root"
        tar -C "$root" --one-file-system --exclude='./dev/*' --exclude='./repo' --exclude='./lane' \
            --exclude='./var/cache/apt/*.bin' --exclude='./var/cache/apt/archives/*.deb' --exclude='./.complete' -cf - . |
            podman import --quiet - "localhost/build:$key" >/dev/null
        container=$(buildah from --pull-never "localhost/build:$key")
        # debootstrap takes every package for one that was asked for.
        buildah run --isolation chroot "$container" -- sh -ec '
            apt-mark auto $(apt-mark showmanual) >/dev/null
            apt-mark manual apt ca-certificates passwd python3 >/dev/null
            apt-get -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false \
                autoremove --purge --yes -qq >/dev/null
            rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/apt/* /var/cache/debconf/*-old'
        buildah commit --quiet --squash --rm "$container" "localhost/base:$key" >/dev/null
    fi
    say "base images are ready"
}

start_registry() {
    cat >"$work/registry.yml" <<END
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $store/registry}}
http: {addr: $registry}
END
    docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 {lock}>&- &
    registry_process=$!
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        kill -0 $registry_process 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/registry.log" >&2
    die "the registry did not start"
}

build_image() {
    local image=$1 file=$2 context=$3 start=$SECONDS
    shift 3
    buildah build --isolation chroot --layers --ulimit nofile=4096:4096 \
        --volume "$bundle:/etc/ssl/certs/ca-certificates.crt:ro" --file "$file" --tag "$image" "$@" "$context" \
        >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; die "could not build $image"; }
    say "built $image in $((SECONDS - start)) s"
}

push_image() {
    local start=$SECONDS
    # Uncompressed: on one machine, compression costs more than it saves.
    buildah push --quiet --disable-compression "$1" >/dev/null
    say "pushed $1 in $((SECONDS - start)) s"
}

main "$@"

#!/bin/bash
# Runs the test suite `stores`: pipelines and pushes on object stores. Arguments are passed to pytest.
#
# The stores are real servers that run on this machine. The tests run in namespaces of their own, where the host names
# of Cloud Storage lead to them, nothing else can be reached, and nothing outlives this script. Needs root rights, or
# user namespaces.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TFX_GNN_STORES=$PWD/.tools/stores
python=$PWD/.venv/bin/python
hosts="storage.googleapis.com www.googleapis.com oauth2.googleapis.com metadata.google.internal"

die() {
    echo "infra/ci/stores.sh: $*" >&2
    exit 1
}

main() {
    if [ -z "${TFX_GNN_STORES_NAMESPACES-}" ]; then
        install
        enter_namespaces "$@"
        exit
    fi
    # In the new network there is the loopback device alone, and it is down.
    "$python" -c '
import fcntl, socket, struct
up, running, set_flags = 0x1, 0x40, 0x8914
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, set_flags, struct.pack("16sh", b"lo", up | running))
'
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo "127.0.0.1 localhost $hosts" >"$work/hosts"
    mount --bind "$work/hosts" /etc/hosts
    # shellcheck disable=SC2086 - one argument for each name
    "$TFX_GNN_STORES/bin/python" -m trustme --quiet --dir "$work" --identities localhost 127.0.0.1 $hosts
    export CURL_CA_BUNDLE=$work/client.pem REQUESTS_CA_BUNDLE=$work/client.pem SSL_CERT_FILE=$work/client.pem
    export TFX_GNN_STORES_CERTIFICATE=$work/server.pem
    # TensorFlow takes the token, other clients the file. Without it, Beam looks for credentials for more than a minute.
    export GOOGLE_AUTH_TOKEN_FOR_TESTING=token NO_GCE_CHECK=true GOOGLE_CLOUD_PROJECT=project
    export GOOGLE_APPLICATION_CREDENTIALS=$work/credentials.json
    echo '{"type": "authorized_user", "client_id": "id", "client_secret": "secret", "refresh_token": "token"}' \
        >"$GOOGLE_APPLICATION_CREDENTIALS"
    export AWS_EC2_METADATA_DISABLED=true AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret
    unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE http_proxy https_proxy \
        HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
    export TFX_GNN_STORES_FIGURES=$work/figures TFX_GNN_STORES_LOCAL_RUN=$work/local_run
    # The compiler that the bootstrap installs on machines without one.
    export PATH=$PATH:$PWD/.tools/zig/bin
    local status=0 s3
    # One process for each kind of store: a single emulator can have the names of the hosts of Cloud Storage.
    suite tests/stores/test_s3.py "$@" >"$work/s3.log" 2>&1 &
    s3=$!
    suite tests/stores --ignore tests/stores/test_s3.py "$@" || status=1
    wait $s3 || status=1
    cat "$work/s3.log"
    [ ! -e "$TFX_GNN_STORES_FIGURES" ] || cat "$TFX_GNN_STORES_FIGURES"
    return $status
}

# Tests that no argument of pytest leaves are none that failed. A busy machine gets half an hour for a whole pipeline.
suite() {
    "$python" -m pytest --timeout 1800 "$@" || [ $? = 5 ]
}

# Installs the stores beside the environment of the tests, which they are no part of.
install() {
    infra/bootstrap.sh test
    infra/bootstrap.sh uv
    UV_PROJECT_ENVIRONMENT=$TFX_GNN_STORES .tools/uv/bin/uv sync --quiet --frozen --only-group stores \
        --python "$python" || die "uv could not install the dependency group 'stores' of uv.lock"
}

# Runs this script again in its own namespaces: however this process ends, even by SIGKILL, what it started ends.
enter_namespaces() {
    local user=()
    [ "$(id -u)" = 0 ] || user=(--user --map-root-user)
    TFX_GNN_STORES_NAMESPACES=1 setpriv --pdeathsig KILL \
        unshare "${user[@]}" --mount --net --pid --mount-proc --fork --kill-child --propagation private "$0" "$@" &
    local child=$!
    trap 'kill -KILL $child' INT TERM HUP
    wait $child
}

main "$@"

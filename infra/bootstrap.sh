#!/bin/sh
# Finds a Python 3 that really runs and starts bootstrap/ with it; the arguments are explained in its __main__.py.
# A `python3` on PATH may be a pyenv shim that fails in this folder because of the folder's .python-version.
set -eu
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

for python in "${TFX_GNN_PYTHON:-python3}" python3 python3.13 python3.12 python3.11 python3.10 python \
    /usr/bin/python3 /usr/local/bin/python3 "${PYENV_ROOT:-${HOME:-/}/.pyenv}"/versions/3.*/bin/python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1; then
        exec "$python" "$here/bootstrap" "$@"
    fi
done
echo "tfx_gnn: no Python runs here; install any Python 3.8 or newer (Debian, Ubuntu: apt-get install python3)." >&2
exit 1

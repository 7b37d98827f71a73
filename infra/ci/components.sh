#!/bin/sh
# Lane `components`: the tests of the TFX components. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
# A compiler that the bootstrap installed, for machines that have none.
PATH=$PATH:$PWD/.tools/zig/bin exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile tests/components "$@"

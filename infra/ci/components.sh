#!/bin/sh
# Runs the test suite `components`: the tests of the TFX components. Arguments are passed to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
# The compiler that the bootstrap installs on machines without one.
PATH=$PATH:$PWD/.tools/zig/bin exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile tests/components "$@"

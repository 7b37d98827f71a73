#!/bin/sh
# Runs the test suite `e2e`: the tests of whole pipelines and the models they push. Arguments are passed to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
# The compiler that the bootstrap installs on machines without one.
PATH=$PATH:$PWD/.tools/zig/bin exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile tests/e2e "$@"

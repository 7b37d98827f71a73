#!/bin/sh
# Runs the test suite `unit`: the tests of the library, and tests/hygiene. Arguments are passed to a single pytest run.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
# Last on PATH: the compiler that the bootstrap installs on machines without one.
PATH=$PWD/.venv/bin:$PATH:$PWD/.tools/zig/bin
export PATH
if [ $# -gt 0 ]; then
    exec python -m pytest tests/unit tests/hygiene "$@"
fi
status=0
infra/ci/unit_parts.sh || status=1
python -m pytest --numprocesses auto --dist loadfile tests/hygiene || status=1
exit $status

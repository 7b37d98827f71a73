#!/bin/sh
# Runs the test suite `unit`: all tests of the library, and tests/hygiene. The tests of a file run in one process and share
# their fixtures. The parts use separate processes, because TensorFlow keeps everything that it has traced and compiled
# in memory. Arguments are passed to a single pytest run.
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
part() {
    python -m pytest --numprocesses auto --dist loadfile --durations 15 "$@" || status=1
}
part tests/unit/components tests/unit/training
part tests/unit tests/hygiene --ignore=tests/unit/components --ignore=tests/unit/training
exit $status

#!/bin/sh
# Lane `unit`: the tests of the library and the house rules. Arguments go to pytest, which then runs once.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
# At the end, a compiler that the bootstrap installed, for machines that have none.
PATH=$PWD/.venv/bin:$PATH:$PWD/.tools/zig/bin
export PATH
if [ $# -gt 0 ]; then
    exec python -m pytest tests/unit tests/hygiene "$@"
fi
status=0
infra/ci/unit_parts.sh || status=1
python -m pytest --numprocesses auto --dist loadfile tests/hygiene || status=1
exit $status

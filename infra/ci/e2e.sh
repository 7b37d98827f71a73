#!/bin/sh
# Lane `e2e`: the tests of whole pipelines and what they push. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
# A compiler that the bootstrap installed, for machines that have none.
PATH=$PATH:$PWD/.tools/zig/bin exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile tests/e2e "$@"

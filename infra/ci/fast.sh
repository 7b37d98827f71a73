#!/bin/sh
# Runs the test suite `fast`: all unit tests but those that tests/slow_tests.txt names, tests/hygiene, tests/components, and
# whole pipelines: the tiny project on the local runner, and again on Beam with other tables. Arguments are passed to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
# Last on PATH: the compiler that the bootstrap installs on machines without one.
PATH=$PWD/.venv/bin:$PATH:$PWD/.tools/zig/bin
export PATH

status=0
python -m pytest --numprocesses auto --dist loadfile --durations 20 --fast tests/unit tests/hygiene "$@" || status=1
# Without the oracle, whose Keras is another one than that of TFX's users; see tests/conftest.py. The pipelines first, since
# they take as long as half of the others.
python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 10 \
    tests/e2e/test_pipeline_caching.py::test_second_run_repeats_nothing_whatever_the_runner \
    tests/e2e/test_pipeline_caching.py::test_edited_table_repeats_all tests/components "$@" || status=1
exit $status

#!/bin/sh
# Runs the unit tests with the Python on PATH, in as many processes as there are cores. The tests of a file run in one
# process and share their fixtures. The two parts use separate processes, because TensorFlow keeps everything that it
# has traced and compiled in memory. Arguments are passed to both.
set -eu
cd "$(dirname "$0")/../.."

failed=
part() {
    name=$1
    shift
    python -m pytest --numprocesses auto --dist loadfile --durations 15 "$@" || failed="$failed $name"
}

part steps tests/unit/components tests/unit/training "$@"
part others tests/unit --ignore=tests/unit/components --ignore=tests/unit/training "$@"
if [ -n "$failed" ]; then
    echo "unit: failed:$failed" >&2
    exit 1
fi

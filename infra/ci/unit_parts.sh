#!/bin/sh
# Runs the unit tests with the Python on PATH, in as many processes as there are cores; a file's tests stay together,
# with the fixtures that they share. Part by part, in processes of their own: TensorFlow keeps what it has traced and
# compiled.
set -eu
cd "$(dirname "$0")/../.."

failed=
part() {
    name=$1
    shift
    python -m pytest --numprocesses auto --dist loadfile "$@" || failed="$failed $name"
}

part steps tests/unit/components tests/unit/training
part others tests/unit --ignore=tests/unit/components --ignore=tests/unit/training
if [ -n "$failed" ]; then
    echo "unit: failed:$failed" >&2
    exit 1
fi

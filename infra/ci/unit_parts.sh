#!/bin/sh
# Runs the unit tests with the Python on PATH, each part in a process of its own: TensorFlow keeps what it has traced and
# compiled, more than 11 GB of it by the end of all of them.
set -eu
cd "$(dirname "$0")/../.."

failed=
part() {
    name=$1
    shift
    python -m pytest "$@" || failed="$failed $name"
}

part parts-of-stages tests/unit/stages --ignore-glob='*/stages/test_*.py'
part stages tests/unit/stages/test_*.py
part models tests/unit/models
part others tests/unit --ignore=tests/unit/models --ignore=tests/unit/stages
if [ -n "$failed" ]; then
    echo "unit: failed: $failed" >&2
    exit 1
fi

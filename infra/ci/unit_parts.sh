#!/bin/sh
# Runs the unit tests with the Python on PATH, each part in a process of its own: TensorFlow keeps what it has traced and
# compiled, more than 11 GB of it by the end of all of them.
set -eu
cd "$(dirname "$0")/../.."

failed=
part() {
    python -m pytest "$@" || failed="$failed ${1#tests/unit/}"
}

part tests/unit --ignore=tests/unit/models --ignore=tests/unit/stages
part tests/unit/models
part tests/unit/stages/*/
part tests/unit/stages/test_*.py
if [ -n "$failed" ]; then
    echo "unit: failed: $failed" >&2
    exit 1
fi

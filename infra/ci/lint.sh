#!/bin/sh
# Checks style, types, import rules and the lock. Runs every check and names those that failed.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

failed=
check() {
    name=$1
    shift
    echo "lint: $name"
    "$@" || failed="$failed $name"
}

check ruff-check .venv/bin/ruff check --no-cache --quiet .
check ruff-format .venv/bin/ruff format --no-cache --quiet --check .
check mypy .venv/bin/mypy
check pyright .venv/bin/pyright
check import-linter .venv/bin/lint-imports --no-logo
check lock .tools/uv/bin/uv lock --quiet --check --python .venv/bin/python
for script in infra/*.sh infra/ci/*.sh .ci/run; do
    check "syntax-of-$script" bash -n "$script"
done
if [ -n "$failed" ]; then
    echo "lint: failed:$failed" >&2
    exit 1
fi

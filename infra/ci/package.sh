#!/bin/sh
# Builds the sdist and the wheel, checks them, and tries the wheel in new environments (try_wheel.sh). tests/e2e runs a
# whole pipeline from a wheel.
#
#   infra/ci/package.sh [SOURCE FOLDER]    packages the tree SOURCE into FOLDER; this one into build/package by default
set -eu
source=$(realpath "${1:-$(dirname "$0")/../..}")
folder=$(realpath "${2:-$(dirname "$0")/../../build/package}" --canonicalize-missing)
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
PATH=$PWD/.tools/uv/bin:$PATH
export PATH
rm -rf "$folder"

# The wheel is made of the sdist, so that both are complete.
uv build --quiet --no-build-isolation --python .venv/bin/python --out-dir "$folder" "$source"
# uv leaves it for folders that are kept in git, which this one is not.
rm -f "$folder/.gitignore"
set -- "$folder"/*.whl
.venv/bin/twine check --strict "$folder"/*.whl "$folder"/*.tar.gz
.venv/bin/check-wheel-contents "$1"
infra/ci/try_wheel.sh "$1" .venv/bin/python
echo "package: $(ls "$folder" | tr '\n' ' ')"

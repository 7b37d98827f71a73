#!/bin/sh
# Builds the sdist and the wheel into build/package, checks them, installs the wheel into a new environment with the
# versions of uv.lock, and takes the first steps of a new project there. tests/e2e runs a whole pipeline from a wheel.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
uv=$PWD/.tools/uv/bin/uv
folder=$PWD/build/package
rm -rf "$folder"

# The wheel is made of the sdist, so that both are complete.
"$uv" build --quiet --no-build-isolation --python .venv/bin/python --out-dir "$folder" .
set -- "$folder"/*.whl
.venv/bin/twine check --strict "$folder"/*.whl "$folder"/*.tar.gz
.venv/bin/check-wheel-contents "$1"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$uv" export --quiet --frozen --extra beam --no-default-groups --no-emit-project --no-hashes --output-file "$scratch/locked.txt" >/dev/null
"$uv" venv --quiet --python .venv/bin/python "$scratch/venv"
"$uv" pip install --quiet --python "$scratch/venv/bin/python" --constraints "$scratch/locked.txt" "$1[beam]"
"$uv" pip check --quiet --python "$scratch/venv/bin/python"

# The command line alone: what it lacks, the other extras would bring.
"$uv" venv --quiet --python .venv/bin/python "$scratch/cli"
"$uv" pip install --quiet --python "$scratch/cli/bin/python" --constraints "$scratch/locked.txt" "$1[cli]"
"$scratch/cli/bin/tfx-gnn" --help >/dev/null

cd "$scratch"
PATH=$scratch/venv/bin:$PATH
tfx-gnn new web-shop >/dev/null
cd web-shop
tfx-gnn sample --tables-dir web_shop/data --plan project.yaml --examples-dir out/examples
tfx-gnn schema --examples-dir out/examples --graph-schema-dir out/graph_schema --schema-dir out/schema
test -s out/graph_schema/graph_schema.pbtxt
echo "package: $(ls "$folder" | tr '\n' ' ')"

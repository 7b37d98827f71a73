#!/bin/sh
# Installs a wheel into new environments with the versions of uv.lock, and takes the first steps of a new project there.
#
#   infra/ci/try_wheel.sh WHEEL PYTHON
#
# Needs uv on PATH, and nothing of this work tree but uv.lock: package.sh runs it on lane 1, release.py on lane 2, too.
set -eu
wheel=$(realpath "$1")
python=$(realpath --no-symlinks "$2")
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
uv export --quiet --frozen --python "$python" --extra beam --no-default-groups --no-emit-project --no-hashes \
    --output-file "$scratch/locked.txt" >/dev/null
uv venv --quiet --python "$python" "$scratch/venv"
uv pip install --quiet --python "$scratch/venv/bin/python" --constraints "$scratch/locked.txt" "$wheel[beam]"
uv pip check --quiet --python "$scratch/venv/bin/python"

# The command line alone: what it lacks, the other extras would bring.
uv venv --quiet --python "$python" "$scratch/cli"
uv pip install --quiet --python "$scratch/cli/bin/python" --constraints "$scratch/locked.txt" "$wheel[cli]"
"$scratch/cli/bin/tfx-gnn" --help >/dev/null

cd "$scratch"
PATH=$scratch/venv/bin:$PATH
tfx-gnn new web-shop >/dev/null
cd web-shop
tfx-gnn sample --tables-dir web_shop/data --plan project.yaml --examples-dir out/examples
tfx-gnn schema --examples-dir out/examples --graph-schema-dir out/graph_schema --schema-dir out/schema
test -s out/graph_schema/graph_schema.pbtxt

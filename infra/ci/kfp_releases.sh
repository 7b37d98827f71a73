#!/bin/bash
# Lets releases of kfp, from the oldest that this project allows to the newest, load the compiled quickstart. Its client
# loads a file before it sends it, and users have the release that fits their cluster.
set -euo pipefail
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/resources.yaml" <<'YAML'
components:
  GraphTrainer: {retries: 2, cpu: 4, volumes: [{claim: checkpoints, path: /checkpoints}]}
YAML
places=(--image registry.example/quickstart:1 --push-to gs://bucket/serving)
.venv/bin/tfx-gnn run debian_sections --runner kubeflow --compile-only "${places[@]}" \
    --output "$folder/compiled/plain.yaml" >/dev/null
.venv/bin/tfx-gnn run debian_sections --runner kubeflow --compile-only "${places[@]}" \
    --resources "$folder/resources.yaml" --output "$folder/compiled/platform.yaml" >/dev/null
.venv/bin/tfx-gnn run debian_sections --runner kubeflow --compile-only "${places[@]}" \
    --report-to https://hooks.example/run --output "$folder/compiled/reporting.yaml" >/dev/null

for release in '==2.5.0' '==2.9.0' '==2.13.0' '>=2.16'; do
    # setuptools: releases up to 2.7 import pkg_resources.
    .tools/uv/bin/uv run --quiet --no-project --isolated --python .venv/bin/python \
        --with "kfp$release" --with 'setuptools<81' python - "$folder"/compiled/*.yaml <<'PYTHON'
import sys

import kfp
from kfp.components import load_component_from_file

for path in sys.argv[1:]:
    component = load_component_from_file(path)
    missing = {"tables_dir", "push_destination", "num_epochs"} - set(component.component_spec.inputs)
    assert not missing, missing
    spec = component.pipeline_spec
    dags = [spec.root.dag, *(one.dag for one in spec.components.values())]
    assert {name for dag in dags for name in dag.tasks} >= {"SubgraphExampleGen", "GraphPusher"}
print(f"kfp {kfp.__version__} loads {len(sys.argv) - 1} files")
PYTHON
done

"""What an import brings with it: nobody pays for a part that they did not ask for.

The arrows between our own modules are import-linter's; here the real import is measured by which
modules it loads, because a dependency may bring what our source does not name.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Loads TensorFlow first where a part may have it, so that what TensorFlow brings is not held against the part. One
# process loads the parts, the lower ones first: what one of them brings is held against those above it too.
_LOADED_ROOTS = """
import importlib, json, pkgutil, sys
excused, answers = set(), []
for baseline, names in json.loads(sys.argv[1]):
    before = set(sys.modules)
    for name in baseline:
        importlib.import_module(name)
    excused |= set(sys.modules) - before
    for name in names:
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
            importlib.import_module(found.name)
    answers.append(sorted(set(sys.modules) - excused))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def loaded_by_part() -> dict[str, list[str]]:
    """What is loaded after each part, without what its baseline brings."""
    layers = [(baseline, names) for names, baseline, _ in _PARTS.values()]
    command = [sys.executable, "-W", "ignore", "-c", _LOADED_ROOTS, json.dumps(layers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(_PARTS, json.loads(done.stdout.splitlines()[-1]), strict=True))


def _among(loaded: list[str], forbidden: list[str]) -> list[str]:
    return [name for name in loaded if any(name == root or name.startswith(f"{root}.") for root in forbidden)]


def test_the_package_alone_loads_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", "import tfx_gnn, sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )

    heavy = ["apache_beam", "google.protobuf", "numpy", "pyarrow", "rich", "tensorflow", "tf_keras", "tfx", "typer"]
    assert _among(done.stdout.split(), heavy) == []


_STEPS = ["tfx_gnn.training", "tfx_gnn.transform", "tfx_gnn.records", "tfx_gnn.reports", "tfx_gnn.components"]


_PARTS = {
    "graph-and-serving": (
        ["tfx_gnn.io", "tfx_gnn.graph", "tfx_gnn.serving"],
        ["tensorflow"],
        ["apache_beam", "keras", "pyarrow", "tensorflow_transform", "tf_keras", "tfx", "tfx_bsl", *_STEPS],
    ),
    "keras-models-and-sampling": (
        ["tfx_gnn.keras", "tfx_gnn.models", "tfx_gnn.sampling.plan", "tfx_gnn.sampling.engine"],
        ["tensorflow", "tf_keras"],
        ["apache_beam", "tensorflow_transform", "tfx", "tfx_bsl", *_STEPS],
    ),
    "libraries-of-the-steps": (
        ["tfx_gnn.records", "tfx_gnn.reports", "tfx_gnn.training", "tfx_gnn.transform"],
        ["tensorflow"],
        ["google.cloud.aiplatform", "kfp", "tensorflow_model_analysis", "tfx", "tfx_gnn.components"],
    ),
    "components": (
        ["tfx_gnn.components"],
        ["tensorflow"],
        ["google.cloud.aiplatform", "kfp", "tensorflow_model_analysis", "tfx.v1", "tfx_gnn_pipelines"],
    ),
}


@pytest.mark.parametrize("part", _PARTS)
def test_a_part_loads_nothing_that_belongs_above_it(part: str, loaded_by_part: dict[str, list[str]]):
    names, _, forbidden = _PARTS[part]

    assert _among(loaded_by_part[part], names), "the parts themselves must have been loaded"
    assert _among(loaded_by_part[part], forbidden) == []


def test_options_and_functions_of_the_steps_do_without_tfx():
    code = (
        "import sys, tfx_gnn.components as components\n"
        "for name in dir(components):\n"
        "    if name.endswith('Options') or name.islower() and not name.startswith('_'):\n"
        "        getattr(components, name)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)

    assert _among(done.stdout.split(), ["tfx_gnn.components.graph_trainer.stage"]), (
        "the functions must have been loaded"
    )
    assert _among(done.stdout.split(), ["tfx", "ml_metadata", "kfp"]) == []

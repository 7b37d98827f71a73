"""The starter project with one typical mistake each, and what `tfx-gnn check` says of it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import linecache
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tfx_gnn.cli.project_verbs import create_project
from tfx_gnn_pipelines.checks.findings import PipelineCheck
from tfx_gnn_pipelines.checks.pipeline_check import check_project
from tfx_gnn_pipelines.config import PipelineConfig, quickstart
from tfx_gnn_pipelines.task import load_task

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
NAME = "shop"
_CODE = ("__init__.py", "plan.py", "preprocessing.py", "model.py")


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        what: the mistake in words, as docs/mistakes.md lists it.
        edits: file of the package, what is replaced in it, and by what; a file is removed if both texts are empty.
        options: options of steps that are wrong, as "step.option" to value.
        before: what came of it without `tfx-gnn check`: the step that stopped, and how well it said why, from 1 to 5.
    """

    what: str
    edits: tuple[tuple[str, str, str], ...] = ()
    options: tuple[tuple[str, object], ...] = ()


def _schema(old: str, new: str) -> tuple[tuple[str, str, str], ...]:
    return (("data/graph_schema.pbtxt", old, new),)


_LABEL = '{"interest": tft.compute_and_apply_vocabulary(labels["interest"], vocab_filename="interest")}'
_LOG = "tf.math.log(tf.maximum(products[\"price\"], 0.01))"
_LOSS = "tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
_NUMBERS = 'parts = [node_set["numbers"]]'

MISTAKES = (
    Mistake("typo in a feature, in `preprocessing_fn`", (("preprocessing.py", 'users["age"]', 'users["agee"]'),)),
    Mistake("typo in a node set, in `preprocessing_fn`", (("preprocessing.py", 'node_sets["user"]', 'node_sets["users"]'),)),
    Mistake("typo in the label, in the plan", (("plan.py", '("interest",)', '("intrest",)'),)),
    Mistake("typo in the label, in the task", (("__init__.py", 'label_feature="interest"', 'label_feature="intrest"'),)),
    Mistake("typo in the class vocabulary", (("__init__.py", 'class_vocabulary="interest"', 'class_vocabulary="interests"'),)),
    Mistake("typo in the split column", (("plan.py", 'column="split"', 'column="splitt"'),)),
    Mistake("unknown edge set of a hop", (("plan.py", 'Hop(edge_set="purchase", fan_out=4, inputs', 'Hop(edge_set="purchases", fan_out=4, inputs'),)),
    Mistake("node set in place of an edge set", (("plan.py", 'Hop(edge_set="purchase", fan_out=8)', 'Hop(edge_set="product", fan_out=8)'),)),
    Mistake("unknown direction of a hop", (("plan.py", 'direction="backward"', 'direction="backwards"'),)),
    Mistake("wrong direction of a hop", (("plan.py", 'direction="backward", ', ""),)),
    Mistake("name of a hop removed", (("plan.py", ', name="other_buyers"', ""),)),
    Mistake("unknown input of a hop", (("plan.py", 'inputs=("purchase",)', 'inputs=("purchse",)'),)),
    Mistake("column missing in a table", (("data/users.csv", "age,", "years,"),)),
    Mistake("wrong type in the schema", _schema('"category" value { description: "Its department." dtype: DT_STRING', '"category" value { description: "Its department." dtype: DT_FLOAT')),
    Mistake("float in an integer column", (("data/users.csv", "u003,62,", "u003,62.5,"),)),
    Mistake("text in a numeric column", (("data/products.csv", "clothing,54.50", "clothing,cheap"),)),
    Mistake("edge to a node that does not exist", (("data/purchases.csv", "u001,p23,", "u001,p99,"),)),
    Mistake("id twice", (("data/users.csv", "u004,", "u003,"),)),
    Mistake("table missing", (("data/products.csv", "", ""),)),
    Mistake("empty label", (("data/users.csv", "u003,62,0,gardening,", "u003,62,0,,"),)),
    Mistake("label not transformed", (("preprocessing.py", f'            "_readout": {_LABEL},\n', ""),)),
    Mistake("label as a string", (("preprocessing.py", _LABEL, '{"interest": labels["interest"]}'),)),
    Mistake("label of another type", (("preprocessing.py", f"{_LABEL},", f'{{"interest": tf.cast({_LABEL[13:-1]}, tf.float32)}},'),)),
    Mistake("no row in a split", (("data/users.csv", ",val\n", ",train\n"),)),
    Mistake("syntax error", (("preprocessing.py", "    age = tft", "    age = = tft"),)),
    Mistake("wrong module of `preprocessing_fn`", (("__init__.py", "my.preprocessing:", "my.preprocesing:"),)),
    Mistake("wrong attribute of `model_fn`", (("__init__.py", "model:model_fn", "model:modelfn"),)),
    Mistake("`preprocessing_fn` returns a dict", (("preprocessing.py", "return graph.replace_features(", "return dict("),)),
    Mistake("`KeyError` of a dict of one's own", (("preprocessing.py", 'age = tft.scale_to_z_score(users["age"])', 'columns = dict(users)\n    age = tft.scale_to_z_score(columns["agee"])'),)),
    Mistake("NumPy on a symbolic tensor", (("preprocessing.py", 'tf.math.log(tf.maximum(products["price"], 0.01))', 'np.log(products["price"])'), ("preprocessing.py", "import tensorflow as tf\n", "import numpy as np\nimport tensorflow as tf\n"))),
    Mistake("`.numpy()` of a symbolic tensor", (("preprocessing.py", 'users["newsletter"], tf.float32)', 'users["newsletter"].numpy(), tf.float32)'),)),
    Mistake("minus infinity from a logarithm", (("preprocessing.py", _LOG, 'tf.math.log(products["price"])'), ("data/products.csv", "clothing,9.50", "clothing,0"))),
    Mistake("string feature into the network", (("preprocessing.py", '"category": category', '"category": products["category"]'),)),
    Mistake("logits of another number of classes", (("model.py", "Dense(num_classes)", "Dense(2)"),)),
    Mistake("loss of a regression, for classes", (("model.py", _LOSS, "tf_keras.losses.MeanSquaredError()"),)),
    Mistake("loss for probabilities, on logits", (("model.py", _LOSS, '"sparse_categorical_crossentropy"'),)),
    Mistake("NaN in the network", (("model.py", _NUMBERS, 'parts = [tf_keras.layers.Lambda(tf.math.log)(node_set["numbers"])]'), ("model.py", "import tensorflow_transform", "import tensorflow as tf\nimport tensorflow_transform"))),
    Mistake("`Concatenate` of unequal shapes", (("model.py", _NUMBERS, 'parts = [node_set["numbers"][:, 0]]'),)),
    Mistake("feature that the transform does not make, in `model_fn`", (("model.py", 'node_set["category"]', 'node_set["categry"]'),)),
    Mistake("batch larger than the training split", (("__init__.py", "batch_size=32", "batch_size=100_000"),)),
    Mistake("too little data for a threshold", (), (("graph_evaluator.min_accuracy", 0.995),)),
    Mistake("threshold that no model meets", (), (("graph_evaluator.thresholds", {"macro_f1": 60}),)),
)  # fmt: skip
"""Each mistake alone, by the steps that it would stop."""


def make_project(folder: Path, mistake: Mistake | None = None) -> None:
    """Writes the starter project, with a mistake."""
    create_project(str(folder), name=NAME)
    for name, old, new in mistake.edits if mistake else ():
        path = folder / NAME / name
        if not old:
            path.unlink()
            continue
        text = path.read_text(encoding="utf-8")
        old, new = old.replace("my.", f"{NAME}."), new.replace("my.", f"{NAME}.")
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Makes a project's folder the current one, and forgets its modules afterwards."""
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    linecache.clearcache()
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]


def check(folder: Path, mistake: Mistake | None, *, samples_dir: Path | str = "") -> PipelineCheck:
    """Checks a project in this process."""
    reference = f"{NAME}:TASK"

    def load() -> PipelineConfig:
        config = quickstart(load_task(reference), root=str(folder / "runs"))
        for key, value in mistake.options if mistake else ():
            step, option = key.split(".")
            changed = dataclasses.replace(getattr(config, step), **{option: value})
            config = dataclasses.replace(config, **{step: changed})
        return config

    with inside(folder):
        return check_project(load, references=[reference], samples_dir=str(samples_dir))


def shown(found: PipelineCheck, folder: Path) -> str:
    """The first error as the page shows it, without the folder of the project."""
    return found.errors[0].message.replace(f"{folder.resolve()}{os.sep}", "…").replace(str(folder.resolve()), "…")

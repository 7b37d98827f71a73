"""Each row of docs/mistakes.md is a mistake in the starter project, of which a check must say just that.

Run as a program, this file writes the page anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import linecache
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfx_gnn.cli.project_verbs import create_project
from tfx_gnn_pipelines.checks.findings import PipelineCheck
from tfx_gnn_pipelines.checks.pipeline_check import check_project
from tfx_gnn_pipelines.project import read_config

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
NAME = "shop"


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        what: the mistake in words, as docs/mistakes.md lists it.
        edits: file of the package, what is replaced in it, and by what; a file is removed if both texts are empty.
    """

    what: str
    edits: tuple[tuple[str, str, str], ...] = ()


def _in(file: str, what: str, *texts: str) -> Mistake:
    """A mistake in one file; texts are what is replaced and by what, in turn."""
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return Mistake(what, tuple((file, old, new) for old, new in pairs))


_PROJECT, _PREPROCESSING, _MODEL = "../project.yaml", "preprocessing.py", "model.py"
_USERS, _PRODUCTS, _PURCHASES = "data/users.csv", "data/products.csv", "data/purchases.csv"
_VOCABULARY = 'tft.compute_and_apply_vocabulary(labels["interest"], vocab_filename="interest")'
_LABEL = f'{{"interest": {_VOCABULARY}}}'
_AGE = 'age = tft.scale_to_z_score(users["age"])'
_LOG = 'tf.math.log(tf.maximum(products["price"], 0.01))'
_PATIENCE = "early_stopping_patience: 5"
_LOSS = "tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
_NUMBERS = 'parts = [node_set["numbers"]]'
_FIRST_HOP, _LAST_HOP = "{edge_set: purchase, fan_out: 8}", "{edge_set: purchase, fan_out: 4, inputs"
_DTYPE = '"category" value { description: "Its department." dtype: DT_'

MISTAKES = (
    _in(_PREPROCESSING, "typo in a feature, in `preprocessing_fn`", 'users["age"]', 'users["agee"]'),
    _in(_PREPROCESSING, "typo in a node set, in `preprocessing_fn`", 'node_sets["user"]', 'node_sets["users"]'),
    _in(_PROJECT, "typo in the label, in the plan", "[interest]", "[intrest]"),
    _in(_PROJECT, "typo in the label, in the task", "label_feature: interest", "label_feature: intrest"),
    _in(_PROJECT, "typo in the class vocabulary", "class_vocabulary: interest", "class_vocabulary: interests"),
    _in(_PROJECT, "typo in the split column", "{column: split}", "{column: splitt}"),
    _in(_PROJECT, "unknown edge set of a hop", _LAST_HOP, _LAST_HOP.replace("purchase", "purchases")),
    _in(_PROJECT, "node set in place of an edge set", _FIRST_HOP, _FIRST_HOP.replace("purchase", "product")),
    _in(_PROJECT, "unknown direction of a hop", "direction: backward,", "direction: backwards,"),
    _in(_PROJECT, "wrong direction of a hop", "direction: backward, ", ""),
    _in(_PROJECT, "name of a hop removed", ", name: other_buyers", ""),
    _in(_PROJECT, "unknown input of a hop", "inputs: [purchase]", "inputs: [purchse]"),
    _in(_USERS, "column missing in a table", "age,", "years,"),
    _in("data/graph_schema.pbtxt", "wrong type in the schema", f"{_DTYPE}STRING", f"{_DTYPE}FLOAT"),
    _in(_USERS, "float in an integer column", "u003,62,", "u003,62.5,"),
    _in(_PRODUCTS, "text in a numeric column", "clothing,54.50", "clothing,cheap"),
    _in(_PURCHASES, "edge to a node that does not exist", "u001,p23,", "u001,p99,"),
    _in(_USERS, "id twice", "u004,", "u003,"),
    _in(_PRODUCTS, "table missing", "", ""),
    _in(_USERS, "empty label", "u003,62,0,gardening,", "u003,62,0,,"),
    _in(_PREPROCESSING, "label not transformed", f'            "_readout": {_LABEL},\n', ""),
    _in(_PREPROCESSING, "label as a string", _LABEL, '{"interest": labels["interest"]}'),
    _in(_PREPROCESSING, "label of another type", _VOCABULARY, f"tf.cast({_VOCABULARY}, tf.float32)"),
    _in(_USERS, "no row in a split", ",val\n", ",train\n"),
    _in(_PREPROCESSING, "syntax error", "    age = tft", "    age = = tft"),
    _in(_PROJECT, "wrong module of `preprocessing_fn`", ".preprocessing:", ".preprocesing:"),
    _in(_PROJECT, "wrong attribute of `model_fn`", "model:model_fn", "model:modelfn"),
    _in(_PREPROCESSING, "`preprocessing_fn` returns a dict", "return graph.replace_features(", "return dict("),
    _in(
        _PREPROCESSING,
        "`KeyError` of one's own dict",
        _AGE,
        'columns = {"age": users["age"]}\n    age = columns["agee"]',
    ),
    _in(
        _PREPROCESSING,
        "NumPy on a symbolic tensor",
        _LOG,
        'np.log(products["price"])',
        "import tensorflow as tf\n",
        "import numpy as np\nimport tensorflow as tf\n",
    ),
    _in(_PREPROCESSING, "`.numpy()` of a symbolic tensor", 'users["newsletter"]', 'users["newsletter"].numpy()'),
    Mistake(
        "minus infinity from a logarithm",
        ((_PREPROCESSING, _LOG, 'tf.math.log(products["price"])'), (_PRODUCTS, "clothing,9.50", "clothing,0")),
    ),
    _in(_PREPROCESSING, "string feature into the network", ": category}", ': products["category"]}'),
    _in(_MODEL, "logits of another number of classes", "Dense(num_classes)", "Dense(2)"),
    _in(_MODEL, "loss of a regression, for classes", _LOSS, "tf_keras.losses.MeanSquaredError()"),
    _in(_MODEL, "loss for probabilities, on logits", _LOSS, '"sparse_categorical_crossentropy"'),
    _in(_MODEL, "NaN in the network", "(num_classes)(seed_state)", "(num_classes)((seed_state - 9.0) ** 0.5)"),
    _in(_MODEL, "`Concatenate` of unequal shapes", _NUMBERS, 'parts = [node_set["numbers"][:, 0]]'),
    _in(_MODEL, "typo in a feature, in `model_fn`", 'node_set["category"]', 'node_set["categry"]'),
    _in(_PROJECT, "batch larger than the training split", "batch_size: 32", "batch_size: 100000"),
    _in(
        _PROJECT, "too little data for a threshold", _PATIENCE, f"{_PATIENCE}\ngraph_evaluator: {{min_accuracy: 0.995}}"
    ),
    _in(
        _PROJECT,
        "threshold that no model meets",
        _PATIENCE,
        f"{_PATIENCE}\ngraph_evaluator: {{thresholds: {{macro_f1: 60}}}}",
    ),
    _in(_PROJECT, "typo in a key of the project", "batch_size:", "batch_sise:"),
    _in(_PROJECT, "text in place of a number", "num_epochs: 20", "num_epochs: twenty"),
)
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
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Makes a project's folder the current one, and forgets its modules afterwards."""
    before, path = os.getcwd(), os.environ.get("PYTHONPATH", "")
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    linecache.clearcache()
    try:
        yield
    finally:
        os.chdir(before)
        os.environ["PYTHONPATH"] = path
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]


def check(folder: Path, *, samples_dir: Path | str = "") -> PipelineCheck:
    """Checks a project in this process."""
    with inside(folder):
        return check_project(
            functools.partial(read_config, str(folder)),
            files=[str(folder / "project.yaml")],
            samples_dir=str(samples_dir),
        )


def shown(found: PipelineCheck, folder: Path) -> str:
    """The first error, without what differs from run to run and what would break a table."""
    message = found.errors[0].message.replace(f"{folder.resolve()}{os.sep}", "…")
    # The words of TensorFlow and Keras change with their releases.
    message = re.sub(r"got (\w+): (?!invalid syntax|'agee'|'categry').*? at shop/", r"got \1: … at shop/", message)
    return message.replace("|", "\\|")


@pytest.fixture(scope="module")
def samples_dir(tmp_path_factory):
    """Examples that the starter project's own transform made, which mistakes behind it are tried on."""
    folder = tmp_path_factory.mktemp("starter")
    make_project(folder / NAME)

    found = check(folder / NAME, samples_dir=folder / "samples")

    assert found.findings == ()
    assert found.not_checked == ()
    return folder / "samples"


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_the_page_has_each_mistake_once():
    assert [what for what, _, _ in rows()] == [mistake.what for mistake in MISTAKES]
    assert len(MISTAKES) >= 34


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_check_says_what_where_and_what_to_do(mistake, samples_dir, tmp_path):
    expected = {what: message for what, message, _ in rows()}[mistake.what]
    make_project(tmp_path / NAME, mistake)

    found = check(tmp_path / NAME, samples_dir=samples_dir)

    assert not found.passed
    message = shown(found, tmp_path / NAME)
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), message), message
    assert re.match(r"`.+` must .+; got .+\. .+", message), "rule, finding, advice"
    file, line = found.errors[0].file, found.errors[0].line
    assert bool(file) == bool(line)
    assert not file or f"{os.path.relpath(file, tmp_path / NAME)}:{line}" in message


def write_page() -> None:
    """Writes docs/mistakes.md anew, with the seconds that each message takes on this machine."""
    with tempfile.TemporaryDirectory() as name:
        samples = Path(name) / "samples"
        lines = []
        for number, mistake in enumerate((None, *MISTAKES)):
            folder = Path(name) / str(number)
            make_project(folder, mistake)
            started = time.monotonic()
            found = check(folder, samples_dir=samples)
            if mistake is not None:
                lines.append(f"| {mistake.what} | {shown(found, folder)} | {time.monotonic() - started:.1f} |\n")
    head = PAGE.read_text(encoding="utf-8").partition("|---|---|---|\n")
    PAGE.write_text(f"{head[0]}{head[1]}{''.join(lines)}", encoding="utf-8")


if __name__ == "__main__":
    write_page()

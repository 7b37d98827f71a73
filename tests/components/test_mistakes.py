"""Each row of docs/mistakes.md is a mistake in the starter project, of which a check must say just that.

Run as a program, this file writes the page anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import importlib
import linecache
import os
import re
import sys
import tempfile
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
    _in(_MODEL, "typo in a vocabulary, in `model_fn`", 'by_name("category")', 'by_name("categry")'),
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

_HAS, _NODE_SETS, _COLUMNS = (
    "It has ['#id', 'age',",
    "The graph has ['_readout', 'product', 'user']",
    "among ['user_id', ",
)
_UNKNOWN_VALUES = "Values are not known yet"
TOLD = {
    "typo in a feature, in `preprocessing_fn`": _HAS,
    "typo in a node set, in `preprocessing_fn`": _NODE_SETS,
    "typo in the label, in the plan": "one of ['age', 'interest', 'newsletter']",
    "typo in the label, in the task": "among ['interest']",
    "typo in the class vocabulary": "among ['category', 'interest']",
    "typo in the split column": _COLUMNS,
    "unknown edge set of a hop": "one of ['purchase']",
    "node set in place of an edge set": "before which there are ['product', 'seed']",
    "unknown direction of a hop": "one of ['forward', 'backward']",
    "wrong direction of a hop": "which ends in 'product'",
    "name of a hop removed": "before which there are ['purchase', 'purchase_reverse', 'seed']",
    "unknown input of a hop": "before which there are ['purchase', 'seed']",
    "column missing in a table": _COLUMNS,
    "wrong type in the schema": "a finite number (float); got 'clothing'",
    "float in an integer column": "int64; got '62.5'",
    "text in a numeric column": "a finite number (float); got 'cheap'",
    "edge to a node that does not exist": "got 'p99'",
    "id twice": "got 'u003' again",
    "table missing": "got 'products.csv' for node set 'product'",
    "empty label": "got an empty cell",
    "label not transformed": "int64 with one value per readout; got string",
    "label as a string": "int64 with one value per readout; got string",
    "label of another type": "int64 with one value per readout; got float32",
    "no row in a split": "there are {'train': 340, 'test': 60}",
    "syntax error": "got SyntaxError: invalid syntax",
    "wrong module of `preprocessing_fn`": "Did you mean 'preprocessing'",
    "wrong attribute of `model_fn`": "Did you mean 'model_fn'",
    "`preprocessing_fn` returns a dict": "a GraphView; got dict",
    "`KeyError` of one's own dict": "`columns` has ['age']",
    "NumPy on a symbolic tensor": _UNKNOWN_VALUES,
    "`.numpy()` of a symbolic tensor": _UNKNOWN_VALUES,
    "minus infinity from a logarithm": "232 -inf of 11285 values",
    "string feature into the network": "got strings in ['nodes/product.category']",
    "logits of another number of classes": "[rows, 4] for this batch; got shape [33, 2]",
    "loss of a regression, for classes": "got MeanSquaredError",
    "loss for probabilities, on logits": "got SparseCategoricalCrossentropy(from_logits=False)",
    "NaN in the network": "first from layer 'tf.math.pow'",
    "`Concatenate` of unequal shapes": "input_shape=[(None,), (None, 32)]",
    "typo in a feature, in `model_fn`": "`node_set` has ['category', 'numbers']",
    "typo in a vocabulary, in `model_fn`": "among ['category', 'interest']",
    "batch larger than the training split": "280; got 100000",
    "too little data for a threshold": "one error gives 0.9833",
    "threshold that no model meets": "the metric is at least 0 and at most 1",
    "typo in a key of the project": "Did you mean 'batch_size'",
    "text in place of a number": "an integer; got 'twenty'",
}
"""What a message must say is there, by mistake."""

NAMELESS = frozenset({"`Concatenate` of unequal shapes"})
"""Mistakes of which a message names a line that the change breaks, rather than the line that was changed."""

PLACES = {
    "wrong type in the schema": "clothing",
    "table missing": 'filename: "products.csv"',
    "label not transformed": "return graph.replace_features(",
    "no row in a split": "splits: {column: split}",
    "minus infinity from a logarithm": '"product": {"numbers"',
}
"""What is in the line that a message should name, where that is not a line that was changed: it is not there any more,
or the change shows there first, and the message tells how it came about."""

_ADVICE = re.compile(
    "[.:] (add|change|check|choose|clip|correct|did you mean|fill|fix|give|install|keep|make|map|put|read|remove"
    "|return|use|write)\\b",
    re.IGNORECASE,
)


def make_project(folder: Path, mistake: Mistake | None = None) -> set[tuple[str, int]]:
    """Writes the starter project, with a mistake; returns the files and lines that differ from the right project."""
    create_project(str(folder), name=NAME)
    originals: dict[Path, str] = {}
    for name, old, new in mistake.edits if mistake else ():
        path = folder / NAME / name
        text = path.read_text(encoding="utf-8")
        originals.setdefault(path, text)
        if not old:
            path.unlink()
            continue
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return {
        (os.path.realpath(path), line + 1)
        for path, text in originals.items()
        for line in _changed_lines(text.splitlines(), path.read_text("utf-8").splitlines() if path.exists() else [])
    }


def _changed_lines(old: list[str], new: list[str]) -> Iterator[int]:
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield from range(start, end) if kind != "equal" else ()


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


def rating(mistake: Mistake, found: PipelineCheck, folder: Path, changed: set[tuple[str, int]]) -> int:
    """Counts what a message says: what is wrong, where, what there is instead, what to do, before the first step."""
    error = found.errors[0]
    rule, _, rest = error.message.partition("; got ")
    line = linecache.getline(error.file, error.line)
    place = f"{os.path.relpath(error.file, folder)}:{error.line}" if error.file else "no such place"
    is_named = place in error.message or f"{error.file}, line {error.line}." in error.message
    is_right = (os.path.realpath(error.file), error.line) in changed or PLACES.get(mistake.what, "no such line") in line
    points = (
        re.match("`.+` must .", rule),
        is_named and is_right,
        rest and TOLD[mistake.what] in error.message,
        _ADVICE.search(rest),
        not (folder / "runs").exists(),
    )
    return sum(map(bool, points))


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
    """Message, cause and remedy of each row of the page's tables."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def cells(message: str) -> tuple[str, str]:
    """Parts a message into what is seen and what to do, without the place, which it ends with."""
    seen, _, rest = message.partition("; got ")
    found, _, remedy = rest.partition(". ")
    return f"{seen}; got {found}.", re.sub(r" ?See [\w./]+:\d+ \(`.*$", "", remedy)


def test_the_page_has_each_mistake_once():
    assert sorted(cause for _, cause, _ in rows()) == sorted(mistake.what for mistake in MISTAKES)
    assert len(MISTAKES) >= 34


def assert_is_told(expected: str, message: str) -> None:
    """Parts between ellipses must follow one another."""
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), message), message


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_check_says_what_where_and_what_to_do(mistake, samples_dir, tmp_path):
    seen, _, remedy = next(row for row in rows() if row[1] == mistake.what)
    changed = make_project(tmp_path / NAME, mistake)

    found = check(tmp_path / NAME, samples_dir=samples_dir)

    assert not found.passed
    message = shown(found, tmp_path / NAME)
    assert_is_told(seen, message)
    assert_is_told(remedy, message)
    assert re.match(r"`.+` must .+; got .+\. .+", message), "rule, finding, advice"
    assert rating(mistake, found, tmp_path / NAME, changed) == 5 - (mistake.what in NAMELESS)
    assert Path(found.errors[0].file).is_file()
    assert found.errors[0].line > 0


_FUNCTIONS = "preprocessing_fn: shop.preprocessing:preprocessing_fn\nmodel_fn: shop.model:model_fn\n"


@pytest.mark.parametrize(
    ("features", "edit", "line", "told"),
    [
        ("nodes/product: {category: keep}", ("name", "name"), 34, "`features` must turn every feature into numbers"),
        (
            "nodes/user: {age: z_score}",
            ("label_feature: i", "label_feature: j"),
            39,
            "`label_feature` must be a feature",
        ),
        ("nodes/user: {age: z_score}", ("class_vocabulary: interest", "num_classes: 4"), 37, "by a `class_vocabulary`"),
    ],
    ids=["text", "label", "number of classes"],
)
def test_messages_of_a_project_without_python_speak_of_what_it_has(tmp_path, features, edit, line, told):
    edits = ((_PROJECT, _FUNCTIONS, f"features: {{{features}}}\n"), (_PROJECT, *edit))
    make_project(tmp_path / NAME, Mistake("without Python", edits))

    (error,) = check(tmp_path / NAME).errors

    assert told in error.message
    assert "`preprocessing_fn` must" not in error.message
    assert error.line == line


def write_page() -> None:
    """Writes the rows of docs/mistakes.md anew, each where it is."""
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        for number, mistake in enumerate(MISTAKES):
            folder = Path(name) / str(number)
            make_project(folder, mistake)
            seen, remedy = cells(shown(check(folder, samples_dir=Path(name) / "samples"), folder))
            row = re.compile(rf"^\| `.* \| {re.escape(mistake.what)} \| .* \|$", re.MULTILINE)
            page, num_rows = row.subn(lambda _, row=(seen, mistake.what, remedy): f"| {' | '.join(row)} |", page)
            assert num_rows == 1, f"{mistake.what} has {num_rows} rows"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write_page()

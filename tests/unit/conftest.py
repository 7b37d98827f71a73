"""What many tests share: a tiny exported classifier with examples for it, and a tiny shop as tables.

The model answers like an export of GraphTrainer, yet needs nothing of this
package: tests of serving, evaluation and pushing stand without the trainer.
Its answer is worked out by hand: the seed's feature `x` is the logit of "red",
`-x` that of "blue". The shop is small enough to list every subgraph by hand.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.autograph.core import config as autograph_config

from tfx_gnn.records import examples_folder

COLORS = ("blue", "red")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Gives a test the same initial weights and draws each time, and alone the same as after others."""
    tf_keras.utils.set_random_seed(1)


@pytest.fixture(scope="session", autouse=True)
def autograph_rules() -> Iterator[tuple[Any, ...]]:
    """Traces tf_keras as written, as TensorFlow 2.21 does without being told; gives the rules that TensorFlow has.

    In 2.16 AutoGraph rewrites all of Keras for 15 seconds where a test traces a model. This library is rewritten as it
    is for users, unless a test says otherwise.
    """
    rules = autograph_config.CONVERSION_RULES
    autograph_config.CONVERSION_RULES = (autograph_config.DoNotConvert("tf_keras"), *rules)
    yield rules
    autograph_config.CONVERSION_RULES = rules


def _bytes_feature(values: Sequence[bytes]) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _int_feature(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def make_toy_example(name: str, xs: Sequence[float], color: str | None) -> bytes:
    """One subgraph: items with feature x, of which the first is the seed."""
    features = {
        "nodes/item.#size": _int_feature([len(xs)]),
        "nodes/item.#id": _bytes_feature([f"{name}-{i}".encode() for i in range(len(xs))]),
        "nodes/item.x": tf.train.Feature(float_list=tf.train.FloatList(value=xs)),
        "nodes/_readout.#size": _int_feature([1]),
        "edges/_readout/seed.#size": _int_feature([1]),
        "edges/_readout/seed.#source": _int_feature([0]),
        "edges/_readout/seed.#target": _int_feature([0]),
    }
    if color is not None:
        features["nodes/_readout.color"] = _bytes_feature([color.encode()])
    example = tf.train.Example(features=tf.train.Features(feature=features))
    record: bytes = example.SerializeToString(deterministic=True)
    return record


def _first_of_row(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.gather(ragged.values, ragged.row_starts())


class _ToyClassifier(tf.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self._defect = defect
        self._sign = tf.Variable(1.0)
        self._colors = tf.constant(COLORS)
        self._normalize = [tf_keras.layers.LayerNormalization() for _ in range(4 * (defect == "is not safe"))]

    def _spoilt(self, seed_x: tf.Tensor, parsed: dict[str, Any]) -> tf.Tensor:
        if self._defect == "reads labels":
            seed_x += tf.cast(parsed["nodes/_readout.color"] == b"red", tf.float32)
        if self._defect == "mixes examples":
            seed_x += tf.reduce_sum(seed_x)
        if self._defect == "is not finite":
            seed_x = tf.math.log(-tf.abs(seed_x) - 1.0)
        if self._defect == "knows no huge numbers":
            seed_x *= tf.math.sqrt(1e20 - seed_x) * 1e-10
        if self._defect == "needs python":
            seed_x = tf.numpy_function(lambda x: x, [seed_x], tf.float32)
            seed_x.set_shape([None])
        if self._defect == "is not safe":
            # A normalization's sum is 0, whatever it normalizes.
            rows = tf.expand_dims(seed_x, 1) + tf.range(64, dtype=tf.float32)
            for normalize in self._normalize:
                seed_x += tf.reduce_sum(normalize(rows), axis=1)
        return seed_x

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._defect == "answers garbage":
            examples = tf.fill(tf.shape(examples), b"")
        spec: dict[str, Any] = {
            "nodes/item.#id": tf.io.RaggedFeature(tf.string),
            "nodes/item.x": tf.io.RaggedFeature(tf.float32),
            "nodes/_readout.#size": tf.io.FixedLenFeature([], tf.int64, default_value=0),
            "nodes/_readout.color": tf.io.FixedLenFeature([], tf.string, default_value=b""),
        }
        parsed = tf.io.parse_example(examples, spec)
        if self._defect == "answers garbage":
            seed_x = tf.zeros_like(parsed["nodes/_readout.#size"], tf.float32)
            seed_id = tf.as_string(parsed["nodes/_readout.#size"])
        else:
            checks = [tf.debugging.assert_equal(parsed["nodes/_readout.#size"], tf.constant(1, tf.int64))]
            with tf.control_dependencies(checks):
                seed_x = _first_of_row(parsed["nodes/item.x"])
            seed_id = _first_of_row(parsed["nodes/item.#id"])
        seed_x = self._spoilt(seed_x, parsed)
        logits = self._sign * tf.stack([-seed_x, seed_x], axis=1)
        probabilities = tf.nn.softmax(logits)
        outputs = {
            "logits": logits,
            "probabilities": probabilities,
            "label": tf.gather(self._colors, tf.argmax(logits, axis=1)),
            "score": tf.reduce_max(probabilities, axis=1),
            "id": seed_id,
        }
        if self._defect == "answers once":
            outputs["score"] = tf.reduce_max(probabilities)
        if self._defect == "has no score":
            del outputs["score"]
        return outputs


def export_toy_classifier(model_dir: str, defect: str = "") -> str:
    """Writes `<model_dir>/Format-Serving`."""
    module = _ToyClassifier(defect)
    saved_model_dir = os.path.join(model_dir, "Format-Serving")
    tf.saved_model.save(module, saved_model_dir, signatures={"serving_default": module.predict})
    return model_dir


TOY_EXAMPLES = {
    # Right answers but for train "c" and test "z": red if and only if x > 0.
    "train": [("a", [1.0], "red"), ("b", [2.0, 5.0], "red"), ("c", [-1.0], "red"), ("d", [-3.0, 1.0], "blue")],
    "test": [("w", [1.5, 0.0], "red"), ("x", [-2.0], "blue"), ("y", [0.5], "red"), ("z", [-0.5, 4.0, 1.0], "red")],
}


@pytest.fixture(scope="session")
def toy_model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a Model artifact with the toy classifier."""
    return export_toy_classifier(str(tmp_path_factory.mktemp("toy") / "model"))


@pytest.fixture(scope="session")
def defective_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes a toy classifier with a named defect."""
    return lambda defect: export_toy_classifier(str(tmp_path_factory.mktemp("defective") / "model"), defect)


@pytest.fixture(scope="session")
def toy_records() -> dict[str, list[bytes]]:
    """Serialized examples by split."""
    return {split: [make_toy_example(*item) for item in items] for split, items in TOY_EXAMPLES.items()}


@pytest.fixture(scope="session")
def toy_examples_dir(tmp_path_factory: pytest.TempPathFactory, toy_records: dict[str, list[bytes]]) -> str:
    """Examples folder with splits train and test, two files each."""
    folder: Path = tmp_path_factory.mktemp("toy") / "examples"
    for split, records in toy_records.items():
        for shard in range(2):
            examples_folder.write_split_shard(str(folder), split, shard, 2, records[shard::2])
    return str(folder)


SHOP_SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "color" value { dtype: DT_STRING } }
  metadata { filename: "users.csv" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "price" value { dtype: DT_FLOAT } }
  metadata { filename: "items.csv" extra { key: "id_column" value: "number" } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  metadata { filename: "knows.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "count" value { dtype: DT_INT32 } }
  metadata { filename: "buys.csv"
    extra { key: "source_column" value: "user" } extra { key: "target_column" value: "item" } } } }
"""

# `knows` has a self loop (ann), parallel edges (ann, bob) and a node without any edge (dan). The
# files are not in the order of ids: rows of the node tables are ann 0, bob 1, cid 2, dan 3 and 7 -> 0, 12 -> 1.
SHOP_FILES = {
    "graph_schema.pbtxt": SHOP_SCHEMA,
    "users.csv": "id,age,color,part\nbob,30,red,train\nann,20,blue,train\ndan,50,red,test\ncid,40,blue,val\n",
    "items.csv": "number,price\n12,1.5\n7,0.25\n",
    "knows.csv": "source,target\nann,bob\nann,ann\nbob,cid\nann,bob\n",
    "buys.csv": "user,item,count\nann,7,1\nbob,7,2\ncid,12,3\nbob,12,4\n",
}


def write_files(folder: Path, files: dict[str, str]) -> str:
    """Writes text files and returns the folder's path."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def shop_dir(tmp_path: Path) -> str:
    """Tables folder of the shop."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return write_files(folder, SHOP_FILES)


def _feature(values: Sequence[Any]) -> tf.train.Feature:
    if not values:
        return tf.train.Feature()
    if isinstance(values[0], (bytes, str)):
        return _bytes_feature([value.encode() if isinstance(value, str) else value for value in values])
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return _int_feature(values)


def _make_record(content: Mapping[str, Sequence[Any]]) -> bytes:
    feature = {key: _feature(values) for key, values in content.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def _write_examples(
    folder: str, splits: Mapping[str, Sequence[Sequence[Mapping[str, Sequence[Any]]]]], schema: str | None
) -> str:
    for split, shards in splits.items():
        for shard, contents in enumerate(shards):
            records = [_make_record(content) for content in contents]
            examples_folder.write_split_shard(folder, split, shard, len(shards), records)
    if schema is not None:
        with open(os.path.join(folder, "graph_schema.pbtxt"), "w") as file:
            file.write(schema)
    return folder


def _read_split(folder: str, split: str) -> list[dict[str, list[Any]]]:
    contents = []
    for record in examples_folder.read_split(folder, split).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        contents.append(
            {
                key: list(getattr(feature, feature.WhichOneof("kind")).value) if feature.WhichOneof("kind") else []
                for key, feature in features.items()
            }
        )
    return contents


@pytest.fixture(scope="session")
def make_record() -> Callable[[Mapping[str, Sequence[Any]]], bytes]:
    """Serializes {key: values} as a tf.Example."""
    return _make_record


@pytest.fixture(scope="session")
def write_examples() -> Callable[..., str]:
    """Writes {split: [shard, ...]}, a shard being a list of {key: values}, and a schema's text."""
    return _write_examples


@pytest.fixture(scope="session")
def read_examples() -> Callable[[str, str], list[dict[str, list[Any]]]]:
    """Reads the examples of a split as {key: values}."""
    return _read_split


@dataclasses.dataclass(frozen=True)
class TransformedStar:
    """Folders of the star graph before and after GraphTransform."""

    examples_dir: str
    graph_schema_dir: str
    transform_graph_dir: str
    transformed_examples_dir: str
    transformed_graph_schema_dir: str


def _module_of_file(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "projects" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def size_constraints_by_hand() -> ModuleType:
    """The module `made_size_constraints`: padding budgets as SizeConstraintLearner might have learned them."""
    return _module_of_file("made_size_constraints")


@pytest.fixture(scope="session")
def star_graph() -> ModuleType:
    """The module `star_graph`, importable by that name as a user's module is."""
    return _module_of_file("star_graph")


@pytest.fixture(scope="session")
def task_graphs() -> ModuleType:
    """The module `task_graphs`: graphs and models for every task."""
    return _module_of_file("task_graphs")


@pytest.fixture(scope="session")
def shop_graph() -> ModuleType:
    """The module `shop_graph`: a graph of users and items, and models of its nodes."""
    return _module_of_file("shop_graph")


@pytest.fixture(scope="session")
def ring_project() -> ModuleType:
    """The module `ring_project`, importable by that name as a user's module is."""
    return _module_of_file("ring_project")


@pytest.fixture(scope="session")
def root_project() -> ModuleType:
    """The module `root_project`, importable by that name as a user's module is."""
    return _module_of_file("root_project")


@pytest.fixture(scope="session")
def tuned_model() -> ModuleType:
    """The module `tuned_model`, importable by that name as a user's module is."""
    return _module_of_file("tuned_model")


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Any]:
    """Reads an HTML page into `page_reader.PageReader`, which fails for one that is not well formed."""
    return _module_of_file("page_reader").PageReader


@pytest.fixture(scope="session")
def star_examples(star_graph: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Examples folder of the star graph, with the schema beside the splits."""
    return _write_examples(str(tmp_path_factory.mktemp("star") / "examples"), star_graph.SPLITS, star_graph.SCHEMA)


@pytest.fixture(scope="session")
def transform_star(star_examples: str) -> Callable[..., TransformedStar]:
    """Runs GraphTransform on the star graph, in a new folder."""
    from tfx_gnn.components.graph_transform.options import GraphTransformOptions
    from tfx_gnn.components.graph_transform.stage import transform_graphs

    def run(folder: Path, preprocessing_fn: str = "star_graph:preprocessing_fn", **options: Any) -> TransformedStar:
        star = TransformedStar(
            examples_dir=star_examples,
            graph_schema_dir=star_examples,
            transform_graph_dir=str(folder / "transform_graph"),
            transformed_examples_dir=str(folder / "transformed"),
            transformed_graph_schema_dir=str(folder / "schema"),
        )
        more = {name: options.pop(name) for name in list(options) if name.endswith("_dir")}
        options_ = GraphTransformOptions(preprocessing_fn=preprocessing_fn, **options)
        transform_graphs(**dataclasses.asdict(star), **more, options=options_)
        return star

    return run


@pytest.fixture(scope="session")
def transformed_star(
    transform_star: Callable[..., TransformedStar], tmp_path_factory: pytest.TempPathFactory
) -> TransformedStar:
    """The star graph, transformed by `star_graph.preprocessing_fn`."""
    return transform_star(tmp_path_factory.mktemp("transformed_star"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if mount is None or os.getuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a file system, and not everywhere")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)

"""A large vocabulary is a file that travels with the transform and with the model, not a part of their graphs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tf_keras
from google.protobuf import text_format
from tfx_bsl.public import tfxio

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.feature_defaults import feature_defaults
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records import examples_folder
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.training.export.served_model import ServedModel
from tfx_gnn.transform.application import SavedGraphTransform
from tfx_gnn.transform.graph_view import GraphView
from tfx_gnn.transform.preprocessing import analyzed_keys, tensor_preprocessing_fn

NUM_WORDS = 100_000
WORDS_PER_ITEM = 5_000
SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "_readout" value { } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


def _example(item: int, words: list[str]) -> dict[str, list[int] | list[str]]:
    return {
        "nodes/item.#size": [1],
        "nodes/item.#id": [item],
        "nodes/item.words": words,
        "nodes/item.words.d1": [len(words)],
        "nodes/_readout.#size": [1],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


def _words(item: int) -> list[str]:
    return [f"word{number}" for number in range(item * WORDS_PER_ITEM, (item + 1) * WORDS_PER_ITEM)]


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Positions of words and of items in vocabularies of all."""
    item = graph.node_sets["item"]
    return graph.replace_features(
        node_sets={
            "item": {
                "words": tft.compute_and_apply_vocabulary(item["words"], vocab_filename="words", num_oov_buckets=1),
                "item": tft.compute_and_apply_vocabulary(item["#id"], vocab_filename="items"),
            }
        }
    )


@pytest.fixture(scope="module")
def folder(write_examples, tmp_path_factory):
    """Folder of a run of GraphTransform."""
    folder = tmp_path_factory.mktemp("large_vocabulary")
    contents = [_example(item, _words(item)) for item in range(NUM_WORDS // WORDS_PER_ITEM)]
    examples_dir = write_examples(str(folder / "examples"), {"train": [contents]}, SCHEMA)
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(preprocessing_fn=f"{__name__}:preprocessing_fn"),
    )
    return folder


@pytest.fixture(scope="module")
def vocabulary():
    """All words occur once, so the greatest comes first."""
    return sorted((f"word{number}" for number in range(NUM_WORDS)), reverse=True)


def vocabulary_of_numbers(graph: GraphView) -> GraphView:
    """A vocabulary where `vocabulary_of_words` has one of another type."""
    item = graph.node_sets["item"]
    return graph.replace_features(node_sets={"item": {"x": tft.compute_and_apply_vocabulary(item["#id"])}})


def vocabulary_of_words(graph: GraphView) -> GraphView:
    """The first vocabulary of its transform, as `vocabulary_of_numbers` has one."""
    item = graph.node_sets["item"]
    return graph.replace_features(node_sets={"item": {"x": tft.compute_and_apply_vocabulary(item["words"])}})


def vocabulary_in_another_format(graph: GraphView) -> GraphView:
    """A vocabulary of compressed records."""
    values = tft.compute_and_apply_vocabulary(
        graph.node_sets["item"]["#id"], vocab_filename="items", file_format="tfrecord_gzip"
    )
    return graph.replace_features(node_sets={"item": {"x": values}})


def calls_python(graph: GraphView) -> GraphView:
    """A row at a time, in Python."""
    item = graph.node_sets["item"]
    doubled = tf.map_fn(lambda number: tf.numpy_function(lambda n: 2 * n, [number], tf.int64), item["#id"])
    return graph.replace_features(node_sets={"item": {"x": tf.reshape(doubled, [-1])}})


class _ParityOfFirstWord(tf_keras.Model):  # type: ignore[misc]  # tf_keras has no types
    def call(self, graph: GraphTensor) -> tf.Tensor:
        """The class is the parity of the position of an item's first word."""
        words = graph.node_sets["item"]["words"]
        first = tf.gather(words.flat_values, words.row_starts())
        return tf.one_hot(first % 2, 2)


@pytest.fixture(scope="module")
def model_dir(folder):
    """The transform and a model as one SavedModel, in another folder than it was written to, the rest gone."""
    schema = graph_schema_io.read_schema(examples_folder.graph_schema_path(str(folder / "schema")))
    copy = shutil.copytree(folder / "transform_graph", folder / "copy")
    raw_schema = text_format.Parse(SCHEMA, graph_schema_pb2.GraphSchema())
    raw_schema.node_sets["item"].metadata.extra.add(key="default.words", value="")
    ServedModel(
        raw_schema=raw_schema,
        raw_spec=create_graph_spec_from_schema_pb(raw_schema),
        transformed_spec=create_graph_spec_from_schema_pb(schema),
        transform=SavedGraphTransform(str(copy)),
        model=_ParityOfFirstWord(),
        objective=NodeClassification(label_feature="parity", class_vocabulary="parity").objective(
            lambda _: [b"even", b"odd"]
        ),
    ).save(str(folder / "written"))
    shutil.rmtree(copy)
    return shutil.move(folder / "written", folder / "elsewhere" / "model")


def test_the_files_hold_the_examples_positions(folder, read_examples, vocabulary):
    positions = {word: position for position, word in enumerate(vocabulary)}

    contents = read_examples(str(folder / "transformed"), "train")

    assert [content["nodes/item.words"] for content in contents[:2]] == [
        [positions[word] for word in _words(item)] for item in range(2)
    ]
    assert sorted(content["nodes/item.item"][0] for content in contents) == list(range(20))


def test_vocabularies_are_assets_of_the_transform(folder, vocabulary):
    transform_fn = folder / "transform_graph" / "transform_fn"

    assert sorted(os.listdir(transform_fn / "assets")) == ["items", "words"]
    assert (transform_fn / "assets" / "words").read_text().split() == vocabulary
    assert (transform_fn / "saved_model.pb").stat().st_size < 200_000
    output = tft.TFTransformOutput(str(folder / "transform_graph"))
    assert output.vocabulary_size_by_name("words") == NUM_WORDS
    assert output.vocabulary_by_name("items")[0] == b"9"


def test_vocabularies_are_assets_of_the_model(model_dir, vocabulary):
    assets = Path(model_dir) / "assets"

    assert sorted(os.listdir(assets)) == ["items", "words"]
    assert (assets / "words").read_text().split() == vocabulary
    assert (Path(model_dir) / "saved_model.pb").stat().st_size < 500_000


def test_the_model_says_what_stands_for_missing_values_in_requests(model_dir):
    schema = graph_schema_io.read_schema(f"{model_dir}/assets.extra/graph_schema.pbtxt")

    assert feature_defaults(schema.node_sets["item"]) == {"words": ""}


def test_the_model_answers_in_another_place_with_nothing_but_tensorflow(model_dir, make_record, vocabulary, tmp_path):
    chosen = [0, 1, 49_999, NUM_WORDS - 1]
    words = [*(vocabulary[position] for position in chosen), "unheard of"]
    items = [7, 7, 7, 7, 99]
    records = [make_record(_example(item, [word, "word7"])) for item, word in zip(items, words, strict=True)]
    np.save(tmp_path / "records.npy", np.array(records, object), allow_pickle=True)
    code = (
        "import sys, numpy as np, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "examples = tf.constant(np.load(sys.argv[2], allow_pickle=True).tolist())\n"
        "answers = model.signatures['serving_default'](examples=examples)\n"
        "print(answers['label'].numpy().tolist(), answers['unseen_id'].numpy().tolist(), sep='\\n')\n"
        "print(model.signatures['serving_default'].structured_outputs['unseen_id'].shape)\n"
        "features = model.signatures['transformed_graph'](examples=examples)\n"
        "print(*(features[key].numpy().tolist() for key in sorted(features) if 'item' in key), sep='\\n')\n"
        "assert not {'apache_beam', 'tensorflow_transform', 'tfx_gnn'} & set(sys.modules)\n"
    )

    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, model_dir, str(tmp_path / "records.npy")],
        capture_output=True,
        text=True,
        check=True,
    )

    labels, unseen, shape, *features = result.stdout.splitlines()
    assert labels == str([b"even", b"odd", b"odd", b"odd", b"even"])
    assert (unseen, shape) == (str([False, False, False, False, True]), "(None,)")
    positions = [position for first in [*chosen, NUM_WORDS] for position in (first, vocabulary.index("word7"))]
    assert str(positions) in features
    assert len(features) >= 3


def _analyzed(function: Callable[[GraphView], GraphView]) -> frozenset[str]:
    layout = graph_layout(text_format.Parse(SCHEMA, graph_schema_pb2.GraphSchema()))
    source = tfxio.TFExampleBeamRecord(physical_format="tfrecord", schema=make_tfmd_schema(layout))
    return analyzed_keys(tensor_preprocessing_fn(function, layout), source.TensorAdapter().TypeSpecs())


def test_vocabularies_of_two_transforms_in_one_process_may_differ_in_type():
    assert _analyzed(vocabulary_of_words) == {"nodes/item.words"}
    assert _analyzed(vocabulary_of_numbers) == {"nodes/item.#id"}


def test_a_vocabulary_that_changes_its_type_in_one_process_is_refused():
    def changed(graph: GraphView) -> GraphView:
        return vocabulary_of_words(graph)

    changed.__qualname__ = "vocabulary_of_numbers"

    _analyzed(vocabulary_of_numbers)
    with pytest.raises(ValueError, match=r"must keep the types of its vocabularies .* Restart Python"):
        _analyzed(changed)


def test_a_vocabulary_that_no_model_could_be_exported_with_is_refused(transform_star, tmp_path):
    with pytest.raises(ValueError, match=r"as text; got file_format='tfrecord_gzip' for \['items.tfrecord.gz'\]"):
        transform_star(tmp_path, preprocessing_fn=f"{__name__}:vocabulary_in_another_format")

    assert list(tmp_path.iterdir()) == []


def test_a_call_of_python_is_refused_before_anything_is_read():
    with pytest.raises(ValueError, match="must consist of TensorFlow operations; got calls to Python"):
        _analyzed(calls_python)


def test_a_function_of_a_module_with_any_name_is_traced():
    def function(graph: GraphView) -> GraphView:
        return vocabulary_of_words(graph)

    function.__module__ = "__main__"

    assert _analyzed(function) == {"nodes/item.words"}

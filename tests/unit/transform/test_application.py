import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.transform.application import (
    TRANSFORM_RECORD_FILE,
    SavedGraphTransform,
    TransformRecord,
    check_transformed_by,
    read_transform_record,
    transform_merged_features,
)

SIZES = ("nodes/item", "nodes/_readout", "edges/link", "edges/_readout/seed")


def merge(contents):
    """What a parser gives for a batch of examples that it merges into one graph."""

    def flat(key, shape=()):
        return np.reshape([value for content in contents for value in content[key]], [-1, *shape])

    def words(key):
        return tf.constant(flat(key).astype(bytes), tf.string)

    sizes = {prefix: tf.constant(flat(f"{prefix}.#size"), tf.int32) for prefix in SIZES}
    first_item = np.cumsum([0] + [content["nodes/item.#size"][0] for content in contents])
    raw = {
        "context/year": tf.constant(flat("context/year"), tf.int32),
        "nodes/item.#id": words("nodes/item.#id"),
        "nodes/item.value": tf.constant(flat("nodes/item.value"), tf.float32),
        "nodes/item.pair": tf.constant(flat("nodes/item.pair", [2]), tf.float64),
        "nodes/item.words": tf.RaggedTensor.from_row_lengths(words("nodes/item.words"), flat("nodes/item.words.d1")),
        "nodes/item.boxes": tf.RaggedTensor.from_uniform_row_length(
            tf.RaggedTensor.from_row_lengths(
                tf.constant(flat("nodes/item.boxes"), tf.int64), tf.constant(flat("nodes/item.boxes.d2"), tf.int64)
            ),
            2,
        ),
        "edges/link.#id": tf.constant(flat("edges/link.#id"), tf.int64),
        "edges/link.weight": tf.constant(flat("edges/link.weight"), tf.float32),
    }
    if all("nodes/_readout.color" in content for content in contents):
        raw["nodes/_readout.color"] = words("nodes/_readout.color")
    for end in ("#source", "#target"):
        for edge_set, readout in (("link", False), ("_readout/seed", end == "#target")):
            local = [np.array(content[f"edges/{edge_set}.{end}"], np.int32) for content in contents]
            begins = range(len(contents)) if readout else first_item
            merged = [ends + begin for ends, begin in zip(local, begins, strict=False)]
            raw[f"edges/{edge_set}.{end}"] = tf.constant(np.concatenate(merged), tf.int32)
    return raw, sizes


@pytest.fixture(scope="module")
def transform(transformed_star):
    return SavedGraphTransform(transformed_star.transform_graph_dir)


@pytest.fixture(scope="module")
def apply(transform):
    return tf.function(lambda raw, sizes: transform_merged_features(transform, raw, sizes))


@pytest.mark.parametrize("split", ["train", "val"])
def test_serving_gives_what_training_read(apply, transformed_star, read_examples, star_graph, split):
    trained = read_examples(transformed_star.transformed_examples_dir, split)
    contents = [content for shard in star_graph.SPLITS[split] for content in shard]

    served = apply(*merge(contents))

    assert set(served) == {key for key in trained[0] if "#" not in key and not key[-1].isdigit()}
    for key, value in served.items():
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        expected = [number for content in trained for number in content[key]]
        np.testing.assert_array_equal(
            np.reshape(flat, [-1]), np.array(expected, flat.dtype.as_numpy_dtype), err_msg=key
        )
    assert served["nodes/item.pair"].shape[1:] == [2]
    assert served["nodes/item.words"].row_lengths().numpy().tolist() == [
        length for content in trained for length in content["nodes/item.words.d1"]
    ]


def test_labels_may_be_absent(apply, star_graph):
    served = apply(*merge([star_graph.subgraph(1, None), star_graph.subgraph(0, None)]))

    # The empty string that stands in for a color is in no vocabulary.
    assert served["nodes/_readout.color"].numpy().tolist() == [-1, -1]
    assert served["nodes/item.offset"].numpy().tolist() == [-10.0, 90.0] + [90.0] + [-10.0] * 9


def test_no_graph_at_all_gives_empty_features(apply, star_graph):
    raw, sizes = merge([star_graph.stranger()])
    raw = {key: value[:0] for key, value in raw.items()}
    sizes = {prefix: value[:0] for prefix, value in sizes.items()}

    served = apply(raw, sizes)

    assert served["nodes/item.pair"].shape == [0, 2]
    assert served["nodes/item.words"].to_list() == []


def test_an_export_carries_its_vocabularies_and_needs_tensorflow_alone(transformed_star, star_graph, tmp_path):
    folder = str(tmp_path / "transform_graph")
    shutil.copytree(transformed_star.transform_graph_dir, folder)
    module = tf.Module()
    module.transform = SavedGraphTransform(folder)
    raw, sizes = merge([star_graph.stranger()])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(ids):
        some = {**raw, "nodes/item.#id": ids}
        served = transform_merged_features(module.transform, some, sizes)
        return {"id": served["nodes/item.id"], "words": served["nodes/item.words"].flat_values}

    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "export"), signatures={"serving_default": serve})
    shutil.rmtree(folder)
    code = (
        "import sys, tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "print([value.numpy().tolist() for value in (serve(ids=tf.constant(['new']))['id'], "
        "serve(ids=tf.constant(['new']))['words'])])\n"
        "assert not {'apache_beam', 'tensorflow_transform', 'tfx_gnn'} & set(sys.modules)\n"
    )

    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "export")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.strip() == f"[[10], {serve(tf.constant(['new']))['words'].numpy().tolist()}]"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nodes/item.value", None, r"unknown keys \[\], missing keys \['nodes/item.value'\]"),
        ("edges/link.#source", None, r"missing keys \['edges/link.#source'\]"),
        ("nodes/item.other", tf.zeros([1]), r"unknown keys \['nodes/item.other'\], missing keys \[\]"),
        ("nodes/item.value", tf.constant(["x"]), "must hold float32 values; got string in 'nodes/item.value'"),
        ("nodes/item.pair", tf.zeros([1, 3]), r"of shape \[None, 2\]; got \(1, 3\) in 'nodes/item.pair'"),
        ("nodes/item.pair", tf.ragged.constant([[1.0, 2.0]]), "dense tensors for features without ragged dimension"),
        ("nodes/item.words", tf.constant([["x"]]), "RaggedTensors for features with a ragged dimension"),
    ],
)
def test_features_of_another_graph_are_refused(transform, star_graph, key, value, message):
    raw, sizes = merge([star_graph.stranger()])
    if value is None:
        del raw[key]
    else:
        raw[key] = value

    with pytest.raises(ValueError, match=message):
        transform_merged_features(transform, raw, sizes)


def test_sizes_of_another_graph_are_refused(transform, star_graph):
    raw, sizes = merge([star_graph.stranger()])
    del sizes["edges/link"]

    with pytest.raises(ValueError, match=r"`sizes` must have the keys .* missing keys \['edges/link'\]"):
        transform_merged_features(transform, raw, sizes)


def test_a_folder_without_a_transform_of_graphs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`transform_graph_dir` must be an output of GraphTransform"):
        SavedGraphTransform(str(tmp_path))


def test_note_is_read_back(tmp_path):
    record = TransformRecord(transform="1", raw_examples="2", nonfinite_features=("nodes/item.x",))

    record.write(str(tmp_path))

    assert read_transform_record(str(tmp_path)) == record


@pytest.mark.parametrize("text", ["[]", "{}", '{"transform": "1", "raw_examples": "2", "nonfinite_features": 3}'])
def test_another_file_of_the_name_is_refused(tmp_path, text):
    (tmp_path / TRANSFORM_RECORD_FILE).write_text(text)

    with pytest.raises(ValueError, match=r"graph_transform.json` must be a record of GraphTransform; got something"):
        read_transform_record(str(tmp_path))


def test_outputs_of_releases_without_notes_are_taken(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "graph").mkdir()
    TransformRecord(transform=fingerprint_folders([str(tmp_path / "graph")]), raw_examples="2").write(
        str(tmp_path / "graph")
    )

    check_transformed_by(str(tmp_path / "examples"), str(tmp_path / "graph"))

    assert read_transform_record(str(tmp_path / "examples")) is None


def test_a_transform_that_was_edited_afterwards_is_refused(tmp_path):
    assets = tmp_path / "graph" / "transform_fn" / "assets"
    assets.mkdir(parents=True)
    (assets / "interest").write_text("music\ncooking\n")
    record = TransformRecord(transform=fingerprint_folders([str(tmp_path / "graph")]), raw_examples="2")
    (tmp_path / "examples").mkdir()
    for folder in ("graph", "examples"):
        record.write(str(tmp_path / folder))
    check_transformed_by(str(tmp_path / "examples"), str(tmp_path / "graph"))

    (assets / "interest").write_text("cooking\nmusic\n")

    with pytest.raises(ValueError, match=r"`transform_graph_dir` must hold what GraphTransform wrote; got .* changed"):
        check_transformed_by(str(tmp_path / "examples"), str(tmp_path / "graph"))

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

import tfx_gnn
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.records import examples_folder
from tfx_gnn.transform.transform_layer import GraphTransformLayer, transform_graph_tensor

SCHEMA = """
context { features { key: "weight" value { dtype: DT_FLOAT } } }
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "letter" value { dtype: DT_STRING } }
    features { key: "pair" value { dtype: DT_DOUBLE shape { dim { size: 2 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_STRING } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
"""


def example(number, letters, label):
    """The first item has edges to all others."""
    return {
        "context/weight": [float(number)],
        "nodes/item.#size": [len(letters)],
        "nodes/item.#id": [f"{number}-{position}" for position in range(len(letters))],
        "nodes/item.letter": list(letters),
        "nodes/item.pair": [float(position) for position in range(2 * len(letters))],
        "nodes/item.words": list("xy" * (len(letters) // 2)),
        "nodes/item.words.d1": [len(letters) // 2 * 2] + [0] * (len(letters) - 1),
        "edges/link.#size": [len(letters) - 1],
        "edges/link.#source": [0] * (len(letters) - 1),
        "edges/link.#target": list(range(1, len(letters))),
        "nodes/_readout.#size": [1],
        "nodes/_readout.label": [label],
    }


SPLITS = {
    # By frequency: a, b, c, d, f.
    "train": [[example(0, "aaaaabbbb", "p"), example(1, "cccddf", "q")]],
    "val": [[example(2, "ace", "q"), example(3, "f", "p")]],
}


def preprocessing_fn(graph):
    """The vocabulary starts at 1, and 0 is what is not in it."""
    item, readout = graph.node_sets["item"], graph.node_sets["_readout"]
    tensor = graph.to_graph_tensor()
    return graph.replace_features(
        context={"weight": graph.context["weight"] - tft.mean(graph.context["weight"])},
        node_sets={
            "item": {
                "letter": 1 + tft.compute_and_apply_vocabulary(item["letter"], vocab_filename="letters"),
                "pair": tft.scale_to_0_1(item["pair"], elementwise=True),
                "words": tft.compute_and_apply_vocabulary(item["words"], vocab_filename="words"),
                "degree": tf.cast(tfx_gnn.node_degree(tensor, "link", tfx_gnn.SOURCE), tf.int64),
                "#id": item["#id"],
            },
            "_readout": {"label": tft.compute_and_apply_vocabulary(readout["label"], vocab_filename="labels")},
        },
    )


@pytest.fixture(scope="module")
def folder(write_examples, tmp_path_factory):
    """Folders `examples`, `transform_graph`, `transformed` and `schema`."""
    folder = tmp_path_factory.mktemp("layer")
    examples_dir = write_examples(str(folder / "examples"), SPLITS, SCHEMA)
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
def layer(folder):
    return GraphTransformLayer(str(folder / "transform_graph"))


def spec_of(folder):
    return tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.read_schema(str(folder / "graph_schema.pbtxt")))


def graphs_of(folder, split):
    """The graphs of a split in one, by the fused parser."""
    records = list(examples_folder.read_split(str(folder), split).as_numpy_iterator())
    return parse_and_merge(spec_of(folder), tf.constant(records))


def equal(graph, other):
    def flat(value):
        return value.to_list() if isinstance(value, tf.RaggedTensor) else np.asarray(value).tolist()

    for piece, other_piece in (
        (graph.context, other.context),
        *((graph.node_sets[name], other.node_sets[name]) for name in other.node_sets),
        *((graph.edge_sets[name], other.edge_sets[name]) for name in other.edge_sets),
    ):
        assert {name: flat(value) for name, value in piece.features.items()} == {
            name: flat(value) for name, value in other_piece.features.items()
        }
        assert flat(piece.sizes) == flat(other_piece.sizes)
    return True


@pytest.mark.parametrize("split", ["train", "val"])
def test_raw_graphs_become_what_training_reads(layer, folder, split):
    transformed = layer(graphs_of(folder / "examples", split))

    assert equal(transformed, graphs_of(folder / "transformed", split))
    assert transformed.node_sets["item"]["pair"].shape[1:] == [2]


def test_letters_have_their_rank_and_strangers_none(layer, folder):
    transformed = layer(graphs_of(folder / "examples", "val"))

    assert transformed.node_sets["item"]["letter"].numpy().tolist() == [1, 3, 0, 5]
    assert transformed.node_sets["item"]["degree"].numpy().tolist() == [2, 0, 0, 0]


def test_labels_may_be_absent(layer, folder):
    graph = graphs_of(folder / "examples", "val").replace_features(node_sets={"_readout": {}})

    assert layer(graph).node_sets["_readout"]["label"].numpy().tolist() == [-1, -1]


def test_a_spec_chooses_features_and_their_dtypes(folder):
    transform_graph_dir = str(folder / "transform_graph")
    spec = GraphTransformLayer(transform_graph_dir)._transformed_spec
    schema = tfx_gnn.read_schema(str(folder / "schema" / "graph_schema.pbtxt"))
    for name in ("words", "#id", "letter"):
        del schema.node_sets["item"].features[name]
    schema.node_sets["item"].features["degree"].dtype = tf.float64.as_datatype_enum
    chosen = tfx_gnn.create_graph_spec_from_schema_pb(schema)

    transformed = GraphTransformLayer(transform_graph_dir, spec=chosen)(graphs_of(folder / "examples", "val"))

    assert sorted(spec.node_sets_spec["item"].features_spec) == ["#id", "degree", "letter", "pair", "words"]
    assert sorted(transformed.node_sets["item"].features) == ["degree", "pair"]
    assert transformed.node_sets["item"]["degree"].dtype == tf.float64


def test_it_maps_over_a_dataset_and_is_made_again_from_its_config(layer, folder):
    raw_spec = spec_of(folder / "examples")
    again = GraphTransformLayer.from_config(layer.get_config())
    dataset = examples_folder.read_split(str(folder / "examples"), "train").batch(1)

    graphs = list(dataset.map(lambda records: again(parse_and_merge(raw_spec, records))))

    assert [graph.node_sets["item"]["letter"].numpy().tolist() for graph in graphs] == [
        [1] * 5 + [2] * 4,
        [3, 3, 3, 4, 4, 5],
    ]
    assert again.trainable_variables == []
    assert isinstance(again, tf_keras.layers.Layer)


def test_a_transform_is_saved_with_what_uses_it(folder, tmp_path):
    """No graph is in the signature of the function that was saved, but its operations are in the function."""
    module = tf.Module()
    module.layer = GraphTransformLayer(str(folder / "transform_graph"))
    raw_spec = spec_of(folder / "examples")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def letters(records):
        return module.layer(parse_and_merge(raw_spec, records)).node_sets["item"]["letter"]

    module.letters = letters
    tf.saved_model.save(module, str(tmp_path / "export"), signatures=letters)
    records = list(examples_folder.read_split(str(folder / "examples"), "val").as_numpy_iterator())

    serve = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"]

    assert serve(records=tf.constant(records))["output_0"].numpy().tolist() == [1, 3, 0, 5]
    assert (tmp_path / "export" / "assets" / "letters").read_text().split() == ["a", "b", "c", "d", "f"]


REPLICAS = """
import sys
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

import tfx_gnn
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.records import examples_folder
from tfx_gnn.transform.transform_layer import GraphTransformLayer

folder = sys.argv[1]
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
spec = tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.read_schema(f"{folder}/examples/graph_schema.pbtxt"))
with strategy.scope():
    layer = GraphTransformLayer(f"{folder}/transform_graph")


def batches(context):
    records = examples_folder.read_split(f"{folder}/examples", "val").batch(context.get_per_replica_batch_size(2))
    return records.map(lambda batch: layer(parse_and_merge(spec, batch)))


@tf.function
def letters(graph):
    return graph.node_sets["item"]["letter"]


for graph in strategy.distribute_datasets_from_function(batches):
    found = strategy.experimental_local_results(strategy.run(letters, args=(graph,)))
    print([value.numpy().tolist() for value in found])
assert not {"apache_beam", "tensorflow_transform"} & set(sys.modules)
"""


def test_it_is_made_under_a_strategy_and_used_by_its_replicas(folder):
    """Seed 004, lines 14 and 15: a is 1, c is 3, and e is in no vocabulary, so 0."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REPLICAS, str(folder)], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[0] == "[[1, 3, 0], [5]]"


def test_what_does_not_fit_is_refused(folder):
    schema = tfx_gnn.read_schema(str(folder / "schema" / "graph_schema.pbtxt"))
    schema.node_sets["_readout"].features["other"].dtype = tf.int64.as_datatype_enum
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    records = list(examples_folder.read_split(str(folder / "examples"), "val").as_numpy_iterator())
    batch = tfx_gnn.parse_example(spec_of(folder / "examples"), records)

    with pytest.raises(ValueError, match=r"`spec` must have features of the transformed graph; got \['nodes/_readout"):
        GraphTransformLayer(str(folder / "transform_graph"), spec=spec)
    with pytest.raises(ValueError, match=r"`raw` must be a scalar graph; got one of shape \(2,\)"):
        transform_graph_tensor(batch, None, spec)

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn.graph
from tfx_gnn.graph.tensor.adjacency import Adjacency, HyperAdjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.keras import keras_tensors


def make_graph(num_nodes=3):
    source = tf.range(num_nodes - 1)
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"y": tf.constant([float(num_nodes)])}),
        node_sets={
            "a": NodeSet.from_fields(
                sizes=[num_nodes],
                features={
                    "x": tf.range(num_nodes),
                    "r": tf.RaggedTensor.from_row_lengths(tf.range(2), [1] + [0] * (num_nodes - 2) + [1]),
                },
            )
        },
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=[num_nodes - 1],
                features={"w": tf.ones([num_nodes - 1])},
                adjacency=Adjacency.from_indices(("a", source), ("a", source + 1)),
            )
        },
    )


GRAPH = make_graph()
SPEC = GRAPH.spec.relax(num_nodes=True, num_edges=True)


@pytest.fixture
def symbolic():
    return tf_keras.layers.Input(type_spec=SPEC)


def answer(symbolic, output, graph=GRAPH):
    return tf_keras.Model(symbolic, output)(graph)


def test_what_the_spec_knows_is_known_at_once(symbolic):
    assert symbolic.spec == SPEC
    assert symbolic.shape == []
    assert symbolic.rank == 0
    assert (symbolic.indices_dtype, symbolic.row_splits_dtype) == (tf.int32, tf.int64)
    assert symbolic.node_sets["a"].spec == SPEC.node_sets_spec["a"]
    adjacency = symbolic.edge_sets["e"].adjacency
    assert (adjacency.source_name, adjacency.target_name, adjacency.node_set_name(1)) == ("a", "a", "a")


@pytest.mark.parametrize(
    ("get", "expected"),
    [
        (lambda graph: graph.context["y"], [3.0]),
        (lambda graph: graph.context.sizes, [1]),
        (lambda graph: graph.node_sets["a"]["x"], [0, 1, 2]),
        (lambda graph: graph.node_sets["a"].features["x"], [0, 1, 2]),
        (lambda graph: graph.node_sets["a"].get_features_dict()["x"], [0, 1, 2]),
        (lambda graph: graph.node_sets["a"].sizes, [3]),
        (lambda graph: graph.node_sets["a"].total_size, 3),
        (lambda graph: graph.node_sets["a"].num_components, 1),
        (lambda graph: graph.node_sets["a"].total_num_components, 1),
        (lambda graph: graph.edge_sets["e"]["w"], [1.0, 1.0]),
        (lambda graph: graph.edge_sets["e"].adjacency.source, [0, 1]),
        (lambda graph: graph.edge_sets["e"].adjacency[tfx_gnn.graph.TARGET], [1, 2]),
        (lambda graph: graph.edge_sets["e"].adjacency.get_indices_dict()[1][1], [1, 2]),
        (lambda graph: graph.num_components, 1),
        (lambda graph: graph.total_num_components, 1),
        (lambda graph: graph.with_indices_dtype(tf.int64).node_sets["a"].sizes, [3]),
        (lambda graph: graph.with_row_splits_dtype(tf.int32).node_sets["a"]["r"].row_splits, [0, 1, 1, 2]),
        (lambda graph: graph.merge_batch_to_components().node_sets["a"].sizes, [3]),
        (lambda graph: graph.node_sets["a"].replace_features({"z": graph.node_sets["a"]["x"] + 1})["z"], [1, 2, 3]),
    ],
)
def test_properties_and_methods_become_layers(symbolic, get, expected):
    assert answer(symbolic, get(symbolic)).numpy().tolist() == expected
    assert get(GRAPH).numpy().tolist() == expected


def test_ragged_features_are_ragged_keras_tensors(symbolic):
    ragged = symbolic.node_sets["a"]["r"]

    assert ragged.type_spec == SPEC.node_sets_spec["a"]["r"]
    assert answer(symbolic, ragged.row_lengths()).numpy().tolist() == [1, 0, 1]


def test_unknown_features_are_refused(symbolic):
    with pytest.raises(KeyError):
        symbolic.node_sets["a"]["z"]


def test_features_are_replaced_and_removed(symbolic):
    doubled = symbolic.replace_features(
        context={"y": 2.0 * symbolic.context["y"]}, node_sets={"a": {"z": symbolic.node_sets["a"]["x"]}}
    )

    graph = answer(symbolic, doubled.remove_features(edge_sets={"e": ["w"]}))

    assert isinstance(graph, GraphTensor)
    assert graph.context["y"].numpy().tolist() == [6.0]
    assert list(graph.node_sets["a"].features) == ["z"]
    assert list(graph.edge_sets["e"].features) == []


def test_pieces_are_made_of_keras_tensors(symbolic):
    nodes, edges = symbolic.node_sets["a"], symbolic.edge_sets["e"]

    reversed_edges = EdgeSet.from_fields(
        sizes=edges.sizes,
        features={"w": 3.0 * edges["w"]},
        adjacency=Adjacency.from_indices(("b", edges.adjacency.target), ("b", edges.adjacency.source)),
    )
    made = GraphTensor.from_pieces(
        context=Context.from_fields(features={"y": symbolic.context["y"]}),
        node_sets={"b": NodeSet.from_fields(sizes=nodes.sizes, features={"x": nodes["x"]})},
        edge_sets={"back": reversed_edges},
    )
    graph = answer(symbolic, made)

    assert isinstance(made, keras_tensors.GraphKerasTensor)
    assert graph.edge_sets["back"].adjacency.source.numpy().tolist() == [1, 2]
    assert graph.edge_sets["back"]["w"].numpy().tolist() == [3.0, 3.0]
    assert graph.node_sets["b"]["x"].numpy().tolist() == [0, 1, 2]


def test_hyper_edges_are_made_of_keras_tensors(symbolic):
    source = symbolic.edge_sets["e"].adjacency.source

    hyper = HyperAdjacency.from_indices({0: ("a", source), 5: ("a", source + 1)})

    assert isinstance(hyper, keras_tensors.HyperAdjacencyKerasTensor)
    assert answer(symbolic, hyper[5]).numpy().tolist() == [1, 2]


def test_mistakes_in_pieces_are_reported_as_such(symbolic):
    with pytest.raises(ValueError, match="incident to the non-existent node set a"):
        GraphTensor.from_pieces(edge_sets={"e": symbolic.edge_sets["e"]})
    with pytest.raises(ValueError, match="`sizes` dtype must be int32 or int64"):
        NodeSet.from_fields(sizes=symbolic.context["y"])


def test_batches_of_any_size_merge_in_a_model():
    dataset = tf.data.Dataset.from_tensors(make_graph(2)).concatenate(tf.data.Dataset.from_tensors(make_graph(2)))
    batches = dataset.batch(2)
    symbolic = tf_keras.layers.Input(type_spec=batches.element_spec)
    merged = symbolic.merge_batch_to_components()
    model = tf_keras.Model(symbolic, (merged, merged.node_sets["a"]["x"]))

    graph, features = next(iter(batches.map(model)))

    assert merged.spec.total_num_components is None
    assert graph.node_sets["a"].sizes.numpy().tolist() == [2, 2]
    assert features.numpy().tolist() == [0, 1, 0, 1]


def test_models_are_rebuilt_from_their_config(symbolic):
    nodes = NodeSet.from_fields(sizes=symbolic.node_sets["a"].sizes, features={"x": symbolic.node_sets["a"]["x"]})
    model = tf_keras.Model(symbolic, GraphTensor.from_pieces(node_sets={"b": nodes}).node_sets["b"]["x"])

    rebuilt = tf_keras.Model.from_config(model.get_config())

    assert rebuilt(GRAPH).numpy().tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue")
def test_models_are_saved_and_loaded(symbolic, tmp_path):
    hidden = tf_keras.layers.Dense(2, use_bias=False)(tf.cast(symbolic.node_sets["a"]["x"], tf.float32)[:, tf.newaxis])
    model = tf_keras.Model(symbolic, symbolic.replace_features(node_sets={"a": {"h": hidden}}))
    model.save(str(tmp_path / "model"), save_format="tf")

    loaded = tf_keras.models.load_model(str(tmp_path / "model"))

    np.testing.assert_array_equal(loaded(GRAPH).node_sets["a"]["h"], model(GRAPH).node_sets["a"]["h"])


def test_models_are_trained_on_datasets_of_graphs(symbolic):
    logits = tf_keras.layers.Dense(1)(symbolic.context["y"][:, tf.newaxis])
    model = tf_keras.Model(symbolic, logits)
    model.compile("sgd", "mse")
    dataset = tf.data.Dataset.from_tensors((GRAPH, tf.constant([[1.0]]))).repeat(3)

    history = model.fit(dataset, verbose=0)

    assert np.isfinite(history.history["loss"]).all()


def test_symbolic_tensors_are_told_from_others(symbolic):
    assert keras_tensors.is_symbolic(symbolic)
    assert keras_tensors.is_symbolic(symbolic.node_sets["a"]["x"])
    assert not keras_tensors.is_symbolic(GRAPH)
    assert not keras_tensors.is_symbolic(None)

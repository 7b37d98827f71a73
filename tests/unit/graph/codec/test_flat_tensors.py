"""Graphs as flat dicts of tensors, and what is distributed in this form."""

import pytest
import tensorflow as tf
import tf_keras
from hypothesis import given, settings

import tfx_gnn.graph
import tfx_gnn.keras
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet


def test_keys_are_those_of_examples(graph):
    flat = graph_to_flat_tensors(graph)

    assert sorted(flat) == [
        *("context/#size", "context/c"),
        *("edges/ab.#size", "edges/ab.#source", "edges/ab.#target", "edges/ab.w"),
        *("edges/ba.#size", "edges/ba.#source", "edges/ba.#target", "edges/ba.w"),
        *("edges/late.#size", "edges/late.#source", "edges/late.#target", "edges/late.w"),
        *("nodes/a.#size", "nodes/a.id", "nodes/a.r", "nodes/a.r.splits1", "nodes/a.x", "nodes/b.#size", "nodes/b.x"),
    ]
    assert flat["nodes/a.x"].numpy().tolist() == [1.0, 2.0, 3.0]
    assert flat["nodes/a.r"].numpy().tolist() == [1.0, 2.0, 3.0]
    assert flat["nodes/a.r.splits1"].numpy().tolist() == [0, 2, 3, 3]
    assert flat["edges/ba.#source"].numpy().tolist() == [1]
    assert flat["edges/ba.#target"].numpy().tolist() == [2]


def test_graphs_come_back_as_they_were(plain, graph_plans):
    @settings(max_examples=20)
    @given(graph_plans())
    def check(plan):
        graph = plan.build(tfx_gnn.graph)
        flat = graph_to_flat_tensors(graph)
        for spec in (graph.spec, graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)):
            again = graph_from_flat_tensors(spec, flat)
            assert again.spec == spec or spec is not graph.spec
            assert plain(again) == plain(graph)

    check()


def test_batches_come_back_as_they_were(plain, graph):
    dataset = tf.data.Dataset.from_tensors(graph).repeat(3)
    batched = dataset.batch(3, drop_remainder=True).batch(1)

    batch = batched.get_single_element()
    flat = batched.map(graph_to_flat_tensors)

    assert graph_flat_tensor_specs(batched.element_spec) == flat.element_spec
    again = flat.map(lambda tensors: graph_from_flat_tensors(batched.element_spec, tensors))
    assert again.element_spec == batched.element_spec
    assert plain(again.get_single_element()) == plain(batch)


def test_hyper_adjacencies_name_their_ends_by_tag():
    graph = GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=[2])},
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=[1], adjacency=HyperAdjacency.from_indices({0: ("a", [1]), 2: ("a", [0]), 1: ("a", [1])})
            )
        },
    )

    flat = graph_to_flat_tensors(graph)

    assert {key: value.numpy().tolist() for key, value in flat.items() if "#index" in key} == {
        "edges/e.#index.0": [1],
        "edges/e.#index.1": [1],
        "edges/e.#index.2": [0],
    }
    assert graph_from_flat_tensors(graph.spec, flat).edge_sets["e"].adjacency[2].numpy().tolist() == [0]


def test_static_sizes_of_the_spec_are_held_to(graph):
    flat = graph_to_flat_tensors(graph)

    @tf.function(
        input_signature=[{key: tf.TensorSpec([None] * value.shape.rank, value.dtype) for key, value in flat.items()}]
    )
    def build(tensors):
        rebuilt = graph_from_flat_tensors(graph.spec, tensors)
        assert rebuilt.spec == graph.spec
        return rebuilt.node_sets["a"]["x"]

    assert build(flat).numpy().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="compatible"):
        build({**flat, "nodes/a.x": tf.constant([1.0])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes/b.x": None}, r"got none for \['nodes/b.x'\] and others for \[\]"),
        ({"label": tf.constant(1)}, r"got none for \[\] and others for \['label'\]"),
        ({"nodes/b.x": tf.constant([1, 2])}, r"`tensors\['nodes/b.x'\]` must have dtype=float32, shape=\(2,\); got"),
        ({"nodes/b.x": tf.constant([1.0])}, r"must have dtype=float32, shape=\(2,\); got dtype=float32, shape=\(1,\)"),
    ],
)
def test_other_tensors_are_refused(graph, change, message):
    flat = {key: value for key, value in {**graph_to_flat_tensors(graph), **change}.items() if value is not None}

    with pytest.raises(ValueError, match=message):
        graph_from_flat_tensors(graph.spec, flat)


def test_fields_with_the_same_key_are_refused():
    features = {"x": tf.ragged.constant([[1]]), "x.splits1": tf.constant([1])}
    graph = GraphTensor.from_pieces(Context.from_fields(features=features))

    with pytest.raises(ValueError, match=r"got several for \['context/x.splits1'\]"):
        graph_to_flat_tensors(graph)
    with pytest.raises(TypeError, match="`spec` must be a GraphTensorSpec; got GraphTensor"):
        graph_flat_tensor_specs(graph)


def test_functional_models_take_flat_tensors(graph):
    spec = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    specs = graph_flat_tensor_specs(spec)
    inputs = {key: tf_keras.Input(type_spec=spec, name=f"input_{i}") for i, (key, spec) in enumerate(specs.items())}
    outputs = graph_from_flat_tensors(spec, inputs).node_sets["a"]["x"] * 2.0
    model = tf_keras.Model(inputs, outputs)

    assert model(graph_to_flat_tensors(graph)).numpy().tolist() == [2.0, 4.0, 6.0]
    symbolic = graph_to_flat_tensors(tf_keras.Input(type_spec=graph.spec))
    assert symbolic["nodes/a.x"].shape == [3]

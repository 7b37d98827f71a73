import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.ops.random_graphs import random_graph_tensor
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb

FEATURES = """
features { key: "f" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
features { key: "s" value { dtype: DT_STRING } }
features { key: "i" value { dtype: DT_UINT8 } }
features { key: "b" value { dtype: DT_BOOL } }
features { key: "d" value { dtype: DT_BFLOAT16 } }
features { key: "r" value {
  dtype: DT_INT64 shape { dim { size: -1 } dim { size: 3 } dim { size: -1 } dim { size: 2 } } } }
"""
SPEC = create_graph_spec_from_schema_pb(
    parse_schema(
        f'context {{ {FEATURES} }} node_sets {{ key: "a" value {{ {FEATURES} }} }} node_sets {{ key: "b" value {{ }} }}'
        f'edge_sets {{ key: "ab" value {{ source: "a" target: "b" {FEATURES} }} }}'
    )
)


@settings(max_examples=10)
@given(components=st.integers(0, 3), low=st.integers(0, 2), spread=st.integers(1, 3))
def test_graphs_have_the_type_and_sizes_asked_for(components, low, spread):
    graph = random_graph_tensor(
        SPEC, row_lengths_range=(low, low + spread), num_components_range=(components, components + 1)
    )

    relaxed = SPEC.relax(num_components=True, num_nodes=True, num_edges=True)
    assert relaxed.is_compatible_with(graph)
    assert graph.context.sizes.numpy().tolist() == [1] * components
    for piece in graph.node_sets.values():
        assert all(low <= size < low + spread for size in piece.sizes.numpy())
    lib.enable_graph_tensor_validation_at_runtime()
    try:
        lib.GraphTensor.from_pieces(context=graph.context, node_sets=graph.node_sets, edge_sets=graph.edge_sets)
    finally:
        lib.disable_graph_tensor_validation_at_runtime()


def test_edges_stay_within_their_component():
    graph = random_graph_tensor(SPEC, num_components_range=(3, 4))

    edges = graph.edge_sets["ab"]
    component = np.repeat(np.arange(3), edges.sizes.numpy())
    for index, name in ((edges.adjacency.source, "a"), (edges.adjacency.target, "b")):
        of_node = np.repeat(np.arange(3), graph.node_sets[name].sizes.numpy())
        assert (of_node[index.numpy()] == component).all()


def test_values_come_from_the_samples():
    graph = random_graph_tensor(
        SPEC,
        sample_dict={
            ("nodes", "a", "s"): ["p"],
            ("context", None, "i"): [5],
            ("context", "", "f"): [7.0],
            ("edges", "ab", "r"): [3],
        },
    )

    assert set(graph.node_sets["a"]["s"].numpy()) == {b"p"}
    assert graph.context["i"].numpy().tolist() == [5]
    assert graph.context["f"].numpy().tolist() == [[7.0, 7.0]]
    assert set(graph.edge_sets["ab"]["r"].flat_values.numpy().ravel()) <= {3}


def test_each_call_makes_another_graph_in_a_dataset_too():
    graphs = tf.data.Dataset.range(3).map(lambda _: random_graph_tensor(SPEC, row_lengths_range=(20, 40)))

    sums = {float(tf.reduce_sum(graph.node_sets["a"]["f"])) for graph in graphs}

    assert len(sums) == 3
    relaxed = SPEC.relax(num_components=True, num_nodes=True, num_edges=True)
    assert graphs.element_spec.is_compatible_with(relaxed)
    assert graphs.element_spec.node_sets_spec["a"]["f"] == tf.TensorSpec([None, 2])
    assert graphs.element_spec.edge_sets_spec["ab"]["r"].shape == [None, None, 3, None, 2]


def test_a_seed_makes_the_same_graph_again():
    def make():
        tf.random.set_seed(7)
        return tf.nest.flatten(random_graph_tensor(SPEC), expand_composites=True)

    for first, second in zip(make(), make(), strict=True):
        assert first.numpy().tolist() == second.numpy().tolist()


def test_there_are_no_random_values_of_some_dtypes():
    spec = lib.GraphTensorSpec.from_piece_specs(
        node_sets_spec={
            "a": lib.NodeSetSpec.from_field_specs(
                features_spec={"c": tf.TensorSpec([None], tf.complex64)}, sizes_spec=tf.TensorSpec([1], tf.int32)
            )
        }
    )

    with pytest.raises(TypeError, match="Unsupported type for random values"):
        random_graph_tensor(spec)
    assert random_graph_tensor(spec, sample_dict={("nodes", "a", "c"): [1j]}).node_sets["a"]["c"].numpy()[0] == 1j


def test_hyperedges_are_made():
    spec = lib.GraphTensorSpec.from_piece_specs(
        node_sets_spec={"a": lib.NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.int64))},
        edge_sets_spec={
            "e": lib.EdgeSetSpec.from_field_specs(
                sizes_spec=tf.TensorSpec([1], tf.int64),
                adjacency_spec=lib.HyperAdjacencySpec.from_incident_node_sets(
                    dict.fromkeys(range(3), "a"), tf.TensorSpec([None], tf.int64)
                ),
            )
        },
    )

    graph = random_graph_tensor(spec)

    assert graph.indices_dtype == tf.int64
    assert len(graph.edge_sets["e"].adjacency.get_indices_dict()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"row_lengths_range": (3, 3)},
            r"Expected 0 <= row_lengths_range\[0\] < row_lengths_range\[1\]; got \(3, 3\)",
        ),
        ({"num_components_range": (-1, 1)}, r"Expected 0 <= num_components_range\[0\]"),
        (
            {"sample_dict": {("nodes", "q", "s"): ["p"]}},
            r"`sample_dict` must name features of `spec`; got \[\('nodes', 'q'",
        ),
        ({"sample_dict": {("nodes", "a", "s"): []}}, "`sample_dict` must hold values to choose from"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_graph_tensor(SPEC, **arguments)


def test_only_scalar_specs_are_filled():
    with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
        random_graph_tensor(SPEC._batch(2))

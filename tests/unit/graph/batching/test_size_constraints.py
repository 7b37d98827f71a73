import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.size_constraints import (
    SizeConstraints,
    SizeRule,
    as_size,
    stack_sizes,
    target_size,
    with_room_for_padding,
)

SPEC = lib.GraphTensorSpec.from_piece_specs(
    node_sets_spec={
        name: lib.NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.int32)) for name in ("a", "b", "free")
    },
    edge_sets_spec={
        "ab": lib.EdgeSetSpec.from_field_specs(
            sizes_spec=tf.TensorSpec([1], tf.int32),
            adjacency_spec=lib.AdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([None], tf.int32)),
        )
    },
)
TARGETS = SizeConstraints(4, {"a": 6, "b": 5, "free": 3}, {"ab": 7}, {"b": 1})


def test_demand_is_optional_in_the_named_tuple():
    assert SizeConstraints(1, {}, {}).min_nodes_per_component == ()


def test_room_is_a_component_its_demand_and_a_node_at_padded_ends():
    enlarged = with_room_for_padding(
        SizeConstraints(2, {"a": 4, "b": 4, "c": 4}, {"bc": 9}, (("a", 3),)), padded_incident_node_sets=["b"]
    )

    assert enlarged == SizeConstraints(3, {"a": 7, "b": 5, "c": 4}, {"bc": 9}, (("a", 3),))


def fits_by_hand(components, a, b, free, ab):
    fake = 4 - components
    return (
        fake >= 0
        and a <= 6
        and b + fake <= 5
        and free <= 3
        and ab <= 7
        and (fake > 0 or (a, b, free, ab) == (6, 5, 3, 7))
        and (ab == 7 or (a < 6 and b < 5))
    )


@settings(max_examples=40)
@given(st.lists(st.tuples(*[st.integers(0, 8)] * 5), min_size=1, max_size=6))
def test_many_graphs_are_judged_at_once_in_numpy_and_tensorflow(rows):
    rule = SizeRule.from_constraints(SPEC, TARGETS)
    table = np.array(rows, dtype=np.int64)
    expected = [fits_by_hand(*row) for row in rows]

    by_numpy = rule.fits(table[:, 0], table[:, 1:])
    by_tensorflow = rule.fits(tf.constant(table[:, 0]), tf.constant(table[:, 1:]))

    assert isinstance(by_numpy, np.ndarray)
    assert by_numpy.tolist() == expected
    assert by_tensorflow.numpy().tolist() == expected
    assert bool(rule.fits(table[0, 0], table[0, 1:])) == expected[0]
    assert rule.fits_each(table[:, 0], list(table[:, 1:].T)).tolist() == expected


def test_targets_may_be_unknown_while_traced():
    @tf.function
    def fits(size):
        rule = SizeRule.from_constraints(SPEC, TARGETS._replace(total_num_edges={"ab": size}))
        return rule.fits(np.int64(1), np.array([1, 1, 1, 5]))

    assert bool(fits(tf.constant(5)))
    assert not bool(fits(tf.constant(4)))


def test_a_graph_without_sets_only_needs_components():
    rule = SizeRule.from_constraints(lib.GraphTensorSpec.from_piece_specs(), SizeConstraints(2, {}, {}))

    assert rule.fits(np.array([1, 2, 3]), np.zeros([3, 0], np.int64)).tolist() == [True, True, False]
    assert rule.fits_each(np.array([1, 2, 3]), []).tolist() == [True, True, False]


def test_sizes_stay_integers_where_they_are_known():
    assert as_size(tf.constant(3, tf.int32)) == 3
    assert isinstance(stack_sizes([1, 2]), np.ndarray)
    assert tf.is_tensor(stack_sizes([1, tf.constant(2)]))


def test_a_missing_set_is_named():
    with pytest.raises(ValueError, match=r"total number of <q> nodes must be specified .* got nodes of \['a'\] only"):
        target_size({"a": 1}, "q", "nodes")

"""What a request may ask of a served model, whatever its bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.training.export.request_checks import MAX_NODES_WITHOUT_FEATURES, RequestForm


def _graph(sizes, features=None):
    """Graphs of persons, as one graph of several components; features need not fit the sizes here."""
    persons = tfx_gnn.NodeSet.from_fields(features=features or {}, sizes=tf.constant(sizes))
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"person": persons})


def _check(graph):
    form = RequestForm(spec=graph.spec, label_keys=(), roots=())
    with tf.control_dependencies(form.checks(graph)):
        return graph.node_sets["person"].sizes


def test_a_number_of_nodes_that_nothing_confirms_is_bounded():
    half = MAX_NODES_WITHOUT_FEATURES // 2

    assert tf.function(_check)(_graph([half, half])).numpy().tolist() == [half, half]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most 1048576 nodes in node set `person`"):
        tf.function(_check)(_graph([half, half + 1]))


def test_sizes_of_int32_do_not_wrap():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most 1048576 nodes in node set `person`"):
        tf.function(_check)(_graph([2**31 - 1, 2**31 - 1, 2]))


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        (np.zeros([3, 0]), pytest.raises(tf.errors.InvalidArgumentError, match="which has no features")),
        (np.zeros([3]), contextlib.nullcontext()),
    ],
    ids=["width 0", "numbers"],
)
def test_a_feature_confirms_the_number_unless_its_width_is_zero(values, outcome):
    with outcome:
        _check(_graph([MAX_NODES_WITHOUT_FEATURES + 1], {"feature": values}))


@pytest.mark.parametrize("roots", [(), ("seed",)], ids=["graphs", "seeds"])
def test_readout_nodes_that_nothing_else_confirms_are_bounded(roots):
    sizes = tf.constant([MAX_NODES_WITHOUT_FEATURES + 1])
    seeds = tfx_gnn.EdgeSet.from_fields(
        sizes=sizes, adjacency=tfx_gnn.Adjacency.from_indices(("_readout", [0]), ("_readout", [0]))
    )
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={"_readout": tfx_gnn.NodeSet.from_fields(sizes=sizes)}, edge_sets={"_readout/seed": seeds}
    )

    with pytest.raises(tf.errors.InvalidArgumentError, match="exactly one node" if roots else "at most 1048576 nodes"):
        RequestForm(spec=graph.spec, label_keys=(), roots=roots).checks(graph)

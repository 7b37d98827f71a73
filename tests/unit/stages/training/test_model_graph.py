from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.adjacency import Adjacency
from tfx_gnn.graph.context import Context
from tfx_gnn.graph.edge_set import EdgeSet
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.node_set import NodeSet
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.stages.training.model_graph import (
    check_model_features,
    split_off_label,
    with_declared_shapes,
    without_reserved_features,
)

TASK = NodeClassification(label_feature="color", class_vocabulary="color")


def _graph(*, label=(0, 1), kind=(3, 4, 5), color="color"):
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"year": [[1], [2]]}),
        node_sets={
            "item": NodeSet.from_fields(sizes=[2, 1], features={"#id": ["a", "b", "c"], "kind": list(kind)}),
            "_readout": NodeSet.from_fields(
                sizes=[1, 1], features={color: tf.constant(label), "#id": ["r", "s"], "weight": [0.5, 1.5]}
            ),
        },
        edge_sets={
            "link": EdgeSet.from_fields(
                sizes=[1, 0],
                features={"#id": tf.constant([7], tf.int64), "length": [1.0]},
                adjacency=Adjacency.from_indices(("item", tf.constant([0])), ("item", tf.constant([1]))),
            )
        },
    )


def test_label_is_split_off_and_original_ids_are_gone():
    graph, label = split_off_label(_graph(label=tf.constant([4, 2], tf.int64)), TASK)

    assert label.numpy().tolist() == [4, 2]
    assert sorted(graph.node_sets["_readout"].features) == ["weight"]
    assert sorted(graph.node_sets["item"].features) == ["kind"]
    assert sorted(graph.edge_sets["link"].features) == ["length"]
    assert graph.context["year"].numpy().tolist() == [[1], [2]]


def test_sizes_and_edges_stay():
    graph = without_reserved_features(_graph())

    assert graph.node_sets["item"].sizes.numpy().tolist() == [2, 1]
    assert graph.edge_sets["link"].adjacency.target.numpy().tolist() == [1]


def test_features_of_a_good_graph_pass():
    check_model_features(_graph(label=tf.constant([4, 2], tf.int64)).spec, TASK)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (_graph(color="colour"), r"must name a label of node set '_readout'; got 'color', where there are \['#id', "),
        (_graph(label=tf.constant([1, 2], tf.int32)), "a class index, int64 with one value a readout; got int32"),
        (_graph(label=tf.constant([[1], [2]], tf.int64)), r"one value a readout; got int64 of shape \(2, 1\)"),
        (
            _graph(label=tf.constant([1, 2], tf.int64), kind=("x", "y", "z")),
            r"must turn every feature into numbers; got strings in \['nodes/item.kind'\]",
        ),
        (
            GraphTensor.from_pieces(node_sets={"item": NodeSet.from_fields(sizes=[1], features={})}),
            "got 'color', where there are no such node set",
        ),
    ],
)
def test_graph_that_cannot_be_trained_on_is_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        check_model_features(graph.spec, TASK)


def test_declared_shape_and_dtype_are_given_back():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.int64)])
    def shaped(value):
        result = with_declared_shapes(value, tf.TensorSpec([None, 3], tf.float32))
        assert result.shape.as_list()[1:] == [3]
        return result

    np.testing.assert_array_equal(shaped([[1, 2, 3], [4, 5, 6]]), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        shaped([[1, 2]])


def test_ragged_features_keep_their_rows():
    value = with_declared_shapes(
        tf.ragged.constant([[1], [2, 3]], row_splits_dtype=tf.int64),
        tf.RaggedTensorSpec([None, None], tf.float32, ragged_rank=1, row_splits_dtype=tf.int32),
    )

    assert value.to_list() == [[1.0], [2.0, 3.0]]
    assert value.row_splits.dtype == tf.int32

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.transform.transform_layer import (
    check_numeric_features,
    with_declared_shapes,
    without_reserved_features,
)


def _graph(*, kind=(3, 4, 5)):
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"year": [[1], [2]]}),
        node_sets={
            "item": NodeSet.from_fields(sizes=[2, 1], features={"#id": ["a", "b", "c"], "kind": list(kind)}),
            "_readout": NodeSet.from_fields(
                sizes=[1, 1], features={"color": [0, 1], "#id": ["r", "s"], "weight": [0.5, 1.5]}
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


def test_original_ids_are_gone():
    graph = without_reserved_features(_graph())

    assert sorted(graph.node_sets["_readout"].features) == ["color", "weight"]
    assert sorted(graph.node_sets["item"].features) == ["kind"]
    assert sorted(graph.edge_sets["link"].features) == ["length"]
    assert graph.context["year"].numpy().tolist() == [[1], [2]]


def test_sizes_and_edges_stay():
    graph = without_reserved_features(_graph())

    assert graph.node_sets["item"].sizes.numpy().tolist() == [2, 1]
    assert graph.edge_sets["link"].adjacency.target.numpy().tolist() == [1]


def test_features_that_are_numbers_pass_and_strings_are_refused():
    check_numeric_features(_graph().spec)

    with pytest.raises(ValueError, match=r"must turn every feature into numbers; got strings in \['nodes/item.kind'\]"):
        check_numeric_features(_graph(kind=("x", "y", "z")).spec)


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

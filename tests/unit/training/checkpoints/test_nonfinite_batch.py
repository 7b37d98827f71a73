from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.training.checkpoints.nonfinite_batch import (
    NonfiniteCause,
    example_ids,
    read_nonfinite_batch,
    write_nonfinite_batch,
)
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.loop.training_loop import TrainingPosition

POSITION = TrainingPosition(epoch=1, step_in_epoch=3, global_step=8)


def _graph(ids=("a", "b", "c", "", ""), context=None):
    """Two subgraphs, of items a and b, and c, with the seeds b and c; then a component of padding."""
    items = {"#id": tf.constant(ids), "x": tf.constant([1.0, float("nan"), 3.0, 0.0, 0.0])}
    return GraphTensor.from_pieces(
        context=Context.from_fields(sizes=[1, 1, 1], features=context or {}),
        node_sets={
            "item": NodeSet.from_fields(sizes=[2, 1, 2], features=items),
            "_readout": NodeSet.from_fields(sizes=[1, 1, 1]),
        },
        edge_sets={
            "_readout/seed": EdgeSet.from_fields(
                sizes=[1, 1, 1], adjacency=Adjacency.from_indices(("item", [1, 2, 3]), ("_readout", [0, 1, 2]))
            ),
            "link": EdgeSet.from_fields(
                sizes=[1, 0, 0], adjacency=Adjacency.from_indices(("item", [0]), ("item", [1]))
            ),
        },
    )


def _batch(**fields):
    zero = tf.zeros([], tf.int64)
    return PaddedBatch(_graph(**fields), tf.constant([True, True, False]), zero, zero)


def test_ids_are_those_of_what_the_examples_are_about():
    assert example_ids(_batch()) == {"_readout/seed": ["b", "c"]}


def test_ids_of_graphs_and_numbers_are_told_too():
    batch = _batch(ids=(7, 8, 9, 0, 0), context={"#id": tf.constant([b"g\xff", b"h", b""])})

    assert example_ids(batch) == {"context": ["g\ufffd", "h"], "_readout/seed": [8, 9]}


def test_batch_comes_back_as_it_was_trained_on(tmp_path):
    cause = NonfiniteCause(
        position=POSITION, found_again=True, tensor="feature nodes/item.x", example_ids=({"context": ["g"]}, {})
    )
    replicas = [(_graph(), tf.constant([[1], [2]]), {"a": tf.constant([1.0, factor])}) for factor in (0.5, 0.0)]

    folder = write_nonfinite_batch(str(tmp_path), cause, [replicas[1]])
    assert write_nonfinite_batch(str(tmp_path), cause, replicas) == folder

    read = read_nonfinite_batch(folder)
    assert read.cause == cause
    assert [weights["a"].numpy().tolist() for _, _, weights in read.replicas] == [[1.0, 0.5], [1.0, 0.0]]
    graph, labels, _ = read.replicas[0]
    assert labels.numpy().tolist() == [[1], [2]]
    assert graph.spec == _graph().spec
    np.testing.assert_array_equal(graph.node_sets["item"]["x"], [1.0, np.nan, 3.0, 0.0, 0.0])
    assert graph.edge_sets["_readout/seed"].adjacency.source.numpy().tolist() == [1, 2, 3]


def test_folder_without_a_batch_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`folder` must hold a batch that a training ended at; got no 'cause.json'"):
        read_nonfinite_batch(str(tmp_path))

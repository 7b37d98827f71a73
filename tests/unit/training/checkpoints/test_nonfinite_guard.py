from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.training.checkpoints.checkpoints import TrainingCheckpoints
from tfx_gnn.training.checkpoints.nonfinite_guard import (
    NonfiniteCause,
    NonfiniteError,
    NonfiniteGuard,
    NonfiniteSearch,
    example_ids,
    first_nonfinite_tensor,
    first_nonfinite_weight,
    read_nonfinite_batch,
    write_nonfinite_batch,
)
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.loop.training_loop import TrainingPosition

NAN, INF = float("nan"), float("inf")


class _Model(tf_keras.Model):
    """One weight per item, times x, through a function."""

    def __init__(self, function=tf.identity):
        super().__init__()
        self.weight = self.add_weight(name="scale", shape=[], initializer="ones")
        self.function = function
        self.compile("sgd", "mse")

    def call(self, graph):
        return self.function(self.weight * graph.node_sets["item"]["x"])[:, None]


def _first(model, *, x=(1.0, 4.0), words=(0.5,), labels=(0.0, 0.0), weights=(1.0, 1.0)):
    words = tf.RaggedTensor.from_row_lengths(words, [len(words), 0])
    items = NodeSet.from_fields(sizes=[2], features={"x": tf.constant(x), "count": tf.constant([1, 2]), "words": words})
    graph = GraphTensor.from_pieces(node_sets={"item": items})
    replica = (graph, tf.constant(labels)[:, None], tf.constant(weights))
    return first_nonfinite_tensor(model, tf.distribute.get_strategy(), replica)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, ""),
        ({"x": (1.0, NAN)}, "feature nodes/item.x"),
        ({"x": (1.0, -INF), "labels": (NAN, 0.0)}, "feature nodes/item.x"),
        ({"words": (NAN,)}, "feature nodes/item.words"),
        ({"labels": (0.0, INF)}, "labels"),
        ({"weights": (0.0, NAN)}, "sample weights"),
        ({"x": (1.0, 3e38), "labels": (0.0, -3e38)}, "loss"),
    ],
    ids=["all finite", "feature", "the first of two", "ragged feature", "label", "sample weight", "loss"],
)
def test_first_tensor_is_named(data, expected):
    assert _first(_Model(), **data) == expected


def test_weights_outputs_and_gradients_are_told_apart():
    spoilt = _Model()
    spoilt.weight.assign(INF)

    assert _first(spoilt).startswith("weight scale")
    assert _first(_Model(lambda x: tf.math.log(x - 2.0))) == "output"
    # The square root of 0 is finite, its slope is not.
    assert _first(_Model(lambda x: tf.sqrt(x - 1.0)), labels=(1.0, 1.0)).startswith("gradient of scale")


def test_weight_that_is_not_finite_is_found():
    model = _Model()

    assert first_nonfinite_weight(model) is None
    model.weight.assign(NAN)
    assert str(first_nonfinite_weight(model)).startswith("scale")


def test_weight_that_is_not_finite_before_the_first_checkpoint_is_named(tmp_path):
    model, strategy = _Model(), tf.distribute.get_strategy()
    model.weight.assign(NAN)
    checkpoints = TrainingCheckpoints(
        folder=str(tmp_path / "checkpoints"),
        model=model,
        strategy=strategy,
        fingerprint={},
        states={},
        every_steps=0,
        writes=True,
        say=print,
        # The guard is made later, as it takes the search.
        check=lambda position: guard.check_weights(position),  # noqa: PLW0108
    )
    # There is no step to repeat, so nothing reads the data.
    search = NonfiniteSearch(
        model=model,
        strategy=strategy,
        data=None,
        checkpoints=checkpoints,
        single_steps=None,
        evaluation_batches=None,
        run_dir=str(tmp_path / "run"),
    )
    guard = NonfiniteGuard(model, search.explain, search.explain_evaluation)

    with pytest.raises(NonfiniteError) as caught:
        checkpoints.resume()

    assert caught.value.cause == NonfiniteCause(
        position=TrainingPosition(), found_again=False, tensor=f"weight {model.weight.name}", example_ids=()
    )
    assert not list(tmp_path.iterdir())


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
    with pytest.raises(ValueError, match=r"`folder` must hold a batch that ended a training; got no 'cause.json'"):
        read_nonfinite_batch(str(tmp_path))

"""The quickstart's network, on a hand-made neighbourhood."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.models.losses import SmoothedCrossEntropy
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn_pipelines.tasks.debian_sections.model import model_fn

VOCABULARY_SIZES = {
    "section": 4,
    "package_id": 10,
    "multi_arch": 3,
    "priority": 3,
    "known_section": 4,
    "source_id": 5,
    "format": 2,
    "standards_version": 2,
    "maintainer_id": 5,
    "tag_id": 6,
    "facet": 2,
}


class _Vocabularies:
    """What the model asks a `tft.TFTransformOutput`."""

    def vocabulary_size_by_name(self, name):
        return VOCABULARY_SIZES[name]


def _ints(*values):
    return tf.constant(values, tf.int64)


def _edges(sizes, source, target, numbers=None):
    features = {} if numbers is None else {"numbers": tf.constant(numbers, tf.float32)}
    ends = [(node_set, tf.constant(index, tf.int32)) for node_set, index in (source, target)]
    return EdgeSet.from_fields(sizes=sizes, features=features, adjacency=Adjacency.from_indices(*ends))


def _graph(package_ids=(1, 2, 3, 1, 4), tag_ids=(0, 5), known_sections=(0, 0, 1, 3, 4)):
    """Two neighbourhoods, of packages 0-2 and 3-4; the seeds are packages 0 and 3.

    0 depends on 1 and 2, which has both tags; 3 depends on 4. Each seed has its source and maintainer.
    """
    return GraphTensor.from_pieces(
        node_sets={
            "package": NodeSet.from_fields(
                sizes=[3, 2],
                features={
                    "package_id": _ints(*package_ids),
                    "multi_arch": _ints(0, 1, 2, 3, 0),
                    "priority": _ints(0, 0, 1, 0, 3),
                    "known_section": _ints(*known_sections),
                    "numbers": tf.reshape(tf.range(10.0) / 10, [5, 2]),
                },
            ),
            "source": NodeSet.from_fields(
                sizes=[1, 1],
                features={
                    "source_id": _ints(0, 5),
                    "format": _ints(1, 2),
                    "standards_version": _ints(0, 1),
                    "numbers": tf.ones([2, 1]),
                },
            ),
            "maintainer": NodeSet.from_fields(
                sizes=[1, 1], features={"maintainer_id": _ints(4, 5), "numbers": tf.ones([2, 1])}
            ),
            "tag": NodeSet.from_fields(sizes=[2, 0], features={"tag_id": _ints(*tag_ids), "facet": _ints(0, 1)}),
            "_readout": NodeSet.from_fields(sizes=[1, 1], features={}),
        },
        edge_sets={
            "depends": _edges([2, 1], ("package", [0, 0, 3]), ("package", [1, 2, 4]), [[0.0], [1.0], [0.0]]),
            "built_from": _edges([1, 1], ("package", [0, 3]), ("source", [0, 1])),
            "maintained_by": _edges([1, 1], ("package", [0, 3]), ("maintainer", [0, 1])),
            "tagged": _edges([2, 0], ("package", [2, 2]), ("tag", [0, 1])),
            "_readout/seed": _edges([1, 1], ("package", [0, 3]), ("_readout", [0, 1])),
        },
    )


@pytest.fixture(scope="module")
def model():
    tf_keras.utils.set_random_seed(1)
    spec = _graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)
    with libraries_traced_as_written():
        yield model_fn(spec, _Vocabularies(), hyperparameters={"units": 32}, num_steps=100)


def test_each_seed_gets_one_logit_a_class(model):
    logits = model(_graph())

    assert logits.shape == (2, 4)
    assert logits.dtype == tf.float32


def test_loss_asks_for_no_certainty(model):
    assert isinstance(model.loss, SmoothedCrossEntropy)


def test_own_identity_of_the_seed_is_not_seen(model):
    same = model(_graph(package_ids=(7, 2, 3, 9, 4)))

    np.testing.assert_array_equal(same, model(_graph()))


def test_identity_of_a_neighbour_is_seen_by_its_own_seed_alone(model):
    other = model(_graph(package_ids=(1, 2, 3, 1, 8))).numpy()

    expected = model(_graph()).numpy()
    np.testing.assert_array_equal(other[0], expected[0])
    assert not np.allclose(other[1], expected[1])


def test_sections_are_seen_of_neighbours_and_not_of_the_seed(model):
    own = model(_graph(known_sections=(2, 0, 1, 2, 4))).numpy()
    of_a_neighbour = model(_graph(known_sections=(0, 0, 1, 3, 2))).numpy()

    expected = model(_graph()).numpy()
    np.testing.assert_array_equal(own, expected)
    np.testing.assert_array_equal(of_a_neighbour[0], expected[0])
    assert not np.allclose(of_a_neighbour[1], expected[1])


def test_unknown_hyperparameters_are_refused():
    with pytest.raises(ValueError, match=r"must be among .*'units'.*; got \['unit'\]"):
        model_fn(_graph().spec, _Vocabularies(), hyperparameters={"unit": 8}, num_steps=100)


def test_tags_of_a_neighbour_are_seen_over_two_rounds(model):
    other = model(_graph(tag_ids=(3, 3))).numpy()

    expected = model(_graph()).numpy()
    assert not np.allclose(other[0], expected[0])
    np.testing.assert_array_equal(other[1], expected[1])


def test_identities_that_no_vocabulary_has_are_known_rows(model):
    unknown = _graph(package_ids=(10, 10, 10, 10, 10), tag_ids=(6, 6))

    assert np.isfinite(model(unknown).numpy()).all()


def test_empty_graph_gives_no_logits(model):
    empty = tf.nest.map_structure(lambda value: value[:0], _graph(), expand_composites=True)

    assert model(empty).shape == (0, 4)


def test_training_step_uses_no_operation_of_unknown_output_size(model):
    data = (_graph(), _ints(0, 3), tf.constant([1.0, 0.0]))

    graph = tf.function(lambda: model.train_step(data), autograph=False).get_concrete_function().graph.as_graph_def()

    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    names = {node.op for body in bodies for node in body}
    assert "UnsortedSegmentSum" in names
    assert not names & {"Unique", "UniqueV2", "UniqueWithCounts", "Where", "DynamicPartition", "SegmentMean"}


def test_labels_are_learned_from_different_neighbourhoods(model):
    weights = model.get_weights()
    dataset = tf.data.Dataset.from_tensors((_graph(), _ints(0, 3), tf.constant([1.0, 1.0]))).repeat(30)

    model.fit(dataset, verbose=0)
    predicted = tf.argmax(model(_graph()), axis=1).numpy().tolist()
    model.set_weights(weights)

    assert predicted == [0, 3]

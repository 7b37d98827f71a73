"""Elements as flat dicts of tensors."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.distribution.flat_elements import flatten_elements


def element_of(number):
    nodes = tfx_gnn.NodeSet.from_fields(
        sizes=tf.constant([2]),
        features={"x": tf.fill([2, 3], tf.cast(number, tf.float32)), "words": tf.ragged.constant([["a", "b"], []])},
    )
    edges = tfx_gnn.EdgeSet.from_fields(
        sizes=tf.constant([1]),
        adjacency=tfx_gnn.Adjacency.from_indices(("a", tf.constant([0])), ("a", tf.constant([1]))),
    )
    graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes}, edge_sets={"e": edges})
    return graph, {"labels": number, "rows": tf.ragged.constant([[[1], []], []])}, tf.constant([0.5, 1.0])


@pytest.mark.parametrize("wrap", [lambda dataset: dataset, lambda dataset: dataset.batch(2)], ids=["scalar", "batched"])
def test_any_element_comes_back_as_it_was(wrap):
    dataset = wrap(tf.data.Dataset.range(2).map(element_of))

    flat, restore = flatten_elements(dataset)

    for there, back in zip(dataset, flat.map(restore), strict=True):
        tf.nest.assert_same_structure(there, back, expand_composites=True)
        for one, other in zip(*(tf.nest.flatten(part, expand_composites=True) for part in (there, back)), strict=True):
            tf.debugging.assert_equal(one, other)
    assert flat.map(restore).element_spec == dataset.element_spec
    assert all(isinstance(spec, tf.TensorSpec) for spec in flat.element_spec.values())


def test_keys_tell_the_place_and_static_shapes_stay():
    flat, _ = flatten_elements(tf.data.Dataset.range(2).map(element_of))

    assert sorted(flat.element_spec) == [
        "0/context/#size",
        "0/edges/e.#size",
        "0/edges/e.#source",
        "0/edges/e.#target",
        "0/nodes/a.#size",
        "0/nodes/a.words",
        "0/nodes/a.words.splits1",
        "0/nodes/a.x",
        "1",
        "2",
        "2.splits1",
        "2.splits2",
        "3",
    ]
    assert flat.element_spec["0/nodes/a.x"].shape == [2, 3]


def test_a_single_graph_or_tensor_is_an_element_too():
    flat, restore = flatten_elements(tf.data.Dataset.range(2))

    assert [int(restore(element)) for element in flat] == [0, 1]


def test_other_composite_tensors_are_refused():
    with pytest.raises(TypeError, match="got SparseTensorSpec"):
        flatten_elements(tf.data.Dataset.from_tensors(tf.sparse.from_dense([1, 0])))

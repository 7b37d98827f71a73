"""Padded batches in the three ways a budget can be spent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.padded_batches import ended_batches, padded_batches

SPEC = create_graph_spec_from_schema_pb(
    parse_schema(
        """
        context { features { key: "number" value { dtype: DT_INT64 } } }
        node_sets { key: "item" value {
            features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
            features { key: "name" value { dtype: DT_STRING } }
            features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
        edge_sets { key: "link" value { source: "item" target: "item" } }
        """
    )
)
#: The number of items of each graph; links are one fewer.
SIZES = [1, 5, 2, 2, 1, 1, 5, 5, 3, 1, 4, 4, 2]


def make_budget(kind, *, items=7, links=8, batch_size=2, components=None):
    return Budget(
        kind=kind,
        batch_size=batch_size,
        total_num_components=components or batch_size + 1,
        total_num_nodes={"item": items},
        total_num_edges={"link": links},
        window=4 if kind == "packing" else 0,
        graphs_per_batch=float(batch_size),
        fill=0.5,
        fill_by_set={"nodes/item": 0.5, "edges/link": 0.5},
        bytes_per_batch=0,
    )


#: Sizes and numbers alone, for tests that look at nothing else: most of the time goes into tracing features.
NUMBERS = create_graph_spec_from_schema_pb(
    parse_schema(
        """
        context { features { key: "number" value { dtype: DT_INT64 } } }
        node_sets { key: "item" value {} }
        edge_sets { key: "link" value { source: "item" target: "item" } }
        """
    )
)


@pytest.fixture(scope="module")
def records(make_record):
    made = [
        make_record(
            {
                "context/number": [number],
                "nodes/item.#size": [size],
                "nodes/item.x": [float(number)] * (2 * size),
                "nodes/item.name": [b"%d" % number] * size,
                "nodes/item.words": [b"w"] * (size // 2),
                "nodes/item.words.d1": [1] * (size // 2) + [0] * (size - size // 2),
                "edges/link.#size": [size - 1],
                "edges/link.#source": list(range(1, size)),
                "edges/link.#target": [0] * (size - 1),
            }
        )
        for number, size in enumerate(SIZES)
    ]
    return tf.data.Dataset.from_tensor_slices(made)


def numbers(batch):
    return batch.graph.context["number"].numpy()[batch.is_real.numpy()].tolist()


def removed(batch):
    return int(batch.num_removed_batches), int(batch.num_removed_graphs)


def test_batches_that_do_not_fit_are_removed_and_counted_by_those_that_are_kept(records):
    # Sums of two: 6, 4, 2, 10, 4, 8, and the last graph alone. At most 6 and one for padding fit.
    batches = list(padded_batches(records, NUMBERS, make_budget("fit_or_skip"), "fit_or_skip"))

    assert [numbers(batch) for batch in batches] == [[0, 1], [2, 3], [4, 5], [8, 9], [12]]
    assert [removed(batch) for batch in batches] == [(0, 0), (0, 0), (1, 2), (1, 2), (0, 0)]


def test_what_is_removed_at_either_end_is_counted_too(records):
    # The sums 10, 4, 8: the second is kept.
    batches = list(padded_batches(records.skip(6).take(6), NUMBERS, make_budget("fit_or_skip"), "fit_or_skip"))

    assert [numbers(batch) for batch in batches] == [[8, 9]]
    assert [removed(batch) for batch in batches] == [(2, 4)]


def test_a_padding_edge_needs_a_padding_node(records):
    # Both graphs fill the nodes, and leave a place for an edge that could end nowhere.
    budget = make_budget("fit_or_skip", items=6, links=5)

    kept = [numbers(batch) for batch in padded_batches(records, NUMBERS, budget, "fit_or_skip")]

    assert kept == [[2, 3], [4, 5], [8, 9], [12]]


def test_a_budget_that_no_batch_fits_is_refused(records):
    with pytest.raises(tf.errors.InvalidArgumentError, match="got no batch that fits, removed batches and graphs"):
        list(padded_batches(records, NUMBERS, make_budget("fit_or_skip", items=2), "fit_or_skip"))


def test_no_records_are_no_batches(records):
    for batching, kind in (("packed", "packing"), ("fit_or_skip", "fit_or_skip"), ("tight", "tight")):
        assert list(padded_batches(records.take(0), NUMBERS, make_budget(kind), batching)) == []


def test_packing_leaves_nothing_out(records):
    batches = list(padded_batches(records, NUMBERS, make_budget("packing", items=10, components=6), "packed"))

    assert sorted(itertools.chain(*map(numbers, batches))) == list(range(len(SIZES)))
    assert len(batches) < 6
    assert {removed(batch) for batch in batches} == {(0, 0)}


def test_tight_batches_keep_the_order_and_leave_nothing_out(records):
    batches = list(padded_batches(records, NUMBERS, make_budget("tight", items=11), "tight"))

    assert list(itertools.chain(*map(numbers, batches))) == list(range(len(SIZES)))
    assert {removed(batch) for batch in batches} == {(0, 0)}


def test_a_batch_that_does_not_fit_a_tight_budget_is_an_error(records):
    with pytest.raises(tf.errors.InvalidArgumentError, match="item"):
        list(padded_batches(records, NUMBERS, make_budget("tight"), "tight"))


@pytest.mark.parametrize(("batching", "kind"), [("packed", "packing"), ("fit_or_skip", "fit_or_skip")])
def test_shapes_are_static(records, batching, kind):
    dataset = padded_batches(records, SPEC, make_budget(kind), batching)

    graph = dataset.element_spec.graph
    assert dataset.element_spec.is_real == tf.TensorSpec([3], tf.bool)
    assert graph.context_spec["number"] == tf.TensorSpec([3], tf.int64)
    assert graph.node_sets_spec["item"]["x"] == tf.TensorSpec([7, 2], tf.float32)
    assert graph.node_sets_spec["item"]["name"] == tf.TensorSpec([7], tf.string)
    assert graph.node_sets_spec["item"]["words"].shape.as_list() == [7, None]
    assert graph.node_sets_spec["item"].sizes_spec.shape == [3]
    assert graph.edge_sets_spec["link"].adjacency_spec.source.shape == [8]


def test_features_stay_with_their_graphs(records):
    for batch in padded_batches(records, SPEC, make_budget("fit_or_skip"), "fit_or_skip"):
        sizes = [SIZES[number] for number in numbers(batch)]
        items, num_real = batch.graph.node_sets["item"], sum(sizes)
        assert items.sizes.numpy().tolist()[: len(sizes)] == sizes
        expected = np.repeat(numbers(batch), sizes).tolist()
        assert items["x"].numpy()[:num_real, 1].tolist() == expected
        assert items["name"].numpy()[:num_real].tolist() == [b"%d" % number for number in expected]


@pytest.mark.parametrize(
    ("num_replicas", "num_batches", "num_padding"), [(1, 3, 1), (2, 3, 3), (2, 4, 2), (3, 4, 5), (2, 0, 2), (1, 0, 1)]
)
def test_a_pass_ends_with_a_step_of_padding(records, num_replicas, num_batches, num_padding):
    budget = make_budget("tight", items=11)
    batches = padded_batches(records, NUMBERS, budget, "tight").take(num_batches)

    ended = list(ended_batches(batches, NUMBERS, budget, num_replicas=num_replicas))

    expected = [[2 * number, 2 * number + 1] for number in range(num_batches)]
    assert [numbers(batch) for batch in ended] == expected + [[]] * num_padding


def test_wrong_arguments_are_refused(records):
    with pytest.raises(ValueError, match=r"`batching` must be one of .*; got 'packing'"):
        padded_batches(records, NUMBERS, make_budget("packing"), "packing")
    with pytest.raises(ValueError, match="`budget` must be of kind 'packing' for batching='packed'; got 'tight'"):
        padded_batches(records, NUMBERS, make_budget("tight"), "packed")

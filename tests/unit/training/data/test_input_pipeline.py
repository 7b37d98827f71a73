from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.ego_batches import EgoHop, EgoTrees, ego_batch
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.input_pipeline import (
    NUM_COUNTS,
    LabelledGraphs,
    count_batch,
    epoch_input,
    evaluation_dataset,
    expected_steps,
    training_batches,
    training_dataset,
)
from tfx_gnn.training.data.padded_batches import EpochOffset, PaddedBatch

SPEC = create_graph_spec_from_schema_pb(
    parse_schema(
        """
        node_sets { key: "item" value {
            features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
        node_sets { key: "_readout" value { features { key: "y" value { dtype: DT_INT64 } } } }
        edge_sets { key: "link" value { source: "item" target: "item" } }
        edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
        """
    )
)
TASK = NodeClassification(label_feature="y", num_classes=3)
LABELLED = LabelledGraphs(graph_spec=SPEC, objective=TASK.objective())
NUM_GRAPHS = 22


def _budget(kind, *, items, links, graphs_per_batch=4.0, batch_size=4, components=5, window=0):
    return Budget(
        kind=kind,
        batch_size=batch_size,
        total_num_components=components,
        total_num_nodes={"item": items, "_readout": components},
        total_num_edges={"link": links, "_readout/seed": components},
        min_nodes_per_component={"_readout": 1},
        window=window,
        graphs_per_batch=graphs_per_batch,
        fill=0.5,
        fill_by_set={},
        bytes_per_batch=0,
    )


# Graphs have 1 to 3 items, and one link fewer.
TIGHT = _budget("tight", items=13, links=8)
# 44 items in all: what is left over makes a fifth batch.
PACKING = _budget("packing", items=11, links=8, graphs_per_batch=4.5, components=8, window=8)
FIT_OR_SKIP = _budget("fit_or_skip", items=9, links=8)
BUDGETS = {"tight": TIGHT, "packed": PACKING, "fit_or_skip": FIT_OR_SKIP}


def _example(number, label):
    """`number` is the x of the seed; the graph has 1 to 3 items."""
    size = 1 + number % 3
    return {
        "nodes/item.#size": [size],
        "nodes/item.x": [float(number), 0.0] + [0.0, 0.0] * (size - 1),
        "nodes/_readout.#size": [1],
        "nodes/_readout.y": [label],
        "edges/link.#size": [size - 1],
        "edges/link.#source": list(range(1, size)),
        "edges/link.#target": [0] * (size - 1),
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


@pytest.fixture(scope="module")
def write_split(write_examples, tmp_path_factory):
    """Writes examples 0, 1, 2, ... with labels 0, 1, 2, 0, ... into three files, if there are so many."""

    def write(num_graphs, **labels):
        examples = [_example(number, labels.get(f"at_{number}", number % 3)) for number in range(num_graphs)]
        shards = [examples[i::3] for i in range(min(3, num_graphs))]
        return record_files(write_examples(str(tmp_path_factory.mktemp("input")), {"train": shards}, None), ("train",))

    return write


@pytest.fixture(scope="module")
def files(write_split):
    return write_split(NUM_GRAPHS)


class _Training:
    """Epochs of the training split, each without the padding that follows it."""

    def __init__(self, files, batching, *, seed=1, budget=None, labelled=LABELLED, shuffle_buffer_size=100):
        self._start = EpochOffset()
        budget = budget or BUDGETS[batching]
        batches = training_batches(
            files,
            SPEC,
            epochs=self._start.epochs(),
            keep=self._start.keep,
            budget=budget,
            batching=batching,
            shuffle_buffer_size=shuffle_buffer_size,
            seed=seed,
        )
        self.dataset = training_dataset(batches, labelled, budget)

    def epoch(self, number=0, first_batch=0):
        self._start.set(number, first_batch)
        return list(itertools.takewhile(lambda batch: batch.counts[0] > 0, self.dataset))


@pytest.fixture(scope="module")
def training(files):
    """Gives the training split in batches of a kind; making them takes longer than reading them."""
    return functools.cache(lambda batching: _Training(files, batching))


def _evaluation(files, num_graphs=NUM_GRAPHS, num_scored=None, **place):
    num_batches = place.pop("num_batches", -(-num_graphs // 4))
    dataset = evaluation_dataset(
        files,
        LABELLED,
        budget=TIGHT,
        num_batches=num_batches,
        num_counted={"": num_scored or num_graphs},
        **place,
    )
    return dataset.take(num_batches // place.get("num_pipelines", 1))


@pytest.fixture(scope="module")
def evaluation(files):
    """The whole split in batches."""
    return _evaluation(files)


def _figures(batches):
    return epoch_input(sum(batch.counts.numpy()[:NUM_COUNTS] for batch in batches), num_steps=len(batches))


@pytest.fixture(scope="module", params=["tight", "packed", "fit_or_skip"])
def batching(request):
    return request.param


@pytest.fixture(scope="module")
def batches(training, batching):
    """An epoch of training, and how it is batched."""
    return training(batching).epoch()


def _seed_numbers(graph, weights):
    source = graph.edge_sets["_readout/seed"].adjacency.source
    numbers = tf.gather(graph.node_sets["item"]["x"], source)[:, 0].numpy()
    return numbers[weights.numpy() > 0].astype(int).tolist()


def _order(batches):
    return [_seed_numbers(batch.graph, batch.weights) for batch in batches]


def test_every_batch_has_the_same_static_shapes(training, batching):
    graph, labels, weights, counts = training(batching).dataset.element_spec

    budget = BUDGETS[batching]
    assert graph.total_num_components == budget.total_num_components
    assert graph.node_sets_spec["item"].features_spec["x"] == tf.TensorSpec([budget.total_num_nodes["item"], 2])
    assert graph.edge_sets_spec["link"].adjacency_spec.source.shape == [budget.total_num_edges["link"]]
    assert labels == tf.TensorSpec([budget.total_num_components], tf.int64)
    assert weights == tf.TensorSpec([budget.total_num_components], tf.float32)
    assert counts == tf.TensorSpec([NUM_COUNTS + 1], tf.int64)


def test_label_is_not_among_the_features(training, batching):
    graph = training(batching).dataset.element_spec.graph

    assert not graph.node_sets_spec["_readout"].features_spec


def test_labels_belong_to_their_graphs(batches):
    for graph, labels, weights, _ in batches:
        numbers = _seed_numbers(graph, weights)
        assert labels.numpy()[: len(numbers)].tolist() == [number % 3 for number in numbers]


def test_each_padded_readout_is_tied_to_one_padding_node(batches):
    for graph, _, weights, _ in batches:
        readout = graph.edge_sets["_readout/seed"].adjacency
        num_real_items = int(graph.node_sets["item"].sizes.numpy()[weights.numpy() > 0].sum())
        assert readout.target.numpy().tolist() == list(range(graph.num_components))
        assert all(readout.source.numpy()[weights.numpy() == 0] >= num_real_items)


@pytest.mark.parametrize("num_graphs", [1, 3, 4, 5, NUM_GRAPHS])
def test_each_example_is_scored_exactly_once_however_many_there_are(write_split, num_graphs):
    order = _order(_evaluation(write_split(num_graphs), num_graphs))

    assert sorted(itertools.chain(*order)) == list(range(num_graphs))
    assert len(order) == -(-num_graphs // 4)


@pytest.mark.parametrize("budget", [PACKING, FIT_OR_SKIP], ids=["packing", "fit_or_skip"])
def test_evaluation_refuses_budgets_that_might_lose_a_graph(files, budget):
    with pytest.raises(ValueError, match="must be of kind 'tight' for batching='tight'; got"):
        evaluation_dataset(files, LABELLED, budget=budget, num_batches=6, num_counted={"": NUM_GRAPHS})


def test_evaluation_order_is_the_same_each_time(evaluation):
    assert _order(evaluation) == _order(evaluation)


@pytest.mark.parametrize("batching", ["tight", "packed"])
def test_training_order_hangs_on_seed_and_epoch_alone(files, training, batching):
    def orders(seed, epochs):
        others = _Training(files, batching, seed=seed)
        return [_order(others.epoch(epoch)) for epoch in epochs]

    first, second = (_order(training(batching).epoch(epoch)) for epoch in range(2))
    assert first != second
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(NUM_GRAPHS))
    tf.random.set_seed(77)
    assert orders(1, [1, 0]) == [second, first]
    assert orders(2, [0])[0] != first


@pytest.mark.parametrize("batching", ["tight", "packed", "fit_or_skip"])
def test_epoch_can_be_read_from_any_batch_on(training, batching):
    epochs = training(batching)
    order = _order(epochs.epoch(3))

    for first_batch in range(len(order) + 1):
        assert _order(epochs.epoch(3, first_batch)) == order[first_batch:]


def test_nothing_is_mixed_with_a_buffer_of_one(files, evaluation):
    training = _Training(files, "tight", shuffle_buffer_size=1)

    assert _order(training.epoch(0)) == _order(training.epoch(1)) == _order(evaluation)
    assert list(itertools.chain(*_order(training.epoch(0)))) == list(range(NUM_GRAPHS))


def test_fit_or_skip_removes_other_graphs_in_each_epoch_and_counts_them(training):
    epochs = training("fit_or_skip")

    removed = []
    for number in range(12):
        batches = epochs.epoch(number)
        kept = list(itertools.chain(*_order(batches)))
        removed.append(set(range(NUM_GRAPHS)) - set(kept))
        counted = _figures(batches)
        assert counted.num_removed_graphs == len(removed[-1]) == NUM_GRAPHS - len(kept)
        assert counted.num_removed_batches == -(-counted.num_removed_graphs // 4)
        assert counted.num_batches + counted.num_removed_batches == 6

    assert sum(map(len, removed)) > 0
    assert not set.intersection(*removed)
    assert len({frozenset(one) for one in removed if one}) > 1


def test_counts_tell_what_is_real_of_an_epoch(training):
    counted = _figures(training("tight").epoch())

    # 22 graphs of 1 + 2 + 3 + ... = 43 items, 21 links, a readout and its edge each; 6 batches of 13 + 5 + 8 + 5.
    assert (counted.num_batches, counted.num_graphs) == (6, 22)
    assert (counted.num_removed_batches, counted.num_removed_graphs, counted.removed_share) == (0, 0, 0.0)
    assert counted.graphs_per_batch == pytest.approx(22 / 6)
    assert counted.fill == pytest.approx((43 + 21 + 22 + 22) / (6 * 31))


def test_empty_places_of_trees_count_as_padding():
    papers = NodeSet.from_fields(sizes=[3], features={"x": [1.0, 2.0, 3.0]})
    seed = Adjacency.from_indices(("paper", [0]), ("_readout", [0]))
    graph = GraphTensor.from_pieces(
        context=Context.from_fields(features={"hop_0": tf.constant([[2, -1]], tf.int64)}),
        node_sets={"paper": papers, "_readout": NodeSet.from_fields(sizes=[1])},
        edge_sets={"_readout/seed": EdgeSet.from_fields(sizes=[1], adjacency=seed)},
    )
    hop = EgoHop(feature="hop_0", relation="cites", node_set="paper", fan_out=2)
    trees, is_real = ego_batch(graph, EgoTrees(seed_node_set="paper", hops=(hop,)), batch_size=2)
    no_batches = tf.zeros([], tf.int64)

    counted = epoch_input(count_batch(PaddedBatch(trees, is_real, no_batches, no_batches)), num_steps=1)

    # Each of two examples has 3 papers, 2 edges to parents, a readout and its edge; only the first is real, and lacks
    # a paper and its edge.
    assert counted.fill == pytest.approx((7 - 2) / (2 * 7))


def test_shares_of_time_are_those_of_the_steps():
    counted = epoch_input([2, 8, 0, 0, 10, 20], num_steps=2, seconds=4.0, seconds_waited=1.0)

    assert (counted.graphs_per_second, counted.input_bound_share) == (2.0, 0.25)
    assert epoch_input([0] * NUM_COUNTS, num_steps=0).fill == 0.0


def test_packed_batches_are_fuller_than_tight_ones(training):
    fills = {}
    for batching in ("tight", "packed"):
        batches = training(batching).epoch()
        assert sum(map(len, _order(batches))) == NUM_GRAPHS
        fills[batching] = _figures(batches).fill

    assert fills["packed"] > fills["tight"]


@pytest.mark.parametrize("batching", ["tight", "packed", "fit_or_skip"])
def test_padding_without_end_follows_the_last_batch(training, batching):
    epochs = training(batching)
    num_batches = len(epochs.epoch())

    (empty,) = epochs.dataset.skip(num_batches + 2).take(1)

    assert epochs.dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert empty.counts.numpy()[[0, 1, 4, 6]].tolist() == [0, 0, 0, 0]
    assert not empty.weights.numpy().any()
    assert empty.graph.node_sets["item"].total_size == BUDGETS[batching].total_num_nodes["item"]


@pytest.mark.parametrize("num_pipelines", [1, 3])
def test_pipelines_of_evaluation_share_the_batches_of_one(files, evaluation, num_pipelines):
    whole = _order(evaluation)

    parts = [
        _order(_evaluation(files, num_batches=2 * 3 * num_pipelines, pipeline=pipeline, num_pipelines=num_pipelines))
        for pipeline in range(num_pipelines)
    ]

    dealt = [part[i] for i in range(6) for part in parts]
    assert dealt[:6] == whole
    assert dealt[6:] == [[]] * (len(dealt) - 6)


@pytest.mark.parametrize(
    ("budget", "num_graphs", "num_replicas", "steps"),
    [
        (TIGHT, 22, 1, 6),
        (TIGHT, 1, 1, 1),
        (TIGHT, 4, 1, 1),
        (TIGHT, 22, 4, 2),
        (PACKING, 22, 1, 5),
        (PACKING, 9, 1, 2),
    ],
)
def test_steps_are_expected_from_the_graphs_of_a_batch(budget, num_graphs, num_replicas, steps):
    assert expected_steps(budget, num_graphs, num_replicas) == steps


def test_graphs_of_a_batch_weigh_one_and_padding_nothing(batches):
    for graph, _, weights, counts in batches:
        num_real = len(_seed_numbers(graph, weights))
        assert weights.numpy().tolist() == [1.0] * num_real + [0.0] * (len(weights) - num_real)
        assert counts[NUM_COUNTS] == num_real


def test_graphs_weigh_as_much_as_their_class(files):
    task = NodeClassification(label_feature="y", num_classes=3, class_weights={"0": 2.0, "2": 0.5})
    labelled = LabelledGraphs(graph_spec=SPEC, objective=task.objective())

    for _, labels, weights, _ in _Training(files, "tight", labelled=labelled).epoch():
        of_labels = np.array([2.0, 1.0, 0.5])[labels.numpy()]
        np.testing.assert_array_equal(weights.numpy(), np.where(weights.numpy() > 0, of_labels, 0.0))


class _ScaledSeed(tf_keras.Model):
    """The one weight times the number of each graph's seed."""

    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(name="scale", shape=[], initializer="ones")

    def call(self, graph):
        source = graph.edge_sets["_readout/seed"].adjacency.source
        return self.scale * tf.gather(graph.node_sets["item"]["x"][:, :1], source)


def _compiled(learning_rate):
    model = _ScaledSeed()
    # The loss of a graph is what the model says of it: its gradient is the number of the seed.
    model.compile(optimizer=tf_keras.optimizers.SGD(learning_rate), loss=lambda _, value: value[:, 0])
    return model


def test_validation_loss_is_the_mean_over_the_graphs_that_are_scored(write_split):
    # Of 0, ..., 5 in batches of four and two, 3 has a class that the vocabulary lacks.
    dataset = _evaluation(write_split(6, at_3=-1), num_graphs=6, num_scored=5)

    loss = _compiled(0.0).evaluate(dataset.map(lambda batch: tuple(batch)[:3]), verbose=0)

    assert loss == pytest.approx((0 + 1 + 2 + 4 + 5) / 5)


@pytest.mark.parametrize("label", [-1, 3])
def test_class_that_the_vocabulary_lacks_weighs_nothing(write_split, label):
    files = write_split(2, at_0=2, at_1=label)

    ((_, labels, weights, _),) = _evaluation(files, num_graphs=2, num_scored=1)

    assert labels.numpy().tolist() == [2, 0, 0, 0, 0]
    assert weights.numpy().tolist() == [5.0, 0.0, 0.0, 0.0, 0.0]


def test_graph_that_does_not_fit_is_refused(write_examples, tmp_path):
    large = {**_example(0, 0), "nodes/item.#size": [20], "nodes/item.x": [0.0] * 40}
    files = record_files(write_examples(str(tmp_path), {"train": [[large]]}, None), ("train",))

    with pytest.raises(tf.errors.InvalidArgumentError, match="item"):
        list(_evaluation(files, num_graphs=1))


def test_padded_graphs_are_those_of_the_examples(write_split):
    ((graph, _, _, _),) = _evaluation(write_split(3), num_graphs=3)

    assert graph.node_sets["item"].sizes.numpy().tolist() == [1, 2, 3, 7, 0]
    expected = np.zeros([13, 2])
    expected[1, 0], expected[3, 0] = 1.0, 2.0
    np.testing.assert_array_equal(graph.node_sets["item"]["x"], expected)
    assert graph.edge_sets["link"].adjacency.source.numpy()[:3].tolist() == [2, 4, 5]
    assert graph.edge_sets["link"].adjacency.target.numpy()[:3].tolist() == [1, 3, 3]

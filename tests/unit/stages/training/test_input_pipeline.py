from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.schema import parse_schema
from tfx_gnn.graph.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.stages.files.record_files import record_files
from tfx_gnn.stages.sizes.size_constraints_file import Budget
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.input_pipeline import (
    LabelledGraphs,
    check_readouts,
    evaluation_dataset,
    expected_steps,
    training_dataset,
)
from tfx_gnn.stages.training.input_tally import InputTally

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
LABELLED = LabelledGraphs(
    graph_spec=SPEC, task=NodeClassification(label_feature="y", class_vocabulary="y"), num_classes=3
)
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


@pytest.fixture(scope="module", autouse=True)
def _fast_tracing():
    with libraries_traced_as_written():
        yield


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


def _training(files, batching, *, seed=1, tally=None, budget=None):
    tf.random.set_seed(seed)
    return training_dataset(
        files,
        LABELLED,
        budget=budget or BUDGETS[batching],
        batching=batching,
        shuffle_buffer_size=100,
        seed=seed,
        tally=tally or InputTally(),
    )


def _evaluation(files, num_graphs=NUM_GRAPHS, num_scored=None):
    return evaluation_dataset(files, LABELLED, budget=TIGHT, num_graphs=num_graphs, num_scored=num_scored or num_graphs)


@pytest.fixture(scope="module", params=["tight", "packed", "fit_or_skip"])
def batching(request):
    return request.param


@pytest.fixture(scope="module")
def batches(files, batching):
    """An epoch of training, and how it is batched."""
    return list(_training(files, batching))


def _seed_numbers(graph, weights):
    source = graph.edge_sets["_readout/seed"].adjacency.source
    numbers = tf.gather(graph.node_sets["item"]["x"], source)[:, 0].numpy()
    return numbers[weights.numpy() > 0].astype(int).tolist()


def _order(dataset):
    return [_seed_numbers(graph, weights) for graph, _, weights in dataset]


def test_every_batch_has_the_same_static_shapes(files, batching):
    graph, labels, weights = _training(files, batching).element_spec

    budget = BUDGETS[batching]
    assert graph.total_num_components == budget.total_num_components
    assert graph.node_sets_spec["item"].features_spec["x"] == tf.TensorSpec([budget.total_num_nodes["item"], 2])
    assert graph.edge_sets_spec["link"].adjacency_spec.source.shape == [budget.total_num_edges["link"]]
    assert labels == tf.TensorSpec([budget.total_num_components], tf.int64)
    assert weights == tf.TensorSpec([budget.total_num_components], tf.float32)


def test_label_is_not_among_the_features(files, batching):
    graph, _, _ = _training(files, batching).element_spec

    assert not graph.node_sets_spec["_readout"].features_spec


def test_labels_belong_to_their_graphs(batches):
    for graph, labels, weights in batches:
        numbers = _seed_numbers(graph, weights)
        assert labels.numpy()[: len(numbers)].tolist() == [number % 3 for number in numbers]


def test_each_padded_readout_is_tied_to_one_padding_node(batches):
    for graph, _, weights in batches:
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
        evaluation_dataset(files, LABELLED, budget=budget, num_graphs=NUM_GRAPHS, num_scored=NUM_GRAPHS)


def test_evaluation_order_is_the_same_each_time(files):
    dataset = _evaluation(files)

    assert _order(dataset) == _order(dataset)


@pytest.mark.parametrize("batching", ["tight", "packed"])
def test_training_order_differs_by_epoch_and_repeats_by_seed(files, batching):
    def two_epochs(seed):
        dataset = _training(files, batching, seed=seed)
        return [_order(dataset), _order(dataset)]

    first, second = two_epochs(1)
    assert first != second
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(NUM_GRAPHS))
    assert two_epochs(1) == [first, second]
    assert two_epochs(2)[0] != first


def test_fit_or_skip_removes_other_graphs_in_each_epoch_and_counts_them(files):
    tally = InputTally()
    dataset = _training(files, "fit_or_skip", tally=tally)

    removed = []
    for _ in range(12):
        kept = list(itertools.chain(*_order(dataset)))
        removed.append(set(range(NUM_GRAPHS)) - set(kept))
        counted = tally.take()
        assert counted.num_removed_graphs == len(removed[-1]) == NUM_GRAPHS - len(kept)
        assert counted.num_removed_batches == -(-counted.num_removed_graphs // 4)
        assert counted.num_steps + counted.num_removed_batches == 6

    assert sum(map(len, removed)) > 0
    assert not set.intersection(*removed)
    assert len({frozenset(one) for one in removed if one}) > 1


def test_tally_counts_what_is_real_of_an_epoch(files):
    tally = InputTally()
    dataset = _training(files, "tight", tally=tally)

    for _ in dataset:
        pass

    # 22 graphs of 1 + 2 + 3 + ... = 43 items, 21 links, a readout and its edge each; 6 batches of 13 + 5 + 8 + 5.
    counted = tally.take()
    assert (counted.num_steps, counted.num_graphs) == (6, 22)
    assert (counted.num_removed_batches, counted.num_removed_graphs, counted.removed_share) == (0, 0, 0.0)
    assert counted.graphs_per_batch == pytest.approx(22 / 6)
    assert counted.fill == pytest.approx((43 + 21 + 22 + 22) / (6 * 31))
    assert tally.take().num_steps == 0


def test_packed_batches_are_fuller_than_tight_ones(files):
    fills = {}
    for batching in ("tight", "packed"):
        tally = InputTally()
        assert sum(map(len, _order(_training(files, batching, tally=tally)))) == NUM_GRAPHS
        fills[batching] = tally.take().fill

    assert fills["packed"] > fills["tight"]


@pytest.mark.parametrize(
    ("budget", "num_graphs", "steps"), [(TIGHT, 22, 6), (TIGHT, 1, 1), (TIGHT, 4, 1), (PACKING, 22, 5), (PACKING, 9, 2)]
)
def test_steps_are_expected_from_the_graphs_of_a_batch(budget, num_graphs, steps):
    assert expected_steps(budget, num_graphs) == steps


def test_graphs_of_a_batch_weigh_as_much_as_its_rows_and_padding_nothing(batches):
    for graph, _, weights in batches:
        num_real, num_rows = len(_seed_numbers(graph, weights)), len(weights)
        np.testing.assert_allclose(weights, [num_rows / num_real] * num_real + [0.0] * (num_rows - num_real), rtol=1e-6)


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


@pytest.mark.parametrize("batching", ["tight", "packed"])
def test_gradient_and_loss_of_a_batch_are_means_over_its_real_graphs(files, batching):
    model, scale = _compiled(1.0), 1.0

    for batch in _training(files, batching):
        loss = model.fit(tf.data.Dataset.from_tensors(batch), verbose=0).history["loss"][0]
        gradient = scale - model.scale.numpy()
        mean = np.mean(_seed_numbers(batch[0], batch[2]))
        assert gradient == pytest.approx(mean, rel=1e-4)
        assert loss == pytest.approx(scale * mean, rel=1e-4)
        scale = model.scale.numpy()


def test_validation_loss_is_the_mean_over_the_graphs_that_are_scored(write_split):
    # Of 0, ..., 5 in batches of four and two, 3 has a class that the vocabulary lacks.
    dataset = _evaluation(write_split(6, at_3=-1), num_graphs=6, num_scored=5)

    loss = _compiled(0.0).evaluate(dataset, verbose=0)

    assert loss == pytest.approx((0 + 1 + 2 + 4 + 5) / 5)


@pytest.mark.parametrize("label", [-1, 3])
def test_class_that_the_vocabulary_lacks_weighs_nothing(write_split, label):
    files = write_split(2, at_0=2, at_1=label)

    ((_, labels, weights),) = _evaluation(files, num_graphs=2, num_scored=1)

    assert labels.numpy().tolist() == [2, 0, 0, 0, 0]
    assert weights.numpy().tolist() == [5.0, 0.0, 0.0, 0.0, 0.0]


def test_graph_that_does_not_fit_is_refused(write_examples, tmp_path):
    large = {**_example(0, 0), "nodes/item.#size": [20], "nodes/item.x": [0.0] * 40}
    files = record_files(write_examples(str(tmp_path), {"train": [[large]]}, None), ("train",))

    with pytest.raises(tf.errors.InvalidArgumentError, match="item"):
        list(_evaluation(files, num_graphs=1))


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_budget_for_one_readout_a_component_is_taken(budget):
    check_readouts(budget, SPEC)


@pytest.mark.parametrize(
    "change",
    [
        {"total_num_nodes": {"item": 13, "_readout": 6}},
        {"min_nodes_per_component": {}},
        {"total_num_nodes": {"item": 13}},
        {"total_num_edges": {"link": 8, "_readout/seed": 4}},
    ],
)
def test_budget_for_other_readouts_is_refused(change):
    with pytest.raises(ValueError, match="must hold a budget with one '_readout' node a component, and one edge"):
        check_readouts(dataclasses.replace(TIGHT, **change), SPEC)


def test_padded_graphs_are_those_of_the_examples(write_split):
    ((graph, _, _),) = _evaluation(write_split(3), num_graphs=3)

    assert graph.node_sets["item"].sizes.numpy().tolist() == [1, 2, 3, 7, 0]
    expected = np.zeros([13, 2])
    expected[1, 0], expected[3, 0] = 1.0, 2.0
    np.testing.assert_array_equal(graph.node_sets["item"]["x"], expected)
    assert graph.edge_sets["link"].adjacency.source.numpy()[:3].tolist() == [2, 4, 5]
    assert graph.edge_sets["link"].adjacency.target.numpy()[:3].tolist() == [1, 3, 3]

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.schema import parse_schema
from tfx_gnn.graph.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.stages.record_files import record_files
from tfx_gnn.stages.size_constraints_file import Budget
from tfx_gnn.stages.training_input import (
    TrainingPreprocessing,
    evaluation_dataset,
    training_constraints,
    training_dataset,
)

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
# Batches of 4 graphs with up to 3 items and 2 links.
BUDGET = Budget(
    kind="tight",
    batch_size=4,
    total_num_components=5,
    total_num_nodes={"item": 13, "_readout": 5},
    total_num_edges={"link": 8, "_readout/seed": 4},
    min_nodes_per_component={"_readout": 1},
    graphs_per_batch=4.0,
    fill=0.5,
    fill_by_set={},
    bytes_per_batch=0,
)
TASK = NodeClassification(label_feature="y", class_vocabulary="y")


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
def preprocessing():
    return TrainingPreprocessing(
        graph_spec=SPEC, constraints=training_constraints(BUDGET, SPEC), task=TASK, num_classes=3
    )


@pytest.fixture(scope="module")
def files(write_examples, tmp_path_factory):
    """22 examples in 3 files: five full batches and one of two."""
    examples = [_example(number, number % 3) for number in range(22)]
    folder = write_examples(str(tmp_path_factory.mktemp("input")), {"train": [examples[i::3] for i in range(3)]}, None)
    return record_files(folder, ("train",))


def _seed_numbers(graph, weights):
    source = graph.edge_sets["_readout/seed"].adjacency.source
    numbers = tf.gather(graph.node_sets["item"]["x"], source)[:, 0].numpy()
    return numbers[weights.numpy() > 0].astype(int).tolist()


def _order(dataset):
    return [_seed_numbers(graph, weights) for graph, _, weights in dataset]


def test_every_batch_has_the_same_static_shapes(files, preprocessing):
    dataset = evaluation_dataset(files, preprocessing, batch_size=4)

    graph, labels, weights = dataset.element_spec
    assert graph.total_num_components == 5
    assert graph.node_sets_spec["item"].features_spec["x"] == tf.TensorSpec([13, 2], tf.float32)
    assert graph.edge_sets_spec["link"].adjacency_spec.source.shape == [8]
    assert labels == tf.TensorSpec([5], tf.int64)
    assert weights == tf.TensorSpec([5], tf.float32)


def test_label_is_not_among_the_features(files, preprocessing):
    graph, _, _ = evaluation_dataset(files, preprocessing, batch_size=4).element_spec

    assert not graph.node_sets_spec["_readout"].features_spec


def test_labels_belong_to_their_graphs_and_padding_weighs_nothing(files, preprocessing):
    for graph, labels, weights in evaluation_dataset(files, preprocessing, batch_size=4):
        numbers = _seed_numbers(graph, weights)
        assert labels.numpy()[: len(numbers)].tolist() == [number % 3 for number in numbers]
        assert weights.numpy().tolist() == [1.0] * len(numbers) + [0.0] * (5 - len(numbers))


def test_each_padded_readout_is_tied_to_one_padding_node(files, preprocessing):
    for graph, _, weights in evaluation_dataset(files, preprocessing, batch_size=4):
        readout = graph.edge_sets["_readout/seed"].adjacency
        num_real_items = int(graph.node_sets["item"].sizes.numpy()[weights.numpy() > 0].sum())
        assert readout.target.numpy().tolist() == [0, 1, 2, 3, 4]
        assert all(readout.source.numpy()[weights.numpy() == 0] >= num_real_items)


def test_last_batch_is_kept_though_it_is_small(files, preprocessing):
    order = _order(evaluation_dataset(files, preprocessing, batch_size=4))

    assert [len(batch) for batch in order] == [4, 4, 4, 4, 4, 2]
    assert sorted(itertools.chain(*order)) == list(range(22))


def test_evaluation_order_is_the_same_each_time(files, preprocessing):
    dataset = evaluation_dataset(files, preprocessing, batch_size=4)

    assert _order(dataset) == _order(dataset)


def test_training_order_differs_by_epoch_and_repeats_by_seed(files, preprocessing):
    def two_epochs(seed):
        tf.random.set_seed(seed)
        dataset = training_dataset(files, preprocessing, batch_size=4, shuffle_buffer_size=100, seed=seed)
        return [_order(dataset), _order(dataset)]

    first, second = two_epochs(1)
    assert first != second
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(22))
    assert two_epochs(1) == [first, second]
    assert two_epochs(2)[0] != first


@pytest.mark.parametrize("label", [-1, 3])
def test_class_that_the_vocabulary_lacks_weighs_nothing(make_record, preprocessing, label):
    records = [make_record(_example(0, 2)), make_record(_example(1, label))]

    _, labels, weights = preprocessing(tf.constant(records))

    assert labels.numpy().tolist() == [2, 0, 0, 0, 0]
    assert weights.numpy().tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_graph_that_does_not_fit_is_refused(make_record, preprocessing):
    large = {**_example(0, 0), "nodes/item.#size": [20], "nodes/item.x": [0.0] * 40}

    with pytest.raises(tf.errors.InvalidArgumentError, match="item"):
        preprocessing(tf.constant([make_record(large)]))


def test_readout_edges_are_as_many_as_readouts():
    constraints = training_constraints(BUDGET, SPEC)

    assert constraints.total_num_edges == {"link": 8, "_readout/seed": 5}
    assert constraints.total_num_nodes == BUDGET.total_num_nodes


@pytest.mark.parametrize(
    "change",
    [
        {"total_num_nodes": {"item": 13, "_readout": 6}},
        {"min_nodes_per_component": {}},
        {"total_num_nodes": {"item": 13}},
    ],
)
def test_budget_for_other_readouts_is_refused(change):
    with pytest.raises(ValueError, match="must hold a budget with one '_readout' node a component; got"):
        training_constraints(dataclasses.replace(BUDGET, **change), SPEC)


def test_padded_graphs_are_those_of_the_examples(make_record, preprocessing):
    records = [make_record(_example(2, 0)), make_record(_example(1, 1))]

    graph, _, _ = preprocessing(tf.constant(records))

    assert graph.node_sets["item"].sizes.numpy().tolist() == [3, 2, 8, 0, 0]
    expected = np.zeros([13, 2])
    expected[0, 0], expected[3, 0] = 2.0, 1.0
    np.testing.assert_array_equal(graph.node_sets["item"]["x"], expected)
    assert graph.edge_sets["link"].adjacency.source.numpy()[:3].tolist() == [1, 2, 4]
    assert graph.edge_sets["link"].adjacency.target.numpy()[:3].tolist() == [0, 0, 3]

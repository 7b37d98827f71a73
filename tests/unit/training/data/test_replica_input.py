"""How a training reads its epochs: in one iterator where one pipeline feeds all replicas."""

from __future__ import annotations

import itertools

import pytest
import tensorflow as tf

from tfx_gnn.distribution.sharding import choose_sharding
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.data.replica_input import DistributedTrainingInput, TrainingInput

SPEC = create_graph_spec_from_schema_pb(
    parse_schema(
        """
        node_sets { key: "item" value { features { key: "x" value { dtype: DT_INT64 } } } }
        node_sets { key: "_readout" value { features { key: "y" value { dtype: DT_INT64 } } } }
        edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
        """
    )
)
BUDGET = Budget(
    kind="tight",
    batch_size=2,
    total_num_components=3,
    total_num_nodes={"item": 3, "_readout": 3},
    total_num_edges={"_readout/seed": 3},
    min_nodes_per_component={"_readout": 1},
    graphs_per_batch=2.0,
    fill=0.7,
    fill_by_set={},
    bytes_per_batch=0,
)
#: Three batches an epoch, the last one of a single graph.
NUM_GRAPHS, NUM_EPOCHS = 5, 3


@pytest.fixture(scope="module")
def data(write_examples, tmp_path_factory):
    examples = [
        {
            "nodes/item.#size": [1],
            "nodes/item.x": [number],
            "nodes/_readout.#size": [1],
            "nodes/_readout.y": [0],
            "edges/_readout/seed.#size": [1],
            "edges/_readout/seed.#source": [0],
            "edges/_readout/seed.#target": [0],
        }
        for number in range(NUM_GRAPHS)
    ]
    folder = write_examples(str(tmp_path_factory.mktemp("input")), {"train": [examples]}, None)
    return TrainingInput(
        files=record_files(folder, ("train",)),
        labelled=LabelledGraphs(
            graph_spec=SPEC, objective=NodeClassification(label_feature="y", num_classes=2).objective()
        ),
        budget=BUDGET,
        batching="tight",
        shuffle_buffer_size=100,
        seed=1,
        sharding=choose_sharding(num_files=1, num_pipelines=1, asked="auto"),
    )


def _input(data):
    return DistributedTrainingInput(tf.distribute.get_strategy(), data, num_epochs=NUM_EPOCHS)


@pytest.fixture(scope="module")
def read(data):
    """An input that reads anew whatever does not follow; making it takes longer than reading it."""
    return _input(data)


@pytest.fixture(scope="module")
def alone(data):
    """Each epoch, read by itself."""
    other = _input(data)
    return [_read(other.epoch(number)) for number in range(NUM_EPOCHS)]


def _read(batches):
    """The graphs of each batch, up to the step of padding that ends the epoch."""
    an_epoch = itertools.takewhile(lambda batch: batch.counts[0] > 0, batches)
    return [batch.graph.node_sets["item"]["x"].numpy()[: int(batch.counts[1])].tolist() for batch in an_epoch]


def test_epochs_that_follow_in_one_iterator_are_those_read_alone(read, alone):
    one_after_another, iterators = [], []
    for number in range(NUM_EPOCHS):
        iterators.append(read.epoch(number, is_next=number > 0))
        one_after_another.append(_read(iterators[-1]))

    assert one_after_another == alone
    assert [len(epoch) for epoch in alone] == [3, 3, 3]
    assert [sorted(itertools.chain(*epoch)) for epoch in alone] == [list(range(NUM_GRAPHS))] * NUM_EPOCHS
    assert alone[0] != alone[1]
    assert all(iterator is iterators[0] for iterator in iterators)


def test_steps_are_left_out_of_the_first_epoch_only(read, alone):
    first, second = _read(read.epoch(0, first_step=2)), _read(read.epoch(1, is_next=True))

    assert first == alone[0][2:]
    assert second == alone[1]


def test_an_epoch_of_which_all_steps_are_left_out_ends_at_once(read):
    assert _read(read.epoch(0, first_step=3)) == []
    assert len(_read(read.epoch(1, is_next=True))) == 3


def test_an_epoch_that_does_not_follow_is_read_anew(read, alone):
    begun = read.epoch(0)
    next(begun)

    again = read.epoch(0)

    assert again is not begun
    assert _read(again) == alone[0]


def test_nothing_is_read_behind_the_last_epoch(read):
    batches = read.epoch(NUM_EPOCHS - 1)

    assert len(list(batches)) == 4

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.subgraph_dataset import subgraph_dataset
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import read_tables

PLAN = SamplingPlan(
    seed_node_set="user",
    hops=(Hop(edge_set="knows", fan_out=1), Hop(edge_set="buys", fan_out=1, inputs=("seed", "knows"))),
    label_features=("color",),
)


@pytest.fixture
def tables(shop_dir):
    return read_tables(shop_dir)


def _seeds(tables, rows=(0, 1, 2, 3)):
    rows = np.array(rows)
    keys = hash_ids(tables.node_tables["user"].ids)[rows]
    return Seeds(keys=keys, rows=rows, readout_splits=np.arange(len(rows) + 1), readout_nodes={"seed": rows})


def _records(dataset, count=None):
    return [record.numpy() for record in (dataset if count is None else dataset.take(count))]


def _written(tables, sampling_seed=0):
    subgraphs = InMemorySampler(tables, PLAN, sampling_seed=sampling_seed).sample(_seeds(tables))
    return SubgraphExampleEncoder(tables, PLAN).encode(subgraphs)


def test_the_records_are_those_that_files_hold(tables):
    dataset = subgraph_dataset(tables, PLAN, _seeds(tables), parses=False)

    assert int(dataset.cardinality()) == 4
    assert _records(dataset) == _written(tables)
    assert _records(dataset) == _written(tables)


def test_each_epoch_has_every_seed_once_in_an_order_of_its_own(tables):
    dataset = subgraph_dataset(tables, PLAN, _seeds(tables), shuffle_seed=3, num_epochs=8, parses=False)

    records = _records(dataset)
    epochs = [tuple(records[start : start + 4]) for start in range(0, 32, 4)]

    assert all(sorted(epoch) == sorted(_written(tables)) for epoch in epochs)
    assert len(set(epochs)) > 3
    assert _records(dataset) == records
    other = subgraph_dataset(tables, PLAN, _seeds(tables), shuffle_seed=4, num_epochs=8, parses=False)
    assert _records(other) != records


def test_epochs_without_end_may_draw_anew(tables):
    dataset = subgraph_dataset(tables, PLAN, _seeds(tables), num_epochs=None, samples_anew=True, parses=False)

    records = _records(dataset, 40)

    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert records[:4] == _written(tables)
    # Ann knows three, of which one is drawn; dan is alone.
    assert len(set(records[0::4])) > 1
    assert len(set(records[3::4])) == 1


def test_graphs_are_parsed_with_their_labels(tables):
    dataset = subgraph_dataset(tables, PLAN, _seeds(tables))

    graphs = list(dataset)

    assert dataset.element_spec.is_compatible_with(graphs[0])
    assert [graph.node_sets["user"]["#id"].numpy()[0] for graph in graphs] == [b"ann", b"bob", b"cid", b"dan"]
    assert [graph.node_sets["_readout"]["color"].numpy().tolist() for graph in graphs] == [
        [b"blue"],
        [b"red"],
        [b"blue"],
        [b"red"],
    ]


def test_more_seeds_than_a_block_come_in_order(tables):
    rows = [0, 3] * 150

    records = _records(subgraph_dataset(tables, PLAN, _seeds(tables, rows), parses=False))

    written = _written(tables)
    assert records == [written[row] for row in rows]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sampling_seed": -1}, r"`sampling_seed` must be in \[0, 2\*\*63\); got -1"),
        ({"shuffle_seed": 2**63}, r"`shuffle_seed` must be in \[0, 2\*\*63\); got"),
        ({"num_epochs": 0}, "`num_epochs` must be at least 1 or None; got 0"),
        ({"rows": ()}, "`seeds` must have at least one; got none"),
    ],
)
def test_bad_arguments_are_refused(tables, fields, message):
    rows = np.array(fields.pop("rows", (0, 1)), np.int64)

    with pytest.raises(ValueError, match=message):
        subgraph_dataset(tables, PLAN, _seeds(tables, rows), **fields)

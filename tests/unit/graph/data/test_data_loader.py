from __future__ import annotations

import numpy as np
import pytest

import tfx_gnn
from tfx_gnn import DataLoader, EdgeLayout, FieldRule, GraphData, GraphLayout

DATA = [
    GraphData(x=np.full([size, 2], size, np.float32), edge_index=[[0], [size - 1]], y=size, name=f"n{size}")
    for size in range(1, 8)
]
LAYOUT = GraphLayout(
    node_sets={"nodes": {"x": "x"}}, edge_sets={"edges": EdgeLayout(source="nodes", target="nodes")}, context={"y": "y"}
)


def labels(loader):
    return [batch.y.tolist() for batch in loader]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"batch_size": 3}, [[1, 2, 3], [4, 5, 6], [7]]),
        ({"batch_size": 3, "drop_last": True}, [[1, 2, 3], [4, 5, 6]]),
        ({"batch_size": 100}, [[1, 2, 3, 4, 5, 6, 7]]),
        ({"batch_size": 2, "sampler": [6, 0, 6]}, [[7, 1], [7]]),
        ({"batch_sampler": [[0, 1], [], [2]][::2]}, [[1, 2], [3]]),
        ({}, [[1], [2], [3], [4], [5], [6], [7]]),
    ],
)
def test_batches_are_made_in_order(options, expected):
    loader = DataLoader(DATA, **options)

    assert labels(loader) == expected
    assert labels(loader) == expected
    assert len(loader) == len(expected)


def test_each_epoch_has_an_order_that_the_seed_determines():
    loader, other = (DataLoader(DATA, batch_size=7, shuffle=True, seed=seed) for seed in (1, 2))

    first, second = labels(loader), labels(loader)

    assert sorted(first[0]) == sorted(second[0]) == [1, 2, 3, 4, 5, 6, 7]
    assert first != second
    assert first != labels(other)
    again = DataLoader(DATA, batch_size=7, shuffle=True, seed=1)
    assert [labels(again), labels(again)] == [first, second]


def test_options_of_collate_are_passed_on():
    loader = DataLoader(
        DATA, batch_size=7, follow_batch=["edge_index"], exclude_keys=["name"], rules={"x": FieldRule()}
    )

    batch = next(iter(loader))

    assert batch.edge_index_batch.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert "name" not in batch


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "`batch_size` must be an integer of at least 1; got 0"),
        ({"batch_size": 1.5}, ValueError, "got 1.5"),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError, "`batch_sampler` must be given without"),
        ({"sampler": [0], "shuffle": True}, ValueError, "`sampler` must be given without shuffle"),
        ({"sampler": iter([0])}, TypeError, "must start again with each epoch; got an iterator"),
        ({"data": iter(DATA)}, TypeError, "`data` must be a list of examples; got list_iterator"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        DataLoader(**{"data": DATA, **options})


def test_a_data_set_has_graphs_if_there_is_a_layout():
    dataset = DataLoader(DATA, batch_size=3, layout=LAYOUT).as_dataset()

    graphs = list(dataset)

    assert dataset.cardinality() == 3
    assert [graph.context["y"].numpy().tolist() for graph in graphs] == [[1, 2, 3], [4, 5, 6], [7]]
    assert graphs[0].edge_sets["edges"].adjacency.target.numpy().tolist() == [0, 2, 5]
    assert graphs[0].node_sets["nodes"]["x"].shape == [6, 2]
    assert dataset.element_spec.node_sets_spec["nodes"].features_spec["x"].shape.as_list() == [None, 2]


def test_a_data_set_has_tensors_by_key_if_there_is_none():
    dataset = DataLoader(DATA, batch_size=4).as_dataset()

    first, second = dataset

    assert first["edge_index"].numpy().tolist() == [[0, 1, 3, 6], [0, 2, 5, 9]]
    assert second["name"].numpy().tolist() == [b"n5", b"n6", b"n7"]
    assert second["ptr"].numpy().tolist() == [0, 5, 11, 18]
    assert dataset.element_spec["edge_index"].shape.as_list() == [2, None]


def test_what_is_no_tensor_is_refused_in_a_data_set():
    with pytest.raises(ValueError, match="`nested` must hold arrays, numbers or strings"):
        DataLoader([GraphData(nested={"a": 1})]).as_dataset()
    with pytest.raises(ValueError, match="must hold an example"):
        DataLoader([]).as_dataset()
    hetero = tfx_gnn.HeteroGraphData()
    hetero["p"].x = np.zeros([1, 1])
    with pytest.raises(ValueError, match="`layout` must be given"):
        DataLoader([hetero]).as_dataset()


@pytest.mark.parametrize("options", [{"sampler": [0, 7]}, {"batch_sampler": [[-8]]}])
def test_samplers_yield_indices_of_examples(options):
    with pytest.raises(IndexError, match=r"`sampler` must yield indices in \[0, 7\).*got (7|-8)"):
        list(DataLoader(DATA, **options))

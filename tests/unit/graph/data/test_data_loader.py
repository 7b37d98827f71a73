from __future__ import annotations

import copy
import pickle
import types

import numpy as np
import pytest

import tfx_gnn
from tfx_gnn import DataLoader, EdgeLayout, FieldRule, GraphData, GraphLayout
from tfx_gnn.graph.data import data_loader

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
        ({"generator": 3}, TypeError, "`generator` must be a numpy.random.Generator"),
        ({"generator": np.random.default_rng(), "seed": 3}, ValueError, "`seed` must be absent"),
        ({"collate_fn": len, "exclude_keys": ["x"]}, ValueError, "`collate_fn` must be given without"),
        ({"dataset": DATA}, ValueError, "`data` and `dataset` must not both be given"),
        ({"num_worker": 3}, TypeError, "`num_worker` must be an argument of DataLoader"),
        ({"num_workers": -1}, ValueError, "`num_workers` must be an integer of at least 0; got -1"),
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


def test_arguments_of_pytorch_without_effect_are_attributes_and_logged_once(caplog):
    given = {
        "num_workers": 2,
        "pin_memory": True,
        "timeout": 5,
        "worker_init_fn": print,
        "multiprocessing_context": "spawn",
        "prefetch_factor": 4,
        "persistent_workers": True,
        "pin_memory_device": "cuda",
        "in_order": False,
    }
    data_loader._said.clear()

    loader = DataLoader(DATA, batch_size=4, **given)
    first = len(caplog.records)
    DataLoader(DATA, **given)

    assert {name: getattr(loader, name) for name in given} == given
    assert labels(loader) == [[1, 2, 3, 4], [5, 6, 7]]
    assert first == len(caplog.records) == len(given)
    assert "`num_workers` of DataLoader has no effect" in caplog.text
    data_loader._said.clear()
    DataLoader(DATA, num_workers=0, pin_memory=False, worker_init_fn=None)
    assert len(caplog.records) == first
    with pytest.raises(AttributeError, match="`workers` must be an attribute of DataLoader"):
        _ = loader.workers


def test_a_loader_tells_what_it_was_given():
    loader = DataLoader(dataset=DATA, batch_size=4, drop_last=True, follow_batch=None, exclude_keys=None, shuffle=None)
    batches = DataLoader(DATA, batch_sampler=[[0], [1, 2]])

    assert loader.dataset is DATA
    assert (loader.batch_size, loader.drop_last, loader.num_workers, loader.generator) == (4, True, 0, None)
    assert (list(loader.sampler), len(loader.sampler)) == ([0, 1, 2, 3, 4, 5, 6], 7)
    assert ([list(one) for one in loader.batch_sampler], len(loader.batch_sampler)) == ([[0, 1, 2, 3]], 1)
    assert (batches.batch_size, batches.batch_sampler) == (None, [[0], [1, 2]])
    assert DataLoader(DATA, sampler=[3]).sampler == [3]
    assert loader.collate_fn(DATA[:2]).y.tolist() == [1, 2]


def test_arguments_have_the_order_of_pyg():
    loader = DataLoader(*[DATA, 7, True, ["edge_index"], ["name"]])

    batch = next(iter(loader))

    assert sorted(batch.y.tolist()) == [1, 2, 3, 4, 5, 6, 7]
    assert batch.edge_index_batch.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert "name" not in batch


def test_the_sampler_has_the_order_of_the_next_epoch():
    loader = DataLoader(DATA, batch_size=7, shuffle=True, seed=3)

    for _ in range(2):
        order = list(loader.sampler)
        assert [index + 1 for index in order] == labels(loader)[0]


def test_a_generator_draws_the_orders():
    epochs = [labels(loader := DataLoader(DATA, 7, shuffle=True, generator=np.random.default_rng(5))), labels(loader)]
    again = DataLoader(DATA, 7, shuffle=True, generator=np.random.default_rng(5))

    assert [labels(again), labels(again)] == epochs
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0][0]) == [1, 2, 3, 4, 5, 6, 7]
    torch_generator = types.SimpleNamespace(initial_seed=lambda: 4)
    assert labels(DataLoader(DATA, 7, shuffle=True, generator=torch_generator)) == labels(
        DataLoader(DATA, 7, shuffle=True, seed=4)
    )


def test_a_function_makes_the_batches():
    loader = DataLoader(["a", "b", "c"], batch_size=2, collate_fn="".join)

    assert list(loader) == ["ab", "c"]
    with pytest.raises(ValueError, match="`collate_fn` must be absent to make a data set"):
        loader.as_dataset()


def test_a_loader_can_be_pickled_and_copied():
    loader = DataLoader([GraphData(x=np.ones([2, 1]), edge_index=np.array([[0], [1]]))] * 2, batch_size=2)

    for again in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        assert [batch.num_edges for batch in again] == [2]

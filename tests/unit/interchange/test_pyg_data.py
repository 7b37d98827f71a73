"""Skipped where torch and PyG are not installed: they take 3 GB. `uv sync --group peers` installs them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tfx_gnn import from_pyg, to_pyg

torch = pytest.importorskip("torch", reason="torch takes 3 GB; `uv sync --group peers` installs it")
with warnings.catch_warnings():
    # What PyG says of torch when it is imported.
    warnings.simplefilter("ignore")
    from torch_geometric.data import Data, HeteroData


def test_data_becomes_nodes_and_edges_and_comes_back():
    data = Data(
        x=torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        edge_attr=torch.tensor([[0.5], [1.5], [2.5]]),
        y=torch.tensor([1, 0, 1]),
        train_mask=torch.tensor([True, False, True]),
    )

    graph = from_pyg(data)

    assert set(graph.node_sets["nodes"].features) == {"x", "y", "train_mask"}
    assert graph.node_sets["nodes"]["x"].dtype == "float32"
    assert graph.edge_sets["edges"]["edge_attr"].shape == [3, 1]
    back = to_pyg(graph)
    assert isinstance(back, Data)
    for key in ("x", "edge_index", "edge_attr", "y", "train_mask"):
        assert torch.equal(back[key], data[key])
        assert back[key].dtype == data[key].dtype


def test_labels_of_a_graph_are_its_context():
    data = Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([3]))

    graph = from_pyg(data)

    assert graph.context["y"].numpy().tolist() == [3]
    assert to_pyg(graph).y.tolist() == [3]


def test_heterogeneous_data_keeps_its_types():
    data = HeteroData()
    data["user"].x = torch.ones(3, 2)
    data["user"].name = ["ann", "bob", "cy"]
    data["item"].num_nodes = 2
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 2], [1, 0]])
    data["user", "buys", "item"].time = torch.tensor([5, 6])
    data["user", "to", "item"].edge_index = torch.tensor([[0], [1]])
    data["item", "to", "user"].edge_index = torch.tensor([[1], [0]])
    data.shop = torch.tensor([9])

    graph = from_pyg(data)

    assert set(graph.edge_sets) == {"buys", "user__to__item", "item__to__user"}
    assert graph.node_sets["user"]["name"].numpy().tolist() == [b"ann", b"bob", b"cy"]
    assert graph.node_sets["item"].sizes.numpy().tolist() == [2]
    assert graph.context["shop"].numpy().tolist() == [9]
    back = to_pyg(graph)
    assert isinstance(back, HeteroData)
    assert back.metadata() == data.metadata()
    assert back["user"].name == ["ann", "bob", "cy"]
    assert torch.equal(back["user", "buys", "item"].time, torch.tensor([5, 6]))
    assert back["item"].num_nodes == 2
    back.validate()


@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
def test_what_cannot_be_taken_is_refused_with_a_remedy():
    data = HeteroData()
    data["user", "buys", "item"].edge_index = torch.tensor([[0], [1]])
    data["user"].x = torch.ones(1, 1)

    with pytest.raises(ValueError, match="known number of nodes; got none for 'item'"):
        from_pyg(data)


def test_tensors_on_a_device_or_with_gradients_are_copied():
    data = Data(x=torch.ones(2, 1, requires_grad=True), edge_index=torch.tensor([[0], [1]]))

    assert np.array_equal(from_pyg(data).node_sets["nodes"]["x"].numpy(), np.ones((2, 1)))

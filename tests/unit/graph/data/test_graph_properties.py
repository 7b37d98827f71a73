"""Properties of examples and batches have the values of PyG 2.8.1, which were read off there."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn import GraphData, HeteroGraphData, collate

ONE = GraphData(x=np.ones([4, 3]), edge_index=[[0, 1, 1, 2], [1, 0, 2, 2]], edge_attr=np.ones([4, 2]), y=np.array([1]))
TWO = GraphData(x=np.ones([2, 3]), edge_index=[[0, 1], [1, 0]], edge_attr=np.ones([2, 2]), y=np.array([1]))
MESH = GraphData(pos=np.ones([4, 3]), face=[[0, 1], [1, 2], [2, 3]])


def typed():
    data = HeteroGraphData()
    data["p"].x = np.arange(6.0).reshape(2, 3)
    data["a"].x = np.arange(9.0).reshape(3, 3) + 10
    data["p", "w", "a"].edge_index = [[0, 1], [2, 0]]
    data["p", "w", "a"].edge_attr = np.ones([2, 7])
    data["a", "r", "a"].edge_index = [[0, 1], [1, 0]]
    data["p"].label = np.array([1, 2])
    data.y = np.array([3])
    return data


def properties(data):
    return {
        name: value() if callable(value := getattr(data, name)) else value
        for name in [
            "num_nodes",
            "num_edges",
            "num_features",
            "num_node_features",
            "num_edge_features",
            "size",
            "is_undirected",
            "is_directed",
            "has_isolated_nodes",
            "has_self_loops",
            "is_coalesced",
            "is_sorted",
            "keys",
        ]
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ONE, (4, 4, 3, 3, 2, (4, 4), False, True, True, True, True, True, ["x", "edge_index", "edge_attr", "y"])),
        (TWO, (2, 2, 3, 3, 2, (2, 2), True, False, False, False, True, True, ["x", "edge_index", "edge_attr", "y"])),
        (
            collate([ONE, TWO]),
            (
                6,
                6,
                3,
                3,
                2,
                (6, 6),
                False,
                True,
                True,
                True,
                True,
                True,
                ["x", "edge_index", "edge_attr", "y", "batch", "ptr"],
            ),
        ),
        (
            typed(),
            (
                5,
                4,
                {"p": 3, "a": 3},
                {"p": 3, "a": 3},
                {("p", "w", "a"): 7, ("a", "r", "a"): 0},
                (5, 5),
                False,
                True,
                False,
                False,
                True,
                True,
                ["y", "x", "label", "edge_index", "edge_attr"],
            ),
        ),
        (
            collate([typed(), typed()]),
            (
                10,
                8,
                {"p": 3, "a": 3},
                {"p": 3, "a": 3},
                {("p", "w", "a"): 7, ("a", "r", "a"): 0},
                (10, 10),
                False,
                True,
                False,
                False,
                True,
                True,
                ["y", "x", "label", "batch", "ptr", "edge_index", "edge_attr"],
            ),
        ),
    ],
    ids=["example", "undirected", "batch", "types", "batch of types"],
)
def test_properties_of_a_graph_are_those_of_pyg(data, expected):
    assert tuple(properties(data).values()) == expected


@pytest.mark.parametrize(
    ("edges", "values", "expected"),
    [
        ([[0, 1, 0], [1, 0, 1]], {}, (False, False, True, False)),
        ([[0, 1], [1, 0]], {"edge_attr": [[1.0], [2.0]]}, (False, True, True, False)),
        ([[0, 1], [1, 0]], {"edge_attr": [[1.0], [1.0]]}, (True, True, True, False)),
        ([[1, 0], [0, 1]], {}, (True, False, True, False)),
        ([[0, 0], [1, 1]], {}, (False, False, True, False)),
        ([[0, 0], [0, 0]], {}, (True, False, True, True)),
        ([[], []], {}, (True, True, True, False)),
        ([[0, 1, 1, 2], [1, 0, 2, 1]], {}, (True, True, False, False)),
    ],
)
def test_edges_make_the_kind_of_graph_that_pyg_sees(edges, values, expected):
    data = GraphData(x=np.ones([3, 1]), edge_index=edges, **values)

    found = (data.is_undirected(), data.is_coalesced(), data.has_isolated_nodes(), data.has_self_loops())

    assert found == expected


def test_faces_count_in_examples_and_batches():
    assert (MESH.num_faces, collate([MESH, MESH]).num_faces, ONE.num_faces) == (2, 4, None)


def test_one_number_per_item_is_one_feature():
    data = GraphData(x=np.ones([2]), edge_attr=np.ones([5]))

    assert (data.num_features, data.num_edge_features, data.num_edges) == (1, 1, 5)
    assert GraphData(x=np.ones([2, 3, 4])).num_features == 4


def test_standard_attributes_are_none_and_others_are_absent():
    empty = GraphData()

    names = ("x", "edge_index", "edge_attr", "edge_weight", "y", "pos", "face", "batch", "time")
    assert [getattr(empty, name) for name in names] == [None] * 9
    assert not hasattr(empty, "ptr")
    assert not hasattr(typed(), "x")
    assert not hasattr(typed()["p"], "pos")
    assert (bool(empty), bool(HeteroGraphData()), bool(typed()), len(typed())) == (False, False, True, 5)


def test_items_of_nodes_and_edges_are_told_by_their_rows():
    data = GraphData(
        x=np.ones([2, 1]), z=np.ones([3]), edge_index=np.zeros([2, 3], int), edge_w=np.ones([3]), names=["a", "b"]
    )

    assert (data.node_attrs(), data.edge_attrs()) == (["x", "names"], ["edge_index", "z", "edge_w"])


def test_values_of_all_types_are_collected():
    data = typed()
    batch = collate([data, data])

    assert list(data.x_dict) == ["p", "a"]
    assert data.edge_index_dict["p", "w", "a"].tolist() == [[0, 1], [2, 0]]
    assert list(data.edge_attr_dict) == [("p", "w", "a")]
    assert (data.num_nodes_dict, data.num_edges_dict[("a", "r", "a")]) == ({"p": 2, "a": 3}, 2)
    assert batch.batch_dict["a"].tolist() == [0, 0, 0, 1, 1, 1]
    assert batch.ptr_dict["p"].tolist() == [0, 2, 4]
    assert data.metadata() == (["p", "a"], [("p", "w", "a"), ("a", "r", "a")])
    assert not hasattr(data, "zzz_dict")
    with pytest.raises(KeyError, match="`zzz` must be a value of a type"):
        data.collect("zzz")
    assert data.collect("zzz", allow_empty=True) == {}


def test_types_are_found_by_relation_and_by_their_ends():
    data = typed()

    assert data["w"].num_edges == data["p", "a"].num_edges == 2
    assert [len(store) for store in data.node_stores] == [2, 1]
    assert [key for key, _ in data.edge_items()] == data.edge_types
    assert (data["p", "w", "a"].size(), data["w"].is_bipartite(), data["r"].is_undirected()) == ((2, 3), True, True)
    assert (data["w"].has_isolated_nodes(), data["r"].has_isolated_nodes()) == (True, True)
    assert (list(data["p"]), data["p"].num_features, data["w"].num_features) == (["x", "label"], 3, 7)
    assert not hasattr(data["p"], "num_edges")
    assert not hasattr(data["w"], "num_nodes")
    data["p", "again", "a"].edge_index = [[0], [0]]
    with pytest.raises(KeyError, match="`key` must name one type of edges"):
        data["p", "a"]


def test_types_are_given_as_dicts():
    edges = {"edge_index": [[0], [1]]}

    one = HeteroGraphData({"p": {"x": np.ones([2, 2])}, ("p", "w", "p"): edges})
    two = HeteroGraphData(p={"x": np.ones([2, 2])}, p__w__p=edges, y=3)

    assert one.metadata() == two.metadata() == (["p"], [("p", "w", "p")])
    assert two.y == 3
    assert HeteroGraphData(two.to_dict()).y == 3


def test_types_become_one():
    data = typed().to_homogeneous()

    assert data.x.tolist() == [[0, 1, 2], [3, 4, 5], [10, 11, 12], [13, 14, 15], [16, 17, 18]]
    assert data.edge_index.tolist() == [[0, 1, 2, 3], [4, 2, 3, 2]]
    assert (data.node_type.tolist(), data.edge_type.tolist()) == ([0, 0, 1, 1, 1], [0, 0, 1, 1])
    assert data.label.tolist() == [1, 2, -1, -1, -1]
    assert data.edge_attr[:, 0].tolist() == pytest.approx([1, 1, np.nan, np.nan], nan_ok=True)
    assert typed().to_homogeneous(dummy_values=False, add_node_type=False).keys() == [
        "x",
        "edge_index",
        "y",
        "edge_type",
    ]
    data = typed()
    data["a"].x = np.ones([3, 5])
    assert data.to_homogeneous().num_nodes == 5
    with pytest.raises(ValueError, match="`x` must be an array whose rows have one shape in all types"):
        data.to_homogeneous(node_attrs=["x"])


def test_a_clone_shares_nothing():
    data, batch = typed(), collate([ONE, TWO])

    data.clone()["p"].x[:] = 7
    batch.clone().x[:] = 7

    assert data["p"].x.max() == 5
    assert batch.x.max() == 1
    assert type(batch.clone()) is type(batch)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GraphData(x=np.ones([2, 1]), edge_index=[[0, 5], [1, 0]]), "from 0 and below 2; got 5 in GraphData"),
        (GraphData(x=np.ones([2, 1]), edge_index=[[0, -1], [1, 0]]), "from 0 and below 2; got -1"),
        (GraphData(x=np.ones([2]), edge_index=np.ones([3, 2], int)), r"must have shape \[2, num_edges\]; got \[3, 2\]"),
        (GraphData(edge_index=[[0], [1]]), "`num_nodes` must be known"),
        (HeteroGraphData(p={"num_nodes": 2}, p__w__a={"edge_index": [[0], [0]]}), "known of nodes of type 'a'"),
        (HeteroGraphData(p={"num_nodes": 2}, p__w__p={"edge_index": [[0], [2]]}), "below 2; got 2 in edges"),
    ],
)
def test_faults_of_edges_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        data.validate()
    with pytest.warns(UserWarning, match=message):
        assert not data.validate(raise_on_error=False)


def test_sound_graphs_are_valid():
    assert ONE.validate()
    assert typed().validate()
    assert collate([ONE, TWO]).validate()
    assert GraphData(z=1).update({"y": 2}).get("y") == 2
    assert GraphData().update(ONE).get("q", 5) == 5

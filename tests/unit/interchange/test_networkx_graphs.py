from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tfx_gnn import from_networkx, to_networkx


def test_an_undirected_graph_has_each_edge_there_and_back():
    made = nx.Graph()
    made.add_edge("a", "b", weight=0.5)
    made.add_edge("b", "b", weight=1.5)

    graph = from_networkx(made)

    assert graph.node_sets["nodes"]["#id"].numpy().tolist() == [b"a", b"b"]
    edges = graph.edge_sets["edges"]
    assert edges.adjacency.source.numpy().tolist() == [0, 1, 1]
    assert edges.adjacency.target.numpy().tolist() == [1, 0, 1]
    assert edges["weight"].numpy().tolist() == [0.5, 0.5, 1.5]


def test_attributes_name_sets_and_become_features():
    made = nx.MultiDiGraph(shop="north")
    made.add_node("ann", node_set="users", age=31, embedding=[1.0, 2.0])
    made.add_node("bob", node_set="users", age=45, embedding=[3.0, 4.0])
    made.add_node(7, node_set="products", price=9.5)
    made.add_edge("bob", 7, edge_set="orders", amount=2)
    made.add_edge("bob", 7, edge_set="orders", amount=3)
    made.add_edge("ann", "bob", edge_set="knows")

    graph = from_networkx(made)

    assert graph.node_sets["users"]["age"].numpy().tolist() == [31, 45]
    assert graph.node_sets["users"]["embedding"].shape == [2, 2]
    assert graph.node_sets["products"]["#id"].numpy().tolist() == [7]
    assert graph.edge_sets["orders"]["amount"].numpy().tolist() == [2, 3]
    assert graph.edge_sets["knows"].adjacency.target_name == "users"
    assert graph.context["shop"].numpy().tolist() == [b"north"]

    again = from_networkx(to_networkx(graph))

    assert again.spec == graph.spec
    assert again.node_sets["users"]["#id"].numpy().tolist() == [b"ann", b"bob"]
    assert again.edge_sets["orders"]["amount"].numpy().tolist() == [2, 3]
    assert again.edge_sets["orders"].adjacency.source.numpy().tolist() == [1, 1]


def test_the_same_graph_comes_back():
    made = nx.karate_club_graph().to_directed()

    back = to_networkx(from_networkx(made))

    assert sorted(back.nodes) == sorted(made.nodes)
    assert sorted((a, b, row["weight"]) for a, b, row in back.edges(data=True)) == sorted(
        (a, b, row["weight"]) for a, b, row in made.edges(data=True)
    )
    assert back.nodes[0]["club"] == "Mr. Hi"
    assert type(back.edges[0, 1, 0]["weight"]) is int


def _graph(*nodes, edges=(), directed=True):
    made = nx.DiGraph() if directed else nx.Graph()
    for name, attributes in nodes:
        made.add_node(name, **attributes)
    made.add_edges_from(edges)
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (nx.Graph(), "must have a node set; got none. Add a node"),
        (_graph((0, {"x": 1}), (1, {})), "got 'x' without a value in 1 of 2 of node set 'nodes'"),
        (_graph((0, {}), ("a", {})), "got int, str in node set 'nodes'. Rename them"),
        (
            _graph((0, {"node_set": "a"}), (1, {"node_set": "b"}), edges=[(0, 1)], directed=False),
            r"got \[\('a', 'b'\), \('b', 'a'\)\] in 'edges'",
        ),
        (_graph((0, {"x": np.nan}), (1, {"x": "u"})), "got 1 rows without one in 'x' of node set 'nodes'"),
    ],
)
def test_mistakes_say_what_where_and_what_to_do(made, message):
    with pytest.raises(ValueError, match=message):
        from_networkx(made)

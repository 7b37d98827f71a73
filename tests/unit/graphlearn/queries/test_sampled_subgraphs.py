"""Subgraphs around nodes and edges: which nodes, which edges, which distances."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn import SampledSubGraph, SampledSubGraphs

PAIRS = [(1, 2), (1, 3), (2, 3), (3, 4), (4, 5), (2, 1), (6, 7)]


@pytest.fixture(scope="module")
def store(make_store):
    return make_store({"n": {"id": list(range(1, 8))}}, {"e": ("n", "n", PAIRS, {"weight": [1.0] * len(PAIRS)})})


def test_a_subgraph_has_all_edges_among_the_sampled_nodes(store):
    found = store.V("n").batch(2).SubGraph("e", [0]).alias("s").values().next()["s"]

    assert isinstance(found, SampledSubGraphs)
    assert len(found) == 2
    assert isinstance(found[0], SampledSubGraph)
    assert found[0].nodes.ids.tolist() == [1, 2, 3]
    assert found[0].edge_index.tolist() == [[0, 0, 1, 1], [1, 2, 2, 0]]
    assert found[0].edges.edge_ids.tolist() == [0, 1, 2, 5]
    assert found[0].edges.src_ids.tolist() == [1, 1, 2, 2]
    assert found[0].edges.dst_ids.tolist() == [2, 3, 3, 1]
    assert found[1].nodes.ids.tolist() == [2, 3, 1]
    assert found[0].dist_to_src is found[0].dist_to_dst is None


def test_a_subgraph_of_an_edge_lacks_that_edge_and_its_reverse_and_has_distances_to_both_ends(store):
    found = store.E("e").batch(7).SubGraph("e", [0, 0], need_dist=True).alias("s").values().next()["s"]

    first = found[0]  # of the edge from 1 to 2
    assert first.nodes.ids.tolist() == [1, 2, 3, 4]
    assert first.edge_index.tolist() == [[0, 1, 2], [2, 2, 3]]
    assert first.dist_to_src.tolist() == [0, 2, 1, 2]
    assert first.dist_to_dst.tolist() == [2, 0, 1, 2]
    last = found[-1]  # of the edge from 6 to 7, which have no other
    assert last.nodes.ids.tolist() == [6, 7]
    assert last.edge_index.shape == (2, 0)
    assert (last.dist_to_src.tolist(), last.dist_to_dst.tolist()) == ([0, -1], [-1, 0])


def test_the_distance_to_a_node_is_counted_in_edges_of_any_direction(store):
    found = store.V("n").batch(7).SubGraph("e", [0, 0, 0], need_dist=True).alias("s").values().next()["s"]

    assert found[0].nodes.ids.tolist() == [1, 2, 3, 4, 5]
    assert found[0].dist_to_src.tolist() == [0, 1, 1, 2, 3]
    assert found[0].dist_to_dst is None
    assert [len(one.nodes.ids) for one in found] == [5, 5, 3, 2, 1, 2, 1]


def test_as_many_neighbors_are_sampled_as_asked_for(make_store, statistic):
    store = make_store({"n": {"id": list(range(5))}}, {"e": ("n", "n", [(0, leaf) for leaf in range(1, 5)], {})})
    query = store.V("n").batch(4000).shuffle().SubGraph("e", [2]).alias("s").values()

    hubs = [one.nodes.ids for one in query.next()["s"] if one.nodes.ids[0] == 0]

    assert {len(ids) for ids in hubs} == {3}
    assert statistic(np.bincount(np.concatenate(hubs))[1:], [1] * 4) < 16.27


def test_subgraphs_of_timestamped_edges_have_earlier_edges_only(make_store):
    pairs = [(1, 2), (1, 3), (1, 4), (3, 2)]
    store = make_store({"n": {"id": [1, 2, 3, 4]}}, {"e": ("n", "n", pairs, {"timestamp": [5, 1, 6, 4]})})

    found = store.E("e").batch(1).SubGraph("e", [0, 0]).alias("s").values().next()["s"]

    assert found[0].nodes.ids.tolist() == [1, 2, 3]
    assert found[0].edges.timestamps.tolist() == [1, 4]


def test_subgraphs_from_ends_of_reversed_edges_start_at_their_source(store):
    found = store.E("e", reverse=True).batch(4).SubGraph("e", 1).alias("s").values().next()["s"]

    assert found[3].nodes.ids[:2].tolist() == [4, 3]
    assert repr(found) == "SampledSubGraphs('e', 4 subgraphs)"
    with pytest.raises(TypeError, match=r"`index` must be the position of a subgraph; got slice\(0, 2, None\)"):
        found[0:2]

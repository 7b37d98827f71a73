"""Labels of nodes relative to the pair of their subgraph, worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfx_gnn.sampling.engine.sampled_subgraphs import SampledEdges, SampledNodes
from tfx_gnn.sampling.engine.structure_labels import MAX_DISTANCE, NUM_STRUCTURE_LABELS, label_structure

# Node 0 is the source, node 1 the target. 2 is next to both; 3 is next to 0, and 4 next to 3 and 1; 5 hangs on 4;
# 6 and 7 are next to each other only.
PAIRS = [(0, 2), (2, 1), (3, 0), (3, 4), (4, 1), (5, 4), (6, 7)]


def _nodes(*sizes):
    return SampledNodes(rows=np.arange(sum(sizes)), splits=np.cumsum([0, *sizes]))


def _edges(*subgraphs):
    ends = np.array([pair for pairs in subgraphs for pair in pairs], np.int64).reshape(-1, 2)
    splits = np.cumsum([0, *map(len, subgraphs)])
    return SampledEdges(rows=np.arange(len(ends)), sources=ends[:, 0], targets=ends[:, 1], splits=splits)


def _label(kind, pairs, num_nodes, source=0, target=1):
    roots = ("node", np.array([source])), ("node", np.array([target]))
    labels = label_structure(kind, {"node": _nodes(num_nodes)}, {"edge": _edges(pairs)}, {"edge": ("node",) * 2}, roots)
    return labels["node"].tolist()


@pytest.mark.parametrize("extra", [[], [(0, 1)], [(1, 0), (0, 1), (0, 1)]], ids=["hidden", "there", "both ways"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("common_neighbor", [0, 0, 1, 2, 2, 2, 2, 2]),
        # Around the other root, nodes at (distance to 0, to 1): 2 (1, 1), 3 (1, 2), 4 (2, 1), 5 (3, 2), 6 and 7 none.
        # (2, 3): d = 5, 1 + 2 + 2 * (2 + 1 - 1) = 7.
        ("drnl", [1, 1, 2, 3, 3, 7, 0, 0]),
        ("distance", [[0, 2], [2, 0], [1, 1], [1, 2], [2, 1], [3, 2], [11, 11], [11, 11]]),
    ],
)
def test_labels_are_the_same_whether_or_not_the_pair_is_linked(kind, expected, extra):
    assert _label(kind, PAIRS + extra, 8) == expected


def test_double_radius_labels_number_pairs_of_distances():
    # Two paths from the source and two from the target meet in nodes at (1, 1), (1, 2), (1, 3) and (2, 2).
    pairs = [(0, 2), (2, 1), (0, 3), (3, 4), (4, 1), (0, 5), (5, 6), (6, 7), (7, 1), (0, 8), (8, 9), (9, 10), (10, 1)]
    labels = _label("drnl", pairs, 11)

    assert [labels[2], labels[3], labels[5], labels[6]] == [2, 3, 4, 5]
    assert [labels[0], labels[1]] == [1, 1]


def test_double_radius_labels_ascend_by_the_sum_of_distances_then_by_the_smaller_one():
    labels = []
    for total in range(2, 8):
        for near in range(1, total // 2 + 1):
            ends = [0, *range(2, total + 1), 1]
            labels.append(_label("drnl", list(itertools.pairwise(ends)), total + 1)[ends[near]])

    assert labels == list(range(2, 2 + 12))


def test_double_radius_paths_do_not_go_through_the_other_root():
    # 2 reaches the source only through the target.
    assert _label("drnl", [(0, 3), (3, 1), (1, 2)], 4) == [1, 1, 0, 2]
    assert _label("distance", [(0, 3), (3, 1), (1, 2)], 4) == [[0, 2], [2, 0], [3, 1], [1, 1]]


def test_distances_are_capped_and_missing_paths_told_apart():
    chain = [(0, 2), *((n, n + 1) for n in range(2, 15))]

    distances = _label("distance", chain, 16)

    assert distances[11] == [MAX_DISTANCE, MAX_DISTANCE + 1]
    assert distances[14] == [MAX_DISTANCE, MAX_DISTANCE + 1]
    assert distances[15] == [MAX_DISTANCE, MAX_DISTANCE + 1]
    assert distances[1] == [MAX_DISTANCE + 1, 0]


def test_labels_are_below_their_number():
    # A ring of 50: the node halfway is 25 away from both roots, next to each other but for the hidden edge.
    ring = [(0, 2), *((n, n + 1) for n in range(2, 49)), (49, 1)]

    assert max(_label("drnl", ring, 50)) == NUM_STRUCTURE_LABELS - 1


def test_pair_of_one_node_has_one_root():
    pairs = [(0, 0), (0, 1), (1, 2)]

    assert _label("common_neighbor", pairs, 3, target=0) == [0, 1, 2]
    assert _label("distance", pairs, 3, target=0) == [[0, 0], [1, 1], [2, 2]]
    assert _label("drnl", pairs, 3, target=0) == [1, 2, 5]


def test_paths_lead_through_all_node_sets_and_edge_sets():
    # ann (0) and item 0; ann knows bob (1), bob buys item 0 and item 1; the tag is on item 1. Cid (2) is alone.
    labels = {
        kind: label_structure(
            kind,
            {"item": _nodes(2), "tag": _nodes(1), "user": _nodes(3)},
            {"buys": _edges([(0, 0), (1, 0), (1, 1)]), "knows": _edges([(0, 1)]), "tagged": _edges([(1, 0)])},
            {"buys": ("user", "item"), "knows": ("user", "user"), "tagged": ("item", "tag")},
            (("user", np.array([0])), ("item", np.array([0]))),
        )
        for kind in ("common_neighbor", "distance", "drnl")
    }

    assert {name: values.tolist() for name, values in labels["common_neighbor"].items()} == {
        "user": [0, 1, 2],
        "item": [0, 2],
        "tag": [2],
    }
    assert {name: values.tolist() for name, values in labels["distance"].items()} == {
        "user": [[0, 2], [1, 1], [11, 11]],
        "item": [[2, 0], [2, 2]],
        "tag": [[3, 3]],
    }
    # (2, 2) is 5; (3, 3): d = 6, 1 + 3 + 3 * 2 = 10.
    assert {name: values.tolist() for name, values in labels["drnl"].items()} == {
        "user": [1, 2, 0],
        "item": [1, 5],
        "tag": [10],
    }


@pytest.mark.parametrize("kind", ["common_neighbor", "distance", "drnl"])
def test_labels_of_a_block_are_those_of_its_subgraphs(kind):
    draw = np.random.default_rng(1)
    sizes = [2, 30, 3, 12, 2]
    edges = [draw.integers(0, size, [2 * size, 2]).tolist() for size in sizes[:-1]] + [[]]
    roots = [(0, 1), (4, 2), (0, 0), (1, 0), (0, 1)]

    block = label_structure(
        kind,
        {"node": _nodes(*sizes)},
        {"edge": _edges(*edges)},
        {"edge": ("node", "node")},
        tuple(("node", np.array(ends)) for ends in zip(*roots, strict=True)),
    )

    alone = [_label(kind, pairs, size, *ends) for pairs, size, ends in zip(edges, sizes, roots, strict=True)]
    assert block["node"].tolist() == [label for labels in alone for label in labels]


def test_block_may_have_no_subgraphs():
    none = np.zeros(0, np.int64)

    labels = label_structure(
        "drnl", {"node": _nodes()}, {"edge": _edges()}, {"edge": ("node", "node")}, (("node", none), ("node", none))
    )

    assert labels["node"].tolist() == []

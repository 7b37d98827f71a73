"""Samples of neighbors: how often each is drawn, in which order, what stands in for missing ones."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn import Nodes

# 0.999 quantiles of chi-square by degrees of freedom
QUANTILES = {1: 10.83, 4: 18.47, 9: 27.88}


@pytest.fixture(scope="module")
def star(make_store):
    """A hub with four neighbors of weights 1, 2, 3 and 4 and in-degrees 1, 2, 3 and 4; and one whose weight is 0."""
    others = [(100 + number, leaf) for leaf in (1, 2, 3, 4) for number in range(leaf - 1)]
    pairs = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), *others]
    weights = [1.0, 2.0, 3.0, 4.0, 0.0] + [1.0] * len(others)
    ids = [0, 1, 2, 3, 4, 5, 100, 101, 102]
    return make_store({"n": {"id": ids}}, {"e": ("n", "n", pairs, {"weight": weights})})


def _draws(store, strategy, count, *, times=4000, filtered=""):
    """Returns samples of the hub: `times` draws of the first node, whose keys all differ."""
    query = store.V("n").batch(9 * times).shuffle().alias("v")
    sample = query.outV("e").sample(count).by(strategy)
    if filtered:
        sample.filter(filtered)
    batch = sample.alias("w").values().next()
    found = batch["w"].ids[batch["v"].ids == 0]
    assert len(found) > times / 2
    return found


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        ("random", [1, 1, 1, 1, 1]),
        ("random_without_replacement", [1, 1, 1, 1, 1]),
        ("edge_weight", [1, 2, 3, 4]),
        ("in_degree", [1, 2, 3, 4, 1]),
    ],
)
@pytest.mark.parametrize("filtered", ["", "v"], ids=["all", "filtered"])
def test_each_place_of_a_sample_has_the_distribution_of_its_strategy(star, statistic, strategy, shares, filtered):
    found = _draws(star, strategy, 3, filtered=filtered)

    for place in range(3):
        observed = np.bincount(found[:, place], minlength=6)[1:]
        assert statistic(observed[: len(shares)], shares) < QUANTILES[4]
        assert observed[len(shares) :].sum() == 0


@pytest.mark.parametrize("strategy", ["random", "edge_weight", "in_degree"])
@pytest.mark.parametrize("filtered", ["", "v"], ids=["all", "filtered"])
def test_draws_with_replacement_are_independent(star, statistic, strategy, filtered):
    found = _draws(star, strategy, 2, filtered=filtered)

    ones = [(found[:, place] == 3).mean() for place in range(2)]
    both = ((found[:, 0] == 3) & (found[:, 1] == 3)).sum()
    share = ones[0] * ones[1]
    assert statistic([both, len(found) - both], [share, 1 - share]) < QUANTILES[1]


def test_samples_without_replacement_hold_no_node_twice_and_all_sets_are_equally_likely(star, statistic):
    found = np.sort(_draws(star, "random_without_replacement", 3), axis=1)

    assert (np.diff(found, axis=1) > 0).all()
    _, counts = np.unique(found @ [100, 10, 1], return_counts=True)
    assert len(counts) == 10
    assert statistic(counts, [1] * 10) < QUANTILES[9]


def test_topk_takes_the_largest_weights_in_descending_order(star):
    assert _draws(star, "topk", 3, times=20)[0].tolist() == [4, 3, 2]


@pytest.mark.parametrize(
    ("padding_mode", "expected"),
    [
        ("circular", [[1, 2, 1, 2, 1], [3, 3, 3, 3, 3], [-7] * 5]),
        ("replicate", [[1, 2, -7, -7, -7], [3, -7, -7, -7, -7], [-7] * 5]),
    ],
)
@pytest.mark.parametrize("strategy", ["topk", "random_without_replacement"])
def test_too_few_neighbors_are_padded(make_store, padding_mode, expected, strategy):
    pairs = [(0, 1), (0, 2), (1, 3)]
    store = make_store(
        {"n": {"id": [0, 1, 2, 3]}},
        {"e": ("n", "n", pairs, {"weight": [2.0, 1.0, 1.0]})},
        padding_mode=padding_mode,
        default_neighbor_id=-7,
    )
    query = store.V("n").batch(3).outE("e").sample(5).by(strategy).alias("e").inV().alias("v").values()

    batch = query.next()

    assert isinstance(batch["v"], Nodes)
    found = batch["v"].ids.tolist()
    if found[0][0] == 2:
        found[0] = [3 - node if node > 0 else node for node in found[0]]  # the sample is in random order
    assert found == expected
    assert batch["v"].mask.tolist() == [[node > 0 for node in row] for row in expected]
    assert ((batch["e"].edge_ids >= 0) == batch["v"].mask).all()


@pytest.mark.parametrize(
    "strategy", ["random", "random_without_replacement", "edge_weight", "topk", "in_degree", "full"]
)
def test_hops_from_timestamped_edges_see_earlier_edges_only(shop, strategy):
    query = (
        shop.E("buy")
        .batch(30)
        .alias("e")
        .outV()
        .alias("u")
        .outE("buy")
        .sample(4)
        .by(strategy)
        .alias("near")
        .inV()
        .inE("buy")
        .sample(4)
        .by(strategy)
        .alias("far")
        .values()
    )

    batch = query.next()

    events = batch["e"].timestamps
    if strategy == "full":
        assert [row.timestamps.tolist() for row in batch["near"]][:3] == [[], [1], [1, 2]]
        of_near = np.repeat(events, batch["near"].offsets)
        assert (batch["far"].timestamps < np.repeat(of_near, batch["far"].offsets)).all()
        assert len(batch["far"].timestamps) > 0
        return
    near, far = batch["near"].timestamps, batch["far"].timestamps.reshape(30, 16)
    assert (near < events[:, np.newaxis]).all()
    assert (far < events[:, np.newaxis]).all()
    assert (batch["near"].mask == (events > 1)[:, np.newaxis]).all()
    assert (far > 0).any()


@pytest.mark.parametrize(("strategy", "shares"), [("random", [1, 1, 1]), ("edge_weight", [1, 2, 3])])
def test_earlier_edges_have_the_distribution_of_the_strategy(make_store, statistic, strategy, shares):
    pairs = [(0, leaf) for leaf in (5, 1, 4, 2, 3)] + [(9, 0)]
    columns = {"weight": [50.0, 1.0, 40.0, 2.0, 3.0, 1.0], "timestamp": [9, 1, 7, 6, 2, 7]}
    store = make_store({"n": {"id": [0, 1, 2, 3, 4, 5, 9]}}, {"e": ("n", "n", pairs, columns)})
    edges = store.E("e").batch(6).alias("e")
    edges.inV().outV("e").sample(4000).by(strategy).alias("w")

    batch = edges.values().next()

    found = batch["w"].ids[-1]  # of the edge from 9 to 0 at time 7
    assert statistic(np.bincount(found, minlength=6)[1:4], shares) < 13.82
    assert set(found) == {1, 2, 3}


def test_hops_from_timestamped_nodes_and_untimed_edges_see_all(shop):
    query = shop.E("knows").batch(10).outV().outE("buy").sample(0).by("full").alias("e").values()

    assert query.next()["e"].offsets.tolist() == [3] * 10


def test_filter_keeps_the_positive_out_of_the_neighborhood(make_store):
    pairs = [(user, item) for user in (1, 2) for item in (10, 11, 12)]
    store = make_store(
        {"u": {"id": [1, 2]}, "i": {"id": [10, 11, 12]}}, {"buy": ("u", "i", pairs, {"weight": [1.0] * 6})}
    )
    for strategy in ("random", "random_without_replacement", "edge_weight", "topk", "in_degree", "full"):
        edges = store.E("buy").batch(6).alias("e")
        edges.inV().alias("i")
        nodes = edges.outV().alias("u").outV("buy").sample(2).by(strategy).filter("i").alias("n")
        nodes.inV("buy").sample(3).by("full").filter("u").alias("far")

        batch = nodes.values().next()

        rows = [row.ids for row in batch["n"]] if strategy == "full" else batch["n"].ids
        assert all(positive not in row for positive, row in zip(batch["i"].ids, rows, strict=True))
        own = np.repeat(batch["u"].ids, 2)
        assert [row.ids.tolist() for row in batch["far"]] == [[3 - user] for user in own]


@pytest.mark.parametrize(
    ("strategy", "shares"), [("random", [1, 1, 1]), ("edge_weight", [1, 2, 3]), ("in_degree", [1, 1, 2])]
)
def test_what_a_filter_leaves_has_the_distribution_of_the_strategy(make_store, statistic, strategy, shares):
    # Nearly every draw by weight falls on the excluded node 4.
    pairs = [(0, 4), (0, 1), (0, 2), (0, 3), (9, 3)]
    store = make_store(
        {"n": {"id": [0, 1, 2, 3, 4, 9]}}, {"e": ("n", "n", pairs, {"weight": [1e6, 1.0, 2.0, 3.0, 1.0]})}
    )
    edges = store.E("e").batch(5)
    edges.inV().alias("positive")
    query = edges.outV().outV("e").sample(4000).by(strategy).filter("positive").alias("w").values()

    found = query.next()["w"].ids[0]

    assert statistic(np.bincount(found, minlength=5)[1:4], shares) < 13.82
    assert set(found) == {1, 2, 3}


def test_a_filter_that_leaves_nothing_gives_missing_nodes(make_store):
    store = make_store({"n": {"id": [1, 2]}}, {"e": ("n", "n", [(1, 2)], {})})
    edges = store.E("e").batch(1)
    edges.inV().alias("t")

    query = edges.outV().outV("e").sample(2).by("random").filter("t").alias("w").values()

    assert query.next()["w"].mask.tolist() == [[False, False]]
    assert query.counts == {"w": {"missing": 2}}


def test_several_edges_between_two_nodes_are_several_chances(make_store, statistic):
    store = make_store({"n": {"id": [1, 2, 3]}}, {"e": ("n", "n", [(1, 2), (1, 2), (1, 3)], {})})

    found = store.V("n").batch(1).outV("e").sample(3000).alias("w").values().next()["w"].ids[0]

    assert statistic([(found == 2).sum(), (found == 3).sum()], [2, 1]) < QUANTILES[1]

"""Random walks: along edges only, with the probabilities of node2vec, until there is no edge."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn import Nodes


@pytest.fixture(scope="module")
def kite(make_store):
    """Node 0 joins 1, 2 and 3, of which 1 and 2 are joined; in both directions. Node 9 has no edge."""
    both = [(0, 1), (0, 2), (0, 3), (1, 2)]
    pairs = both + [(target, source) for source, target in both]
    return make_store({"n": {"id": [0, 1, 2, 3, 9]}}, {"e": ("n", "n", pairs, {})})


def _walks(store, batch_size=20_000, **options):
    query = store.V("n").batch(batch_size).shuffle().alias("start")
    batch = query.random_walk("e", 2, **options).alias("walk").values().next()
    return np.concatenate([batch["start"].ids[:, np.newaxis], batch["walk"].ids], axis=1)


# From 1 to 0, the next may be 1 (back), 2 (a neighbor of 1) and 3 (no neighbor of 1).
@pytest.mark.parametrize(
    ("p", "q", "shares"),
    [
        (1, 1, [1, 1, 1]),
        (4, 0.25, [0.25, 1, 4]),
        (0.5, 2, [2, 1, 0.5]),
        (1e-3, 1, [1000, 1, 1]),
        (1e4, 1, [1e-4, 1, 1]),
    ],
)
def test_second_steps_have_the_weights_of_node2vec(kite, statistic, p, q, shares):
    walks = _walks(kite, p=p, q=q)

    after = walks[(walks[:, 0] == 1) & (walks[:, 1] == 0), 2]
    observed = np.array([(after == node).sum() for node in (1, 2, 3)])
    means = len(after) * np.array(shares) / sum(shares)
    assert statistic(observed[means >= 1], means[means >= 1]) < 13.82


def test_first_steps_are_uniform(kite, statistic):
    walks = _walks(kite, p=0.1, q=10)

    first = walks[walks[:, 0] == 0, 1]
    assert statistic([(first == node).sum() for node in (1, 2, 3)], [1, 1, 1]) < 13.82


def test_a_rare_way_out_is_taken_where_there_is_no_other(kite):
    walks = _walks(kite, batch_size=200, p=1e6, q=1)

    assert (walks[(walks[:, 0] == 0) & (walks[:, 1] == 3), 2] == 0).all()


def test_walks_end_where_no_edge_leaves(make_store):
    store = make_store({"n": {"id": [1, 2, 3]}}, {"e": ("n", "n", [(1, 2), (2, 3)], {})}, default_neighbor_id=-5)

    query = store.V("n").batch(3).random_walk("e", 3, p=2.0).alias("w").values()

    found = query.next()["w"]

    assert isinstance(found, Nodes)
    assert found.ids.tolist() == [[2, 3, -5], [3, -5, -5], [-5, -5, -5]]
    assert query.counts == {"w": {"missing": 6}}
    assert query.get_step("w").shape == (3, 3)


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_walks_from_timestamped_edges_take_earlier_edges_only(make_store, p):
    pairs = [(1, 2), (2, 3), (2, 4)]
    store = make_store({"n": {"id": [1, 2, 3, 4]}}, {"e": ("n", "n", pairs, {"timestamp": [5, 1, 6]})})

    query = store.E("e").batch(3).inV().random_walk("e", 2, p=p).alias("w").values()

    assert query.next()["w"].ids.tolist() == [[3, 0], [0, 0], [0, 0]]

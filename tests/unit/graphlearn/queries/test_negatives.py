"""Negatives: how often each is drawn, what is refused, conditions, and what happens when too few are left."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn import Nodes
from tfx_gnn.sampling.engine.negatives import PairLookup


def _negatives(store, word, of_type, strategy, count, *, batch_size=10):
    root = store.V("user").batch(batch_size).alias("u")
    query = getattr(root, word)(of_type).sample(count).by(strategy).alias("n").values()
    return query.next(), query


def test_random_negatives_are_uniform_over_the_ids_at_that_end_of_the_edges(make_store, statistic):
    items = {"id": [100, 101, 102, 103, 104]}
    pairs = [(1, 100), (1, 101), (2, 101), (2, 102), (2, 101)]  # nobody bought 103 and 104
    store = make_store({"user": {"id": [1, 2]}, "item": items}, {"buy": ("user", "item", pairs, {})})

    batch, query = _negatives(store, "outNeg", "buy", "random", 3000)

    for row in batch["n"].ids:
        # Neighbors are among them.
        assert statistic(np.bincount(row - 100, minlength=5)[:3], [1, 1, 1]) < 13.82
    assert set(batch["n"].ids.ravel()) == {100, 101, 102}
    assert query.counts == {}


def test_in_degree_negatives_are_proportional_to_the_degree_and_no_neighbors(make_store, statistic):
    pairs = [(1, 100), *[(user, 101) for user in (2, 3)], *[(user, 102) for user in (2, 3, 4)], (2, 103)]
    users, items = {"id": [1, 2, 3, 4]}, {"id": [100, 101, 102, 103]}
    store = make_store({"user": users, "item": items}, {"buy": ("user", "item", pairs, {})})

    batch, query = _negatives(store, "outNeg", "buy", "in_degree", 3000)

    assert statistic(np.bincount(batch["n"].ids[0] - 100, minlength=4)[1:], [2, 3, 1]) < 13.82
    assert set(batch["n"].ids[1]) == {100}
    assert query.counts == {}


def test_in_degree_negatives_are_filled_up_with_neighbors_and_counted_if_all_are_neighbors(make_store):
    store = make_store(
        {"user": {"id": [1, 2]}, "item": {"id": [100, 101]}},
        {"buy": ("user", "item", [(1, 100), (1, 101), (2, 100)], {})},
    )

    batch, query = _negatives(store, "outNeg", "buy", "in_degree", 4)

    assert set(batch["n"].ids[0]) <= {100, 101}
    assert batch["n"].ids[1].tolist() == [101] * 4
    assert query.counts == {"n": {"unconditional": 4}}


def test_node_weight_negatives_are_proportional_and_none_of_the_batch(shop, statistic):
    batch, query = _negatives(shop, "Neg", "user", "node_weight", 2000, batch_size=5)

    observed = np.bincount(batch["n"].ids.ravel(), minlength=11)
    assert observed[:6].sum() == 0
    assert statistic(observed[6:], [6, 7, 8, 9, 10]) < 18.47
    assert query.counts == {}


def test_negatives_of_sources_are_sources(shop):
    root = shop.V("item").batch(2).alias("i")
    query = root.inNeg("buy").sample(50).by("in_degree").alias("n").values()

    batch = query.next()

    assert isinstance(batch["n"], Nodes)
    assert batch["n"].type == "user"
    assert not set(batch["n"].ids[0]) & {10, 9, 8}  # who bought item 100
    assert len(set(batch["n"].ids[0])) == 7


def test_random_nodes_of_a_type_need_no_edges(shop, statistic):
    batch, _ = _negatives(shop, "Neg", "item", "random", 3000, batch_size=1)

    assert statistic(np.bincount(batch["n"].ids[0] - 100, minlength=10), [1] * 10) < 27.88


@pytest.fixture(scope="module")
def market(make_store):
    """Thirty users of 240 items with all combinations of two integers below 4 and three colors, five times."""
    ids = list(range(1000, 1240))
    number = np.arange(240)
    items = {
        "id": ids,
        "int0": (number % 4).tolist(),
        "int1": (number // 4 % 4).tolist(),
        "color": [["red", "green", "blue"][one] for one in number // 16 % 3],
        "price": (number // 48).astype(float).tolist(),
    }
    rng = np.random.default_rng(1)
    pairs = [(user, 1000 + item) for user in range(30) for item in rng.choice(240, 20, replace=False).tolist()]
    pairs += [(29, item) for item in ids if item % 3]
    return make_store({"user": {"id": list(range(30))}, "item": items}, {"buy": ("user", "item", pairs, {})})


def _conditional(store, condition, count=4, strategy="conditional", batch_size=64):
    edges = store.E("buy").batch(batch_size).shuffle(traverse=True).alias("e")
    edges.inV().alias("pos")
    negatives = edges.outV().alias("u").outNeg("buy").sample(count).by(strategy).where("pos", condition=condition)
    query = negatives.alias("neg").values()
    return query.next(), query


def test_shares_of_negatives_have_the_attributes_of_the_positive(market):
    condition = {"int_cols": [0, 1], "int_props": [0.25, 0.25], "str_cols": [0], "str_props": [0.5]}

    batch, query = _conditional(market, condition)

    positive, negative = batch["pos"], batch["neg"]
    assert (negative.int_attrs[:, 0, 0] == positive.int_attrs[:, 0]).all()
    assert (negative.int_attrs[:, 1, 1] == positive.int_attrs[:, 1]).all()
    assert (negative.string_attrs[:, 2:, 0] == positive.string_attrs[:, :1]).all()
    drawn = {(user, item) for user, row in zip(batch["u"].ids, negative.ids, strict=True) for item in row.tolist()}
    assert not drawn & _pairs(market)
    assert query.counts == {}


def _pairs(store):
    table = store.tables.edge_tables["buy"]
    return set(zip(table.sources.tolist(), (table.targets + 1000).tolist(), strict=True))


def test_the_rest_of_the_negatives_has_no_condition_but_is_no_neighbor(market, statistic):
    batch, _ = _conditional(market, {"float_cols": [0], "float_props": [0.5]}, count=400, batch_size=1)

    prices, own = batch["neg"].float_attrs[0, :, 0], batch["pos"].float_attrs[0, 0]
    assert (prices[:200] == own).all()
    assert set(prices[200:].tolist()) == {0, 1, 2, 3, 4}
    neighbors = {item for user, item in _pairs(market) if user == batch["u"].ids[0]}
    assert not neighbors & set(batch["neg"].ids[0].tolist())


def test_conditions_hold_within_the_distribution_of_the_strategy(make_store, statistic):
    users, colors = list(range(12)), [0, 0, 0, 1]
    pairs = [(0, 100), *[(user, 101) for user in range(1, 4)], *[(user, 102) for user in range(4, 10)], (11, 103)]
    items = {"id": [100, 101, 102, 103], "color": colors}
    store = make_store({"user": {"id": users}, "item": items}, {"buy": ("user", "item", pairs, {})})
    edges = store.E("buy").batch(1)
    edges.inV().alias("pos")
    negatives = edges.outV().outNeg("buy").sample(3000).by("in_degree")
    query = negatives.where("pos", condition={"int_cols": [0], "int_props": [1.0]}).alias("neg").values()

    found = query.next()["neg"].ids[0]

    assert statistic(np.bincount(found - 100, minlength=4)[1:3], [3, 6]) < 10.83
    assert set(found) == {101, 102}


def test_unique_negatives_differ_and_the_last_candidates_are_found(make_store):
    items = list(range(100, 140))
    pairs = [(1, item) for item in items[:36]] + [(2, item) for item in items]
    store = make_store(
        {"user": {"id": [1, 2]}, "item": {"id": items, "a": [0] * 40}}, {"buy": ("user", "item", pairs, {})}
    )
    edges = store.E("buy").batch(36)
    edges.inV().alias("pos")
    negatives = edges.outV().outNeg("buy").sample(4)
    query = negatives.where("pos", {"unique": True, "int_cols": [0], "int_props": [1]}).alias("neg").values()

    found = query.next()["neg"].ids

    assert np.sort(found, axis=1).tolist() == [[136, 137, 138, 139]] * 36
    assert query.counts == {}


def test_too_few_candidates_are_filled_up_without_condition_and_counted(make_store):
    items = {"id": [100, 101, 102, 103], "a": [0, 0, 1, 1]}
    pairs = [(1, 100), (2, 101), (2, 102), (2, 103)]
    store = make_store({"user": {"id": [1, 2]}, "item": items}, {"buy": ("user", "item", pairs, {})})
    edges = store.E("buy").batch(1)
    edges.inV().alias("pos")
    negatives = edges.outV().outNeg("buy").sample(5).by("random")
    query = negatives.where("pos", {"unique": True, "int_cols": [0], "int_props": [1.0]}).alias("neg").values()

    found = query.next()["neg"].ids[0]

    # 101 meets the condition; 102 and 103 are other items that user 1 did not buy; then only neighbors and repetitions
    # are left.
    assert found[0] == 101
    assert sorted(found[1:3]) == [102, 103]
    assert query.counts == {"neg": {"unconditional": 4}}


def test_batch_share_excludes_the_positives_of_the_batch_in_place_of_neighbors(make_store):
    items = {"id": [100, 101, 102, 103]}
    pairs = [(1, 100), (2, 101), (1, 102), (1, 103)]
    store = make_store({"user": {"id": [1, 2]}, "item": items}, {"buy": ("user", "item", pairs, {})})
    edges = store.E("buy").batch(2)
    edges.inV().alias("pos")
    query = edges.outV().outNeg("buy").sample(40).where("pos", {"batch_share": True}).alias("neg").values()

    assert {tuple(sorted(set(row))) for row in query.next()["neg"].ids.tolist()} == {(102, 103)}


def test_nothing_can_be_drawn_from_an_edge_type_without_edges(make_store):
    store = make_store({"user": {"id": [1]}, "item": {"id": [5]}}, {"buy": ("user", "item", [], {})})

    batch, query = _negatives(store, "outNeg", "buy", "in_degree", 2)

    assert batch["n"].mask.tolist() == [[False, False]]
    assert query.counts == {"n": {"missing": 2}}


class _CountingLookup(PairLookup):
    """Counts the pairs that are looked up."""

    num_pairs = 0

    def contains(self, sources, targets):
        self.num_pairs += len(targets)
        return super().contains(sources, targets)


def test_candidates_of_a_hub_are_listed_once_a_batch(make_store):
    # The hub bought all 1000 items, and is the input 200 times.
    items = list(range(1, 1001))
    store = make_store(
        {"user": {"id": [0]}, "item": {"id": items}}, {"buy": ("user", "item", [(0, i) for i in items], {})}
    )
    lookup = store.once(("pairs", "buy", False), lambda: _CountingLookup(*store.end_rows("buy"), num_targets=1000))

    root = store.E("buy").batch(200)
    query = root.outV().outNeg("buy").sample(1).by("in_degree").alias("n").values()
    batch = next(query.batches())

    assert batch["n"].mask.all()
    assert query.counts == {"n": {"unconditional": 200}}
    # Twice eight draws for each input, and twice the list: not 200 lists.
    assert lookup.num_pairs <= 2 * (8 * 200 + 1000)

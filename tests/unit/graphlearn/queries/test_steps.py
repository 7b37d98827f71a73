"""The words of a query: what each refuses, and what it says then."""

from __future__ import annotations

import pytest

from tfx_gnn.graphlearn import StrategyError


def _sample(shop):
    return shop.V("user").batch(2).alias("u").outV("buy").sample(2)


def _positive(shop):
    edges = shop.E("buy").batch(2).alias("e")
    edges.inV().alias("i")
    edges.outV().alias("u")
    return edges


def _negative(shop, strategy="random"):
    return _positive(shop).outV().outNeg("buy").sample(4).by(strategy)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda shop: shop.V("nobody"), "`type_name` must be one of"),
        (lambda shop: shop.E("sells"), "`edge_type` must be one of"),
        (lambda shop: shop.V("user").batch(0), "`batch_size` must be an integer of at least 1; got 0"),
        (lambda shop: shop.V("user").batch(2.0), "`batch_size` must be an integer of at least 1"),
        (lambda shop: _sample(shop).batch(2), "`batch` must follow V or E"),
        (lambda shop: _sample(shop).shuffle(), "`shuffle` must follow V or E"),
        (lambda shop: shop.V("user").batch(2).sample(2), "`sample` must follow outV"),
        (lambda shop: _sample(shop).sample(-1), "`count` must be an integer in"),
        (lambda shop: _sample(shop).sample(2**15), "`count` must be an integer in"),
        (lambda shop: shop.V("user").batch(2).outV("buy").by("random"), "`by` must follow `sample`"),
        (lambda shop: shop.V("user").batch(2).by("random"), "`by` must follow `sample`"),
        (lambda shop: shop.V("user").batch(2).Neg("user").sample(1).by("in_degree"), "'node_weight' or 'random'"),
        (lambda shop: shop.V("user").batch(2).Neg("nobody"), "`node_type` must be one of"),
        (lambda shop: shop.V("user").batch(2).outV("sells"), "`edge_type` must be one of"),
        (lambda shop: shop.V("item").batch(2).outV("buy"), "`edge_type` must start at nodes of type 'item'"),
        (lambda shop: shop.V("user").batch(2).inE("buy"), "`edge_type` must end at nodes of type 'user'"),
        (lambda shop: shop.V("user").batch(2).inNeg("buy"), "`edge_type` must end at nodes of type 'user'"),
        (lambda shop: _sample(shop).alias("u"), "`alias` must be unique in a query; got 'u'"),
        (lambda shop: _sample(shop).alias("a").alias("b"), "`alias` must be given once a step"),
        (lambda shop: _sample(shop).alias(""), "`alias` must be a name"),
        (lambda shop: shop.V("user").batch(2).values(), "`alias` must name at least one step"),
        (lambda shop: shop.V("user").alias("u").values(), "`batch` must follow V or E"),
        (lambda shop: shop.V("user").batch(2).outV("buy").alias("i").values(), r"`sample` must follow V\(.*outV\(buy"),
        (lambda shop: _sample(shop).sample(0).by("topk").values(), "`count` must be at least 1 unless"),
        (
            lambda shop: shop.V("user").batch(2).outV("knows").sample(2).by("topk").alias("a").values(),
            "edge type 'knows'",
        ),
        (
            lambda shop: shop.V("user").batch(2).Neg("item").sample(1).by("node_weight").alias("a").values(),
            "type 'item'",
        ),
        (lambda shop: _negative(shop, "conditional").alias("n").values(), "`where` must follow by"),
        (lambda shop: _sample(shop).filter("x"), r"`target` must be an alias of an earlier step, \['u'\]; got 'x'"),
        (lambda shop: _sample(shop).filter("u"), "`target` must be a step of the type of the neighbors, 'item'"),
        (lambda shop: _positive(shop).outV().filter("i"), "`filter` must follow outV"),
        (lambda shop: _sample(shop).alias("i").filter("i"), "`target` must not depend on the step itself"),
        (lambda shop: _sample(shop).filter(shop.V("item").batch(2)), "`target` must be a step of this query"),
        (lambda shop: _positive(shop).outV().outV("buy").sample(2).filter("e"), "of this query that finds nodes"),
        (lambda shop: _sample(shop).where("u"), "`where` must follow `sample` or `by` of outNeg"),
        (lambda shop: _negative(shop).where("u"), "`target` must be a step of the type of the negatives, 'item'"),
        (lambda shop: _negative(shop).where("i", {"columns": [0]}), "`condition` must have keys of"),
        (lambda shop: _negative(shop).where("i", [0]), "`condition` must be a dict"),
        (lambda shop: _negative(shop).where("i", {"unique": 1}), "`unique` must be True or False"),
        (lambda shop: _negative(shop).where("i", {"int_cols": [0]}), "`int_props` must have one share"),
        (lambda shop: _negative(shop).where("i", {"int_cols": 0, "int_props": [1]}), "`int_cols` must be a list"),
        (lambda shop: _negative(shop).where("i", {"int_cols": [1], "int_props": [1]}), "of which there are 1; got 1"),
        (lambda shop: _negative(shop).where("i", {"str_cols": [-1], "str_props": [1]}), "string attributes"),
        (lambda shop: _negative(shop).where("i", {"float_cols": [0], "float_props": [1.5]}), r"must be in \[0, 1\]"),
        (
            lambda shop: _negative(shop).where(
                "i", {"int_cols": [0], "int_props": [0.6], "str_cols": [0], "str_props": [0.6]}
            ),
            "must add up to at most 1; got 1.2",
        ),
        (lambda shop: shop.V("user").batch(2).random_walk("buy", 3), "`edge_type` must join nodes of one type"),
        (lambda shop: shop.V("user").batch(2).random_walk("knows", 0), "`walk_len` must be an integer in"),
        (lambda shop: shop.V("user").batch(2).random_walk("knows", 2, p=0), "`p` must be a number greater than 0"),
        (lambda shop: shop.V("user").batch(2).random_walk("knows", 2, q=float("nan")), "`q` must be a number"),
        (lambda shop: shop.E("buy").batch(2).SubGraph("knows", [2]), "`nbr_type` must join nodes of the type"),
        (lambda shop: shop.E("knows").batch(2).SubGraph("sells", [2]), "`nbr_type` must be one of"),
        (lambda shop: shop.E("knows").batch(2).SubGraph("knows", [2, -1]), "`num_nbrs` must be integers"),
        (lambda shop: shop.E("knows").batch(2).SubGraph("knows", []), "`num_nbrs` must be integers"),
    ],
)
def test_what_a_step_cannot_do_is_refused(shop, write, message):
    with pytest.raises(ValueError, match=message):
        write(shop)


@pytest.mark.parametrize("write", [_sample, _negative])
def test_unknown_strategies_are_also_assertion_errors(shop, write):
    for kind in (AssertionError, ValueError, StrategyError):
        with pytest.raises(kind, match="`strategy` must be one of"):
            write(shop).by("best")


def test_positives_must_be_one_an_input(shop):
    users = shop.V("user").batch(2)
    users.outV("buy").sample(2).alias("two")
    users.outV("buy").sample(1).alias("one")
    users.outV("buy").sample(1).by("full").alias("full")

    with pytest.raises(ValueError, match="one positive for each input"):
        users.outNeg("buy").sample(4).where("two")
    with pytest.raises(ValueError, match="one positive for each input"):
        users.outNeg("buy").sample(4).where("full")
    negative = users.outNeg("buy").sample(4).where("one", {"int_cols": [0], "int_props": [1.0]}).alias("n")
    batch = negative.values().next()
    assert (batch["n"].int_attrs[:, :, 0] == batch["one"].int_attrs[:, :, 0]).all()


def test_a_closed_query_takes_no_more_steps(shop):
    users = shop.V("user").batch(2).alias("u")
    items = users.outV("buy").sample(2).alias("i")
    users.values()

    for write in (
        items.values,
        lambda: users.outV("buy"),
        lambda: users.outNeg("buy"),
        lambda: items.by("random"),
        lambda: items.filter("u"),
        lambda: users.each(print),
        lambda: users.Neg("user"),
    ):
        with pytest.raises(ValueError, match="must come before `values`, which closes the whole query"):
            write()


def test_a_step_knows_what_follows_it(shop):
    edges = shop.E("buy").batch(4).alias("e")
    users = edges.outV().alias("u")
    near = users.outE("buy").sample(3).by("topk").alias("near")
    ends = near.inV().alias("ends")
    negative = users.outNeg("buy").sample(2).alias("negative")
    query = negative.values()

    assert [query.get_step(alias) for alias in query.aliases] == [edges, users, near, ends, negative]
    assert (users.pos_downstreams, users.neg_downstreams) == ([near], [negative])
    assert (near.pos_downstreams, edges.pos_downstreams) == ([ends], [])
    assert (near.kind, near.type, near.count, near.shape) == ("edge", "buy", 3, (4, 3))
    assert (ends.kind, ends.type, ends.count, ends.shape, ends.is_sparse) == ("node", "item", 3, (4, 3), False)
    assert (ends.decoder.int_attr_num, near.decoder.weighted) == (1, True)
    assert repr(near) == "<edge step E(buy).outV().outE(buy) as 'near', type 'buy', shape [4, 3]>"
    with pytest.raises(ValueError, match="`alias` must be one of"):
        query.get_step("far")

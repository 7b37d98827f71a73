"""Queries: shapes, epochs, aliases, attributes, counts."""

from __future__ import annotations

import itertools
import pickle
import threading

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn import Decoder, Edges, GraphStore, Nodes, SparseEdges, SparseNodes


def _epoch(query, epoch=0, alias="v"):
    return [batch[alias].ids.tolist() for batch in query.batches(epoch)]


def test_hops_of_nodes_have_a_row_for_each_item_before(shop):
    query = shop.V("user").batch(2).alias("v").outV("buy").sample(3).alias("a").inV("buy").sample(4).alias("b").values()

    batch = query.next()

    assert [batch[alias].ids.shape for alias in ("v", "a", "b")] == [(2,), (2, 3), (6, 4)]
    assert [query.get_step(alias).shape for alias in ("v", "a", "b")] == [(2,), (2, 3), (6, 4)]


def test_ends_of_traversed_edges_have_one_item_an_edge(shop):
    query = (
        shop.E("buy")
        .batch(4)
        .alias("e")
        .each(lambda e: (e.inV().alias("i"), e.outV().alias("a").outV("knows").sample(2).alias("b")))
        .values()
    )

    batch = query.next()

    assert batch["a"].ids.tolist() == batch["e"].src_ids.tolist() == [1, 1, 1, 2]
    assert batch["i"].ids.tolist() == batch["e"].dst_ids.tolist() == [101, 102, 103, 102]
    assert (batch["b"].ids.shape, batch["b"].labels.shape) == ((4, 2), (4, 2))
    assert batch["b"].ids.tolist() == [[2, 2], [2, 2], [2, 2], [3, 3]]


def test_int_attributes_of_a_sample_have_a_last_axis(shop):
    query = shop.E("knows").batch(4).outV().outV("buy").sample(2).alias("b").values()

    values = query.next()["b"]

    assert values.int_attrs.shape == values.float_attrs.shape == values.string_attrs.shape == (4, 2, 1)
    assert values.int_attrs[..., 0].tolist() == (values.ids % 2).tolist()
    assert values.string_attrs[0, 0, 0] == ("blue" if values.ids[0, 0] % 2 else "red")


def test_ends_of_sampled_edges_have_the_shape_of_the_edges(shop):
    query = shop.V("user").batch(8).alias("v").outE("buy").sample(3).alias("e").inV().alias("i").values()

    batch = query.next()

    assert [batch[alias].ids.shape if alias != "e" else batch[alias].shape for alias in "vei"] == [(8,), (8, 3), (8, 3)]
    assert (batch["e"].src_ids == batch["v"].ids[:, np.newaxis]).all()
    assert (batch["e"].dst_ids == batch["i"].ids).all()
    assert (batch["e"].weights == 4 - batch["e"].timestamps).all()


def test_negatives_have_a_row_for_each_input(shop):
    query = shop.V("user").batch(2).alias("v").outNeg("buy").sample(5).alias("n").values()

    batch = query.next()

    assert (batch["v"].ids.shape, batch["n"].ids.shape) == ((2,), (2, 5))
    assert batch["n"].type == "item"


def test_edges_that_arrive_have_their_ends_exchanged(shop):
    query = (
        shop.V("item")
        .batch(1)
        .alias("i")
        .each(lambda i: i.inE("buy").sample(3).by("topk").alias("e").inV().alias("u"))
        .values()
    )

    edges = query.next()["e"]

    assert edges.src_ids.tolist() == [[100, 100, 100]]
    assert edges.dst_ids.tolist() == [[10, 9, 8]]
    assert edges.weights.tolist() == [[3, 2, 1]]


def test_reversed_edges_have_their_ends_exchanged(shop):
    edges = shop.E("buy", reverse=True).batch(1).alias("e").values().next()["e"]

    assert (edges.src_ids.tolist(), edges.dst_ids.tolist()) == ([101], [1])
    assert (edges.src_nodes.type, edges.dst_nodes.type) == ("item", "user")


def test_full_samples_are_ragged(shop):
    query = (
        shop.V("user")
        .batch(2)
        .alias("v")
        .each(
            lambda v: (
                v.outV("buy").sample(0).by("full").alias("all").inV("buy").sample(2).alias("back"),
                v.outE("buy").sample(2).by("full").alias("two").inV().alias("ends"),
            )
        )
        .values()
    )

    batch = query.next()

    assert isinstance(batch["all"], SparseNodes)
    assert isinstance(batch["two"], SparseEdges)
    assert [row.ids.tolist() for row in batch["all"]] == [[101, 102, 103], [102, 103, 104]]
    assert [row.edge_ids.tolist() for row in batch["two"]] == [[0, 1], [3, 4]]
    assert [row.ids.tolist() for row in batch["ends"]] == [[101, 102], [102, 103]]
    assert batch["back"].ids.shape == (6, 2)
    assert query.get_step("back").shape == (None, 2)


def test_one_ordered_pass_is_an_epoch_and_its_last_batch_may_be_smaller(shop):
    query = shop.V("user").batch(4).alias("v").values()

    assert _epoch(query) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert query.num_batches == 3


def test_next_raises_once_at_the_end_of_an_epoch_and_starts_the_next(shop):
    query = shop.V("user").batch(5).shuffle(traverse=True).alias("v").values()

    first = [query.next()["v"].ids.tolist() for _ in range(2)]
    with pytest.raises(tf.errors.OutOfRangeError, match="Epoch 0"):
        query.next()
    second = [query.next()["v"].ids.tolist() for _ in range(2)]
    with pytest.raises(tf.errors.OutOfRangeError, match="Epoch 1"):
        query.next()

    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(1, 11))
    assert first != second
    assert (first, second) == (_epoch(query, 0), _epoch(query, 1))


def test_shuffle_without_traverse_draws_with_replacement_and_never_ends(shop, statistic):
    query = shop.V("user").batch(500).shuffle().alias("v").values()

    drawn = np.concatenate([batch["v"].ids for batch in itertools.islice(query.batches(), 4)])

    assert query.num_batches is None
    assert statistic(np.bincount(drawn, minlength=11)[1:], [1] * 10) < 27.9


def test_an_item_that_is_drawn_twice_gets_other_samples(shop):
    query = shop.V("user").shuffle().batch(200).alias("v").outV("buy").sample(1).alias("i").values()

    batch = query.next()

    assert {item for user, item in zip(batch["v"].ids, batch["i"].ids[:, 0], strict=True) if user == 1} == {
        101,
        102,
        103,
    }


def test_samples_depend_on_the_epoch_but_not_on_the_batch_size_or_the_order(shop):
    def sample(epoch, size, traverse=None):
        root = shop.V("user").batch(size)
        root = root if traverse is None else root.shuffle(traverse=traverse)
        query = root.alias("v").outV("buy").sample(5).alias("i").values()
        batches = list(query.batches(epoch))
        users = np.concatenate([batch["v"].ids for batch in batches])
        return np.concatenate([batch["i"].ids for batch in batches])[np.argsort(users)].tolist()

    assert sample(0, 10) == sample(0, 3) == sample(0, 4, traverse=True)
    assert sample(0, 10) != sample(1, 10)


def test_values_are_keyed_by_alias_and_pass_through_func(shop):
    query = shop.V("user").batch(2).alias("b").outV("buy").sample(1).alias("a").values(sorted)

    assert query.next() == ["a", "b"]
    assert query.aliases == ("b", "a")
    assert list(next(query.value_batches())) == ["b", "a"]


def test_an_error_of_func_costs_one_batch_only(shop):
    def pick(values):
        if 3 in values["v"].ids:
            raise KeyError("three")
        return values["v"].ids.tolist()

    query = shop.V("user").batch(2).alias("v").values(pick)

    assert query.next() == [1, 2]
    with pytest.raises(KeyError):
        query.next()
    assert query.next() == [5, 6]


def test_what_follows_an_empty_ragged_sample_is_empty(make_store):
    store = make_store({"n": {"id": [1, 2]}}, {"e": ("n", "n", [(1, 2)], {"weight": [1.0]})})
    query = store.V("n").batch(1).outV("e").sample(0).by("full").outV("e").sample(0).by("full").alias("none")
    for strategy in ("random", "random_without_replacement", "edge_weight", "topk", "in_degree"):
        query.outE("e").sample(2).by(strategy).alias(strategy).inV().outNeg("e").sample(3).alias(f"{strategy} neg")
    query.random_walk("e", 2, p=2.0).alias("walk")
    query.SubGraph("e", [2], need_dist=True).alias("subgraph")

    batch = query.values().next()

    assert batch["none"].shape == (1, 0)
    assert {batch[strategy].shape for strategy in ("random", "topk", "in_degree")} == {(0, 2)}
    assert batch["random neg"].shape == (0, 3)
    assert batch["walk"].shape == (0, 2)
    assert len(batch["subgraph"]) == 0


def test_branches_through_variables_are_the_same_query(shop):
    users = shop.V("user").batch(2).alias("u")
    items = users.outV("buy").sample(2).alias("i")
    others = users.outNeg("buy").sample(2).alias("n")
    query = items.inV("buy").sample(1).alias("far").values()

    batch = query.next()

    assert list(batch) == ["u", "i", "n", "far"]
    assert users.pos_downstreams == [items]
    assert users.neg_downstreams == [others]


def test_missing_nodes_have_default_attributes_and_are_counted(make_store):
    nodes = {
        "n": {"id": [7, 8], "weight": [1.0, 2.0], "label": [3, 4], "timestamp": [5, 6], "a": [1, 1], "b": [1.5] * 2}
    }
    nodes["n"]["c"] = ["x", "y"]
    edge = ("n", "n", [(7, 8)], {"weight": [1.0], "timestamp": [1]})
    store = make_store(nodes, {"e": edge}, default_neighbor_id=9)
    query = store.V("n").batch(2).outE("e").sample(2).alias("e").inV().alias("v").values()

    batch = query.next()

    found = batch["v"]
    assert found.ids.tolist() == [[8, 8], [9, 9]]
    assert found.mask.tolist() == [[True, True], [False, False]]
    assert found.labels.tolist() == [[4, 4], [-1, -1]]
    assert found.weights.tolist() == [[2, 2], [0, 0]]
    assert found.timestamps.tolist() == [[6, 6], [-1, -1]]
    assert found.int_attrs[1].tolist() == [[0], [0]]
    assert found.float_attrs[1].tolist() == [[0], [0]]
    assert found.string_attrs[1].tolist() == [[""], [""]]
    assert batch["e"].edge_ids.tolist() == [[0, 0], [-1, -1]]
    assert batch["e"].weights.tolist() == [[1, 1], [0, 0]]
    assert batch["e"].src_ids.tolist() == [[7, 7], [8, 8]]
    assert query.counts == {"e": {"missing": 2}, "v": {"missing": 2}}


def test_texts_are_ids_and_missing_nodes_have_none(make_store):
    store = make_store({"n": {"id": ["a", "b"]}}, {"e": ("n", "n", [("a", "b")], {})})

    batch = store.V("n").batch(2).alias("v").outV("e").sample(1).alias("w").values().next()

    assert batch["w"].ids.tolist() == [["b"], [""]]
    assert batch["v"].weights is batch["v"].int_attrs is batch["v"].labels is None


def test_results_say_their_shape(shop):
    batch = shop.E("buy").batch(2).alias("e").outV().alias("u").values().next()

    assert repr(batch["e"]) == "Edges('buy', shape=[2])"
    assert repr(batch["u"]) == "Nodes('user', shape=[2])"
    assert isinstance(batch["e"], Edges)
    assert isinstance(batch["u"], Nodes)


@pytest.mark.parametrize("epoch", [-1, 1.0, True, "0"])
def test_epochs_are_counted_from_zero(shop, epoch):
    with pytest.raises(ValueError, match="`epoch` must be an integer of at least 0"):
        next(shop.V("user").batch(2).alias("v").values().batches(epoch))


def test_an_empty_type_has_epochs_without_batches(make_store):
    store = make_store({"n": {"id": []}}, {"e": ("n", "n", [], {})})

    query = store.V("n").batch(2).alias("v").outV("e").sample(2).alias("w").values()

    assert list(query.batches()) == []
    assert list(store.V("n").batch(2).shuffle().alias("v").values().batches()) == []
    with pytest.raises(tf.errors.OutOfRangeError):
        query.next()


def test_a_copy_by_pickle_goes_on_where_next_has_stopped(shop):
    query = shop.V("user").batch(4).shuffle(traverse=True).alias("v").values()
    expected = [*_epoch(query, 0), *_epoch(query, 1)]

    taken = [query.next()["v"].ids.tolist()]
    copy = pickle.loads(pickle.dumps(query))
    taken += [copy.next()["v"].ids.tolist() for _ in range(2)]
    with pytest.raises(tf.errors.OutOfRangeError, match="Epoch 0"):
        copy.next()
    taken.append(copy.next()["v"].ids.tolist())

    assert taken == expected[:4]


def test_threads_share_the_batches_of_next(shop):
    taken, errors = [], []

    def take():
        try:
            while True:
                taken.append(int(query.next()["v"].ids[0]))
        except (tf.errors.OutOfRangeError, ValueError) as error:
            errors.append(error)

    for _ in range(20):
        taken.clear()
        errors.clear()
        query = shop.V("user").batch(1).alias("v").outNeg("knows").sample(200).alias("n").values()
        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Each thread ends an epoch; batches of all of them were taken once each.
        assert {type(error) for error in errors} == {tf.errors.OutOfRangeError}
        assert sorted(taken) == sorted([*range(1, 11)] * 4)


def test_an_error_does_not_end_the_epoch_of_next(make_store):
    tables = make_store({"n": {"id": [1, 2]}}, {}).tables
    query = GraphStore(tables, node_decoders={"n": Decoder(labeled=True)}).V("n").batch(1).alias("v").values()

    for _ in range(2):
        with pytest.raises(ValueError, match="`decoders` must describe columns of 'nodes/n'"):
            query.next()

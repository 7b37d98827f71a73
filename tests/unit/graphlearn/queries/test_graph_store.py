"""Stores: what queries can start at, and which columns are attributes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn import Decoder, Graph, GraphStore, Mask, NodeFrom
from tfx_gnn.tables import read_tables


@pytest.fixture
def graph(tmp_path):
    """Users with packed attributes, some of them in masks, who bought items."""
    (tmp_path / "users").write_text(
        "id:int64\tlabel:int32\tattributes:string\n4\t1\t28:0.5:Hangzhou:1,5\n2\t0\t31:0.25:Lima:7\n3\t1\t40:1.0:Oslo:\n"
    )
    (tmp_path / "train").write_text("id:int64\n4\n2\n")
    (tmp_path / "items").write_text("id:int64\n10\n11\n12\n")
    (tmp_path / "buy").write_text("a:int64\tb:int64\n4\t11\n3\t10\n4\t10\n")
    decoder = Decoder(
        labeled=True,
        attr_types=["int", "float", ("string", 10), ("string", None, True)],
        attr_dims=[None, None, 8, 6],
    )
    return (
        Graph()
        .node(f"{tmp_path}/users", "user", decoder)
        .node(f"{tmp_path}/train", "user", Decoder(), mask=Mask.TRAIN)
        .node(f"{tmp_path}/items", "item", Decoder())
        .edge(f"{tmp_path}/buy", ("user", "item", "buy"), Decoder(), directed=False)
    )


def _ids(step):
    query = step.batch(10).alias("v").values()
    return [batch["v"].ids.tolist() for batch in query.batches()]


def test_traversals_start_at_nodes_at_ends_of_edges_or_at_masked_nodes(graph):
    store = GraphStore.read(graph)

    assert _ids(store.V("user")) == [[2, 3, 4]]
    assert _ids(store.V("user", mask=Mask.TRAIN)) == [[2, 4]]
    assert _ids(store.V("user", mask=Mask.TEST)) == []
    assert _ids(store.V("buy", node_from=NodeFrom.EDGE_SRC)) == [[3, 4]]
    assert _ids(store.V("buy", NodeFrom.EDGE_DST)) == [[10, 11]]
    assert _ids(store.V("buy", NodeFrom.EDGE_SRC, Mask.TRAIN)) == [[4]]
    assert _ids(store.V("buy_reverse", NodeFrom.EDGE_SRC)) == [[10, 11]]


def test_attributes_come_in_the_order_of_the_decoder_by_stored_type(graph):
    store = GraphStore.read(graph)

    users = store.V("user").batch(3).alias("u").values().next()["u"]

    buckets = tf.strings.to_hash_bucket_fast(["Lima", "Oslo", "Hangzhou"], 10).numpy().tolist()
    assert users.int_attrs.tolist() == [[age, bucket] for age, bucket in zip([31, 40, 28], buckets, strict=True)]
    assert users.float_attrs.tolist() == [[0.25], [1.0], [0.5]]
    assert users.string_attrs.tolist() == [["7"], [""], ["1,5"]]
    assert users.labels.tolist() == [0, 1, 1]
    assert users.weights is users.timestamps is None


def test_the_decoder_of_a_step_has_the_dimensions_of_the_attributes(graph):
    query = GraphStore.read(graph).V("user").batch(1).alias("u").outV("buy").sample(1).alias("i").values()

    assert query.get_step("u").decoder.feature_spec.dimension == 1 + 1 + 8 + 6
    assert query.get_step("i").decoder.feature_spec.dimension == 0


def test_without_decoders_packed_attributes_keep_their_order_and_others_follow_by_name(graph):
    tables = graph.init()

    inferred = GraphStore(tables).V("user").batch(3).alias("u").values()

    users = inferred.next()["u"]
    read = GraphStore.read(graph).V("user").batch(3).alias("u").values().next()["u"]
    assert users.int_attrs.tolist() == read.int_attrs.tolist()
    assert users.string_attrs.tolist() == read.string_attrs.tolist()
    assert users.labels.tolist() == read.labels.tolist()
    assert inferred.get_step("u").decoder == Decoder(
        labeled=True,
        attr_types=["int", "float", ("string", 10), ("string", None, True)],
        attr_names=[f"attribute_{number}" for number in range(4)],
    )


def test_features_of_a_fixed_shape_are_columns_of_their_own(tmp_path):
    columns = {"id": ["a", "b"], "h": [[1.0, 2.0], [4.0, 5.0]], "z": [3.5, 6.5]}
    pq.write_table(pa.table(columns), tmp_path / "n.parquet")
    (tmp_path / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { '
        'features { key: "h" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } '
        'features { key: "z" value { dtype: DT_FLOAT } } metadata { filename: "n.parquet" } } }'
    )

    found = GraphStore(read_tables(str(tmp_path))).V("n").batch(2).alias("v").values().next()["v"]

    assert found.ids.tolist() == ["a", "b"]
    assert found.float_attrs.tolist() == [[1, 2, 3.5], [4, 5, 6.5]]


def test_the_seed_of_the_store_changes_all_choices(shop):
    other = GraphStore(shop.tables, sampling_seed=1)

    def sample(store):
        query = store.V("user").batch(10).shuffle(traverse=True).alias("u").outV("buy").sample(5).alias("i").values()
        return [query.next()[alias].ids.tolist() for alias in ("u",)]

    assert sample(shop) != sample(other)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (GraphStore, TypeError, r"got a Graph\. Call GraphStore\.read"),
        (lambda graph: GraphStore(str(graph)), TypeError, "`tables` must be GraphTables; got str"),
        (lambda graph: GraphStore.read(graph, padding_mode="zero"), ValueError, "`padding_mode` must be one of"),
        (lambda graph: GraphStore.read(graph, sampling_seed=-1), ValueError, "`sampling_seed` must be in"),
        (lambda graph: GraphStore.read(graph, sampling_seed=0.5), TypeError, "`sampling_seed` must be an integer"),
        (lambda graph: GraphStore.read(graph, default_neighbor_id="x"), TypeError, "`default_neighbor_id` must be an"),
        (lambda graph: GraphStore(graph.init(), node_decoders={"x": Decoder()}), ValueError, "`node_decoders` must be"),
        (lambda graph: GraphStore(graph.init(), edge_decoders={"x": Decoder()}), ValueError, "`edge_decoders` must be"),
        (lambda graph: GraphStore.read(graph).V("user", node_from="node"), TypeError, "`node_from` must be a NodeFrom"),
        (lambda graph: GraphStore.read(graph).V("user", mask="train"), TypeError, "`mask` must be a Mask"),
        (lambda graph: GraphStore.read(graph).V("item", mask=Mask.TRAIN), ValueError, "without masks; got TRAIN for"),
        (lambda graph: GraphStore.read(graph).V("user", NodeFrom.EDGE_SRC), ValueError, r"one of \['buy', 'buy_rev"),
    ],
)
def test_what_a_store_cannot_use_is_refused(graph, make, kind, message):
    with pytest.raises(kind, match=message):
        make(graph)


def test_a_decoder_of_other_columns_is_refused(graph):
    store = GraphStore(graph.init(), node_decoders={"item": Decoder(weighted=True)})

    with pytest.raises(ValueError, match=r"`decoders` must describe columns of 'nodes/item', which has \[\]; got"):
        store.V("item").batch(2).alias("v").values().next()


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -0.5])
def test_weights_that_nothing_can_be_drawn_by_are_refused(make_store, weight):
    nodes = {"n": {"id": [1, 2], "weight": [1.0, weight]}}
    store = make_store(nodes, {"e": ("n", "n", [(1, 2)], {"weight": [weight]})})
    root = store.V("n").batch(1)

    with pytest.raises(ValueError, match=rf"got {weight} in row 0 of .*, of edge type 'e', one of 1\."):
        root.outV("e").sample(1).by("edge_weight").alias("w").values()
    with pytest.raises(ValueError, match=rf"got {weight} in node 2 of .*, of node type 'n', one of 1\."):
        store.V("n").batch(1).Neg("n").sample(1).by("node_weight").alias("w").values()


def test_top_k_ranks_negative_weights_and_weight_0_is_never_drawn(make_store):
    edges = {
        "e": ("n", "n", [(1, 2), (1, 3), (1, 4)], {"weight": [-1.0, 0.0, -2.0]}),
        "f": ("n", "n", [(1, 2), (1, 3)], {"weight": [0.0, 0.0]}),
    }
    store = make_store({"n": {"id": [1, 2, 3, 4]}}, edges)

    def neighbors(edge_type, strategy, count):
        query = store.V("n").batch(1).alias("s").outV(edge_type).sample(count).by(strategy).alias("w").values()
        return query.next()["w"].ids.tolist()

    assert neighbors("e", "topk", 2) == [[3, 2]]
    assert neighbors("f", "edge_weight", 2) == [[store.default_neighbor_id] * 2]


def test_labels_beyond_int32_are_refused(make_store):
    store = make_store({"n": {"id": [1, 2], "label": [1, 2**40]}}, {})

    with pytest.raises(ValueError, match=r"`label` must be an int32 .*; got 1099511627776 in row 1 of 'nodes/n'"):
        _ = store.V("n").batch(1).alias("v").values().next()["v"].labels


def test_lists_of_any_length_of_numbers_are_refused(shop):
    lists = pa.array([[1], [2, 3]] * 5, pa.large_list(pa.int64()))
    users = dataclasses.replace(shop.tables.node_tables["user"], features={"h": lists})
    tables = dataclasses.replace(shop.tables, node_tables={**shop.tables.node_tables, "user": users})

    with pytest.raises(ValueError, match="got 'h' of 'nodes/user', lists of int64 of any length"):
        GraphStore(tables).V("user").batch(2).alias("v").values().next()


def test_samples_do_not_depend_on_the_order_of_the_tables(make_store):
    ids, pairs = [5, 6, 7, 8], [(5, 6), (5, 7), (5, 8), (6, 5), (7, 8)]
    one = make_store({"n": {"id": ids}}, {"e": ("n", "n", pairs, {})})
    other = make_store({"n": {"id": ids[::-1]}}, {"e": ("n", "n", pairs, {})})

    def sample(store):
        query = store.V("n").batch(4).alias("v").outV("e").sample(8).alias("w")
        query.outNeg("e").sample(2).alias("n")
        batch = query.values().next()
        order = np.argsort(batch["v"].ids)
        return batch["w"].ids[order].tolist(), batch["n"].ids.reshape(4, -1)[order].tolist()

    assert sample(one) == sample(other)

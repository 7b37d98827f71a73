"""`Dataset`: the batches of a query as data objects."""

from __future__ import annotations

import collections
import threading

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.data.batch_graph import BatchGraph
from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.dataset import Dataset
from tfx_gnn.graphlearn.data.hetero_batch_graph import HeteroBatchGraph
from tfx_gnn.graphlearn.data.inducers import EdgeCNInducer, HeteroEdgeInducer, SubGraphInducer, SubGraphProcessor
from tfx_gnn.graphlearn.data.sub_graph import SubGraph
from tfx_gnn.graphlearn.graph_source import Graph
from tfx_gnn.graphlearn.queries.graph_store import GraphStore

TYPES = [("user", "buy", "item"), ("item", "buy_reverse", "user")]
USER = Decoder(labeled=True, attr_types=["float", ("int", 100), ("string", 50, True)], attr_dims=[None, 4, 8])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Seven users, of whom 6 and 7 buy nothing; items 10 to 15; who knows whom."""
    folder = tmp_path_factory.mktemp("tables")
    users = "".join(f"{user}\t{user % 2}\t{user * 0.5}:{user}:a,b\n" for user in range(1, 8))
    (folder / "user").write_text("id:int64\tlabel:int32\tattributes:string\n" + users)
    items = "".join(f"{item}\t{item * 0.25}\n" for item in range(10, 16))
    (folder / "item").write_text("id:int64\tattributes:string\n" + items)
    bought = [(1, 10), (1, 11), (2, 11), (3, 12), (3, 13), (3, 14), (4, 15), (5, 10)]
    rows = "".join(f"{user}\t{item}\t0.5\t{item}\n" for user, item in bought)
    (folder / "buy").write_text("src_id:int64\tdst_id:int64\tweight:float\tattributes:string\n" + rows)
    known = "".join(f"{one}\t{other}\n" for one, other in [(1, 2), (2, 3), (1, 3), (4, 5)])
    (folder / "know").write_text("src_id:int64\tdst_id:int64\n" + known)
    return GraphStore.read(
        Graph()
        .node(f"{folder}/user", "user", USER)
        .node(f"{folder}/item", "item", Decoder(attr_types=["float"]))
        .edge(f"{folder}/buy", ("user", "item", "buy"), Decoder(weighted=True, attr_types=["float"]), directed=False)
        .edge(f"{folder}/know", ("user", "user", "know"), Decoder(), directed=False)
    )


def _two_hops(store, batch_size=3):
    seed = store.V("user").batch(batch_size).alias("seed")
    seed.outV("buy").sample(2).by("random").alias("hop1").inV("buy").sample(3).by("random").alias("hop2")
    return seed.values()


def _edges(store, batch_size=3):
    edges = store.E("buy").batch(batch_size)
    sources = edges.outV().alias("pos_src")
    sources.outV("buy").sample(0).by("full").alias("src_hop1")
    sources.outNeg("buy").sample(2).by("random").alias("neg_dst").inV("buy").sample(0).by("full").alias("neg_hop1")
    edges.inV().alias("pos_dst").inV("buy").sample(0).by("full").alias("dst_hop1")
    return edges.values()


def test_the_data_of_each_alias_has_the_dtypes_and_shapes_of_its_decoder(store):
    dataset = Dataset(_two_hops(store))

    batches = [dataset.get_data_dict() for _ in dataset]

    specs = {
        key: (spec.dtype.name, spec.shape.as_list()) for key, spec in dataset.element_spec["seed"].components.items()
    }
    assert specs == {
        "int_attrs": ("int64", [None, 1]),
        "float_attrs": ("float32", [None, 1]),
        "string_attrs": ("string", [None, 1]),
        "labels": ("int32", [None]),
        "ids": ("int64", [None]),
    }
    assert list(batches[0]) == ["seed", "hop1", "hop2"]
    assert [batch["seed"].ids.numpy().tolist() for batch in batches] == [[1, 2, 3], [4, 5, 6], [7]]
    assert batches[0]["hop1"].float_attrs.shape == [6, 1]
    assert batches[0]["hop2"].labels.shape == [18]
    assert batches[1]["seed"].string_attrs.numpy().tolist() == [[b"a,b"]] * 3
    assert batches[0]["hop1"].labels is None


def test_an_ego_graph_follows_the_only_downstream_of_each_hop(store):
    dataset = Dataset(_two_hops(store))

    graphs = [dataset.get_egograph("seed") for _ in dataset]

    assert [graph.batch_size for graph in graphs] == [3, 3, 1]
    assert graphs[0].nbr_nums.tolist() == [2, 3]
    assert [name for name, _ in graphs[0].node_schema] == ["user", "item", "user"]
    assert [spec.dimension for _, spec in graphs[0].node_schema] == [13, 1, 13]
    assert graphs[1].hop_mask(0).numpy().tolist() == [True] * 4 + [False] * 2
    # Whoever bought one thing is among those who bought it.
    assert set(graphs[0].hop_node(1).ids.numpy()[6:12].tolist()) <= {1, 2}
    assert dataset.get_egograph("hop1", batch=next(iter(dataset))).nbr_nums.tolist() == [3]
    assert dataset.get_egograph("hop2", batch=next(iter(dataset))).nbr_nums.tolist() == []


def test_an_ego_graph_of_given_hops_has_their_edges(store):
    seed = store.V("user").batch(2).alias("seed")
    seed.outE("buy").sample(3).by("random").alias("bought").inV().alias("item")
    seed.outNeg("buy").sample(2).by("random").alias("other")
    dataset = Dataset(seed.values())
    batch = next(iter(dataset))

    graph = dataset.get_egograph("seed", ["bought", "item"], batch=batch)
    negative = dataset.get_egograph("seed", ["other"], batch=batch)

    assert graph.nbr_nums.tolist() == [3]
    assert graph.hop_edge(0).weights.numpy().tolist() == [0.5] * 6
    assert graph.hop_edge(0).dst_ids.numpy().tolist() == graph.hop_node(0).ids.numpy().tolist()
    assert [(name, spec.dimension) for name, spec in graph.edge_schema] == [("buy", 1)]
    assert negative.nbr_nums.tolist() == [2]
    with pytest.raises(ValueError, match="item is not the downstream of seed"):
        dataset.get_egograph("seed", ["item"], batch=batch)
    with pytest.raises(ValueError, match=r"`neighbors` must be a list of aliases; got 'item'"):
        dataset.get_egograph("seed", "item", batch=batch)
    with pytest.raises(ValueError, match="`source` must be an alias of nodes; got 'bought', edges"):
        dataset.get_egograph("bought", batch=batch)
    with pytest.raises(ValueError, match="`alias` must be one of"):
        dataset.get_egograph("nobody", batch=batch)


def test_several_downstreams_must_be_chosen_from(store):
    seed = store.V("user").batch(2).alias("seed")
    seed.outV("buy").sample(2).by("random").alias("bought")
    seed.outV("know").sample(2).by("random").alias("known")
    dataset = Dataset(seed.values())

    with pytest.raises(ValueError, match=r"seed has multiple downstreams, \['bought', 'known'\]"):
        dataset.get_egograph("seed", batch=next(iter(dataset)))


def test_a_hop_of_all_neighbors_has_no_ego_graph(store):
    seed = store.V("user").batch(4).alias("seed")
    seed.outV("buy").sample(0).by("full").alias("all")
    dataset = Dataset(seed.values())
    batch = next(iter(dataset))

    assert batch["all"].offsets.numpy().tolist() == [2, 1, 3, 1]
    assert batch["all"].indices.numpy().tolist() == [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2], [3, 0]]
    assert batch["all"].dense_shape.numpy().tolist() == [4, 3]
    with pytest.raises(ValueError, match=r"`all` must have a fixed number of neighbors"):
        dataset.get_egograph("seed", batch=batch)


def test_an_inducer_makes_a_positive_and_a_negative_batch(store):
    dataset = Dataset(_edges(store), inducer=HeteroEdgeInducer(use_neg=True, edge_types=TYPES))

    pairs = [dataset.get_batchgraph() for _ in dataset]

    assert all(isinstance(graph, HeteroBatchGraph) for pair in pairs for graph in pair)
    assert [(positive.num_graphs, negative.num_graphs) for positive, negative in pairs] == [(3, 6), (3, 6), (2, 4)]
    # Edges 1-10, 1-11 and 2-11: with all who bought 10 or 11.
    positive = pairs[0][0]
    assert positive.nodes_dict["user"].ids.numpy().tolist() == [1, 1, 5, 1, 1, 2, 2, 1, 2]
    assert positive.graph_node_offsets_dict["item"].numpy().tolist() == [0, 3, 6]
    assert {name: spec.dimension for name, spec in positive.node_schema_dict.items()} == {"user": 13, "item": 1}
    with pytest.raises(ValueError, match="`get_data_dict` must be called on a dataset without an inducer"):
        dataset.get_data_dict(pairs[0])


def test_several_batches_of_a_query_make_up_one_and_the_last_one_may_be_left_out(store):
    def num_graphs(**options):
        inducer = HeteroEdgeInducer(edge_types=TYPES)
        return [batch.num_graphs for batch in Dataset(_edges(store), inducer=inducer, **options)]

    assert num_graphs(batch_size=2) == [6, 2]
    assert num_graphs(drop_last=True) == [3, 3]
    assert num_graphs(batch_size=2, drop_last=True) == [6]
    assert [batch["seed"].ids.shape[0] for batch in Dataset(_two_hops(store), drop_last=True)] == [3, 3]
    with pytest.raises(ValueError, match="`query` must yield at least one batch"):
        num_graphs(batch_size=3, drop_last=True)


class _Labeled(SubGraphProcessor):
    def process_func(self, subgraph):
        return SubGraph(
            subgraph.edge_index,
            subgraph.nodes,
            subgraph.edges,
            struct_label=subgraph["dist_to_src"] + subgraph["dist_to_dst"],
        )


def test_a_processor_changes_each_sampled_subgraph_and_the_last_batch_is_kept(store):
    edges = store.E("know").batch(3)
    edges.SubGraph("know", [0], need_dist=True).alias("near")
    processor = _Labeled(addl_types_and_shapes={"struct_label": [tf.int32, [None]]})
    dataset = Dataset(edges.values(), processor=processor)

    batches = list(dataset)

    assert isinstance(batches[0], BatchGraph)
    assert [batch.num_graphs for batch in batches] == [3, 3, 2]
    assert batches[0].node_schema[0] == "user"
    assert batches[0].graph.context["struct_label"].shape[0] == 3
    assert all(batch["struct_label"].shape[0] == batch.num_nodes for batch in batches)


def test_each_epoch_is_another_one_and_ends_without_an_error(store):
    query = store.V("user").batch(7).shuffle(traverse=True).alias("seed").values()
    dataset = Dataset(query)

    orders = [batch["seed"].ids.numpy().tolist() for _ in range(3) for batch in dataset]
    orders += [batch["seed"].ids.numpy().tolist() for batch in dataset.tf_dataset.repeat(2)]

    expected = [next(query.value_batches(epoch))["seed"].ids.tolist() for epoch in range(5)]
    assert orders == expected
    assert len({tuple(order) for order in orders}) > 1


def test_what_is_counted_is_not_counted_twice_for_the_spec(store):
    query = _two_hops(store)
    dataset = Dataset(query, window=1)

    _ = dataset.element_spec

    assert query.counts == {}
    assert len(list(dataset)) == 3
    assert query.counts["hop1"] == collections.Counter(missing=4)


def test_threads_have_their_own_epochs_and_batches(store):
    dataset = Dataset(_two_hops(store, batch_size=1))
    seen = collections.defaultdict(list)

    def iterate(name):
        for batch in dataset:
            ids = dataset.get_egograph("seed").src.ids.numpy().tolist()
            assert ids == batch["seed"].ids.numpy().tolist()
            seen[name] += ids

    threads = [threading.Thread(target=iterate, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert dict(seen) == {name: [1, 2, 3, 4, 5, 6, 7] for name in range(4)}


def test_it_maps_to_ego_graphs_in_tf_data(store):
    dataset = Dataset(_two_hops(store))

    graphs = list(dataset.tf_dataset.map(lambda batch: dataset.get_egograph("seed", batch=batch)))

    assert [graph.src.ids.numpy().tolist() for graph in graphs] == [[1, 2, 3], [4, 5, 6], [7]]
    assert graphs[0].node_schema[1][1].dimension == 1


class _Varying(SubGraphInducer):
    def induce_func(self, values):
        is_first = values["seed"].ids[0] == 1
        nodes = Data(ids=values["seed"].ids, weights=np.ones(3)) if is_first else Data(ids=values["seed"].ids)
        return [SubGraph([[], []], nodes)], None


class _Forgetful(SubGraphInducer):
    def induce_func(self, values):
        return [SubGraph([[], []], Data(ids=values["seed"].ids))]


def test_inducers_that_do_not_keep_their_word_are_refused(store):
    with pytest.raises(tf.errors.OpError, match="All batches must have the same arrays, dtypes and shapes"):
        list(Dataset(_two_hops(store), inducer=_Varying()))
    with pytest.raises(TypeError, match=r"`induce_func` must return \(positive subgraphs, negative subgraphs or None"):
        list(Dataset(_two_hops(store), inducer=_Forgetful()))
    with pytest.raises(ValueError, match="`use_neg` must say whether"):
        list(Dataset(_two_hops(store), inducer=_Varying(use_neg=True)))
    with pytest.raises(KeyError, match="must have the alias 'pos_src'"):
        list(Dataset(_two_hops(store), inducer=EdgeCNInducer()))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"window": 0}, ValueError, r"`window` must be in \(0, 128\); got 0"),
        ({"window": 128}, ValueError, "got 128"),
        ({"window": 2.5}, ValueError, "`window` must be a positive integer; got 2.5"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1"),
        ({"batch_size": 1.5}, ValueError, "`batch_size` must be a positive integer; got 1.5"),
        ({"batch_size": 2}, ValueError, "`batch_size` must be 1 without an inducer"),
        ({"inducer": SubGraphInducer(), "processor": SubGraphProcessor()}, ValueError, "must not both be given"),
        ({"inducer": EdgeCNInducer}, TypeError, "`inducer` must be a SubGraphInducer; got type"),
    ],
)
def test_options_that_do_not_fit_are_refused(store, options, error, message):
    with pytest.raises(error, match=message):
        Dataset(_two_hops(store), **options)


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "ended"])
def test_a_loop_goes_on_at_its_own_batch_after_one_inside_of_it(store, is_left):
    dataset = Dataset(_two_hops(store))

    for outer in dataset:
        for _ in dataset:
            if is_left:
                break
        assert dataset.get_data_dict()["seed"].ids.numpy().tolist() == outer["seed"].ids.numpy().tolist()

    with pytest.raises(ValueError, match="`batch` must be given outside of a loop"):
        dataset.get_data_dict()


class _OddOnly(SubGraphInducer):
    """Makes a subgraph of each seed with an odd id."""

    def induce_func(self, values):
        odd = [one for one in values["seed"].ids if one % 2]
        return [SubGraph(np.zeros([2, 0], int), Data(ids=np.array([one]))) for one in odd], None


def test_where_an_inducer_makes_no_subgraph_there_is_no_batch(store):
    query = store.V("user").batch(1).alias("seed").values()

    assert [batch.nodes.ids.numpy().tolist() for batch in Dataset(query, inducer=_OddOnly())] == [[1], [3], [5], [7]]
    by_two = Dataset(query, inducer=_OddOnly(), batch_size=2)
    assert [batch.num_graphs for batch in by_two] == [1, 1, 1, 1]


def test_outside_of_a_loop_a_batch_must_be_given(store):
    dataset = Dataset(_two_hops(store))

    with pytest.raises(ValueError, match="`batch` must be given outside of a loop"):
        dataset.get_egograph("seed")
    with pytest.raises(TypeError, match=r"`query` must be a closed query; got NodeStep"):
        Dataset(store.V("user").batch(2))
    with pytest.raises(ValueError, match="`get_batchgraph` must be called on a dataset of subgraphs"):
        dataset.get_batchgraph(next(iter(dataset)))

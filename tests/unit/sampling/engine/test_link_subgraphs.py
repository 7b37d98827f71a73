"""Subgraphs around pairs, with answers listed by hand: what is hidden, read out, induced and written.

The shop's users are ann 0, bob 1, cid 2, dan 3; its items 7 -> 0 and 12 -> 1. `knows` has the rows
0 ann-bob, 1 ann-ann, 2 bob-cid, 3 ann-bob; `buys` has 0 ann-7, 1 bob-7, 2 cid-12, 3 bob-12.
"""

import itertools

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.ops.readout_structure import validate_graph_tensor_for_readout
from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import read_tables

BUYS = Hop(edge_set="buys", fan_out=10, inputs=("source",))
BOUGHT_BY = Hop(edge_set="buys", fan_out=10, inputs=("target",), direction="backward")


@pytest.fixture
def tables(shop_dir):
    return read_tables(shop_dir)


def _pairs(*subgraphs, rows=None, labels=None, **limits):
    """Seeds of one subgraph for each list of pairs."""
    pairs = np.array([pair for readouts in subgraphs for pair in readouts])
    return Seeds(
        keys=np.arange(len(subgraphs), dtype=np.uint64),
        rows=np.arange(len(subgraphs)) if rows is None else np.array(rows),
        readout_splits=np.cumsum([0, *(len(readouts) for readouts in subgraphs)]),
        readout_nodes={"source": pairs[:, 0], "target": pairs[:, 1]},
        readout_labels=None if labels is None else np.array(labels, np.int8),
        **{name: np.array(values) for name, values in limits.items()},
    )


def _sample(tables, plan, seeds, **fields):
    """Nodes by set and edges (row, source, target) by set of the only subgraph, and the positions of its roots."""
    subgraphs = InMemorySampler(tables, plan, sampling_seed=0, **fields).sample(seeds)
    nodes = {name: sampled.rows.tolist() for name, sampled in subgraphs.node_sets.items()}
    edges = {
        name: list(zip(sampled.rows.tolist(), sampled.sources.tolist(), sampled.targets.tolist(), strict=True))
        for name, sampled in subgraphs.edge_sets.items()
    }
    return nodes, edges, {root: where.tolist() for root, where in subgraphs.readouts.positions.items()}


def test_the_pair_that_is_read_out_is_hidden_in_both_directions(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS, BOUGHT_BY))

    # Bob also buys 7, and cid also buys 12: bob's own edge to 12 is not there.
    assert _sample(tables, plan, _pairs([(1, 1)])) == (
        {"item": [1, 0], "user": [1, 2]},
        {"buys": [(1, 0, 1), (2, 1, 0)]},
        {"source": [0], "target": [0]},
    )


def test_the_true_pair_is_hidden_from_negatives_with_subgraphs_of_their_own(tables):
    plan = SamplingPlan(
        seed_edge_set="buys",
        hops=(BUYS, BOUGHT_BY),
        negatives=Negatives(num_per_positive=1, own_subgraphs=True),
        structure_labels="distance",
    )
    seeds, _ = _pairs([(0, 0), (0, 1)], [(2, 1), (2, 0)], labels=[1, 0, 1, 0]).with_own_subgraphs()

    subgraphs = InMemorySampler(tables, plan, sampling_seed=0).sample(seeds)

    # Ann bought 7, and cid 12. Of both, no example shows it, that of ann and 12 or of cid and 7 neither.
    buys = subgraphs.edge_sets["buys"]
    assert [buys.rows[start:stop].tolist() for start, stop in itertools.pairwise(buys.splits)] == [
        [1],
        [2, 3],
        [3],
        [0, 1],
    ]
    assert subgraphs.readouts.labels.tolist() == [1, 0, 1, 0]
    # Ann's two examples: 7, with bob who bought it; 12, with cid and bob.
    assert subgraphs.node_sets["user"].rows.tolist()[:5] == [0, 1, 0, 1, 2]
    assert subgraphs.structure_labels["user"].tolist()[:5] == [[0, 11], [11, 1], [0, 11], [11, 1], [11, 1]]
    assert subgraphs.structure_labels["item"].tolist()[:2] == [[11, 0], [11, 0]]


def test_structure_labels_are_features_of_all_nodes(tables):
    knows = Hop(edge_set="knows", fan_out=10, inputs=("source",))
    schema, (graph,) = _encode(
        tables,
        SamplingPlan(seed_edge_set="buys", hops=(knows, BUYS, BOUGHT_BY), structure_labels="drnl"),
        _pairs([(0, 0)]),
    )

    # Ann knows bob, who bought 7 as well: he is at (1, 1).
    assert graph.node_sets["user"]["#id"].numpy().tolist() == [b"ann", b"bob"]
    assert graph.node_sets["user"]["structure_label"].numpy().tolist() == [1, 2]
    assert graph.node_sets["item"]["structure_label"].numpy().tolist() == [1]
    assert schema.node_sets["item"].features["structure_label"].description.startswith("Double radius")


def test_structure_labels_need_one_pair_for_each_subgraph(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS,), structure_labels="drnl")

    with pytest.raises(ValueError, match=r"`seeds` must have one pair .* got 2 .* Call `seeds.with_own_subgraphs\(\)`"):
        InMemorySampler(tables, plan, sampling_seed=0).sample(_pairs([(0, 0), (0, 1)]))


def test_parallel_edges_of_the_pair_are_hidden_together_and_other_directions_stay(tables):
    knows = Hop(edge_set="knows", fan_out=10, inputs=("source", "target"))

    ann_bob = _sample(tables, SamplingPlan(seed_edge_set="knows", hops=(knows,)), _pairs([(0, 1)]))
    bob_ann = _sample(tables, SamplingPlan(seed_edge_set="knows", hops=(knows,)), _pairs([(1, 0)]))

    assert ann_bob == ({"user": [0, 1, 2]}, {"knows": [(1, 0, 0), (2, 1, 2)]}, {"source": [0], "target": [1]})
    # That ann knows bob does not tell whether bob knows ann.
    assert bob_ann[1] == {"knows": [(0, 1, 0), (1, 1, 1), (2, 0, 2), (3, 1, 0)]}


def test_a_set_that_is_its_own_reverse_hides_both_directions(tables):
    knows = Hop(edge_set="knows", fan_out=10, inputs=("source", "target"))
    plan = SamplingPlan(seed_edge_set="knows", hops=(knows,), reverse_edge_sets=("knows",))

    _, edges, _ = _sample(tables, plan, _pairs([(1, 0)]))

    assert edges == {"knows": [(1, 1, 1), (2, 0, 2)]}


def test_a_seed_that_is_a_self_loop_has_one_root(tables):
    knows = Hop(edge_set="knows", fan_out=10, inputs=("source", "target"))
    plan = SamplingPlan(seed_edge_set="knows", hops=(knows,))

    assert _sample(tables, plan, _pairs([(0, 0)])) == (
        {"user": [0, 1]},
        {"knows": [(0, 0, 1), (3, 0, 1)]},
        {"source": [0], "target": [0]},
    )


def test_pairs_are_hidden_among_induced_edges_too(tables):
    plan = SamplingPlan(seed_edge_set="buys", induced_edge_sets=("buys", "knows"))

    # Bob buys 7 and 12; 7 is read out with him. Ann, who buys 7, is not in the subgraph.
    assert _sample(tables, plan, _pairs([(1, 0), (1, 1)], labels=[1, 0]))[1] == {"buys": [], "knows": []}
    assert _sample(tables, plan, _pairs([(0, 0), (0, 1)], labels=[1, 0]))[1] == {"buys": [], "knows": [(1, 0, 0)]}


def test_induced_edges_join_whatever_was_sampled(tables):
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(
            Hop(edge_set="buys", fan_out=10),
            Hop(edge_set="buys", fan_out=10, inputs=("buys",), direction="backward"),
        ),
        induced_edge_sets=("knows",),
    )

    subgraphs = InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(np.array([2]))

    # Cid buys 12, which bob buys too; bob knows cid. Ann knows bob and is not there.
    assert subgraphs.node_sets["user"].rows.tolist() == [2, 1]
    knows = subgraphs.edge_sets["knows"]
    assert (knows.rows.tolist(), knows.sources.tolist(), knows.targets.tolist()) == ([2], [1], [0])


@pytest.mark.parametrize(("inclusive", "expected"), [(False, [0, 1]), (True, [0, 3])])
def test_time_hides_the_seed_edge_unless_it_is_inclusive(tables, inclusive, expected):
    # The count of a purchase serves as its time: bob bought 7 at 2 and 12 at 4.
    temporal = Temporal(seed_time="count", edge_times={"buys": "count"}, inclusive=inclusive)
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS, BOUGHT_BY), temporal=temporal)

    _, edges, _ = _sample(tables, plan, _pairs([(1, 1)], rows=[3], time_limits=[4]))

    # Before 4: bob's 7 and cid's 12. Up to 4, the pair itself would be there, and is hidden as without time.
    assert [row for row, _, _ in edges["buys"]] == [1, 2]
    # With a limit later than the seed, time alone would not hide the pair either.
    _, edges, _ = _sample(tables, plan, _pairs([(1, 0)], rows=[1], time_limits=[4]))
    assert [row for row, _, _ in edges["buys"]] == expected


def test_a_forecast_hides_no_earlier_edge_of_its_pair(tables):
    temporal = Temporal(seed_time="when", edge_times={"buys": "count"}, inclusive=True)
    table = SeedTable(filename="pairs.csv", features={"when": "int64"}, splits_edges=False, is_forecast=True)
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS, BOUGHT_BY), temporal=temporal, seed_table=table)

    # Bob bought 7 at 2 and 12 at 4, cid 12 before.
    of_limits = [_sample(tables, plan, _pairs([(1, 1)], rows=[3], time_limits=[limit]))[1] for limit in (3, 4)]

    assert [[row for row, _, _ in edges["buys"]] for edges in of_limits] == [[1, 2], [1, 2, 3]]


@pytest.mark.parametrize(("limit", "expected"), [(0, [0]), (1, [0]), (2, [0, 2])])
def test_edges_above_the_rank_limit_are_hidden(tables, limit, expected):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BOUGHT_BY,))
    ranks = {"buys": np.array([0, 3, 2, 3], np.int8)}

    seeds = _pairs([(3, 0), (3, 1)], rank_limits=np.array([limit], np.int8))
    _, edges, _ = _sample(tables, plan, seeds, edge_ranks=ranks)

    assert [row for row, _, _ in edges["buys"]] == expected


def test_ranks_are_missed_when_seeds_have_limits(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS,))

    with pytest.raises(ValueError, match=r"`edge_ranks` must hold ranks of the edge sets \['buys'\]"):
        _sample(tables, plan, _pairs([(1, 1)], rank_limits=np.array([0], np.int8)))


def test_roots_come_in_the_order_of_readouts_each_once(tables):
    plan = SamplingPlan(seed_edge_set="knows", hops=(Hop(edge_set="buys", fan_out=10, inputs=("target",)),))

    nodes, _, positions = _sample(tables, plan, _pairs([(3, 2), (3, 0), (3, 3), (3, 2)], labels=[1, 0, 0, 0]))

    assert nodes == {"user": [3, 2, 0], "item": [0, 1]}
    assert positions == {"source": [0, 0, 0, 0], "target": [1, 2, 0, 1]}


def test_a_root_is_expanded_again_only_if_the_plan_says_so(tables):
    hops = (
        Hop(edge_set="buys", fan_out=10),
        Hop(edge_set="buys", fan_out=10, inputs=("buys",), direction="backward"),
        Hop(edge_set="knows", fan_out=10, inputs=("buys_reverse",)),
    )
    plans = [SamplingPlan(seed_node_set="user", hops=hops, expands_seed_again=again) for again in (False, True)]

    found = [
        InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(np.array([0])).edge_sets["knows"].rows.tolist()
        for plan in plans
    ]

    # From 7 the path leads back to ann.
    assert found == [[2], [0, 1, 2, 3]]


def test_an_edge_drawn_twice_is_there_twice(tables):
    hop = Hop(edge_set="knows", fan_out=3, strategy="uniform_with_replacement")
    plan = SamplingPlan(seed_node_set="user", hops=(hop,))

    knows = InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(np.array([1])).edge_sets["knows"]

    assert knows.rows.tolist() == [2, 2, 2]
    assert knows.targets.tolist() == [1, 1, 1]


def test_rows_alone_are_no_seeds_of_link_plans(tables):
    with pytest.raises(ValueError, match="`plan` must have nodes as seeds"):
        InMemorySampler(tables, SamplingPlan(seed_edge_set="buys"), sampling_seed=0).sample_nodes(np.array([0]))


def _encode(tables, plan, seeds, **fields):
    encoder = SubgraphExampleEncoder(tables, plan, **fields)
    schema_validation.validate_schema(encoder.schema, readout_node_sets=["_readout"])
    records = encoder.encode(InMemorySampler(tables, plan, sampling_seed=0).sample(seeds))
    graphs = []
    for record in records:
        assert tf.train.Example.FromString(record).SerializeToString(deterministic=True) == record
        graph = parse_single_example(create_graph_spec_from_schema_pb(encoder.schema), tf.constant(record))
        graphs.append(validate_graph_tensor_for_readout(graph))
    return encoder.schema, graphs


def test_pairs_with_negatives_are_read_out_from_both_ends(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS,), negatives=Negatives(num_per_positive=1))

    schema, (graph,) = _encode(tables, plan, _pairs([(0, 0), (0, 1)], labels=[1, 0]))

    assert list(schema.info.root_set) == ["user", "item"]
    readout = graph.node_sets["_readout"]
    assert readout["label"].dtype == tf.int64
    assert readout["label"].numpy().tolist() == [1, 0]
    assert graph.edge_sets["_readout/source"].adjacency.source.numpy().tolist() == [0, 0]
    assert graph.edge_sets["_readout/target"].adjacency.source.numpy().tolist() == [0, 1]
    assert graph.edge_sets["_readout/target"].adjacency.target.numpy().tolist() == [0, 1]
    assert graph.edge_sets["buys"].sizes.numpy().tolist() == [0]


def test_labels_of_edges_leave_them_and_columns_of_splits_too(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS,), label_features=("count",), splits=SplitPlan(column="part"))

    schema, graphs = _encode(tables, plan, _pairs([(1, 0)], [(1, 1)], rows=[1, 3]))

    assert sorted(schema.edge_sets["buys"].features) == ["#id"]
    assert [graph.node_sets["_readout"]["count"].numpy().tolist() for graph in graphs] == [[2], [4]]
    assert [graph.edge_sets["buys"]["#id"].numpy().tolist() for graph in graphs] == [[3], [1]]


def test_a_seed_edge_that_is_kept_is_read_out_through_its_shadow(tables):
    plan = SamplingPlan(seed_edge_set="buys", hops=(BUYS,), label_features=("count",), keeps_seed_edge=True)

    schema, graphs = _encode(tables, plan, _pairs([(1, 1)], [(0, 0)], rows=[3, 0]))

    assert not schema.node_sets["_shadow/buys"].features
    bob, ann = graphs
    assert bob.edge_sets["buys"]["#id"].numpy().tolist() == [1, 3]
    assert bob.node_sets["_shadow/buys"].sizes.numpy().tolist() == [2]
    assert bob.edge_sets["_readout/seed"].adjacency.source.numpy().tolist() == [1]
    assert bob.node_sets["_readout"]["count"].numpy().tolist() == [4]
    assert ann.edge_sets["_readout/seed"].adjacency.source.numpy().tolist() == [0]
    assert ann.node_sets["_readout"]["count"].numpy().tolist() == [1]


def test_columns_of_the_seed_table_are_labels(tables):
    table = SeedTable(filename="pairs.csv", features={"label": "int64", "query": "string", "when": "int64"})
    plan = SamplingPlan(seed_edge_set="buys", seed_table=table, label_features=("label", "query"))
    columns = {"label": pa.array([5, 6]), "query": pa.array(["x", "y"], pa.large_string())}

    schema, (graph,) = _encode(tables, plan, _pairs([(0, 1)], rows=[1]), seed_features=columns)

    assert sorted(schema.node_sets["_readout"].features) == ["label", "query"]
    assert graph.node_sets["_readout"]["label"].numpy().tolist() == [6]
    assert graph.node_sets["_readout"]["query"].numpy().tolist() == [b"y"]
    with pytest.raises(ValueError, match=r"`seed_features` must have the columns .* got \['query'\], without 'label'"):
        SubgraphExampleEncoder(tables, plan, seed_features={"query": columns["query"]})

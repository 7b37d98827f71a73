import pickle

import numpy as np

from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.sampled_subgraphs import (
    MAX_TRUNCATED_HUBS,
    HopCounts,
    SizeStatistics,
    SubgraphStatisticsBuilder,
    TruncatedHub,
    largest_hubs,
)
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.graph_tables import read_tables


def test_sizes_and_cuts_are_summed_over_batches(shop_dir):
    plan = SamplingPlan(seed_node_set="user", hops=(Hop(edge_set="knows", fan_out=2), Hop(edge_set="buys", fan_out=1)))
    sampler = InMemorySampler(read_tables(shop_dir), plan, sampling_seed=0)
    builder = SubgraphStatisticsBuilder()

    builder.add("train", sampler.sample_nodes(np.array([1])))
    builder.add("train", sampler.sample_nodes(np.array([2])))
    builder.add("test", sampler.sample_nodes(np.array([3])))

    statistics = builder.build()
    # bob: users bob, cid and one of two items; cid: one item; dan: nothing.
    assert statistics.num_subgraphs == {"train": 2, "test": 1}
    assert statistics.node_sets == {
        "user": SizeStatistics(total=4, mean=4 / 3, max=2),
        "item": SizeStatistics(total=2, mean=2 / 3, max=1),
    }
    assert statistics.edge_sets == {
        "knows": SizeStatistics(total=1, mean=1 / 3, max=1),
        "buys": SizeStatistics(total=2, mean=2 / 3, max=1),
    }
    assert statistics.all_nodes == SizeStatistics(total=6, mean=2.0, max=3)
    assert statistics.all_edges == SizeStatistics(total=3, mean=1.0, max=2)
    assert statistics.hops == {
        "knows": HopCounts(num_inputs=3, num_truncated=0, num_edges=1, num_candidates=1, num_eligible=1),
        "buys": HopCounts(num_inputs=3, num_truncated=1, num_edges=2, num_candidates=3, num_eligible=3),
    }


def _star_statistics(tables, plan, parts):
    sampler = InMemorySampler(tables, plan, sampling_seed=0)
    builders = []
    for rows in parts:
        builder = SubgraphStatisticsBuilder()
        builder.add("train", sampler.sample_nodes(np.array(rows)))
        builders.append(pickle.loads(pickle.dumps(builder)))
    merged = SubgraphStatisticsBuilder()
    for builder in builders:
        merged.merge(builder)
    return merged.build()


def test_truncated_hubs_are_named_and_parts_add_up(shop_dir):
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(
            Hop(edge_set="knows", fan_out=1),
            Hop(edge_set="knows", fan_out=1, direction="backward", inputs=("seed", "knows")),
        ),
    )
    tables = read_tables(shop_dir)

    whole = _star_statistics(tables, plan, [[0, 1, 2, 3]])

    # Ann has three edges (two to bob), of which one is taken; bob has two that lead to him, cid one from bob.
    ann, bob = TruncatedHub(node_id="ann", degree=3, times_truncated=1), whole.truncated_hubs["knows_reverse"][0]
    assert whole.truncated_hubs["knows"] == (ann,)
    assert (bob.node_id, bob.degree) == ("bob", 2)
    assert whole.fan_out_saturation["knows"] == 1 / 4
    assert _star_statistics(tables, plan, [[3, 1], [0], [2]]) == whole


def test_no_more_hubs_are_named_than_fit():
    hubs = [TruncatedHub(node_id=number, degree=number % 7, times_truncated=1) for number in range(100)]

    largest = largest_hubs(hubs)

    assert [hub.node_id for hub in largest] == [*range(6, 100, 7), *range(5, 41, 7)]
    assert len(largest) == MAX_TRUNCATED_HUBS


def test_nothing_counted_is_no_subgraphs():
    statistics = SubgraphStatisticsBuilder().build()

    assert statistics.num_subgraphs == {}
    assert statistics.all_nodes == SizeStatistics(total=0, mean=0.0, max=0)

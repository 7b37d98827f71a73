"""Beam writes the files that graphs in memory give, byte for byte."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tfx_gnn.records import examples_folder
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.sampling_pipeline import sample_with_beam
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatisticsBuilder
from tfx_gnn.sampling.engine.seeds import shard_bounds
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import GraphTables, read_tables

SAMPLING_SEED = 5
DEBIAN_DIR = str(Path(__file__).parents[4] / "pipelines/tfx_gnn_pipelines/tasks/debian_sections/data")

RANDOM_SCHEMA = """
node_sets { key: "a" value {
  features { key: "x" value { dtype: DT_FLOAT } } features { key: "born" value { dtype: DT_INT64 } }
  features { key: "label" value { dtype: DT_STRING } } metadata { filename: "a.csv" } } }
node_sets { key: "b" value {
  features { key: "#id" value { dtype: DT_INT64 } } metadata { filename: "b.csv" } } }
edge_sets { key: "aa" value { source: "a" target: "a"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "aa.csv" } } }
edge_sets { key: "ab" value { source: "a" target: "b"
  features { key: "#weight" value { source: "w" dtype: DT_FLOAT } }
  features { key: "t" value { dtype: DT_INT64 } } metadata { filename: "ab.csv" } } }
edge_sets { key: "ba" value { source: "b" target: "a" metadata { filename: "ba.csv" } } }
"""
HUB_DEGREE = 20_000
GRAPHS = ("random", "debian", "shop")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Names:
    """What plans call the parts of a graph."""

    graph: str
    tables_dir: str
    seeds: str
    label: str
    group: str  # another feature of seeds
    seed_time: str
    near: str  # from seeds to seeds
    far: str  # from seeds to another set
    links: str  # from seeds to seeds
    time: str  # features of `far`
    weight: str
    splits: SplitPlan
    hub_degree: int


def _write_random_graph(folder: Path) -> None:
    """120 seeds, one with 20,000 edges and one with 20,000 arriving; loops, parallel edges, lonely nodes."""
    draw = np.random.default_rng(3)

    def write(name, header, *columns):
        rows = (",".join(map(str, row)) for row in zip(*(column.tolist() for column in columns), strict=True))
        (folder / name).write_text("\n".join([header, *rows]) + "\n")

    nodes = np.array([f"a{i:03d}" for i in range(120)])
    write("a.csv", "id,x,born,label", nodes, draw.random(120).round(3), draw.integers(0, 50, 120), nodes)
    write("b.csv", "id", draw.permutation(400) * 7)
    near = 700
    starts = draw.integers(0, 100, near)
    ends = np.where(draw.random(near) < 0.05, starts, draw.integers(0, 110, near))
    columns = draw.integers(-1, 4, near), draw.integers(0, 50, near)
    write("aa.csv", "source,target,w,t", nodes[starts], nodes[ends], *columns)
    far = 1500 + HUB_DEGREE
    starts = np.concatenate([draw.integers(0, 100, 1500), np.full(HUB_DEGREE, 17)])
    order = draw.permutation(far)
    columns = draw.integers(0, 300, far) * 7, draw.integers(0, 9, far), draw.integers(0, 50, far)
    write("ab.csv", "source,target,w,t", nodes[starts][order], *columns)
    ends = np.concatenate([draw.integers(0, 110, 1500), np.full(HUB_DEGREE, 23)])
    write("ba.csv", "source,target", draw.integers(0, 300, far) * 7, nodes[ends])
    (folder / "graph_schema.pbtxt").write_text(RANDOM_SCHEMA)


@pytest.fixture(scope="module")
def random_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    _write_random_graph(folder)
    return str(folder)


SHOP = Names(
    graph="shop",
    tables_dir="",
    seeds="user",
    label="color",
    group="age",
    seed_time="age",
    near="knows",
    far="buys",
    links="knows",
    time="count",
    weight="count",
    splits=SplitPlan(column="part"),
    hub_degree=1,
)


@pytest.fixture
def names(request, graph):
    if graph == "shop":
        return dataclasses.replace(SHOP, tables_dir=request.getfixturevalue("shop_dir"))
    if graph == "random":
        return Names(
            graph="random",
            tables_dir=request.getfixturevalue("random_dir"),
            seeds="a",
            label="label",
            group="born",
            seed_time="born",
            near="aa",
            far="ab",
            links="aa",
            time="t",
            weight="#weight",
            splits=SplitPlan(weights={"train": 3, "val": 1}),
            hub_degree=8,
        )
    return Names(
        graph="debian",
        tables_dir=DEBIAN_DIR,
        seeds="package",
        label="section",
        group="priority",
        seed_time="installed_size_kib",
        near="depends",
        far="depends",
        links="suggests",
        time="pre_depends",
        weight="versioned",
        splits=SplitPlan(column="split", order=("val", "test"), unused_values=("train",)),
        hub_degree=10,
    )


def _node_plan(names: Names, *hops: Hop, **more) -> SamplingPlan:
    return SamplingPlan(
        seed_node_set=names.seeds, label_features=(names.label,), **{"splits": names.splits, "hops": hops} | more
    )


def _uniform(names):
    return _node_plan(
        names,
        Hop(edge_set=names.near, fan_out=3, name="friends"),
        Hop(edge_set=names.far, fan_out=2, inputs=("seed", "friends"), name="things"),
        Hop(edge_set=names.near, fan_out=2, inputs=("friends",)),
    )


def _backward(names):
    return _node_plan(
        names,
        Hop(edge_set=names.near, fan_out=3, direction="backward", name="fans"),
        Hop(edge_set=names.far, fan_out=4, inputs=("seed", "fans"), name="things"),
        Hop(edge_set=names.far, fan_out=3, direction="backward", inputs=("things",)),
    )


def _with_replacement(names):
    hop = Hop(edge_set=names.far, fan_out=5, strategy="uniform_with_replacement", name="things")
    return _node_plan(
        names, hop, Hop(edge_set=names.near, fan_out=4, strategy="uniform_with_replacement"), expands_seed_again=True
    )


def _by_weight(strategy):
    def plan(names):
        weight = names.weight if strategy in ("weighted", "weighted_with_replacement", "top_k") else ""
        return _node_plan(
            names,
            Hop(edge_set=names.near, fan_out=3, name="friends"),
            Hop(
                edge_set=names.far,
                fan_out=4,
                strategy=strategy,
                weight_feature=weight,
                inputs=("seed", "friends"),
                name="things",
            ),
            Hop(edge_set=names.far, fan_out=2, direction="backward", inputs=("things",)),
        )

    return plan


def _full(names):
    return _node_plan(
        names,
        Hop(edge_set=names.far, strategy="full", name="things"),
        Hop(edge_set=names.near, fan_out=1, name="friends"),
        excluded_features={names.far: (names.time,)},
    )


def _temporal(names):
    return _node_plan(
        names,
        Hop(edge_set=names.far, fan_out=3, name="things"),
        Hop(edge_set=names.far, fan_out=2, direction="backward", inputs=("things",)),
        Hop(edge_set=names.near, fan_out=3, strategy="uniform"),
        temporal=Temporal(seed_time=names.seed_time, edge_times={names.far: names.time}),
    )


def _induced(names):
    return _node_plan(
        names,
        Hop(edge_set=names.near, fan_out=3, name="friends"),
        Hop(edge_set=names.far, fan_out=2, inputs=("seed", "friends")),
        induced_edge_sets=tuple({names.near, names.far}),
    )


def _inductive(names):
    return _node_plan(
        names,
        Hop(edge_set=names.near, fan_out=3, name="friends"),
        Hop(edge_set=names.near, fan_out=3, direction="backward", inputs=("friends",)),
        splits=dataclasses.replace(names.splits, visibility="inductive"),
    )


def _links(names, **more):
    hops = (
        Hop(edge_set=names.links, fan_out=3, inputs=("source", "target"), name="friends"),
        Hop(edge_set=names.links, fan_out=3, direction="backward", inputs=("target",)),
        Hop(edge_set=names.far, fan_out=2, inputs=("source", "friends")),
    )
    return SamplingPlan(
        **{
            "seed_edge_set": names.links,
            "hops": hops,
            "splits": SplitPlan(weights={"train": 1, "val": 1}, allows_empty_splits=True),
            "reverse_edge_sets": (names.links,),
        }
        | more
    )


def _classified_edges(names):
    return _links(names, keeps_seed_edge=True, reverse_edge_sets=())


def _negatives_of_one_value(names):
    negatives = Negatives(num_per_positive=2, distribution="in_degree", same_feature=names.group, num_draws=3)
    return _links(names, negatives=negatives, reverse_edge_sets=())


def _negatives_by_weight(names):
    negatives = Negatives(
        num_per_positive=3,
        side="source",
        distribution="node_weight",
        weight_feature=names.seed_time,
        conditions={names.group: 0.5},
        unique=False,
    )
    return _links(names, seed_edge_set=names.far, reverse_edge_sets=(), negatives=negatives, hops=())


def _negatives_of_sources(names):
    negatives = Negatives(
        num_per_positive=3,
        side="source",
        distribution="in_degree",
        conditions={names.group: 0.3, names.label: 0.3},
    )
    return _links(names, negatives=negatives)


def _structure_labels(names):
    negatives = Negatives(num_per_positive=2, side="source", num_draws=3, own_subgraphs=True)
    return _links(names, negatives=negatives, induced_edge_sets=(names.near,), structure_labels="distance")


PLANS: Mapping[str, Callable[[Names], SamplingPlan]] = {
    "uniform": _uniform,
    "backward": _backward,
    "with replacement": _with_replacement,
    "weighted": _by_weight("weighted"),
    "top k": _by_weight("top_k"),
    "in-degree": _by_weight("in_degree"),
    "full": _full,
    "temporal": _temporal,
    "induced": _induced,
    "inductive": _inductive,
    "links": _links,
    "classified edges": _classified_edges,
    "negatives of one value": _negatives_of_one_value,
    "negatives by weight": _negatives_by_weight,
    "negatives of sources": _negatives_of_sources,
    "structure labels": _structure_labels,
}


NUM_SHARDS = (1, 2, 7)


def _list_cases() -> dict[str, tuple[str, str, int]]:
    """Graph, plan and number of shards: each plan on one graph, each graph with each number of shards.

    Splits are chosen in another way in each graph, on which nothing but an inductive plan depends in all steps.
    """
    cases = [
        (GRAPHS[number % len(GRAPHS)], plan, NUM_SHARDS[number // len(GRAPHS) % len(NUM_SHARDS)])
        for number, plan in enumerate(PLANS)
    ]
    cases += [("debian", "inductive", 2), ("shop", "inductive", 7), ("debian", "negatives of sources", 1)]
    return {f"{graph}-{plan}": (graph, plan, num_shards) for graph, plan, num_shards in cases}


CASES = _list_cases()


def _read(plan: SamplingPlan, tables_dir: str) -> GraphTables:
    return read_tables(tables_dir, extra_columns=tables_with_splits(plan).extra_columns_by_table)


def _in_memory(tables: GraphTables, plan: SamplingPlan, examples_dir: str, num_shards: int):
    seeds_by_split, _ = make_seeds(tables, plan, SAMPLING_SEED)
    sampler = InMemorySampler(tables, plan, sampling_seed=SAMPLING_SEED, edge_ranks=rank_edges(tables, plan))
    encoder = SubgraphExampleEncoder(tables, plan)
    statistics = SubgraphStatisticsBuilder()
    for split, seeds in seeds_by_split.items():
        records = []
        for start in range(0, seeds.num_subgraphs, 100):
            subgraphs = sampler.sample(seeds.slice(start, min(start + 100, seeds.num_subgraphs)))
            statistics.add(split, subgraphs)
            records += encoder.encode(subgraphs)
        bounds = shard_bounds(seeds.keys, num_shards).tolist()
        for shard in range(num_shards):
            of_shard = records[bounds[shard] : bounds[shard + 1]]
            examples_folder.write_split_shard(examples_dir, split, shard, num_shards, of_shard)
    return statistics.build()


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _on_beam(tmp_path: Path, plan: SamplingPlan, num_shards: int, *beam_args: str, **options):
    examples_dir = str(tmp_path / "beam")
    statistics = sample_with_beam(
        make_pipeline=functools.partial(make_pipeline, beam_args),
        partitions_dir=str(tmp_path / "partitions"),
        examples_dir=examples_dir,
        plan=plan,
        sampling_seed=SAMPLING_SEED,
        num_shards=num_shards,
        **options,
    )
    ShardLog(examples_dir).remove()
    return statistics


@pytest.mark.parametrize(("graph", "plan_name", "num_shards"), CASES.values(), ids=CASES)
def test_files_are_those_of_the_graph_in_memory(tmp_path, names, plan_name, num_shards, write_partitions):
    plan = PLANS[plan_name](names)
    tables = _read(plan, names.tables_dir)
    info = write_partitions(tables, plan, str(tmp_path / "partitions"), 2, hub_degree=names.hub_degree)
    expected = _in_memory(tables, plan, str(tmp_path / "memory"), num_shards)
    assert plan.is_link_plan or any(table.total for name, table in info.tables.items() if name.endswith("/buckets"))

    statistics = _on_beam(tmp_path, plan, num_shards, seeds_per_block=300)

    written, of_memory = _files(tmp_path / "beam"), _files(tmp_path / "memory")
    assert list(written) == list(of_memory)
    assert written == of_memory
    assert statistics == expected


def test_workers_in_processes_of_their_own_write_the_same(tmp_path, shop_dir, write_partitions):
    names = dataclasses.replace(SHOP, tables_dir=shop_dir)
    plan = _uniform(names)
    tables = _read(plan, shop_dir)
    write_partitions(tables, plan, str(tmp_path / "partitions"), 4, hub_degree=1)
    _in_memory(tables, plan, str(tmp_path / "memory"), 2)

    _on_beam(tmp_path, plan, 2, "--direct_running_mode=multi_processing", "--direct_num_workers=2", seeds_per_block=1)

    assert _files(tmp_path / "beam") == _files(tmp_path / "memory")

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.sampling.index.build import BuiltIndex, write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import GraphTables, read_tables, read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "context.csv" } }
node_sets { key: "a" value {
  features { key: "x" value { dtype: DT_FLOAT } } features { key: "born" value { dtype: DT_INT64 } }
  features { key: "good" value { dtype: DT_BOOL } } features { key: "name" value { dtype: DT_STRING } }
  features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  metadata { filename: "a.parquet" } } }
node_sets { key: "b.c/d" value {
  features { key: "#id" value { dtype: DT_INT64 } } metadata { filename: "b.csv" } } }
edge_sets { key: "aa" value { source: "a" target: "a"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "aa.csv" } } }
edge_sets { key: "ab" value { source: "a" target: "b.c/d"
  features { key: "weight" value { source: "w" dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "ab.csv" } } }
edge_sets { key: "ba" value { source: "b.c/d" target: "a" metadata { filename: "ba.csv" } } }
"""
NUM_SEEDS, NUM_OTHERS, NUM_OF_HUB = 120, 300, 1500

HALVES = SplitPlan(weights={"train": 3, "val": 1})
BACK = Hop(edge_set="ba", fan_out=3, inputs=("ab",))
STRATEGIES = {
    "uniform": {},
    "uniform_with_replacement": {},
    "weighted": {"weight_feature": "weight"},
    "weighted_with_replacement": {"weight_feature": "weight"},
    "top_k": {"weight_feature": "weight"},
    "in_degree": {},
    "in_degree_with_replacement": {},
    "full": {"fan_out": 0},
}
PLANS = {
    "times": SamplingPlan(
        seed_node_set="a",
        hops=(Hop(edge_set="ab", fan_out=4), Hop(edge_set="aa", fan_out=3, direction="backward")),
        temporal=Temporal(seed_time="born", edge_times={"ab": "t", "aa": "t"}),
        splits=HALVES,
    ),
    "inductive": SamplingPlan(
        seed_node_set="a",
        hops=(Hop(edge_set="ab", fan_out=4), BACK),
        splits=dataclasses.replace(HALVES, visibility="inductive"),
        context_features=("year",),
    ),
    "induced": SamplingPlan(
        seed_node_set="a", hops=(Hop(edge_set="ab", fan_out=4), BACK), induced_edge_sets=("aa",), splits=HALVES
    ),
    "links": SamplingPlan(
        seed_edge_set="aa",
        hops=(
            Hop(edge_set="aa", fan_out=4, inputs=("source",)),
            Hop(edge_set="ab", fan_out=4, inputs=("target",)),
        ),
        negatives=Negatives(num_per_positive=2),
        splits=HALVES,
    ),
}


def _plan_with_strategy(strategy: str) -> SamplingPlan:
    first = Hop(edge_set="ab", **{"fan_out": 5, "strategy": strategy} | STRATEGIES[strategy])
    hops = (first, BACK, Hop(edge_set="aa", direction="backward", fan_out=3, inputs=("seed", "ba")))
    return SamplingPlan(seed_node_set="a", hops=hops, splits=HALVES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives tests with `any_plan` one plan for each strategy of a hop, and one of each kind."""
    if "any_plan" in metafunc.fixturenames:
        plans = {strategy: _plan_with_strategy(strategy) for strategy in STRATEGIES} | PLANS
        metafunc.parametrize("any_plan", plans.values(), ids=plans)


def write_graph(folder: Path) -> str:
    """120 texts and 300 integers as nodes; a hub in each direction, loops, parallel edges, and nodes without edges."""
    draw = np.random.default_rng(3)

    def write(name, header, *columns):
        rows = (",".join(map(str, row)) for row in zip(*(list(column) for column in columns), strict=True))
        (folder / name).write_text("\n".join([header, *rows]) + "\n")

    folder.mkdir()
    nodes = np.array([f"a{'x' * (number % 19)}{number}" for number in draw.permutation(NUM_SEEDS)])
    columns = {
        "id": nodes,
        "x": draw.random(NUM_SEEDS),
        "born": draw.integers(0, 50, NUM_SEEDS),
        "good": np.arange(NUM_SEEDS) % 3 == 0,
        "name": [f"name {number}" for number in range(NUM_SEEDS)],
        "pair": draw.random([NUM_SEEDS, 2]).tolist(),
        "tags": [list("uvw"[: number % 4]) for number in range(NUM_SEEDS)],
    }
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=50)
    others = draw.permutation(NUM_OTHERS) * 7 - 70
    write("b.csv", "id", others)
    starts, ends = draw.integers(0, 100, 700), draw.integers(0, 110, 700)
    ends[:30] = starts[:30]
    write(
        "aa.csv", "source,target,w,t", nodes[starts], nodes[ends], draw.integers(0, 4, 700), draw.integers(0, 50, 700)
    )
    starts = np.concatenate([draw.integers(0, 100, 1500), np.full(NUM_OF_HUB, 17)])
    ends, count = draw.choice(others[:250], len(starts)), len(starts)
    times = draw.integers(0, 50, count)
    write("ab.csv", "source,target,w,t", nodes[starts], ends, draw.integers(0, 9, count), times)
    ends = np.concatenate([draw.integers(0, 110, 1500), np.full(NUM_OF_HUB, 23)])
    write("ba.csv", "source,target", draw.choice(others[:250], len(ends)), nodes[ends])
    write("context.csv", "year", [2024])
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    return str(folder)


def _build(tables_dir: str, index_dir: Path, **options) -> BuiltIndex:
    """Builds an index of a tables folder."""
    index_dir.mkdir()
    schema = read_tables_schema(tables_dir)
    return write_graph_index(str(index_dir), schema, layouts_of(schema, tables_dir), **options)


@pytest.fixture(scope="session")
def graph_dir(tmp_path_factory) -> str:
    """Tables folder of the random graph."""
    return write_graph(tmp_path_factory.mktemp("graph") / "tables")


@pytest.fixture(scope="session")
def tables(graph_dir) -> GraphTables:
    """The random graph in memory."""
    return read_tables(graph_dir)


@pytest.fixture(scope="session")
def index_dir(graph_dir, tmp_path_factory) -> str:
    """The random graph as an index, which tests must not change."""
    folder = tmp_path_factory.mktemp("graph") / "index"
    _build(graph_dir, folder)
    return str(folder)


@pytest.fixture(scope="session")
def index(index_dir):
    """The open index of the random graph."""
    return open_graph_index(index_dir, verify=True)


@pytest.fixture(scope="session")
def build():
    """Builds an index of a tables folder."""
    return _build

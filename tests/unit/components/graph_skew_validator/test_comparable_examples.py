"""Examples that are said to be comparable are, byte for byte, what is sampled by id, in plans of all kinds."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.components.graph_skew_validator.examples_by_id import ExamplesById
from tfx_gnn.components.graph_skew_validator.served_by_id import differing_features
from tfx_gnn.components.graph_skew_validator.skew_accumulator import pair_files, read_example_blocks
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.records.examples_folder import split_names
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.serving.request_records import without_labels
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } } features { key: "color" value { dtype: DT_STRING } }
  metadata { filename: "users.csv" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } } features { key: "price" value { dtype: DT_FLOAT } }
  metadata { filename: "items.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "at" value { dtype: DT_INT64 } } metadata { filename: "buys.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
"""
FRIENDS = Hop(edge_set="knows", fan_out=2, inputs=("source",))
PURCHASES = Hop(edge_set="buys", fan_out=2, inputs=("source",))
BUYERS = Hop(edge_set="buys", fan_out=2, inputs=("target",), direction="backward", name="buyers")
OTHER_BUYERS = Hop(edge_set="buys", fan_out=2, inputs=("buys",), direction="backward", name="others")
ITEMS_OF_FRIENDS = (Hop(edge_set="knows", fan_out=2), Hop(edge_set="buys", fan_out=3, inputs=("seed", "knows")))
NEGATIVES = Negatives(num_per_positive=2, own_subgraphs=True)
SPLITS = SplitPlan(weights={"train": 2, "val": 1, "test": 1})
ONE_SPLIT = SplitPlan(weights={"train": 1})
EXCLUDED = {"user": ("color",)}


def nodes(**fields):
    return SamplingPlan(seed_node_set="user", hops=ITEMS_OF_FRIENDS, label_features=("color",), **fields)


def links(*hops, **fields):
    return SamplingPlan(seed_edge_set="buys", hops=hops, excluded_features=EXCLUDED, **fields)


PLANS = {
    "nodes": (nodes(splits=SPLITS), {"train", "val", "test"}),
    "nodes that later splits are hidden from": (
        nodes(splits=SplitPlan(weights=SPLITS.weights, visibility="inductive")),
        {"test"},
    ),
    "nodes split by a column without test": (nodes(splits=SplitPlan(column="part", visibility="inductive")), {"val"}),
    "nodes with times": (
        nodes(splits=SPLITS, temporal=Temporal(seed_time="age", edge_times={"buys": "at"})),
        {"train", "val", "test"},
    ),
    "nodes of a table with times": (
        nodes(
            seed_table=SeedTable(filename="days.csv", features={"day": "int64"}, input_features=("day",)),
            splits=SplitPlan(time_feature="day", until={"train": 3, "test": None}),
            temporal=Temporal(seed_time="day", edge_times={"buys": "at"}),
        ),
        {"train", "test"},
    ),
    "links by other edges": (links(FRIENDS, splits=SPLITS, negatives=NEGATIVES), {"train", "val", "test"}),
    "links by themselves, in one split": (links(PURCHASES, BUYERS, splits=ONE_SPLIT), {"train"}),
    "links by two hops over themselves, in one split": (links(PURCHASES, OTHER_BUYERS, splits=ONE_SPLIT), {"train"}),
    "links of a table": (
        links(PURCHASES, BUYERS, seed_table=SeedTable(filename="pairs.csv", splits_edges=False), splits=SPLITS),
        {"train", "val", "test"},
    ),
    "links by themselves": (links(PURCHASES, BUYERS, splits=SPLITS), set()),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """30 users who know each other and bought 12 items, as a folder of tables and as an index."""
    folder = tmp_path_factory.mktemp("graph") / "tables"
    folder.mkdir()
    draw = np.random.default_rng(1)

    def write(name, header, rows):
        (folder / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")

    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    write("users.csv", "id,age,color,part", [(f"u{i}", i % 7, "red", "val" if i % 3 else "train") for i in range(30)])
    write("items.csv", "id,price", [(i, i / 4) for i in range(12)])
    pairs = sorted({(f"u{draw.integers(30)}", draw.integers(12)) for _ in range(120)})
    write("buys.csv", "source,target,at", [(*pair, draw.integers(9)) for pair in pairs[:-10]])
    write("pairs.csv", "source,target", pairs[-30:])
    write("days.csv", "id,day", [(f"u{i}", day) for i in range(0, 30, 4) for day in (i % 3, 5)])
    friends = sorted({(f"u{draw.integers(30)}", f"u{draw.integers(30)}") for _ in range(120)})
    write("knows.csv", "source,target", friends)
    index_dir = folder.parent / "index"
    index_dir.mkdir()
    schema = read_tables_schema(str(folder))
    write_graph_index(str(index_dir), schema, layouts_of(schema, str(folder)))
    return str(folder), open_graph_index(str(index_dir))


@pytest.mark.parametrize("name", PLANS)
def test_comparable_examples_are_sampled_by_id(tables, tmp_path, name):
    tables_dir, index = tables
    plan, comparable_splits = PLANS[name]
    examples_dir, model_dir = str(tmp_path / "examples"), str(tmp_path / "model")
    options = SubgraphExampleGenOptions(plan=plan, sampling_seed=3)
    generate_subgraph_examples(tables_dir=tables_dir, examples_dir=examples_dir, options=options)
    (tmp_path / "model" / "assets.extra").mkdir(parents=True)
    for file in ("graph_schema.pbtxt", "sampling_plan.json"):
        shutil.copy(f"{examples_dir}/{file}", f"{model_dir}/assets.extra/{file}")

    found = ExamplesById(model_dir, splits=split_names(examples_dir), limit=1000)
    num_examples = 0
    for block in read_example_blocks(pair_files(examples_dir, examples_dir, ()), 1000):
        found.add(block)
        num_examples += len(block.pairs)

    assert {one.pair.file.split for one in found.chosen} == comparable_splits
    assert len(found.chosen) + sum(found.num_not_comparable.values()) == num_examples
    sampler = RecordSampler(index, read_recorded_plan(f"{examples_dir}/sampling_plan.json"))
    for one in found.chosen:
        context = {name: pa.array([value]) for name, value in one.instance.get("context", {}).items()}
        assert list(context) == list(plan.seed_inputs)
        ids = {"seed" if key == "id" else key: [value] for key, value in one.instance.items() if key != "context"}
        trained, sampled = without_labels([one.pair.raw, *sampler.sample(sampler.find(ids), context)], model_dir)
        assert trained == sampled, f"{one.place.text()}: {differing_features(trained, sampled)}"

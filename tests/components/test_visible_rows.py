"""No subgraph of an unprepared database holds a row that is newer than its seed, and all paths sample the same."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import shutil
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.prediction_tasks import Anchors, PredictionTask
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds, seed_table_layout
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_snapshot import snapshot_of_index
from tfx_gnn.sampling.plan.inference_plan import plan_for_inference
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.tables.graph_tables import GraphTables, read_tables, read_tables_schema
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_files import Table, read_table
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals.project_text import project_text, task_project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project
from tfx_gnn_pipelines.proposals.task_proposal import propose_task_project

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
RULES = RowRules(dangling_edges="drop")
TIMES = ("created_at", "listed", "written", "ordered_at", "row_time")


def _write_shop(folder, draw):
    """Users and products come over time; orders, their lines and reviews too; lines and visits have no times."""

    def hours(num_rows, *, empty=0.0):
        return [
            None if draw.random() < empty else START + dt.timedelta(hours=draw.randrange(900)) for _ in range(num_rows)
        ]

    def some(prefix, num_rows, among):
        return [None if draw.random() < 0.05 else f"{prefix}{draw.randrange(among + 2)}" for _ in range(num_rows)]

    def ids(prefix, num_rows):
        return [f"{prefix}{i}" for i in range(num_rows)]

    tables = {
        "users": {
            "user_id": ids("u", 30),
            "created_at": hours(30, empty=0.1),
            "parent_id": some("u", 30, 30),
            "age": [draw.randrange(18, 90) for _ in range(30)],
        },
        "products": {"product_id": ids("p", 40), "listed": hours(40), "price": [draw.random() for _ in range(40)]},
        "orders": {
            "order_id": ids("o", 150),
            "ordered_at": hours(150),
            "user_id": some("u", 150, 30),
            "kept": [draw.random() < 0.5 for _ in range(150)],
        },
        "order_lines": {
            "line_id": ids("l", 300),
            "order_id": some("o", 300, 150),
            "product_id": some("p", 300, 40),
            "pieces": [draw.randrange(9) for _ in range(300)],
        },
        "reviews": {
            "review_id": ids("r", 120),
            "written": hours(120),
            "line_id": some("l", 120, 300),
            "stars": [draw.randrange(5) for _ in range(120)],
        },
        "visits": {
            "user_id": some("u", 200, 30),
            "product_id": some("p", 200, 40),
            "pages": [draw.randrange(9) for _ in range(200)],
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shop:
    """A project that is proposed for the shop: its tables in memory, its plan and its seeds."""

    folder: str
    tables: GraphTables
    plan: SamplingPlan
    seed_table: Table | None
    seeds: Mapping[str, Seeds]

    def records(self, graph):
        """Samples the records of each split, in the order of its seeds, from a graph with the rows of the tables."""
        encoder = SubgraphExampleEncoder(
            graph, self.plan, seed_features=self.seed_table.columns if self.seed_table else None
        )
        sampler = InMemorySampler(graph, self.plan, sampling_seed=0)
        return {split: encoder.encode(sampler.sample(seeds)) for split, seeds in self.seeds.items()}


ROWS, LABELS, PAIRS = "rows of the seed set", "labels of a seed table", "pairs of a seed table"


def _propose(folder, *, number, seeds):
    (folder / "raw").mkdir()
    _write_shop(folder / "raw", random.Random(number))
    raw, prepared = str(folder / "raw"), folder / "tables"
    if seeds != ROWS:
        anchors = Anchors(validation_from="2026-01-25", test_from="2026-01-31", every="4 days")
        words = {"for_each": "orders", "predict": "count(reviews, 0 to 6 days) > 0"}
        if seeds == PAIRS:
            # Lines have the time of their order, and lead to users by it.
            words = {"for_each": "users", "predict": "distinct(order_lines.product_id, 0 to 6 days) top 5"}
        task = PredictionTask(**words, anchors=anchors)
        proposal = propose_task_project(raw, task, name="it", prepared_dir=str(prepared))
        text = task_project_text(proposal, name="it", tables_dir="tables")
    else:
        proposal = propose_project(raw, label="orders.kept", prepared_dir=str(prepared))
        write_schema(proposal.schema, str(prepared / "graph_schema.pbtxt"))
        text = project_text(proposal, name="it", tables_dir="tables")
    (folder / "project.yaml").write_text(text, encoding="utf-8")
    plan = read_project(str(folder)).task.plan
    tables = read_tables(str(prepared), extra_columns=tables_with_splits(plan).extra_columns_by_table, rules=RULES)
    seed_table = None
    if plan.seed_table:
        seed_table = read_table(seed_table_layout(str(prepared), plan, tables.schema), RULES)
    found, _ = make_seeds(tables, plan, 0, seed_table=seed_table)
    return Shop(folder=str(prepared), tables=tables, plan=plan, seed_table=seed_table, seeds=found)


def _seed_time(example):
    if "context/time" in example:
        return example["context/time"].int64_list.value[0]
    place = example["edges/_readout/seed.#source"].int64_list.value[0]
    return example["nodes/orders.ordered_at"].int64_list.value[place]


@pytest.mark.parametrize(("number", "seeds"), [(0, ROWS), (1, ROWS), (2, ROWS), (0, LABELS), (1, LABELS), (0, PAIRS)])
def test_rows_and_edges_are_not_newer_than_their_seed(tmp_path, number, seeds):
    shop = _propose(tmp_path, number=number, seeds=seeds)
    users = pq.read_table(tmp_path / "raw" / "users.parquet").to_pydict()
    # Who ordered something was there, whenever that began.
    timeless = {one.encode() for one, at in zip(users["user_id"], users["created_at"], strict=True) if at is None}
    num_seen = dict.fromkeys(reached_node_sets(shop.plan, shop.tables.schema), 0)
    for records in shop.records(shop.tables).values():
        for record in records:
            example = tf.train.Example.FromString(record).features.feature
            now = _seed_time(example)
            for name in num_seen:
                num_seen[name] += len(example[f"nodes/{name}.#id"].bytes_list.value)
            for key in [key for key in example if key.rpartition(".")[2] in TIMES]:
                values = example[key].int64_list.value
                if key == "nodes/users.created_at":
                    ids = example["nodes/users.#id"].bytes_list.value
                    values = [value for one, value in zip(ids, values, strict=True) if one not in timeless]
                assert max(values, default=now) <= now, key
    # Every table is reached, and nothing is hidden but by times: half of all rows are too new for the average seed.
    assert min(num_seen.values()) > 0, num_seen
    assert num_seen["order_lines" if seeds == PAIRS else "orders"] > 1.5 * sum(
        one.num_subgraphs for one in shop.seeds.values()
    )


def _index(tables_dir, folder):
    folder.mkdir()
    schema = read_tables_schema(str(tables_dir))
    write_graph_index(str(folder), schema, layouts_of(schema, str(tables_dir)), rules=RULES)
    return snapshot_of_index(open_graph_index(str(folder)))


def _with_rows_on_top(shop, tmp_path):
    """An index without the last reviews, their edges and some more edges; and these on top of it."""
    before = shutil.copytree(shop.folder, tmp_path / "before")
    edges = {name: _cut(before, shop.tables.edge_tables[name], shop, name) for name in ("reviews_line_id", "visits")}
    last = pq.read_table(before / "reviews_line_id.parquet").column("source")[-1].as_py()
    reviews = pq.read_table(before / "reviews.parquet")
    first = reviews.column("review_id").to_pylist().index(last) + 1
    pq.write_table(reviews.slice(0, first), before / "reviews.parquet")
    nodes = reviews.slice(first).rename_columns(["#id", *reviews.column_names[1:]])
    assert 0 < nodes.num_rows < 120
    return _index(before, tmp_path / "small").with_rows(nodes={"reviews": _plain(nodes)}, edges=edges)


def _cut(before, table, shop, name):
    """Takes the edges after the last one that leads nowhere from the file of an edge set, at most half of them."""
    rows = pq.read_table(before / f"{name}.parquet")
    # An edge table keeps the names of its columns.
    standard = {"user_id": "source", "product_id": "target"}
    rows = rows.rename_columns([standard.get(column, column) for column in rows.column_names])
    known = [set(shop.tables.node_tables[one].ids.to_pylist()) for one in (table.source_set, table.target_set)]
    ends = zip(rows.column("source").to_pylist(), rows.column("target").to_pylist(), strict=True)
    leads = np.array([source in known[0] and target in known[1] for source, target in ends])
    first = max(int(np.flatnonzero(~leads).max(initial=-1)) + 1, rows.num_rows // 2)
    pq.write_table(pq.read_table(before / f"{name}.parquet").slice(0, first), before / f"{name}.parquet")
    added = rows.slice(first)
    assert added.num_rows
    return _plain(added.rename_columns(["#source", "#target", *added.column_names[2:]]))


def _plain(table):
    """Columns of lists; times are seconds."""
    return {
        name: [
            int(one.replace(tzinfo=dt.timezone.utc).timestamp()) if isinstance(one, dt.datetime) else one
            for one in table.column(name).to_pylist()
        ]
        for name in table.column_names
    }


def _without_label(record, plan):
    example = tf.train.Example.FromString(record)
    for label in plan.label_features:
        del example.features.feature[f"nodes/_readout.{label}"]
    return example.SerializeToString(deterministic=True)


def _files(shop, folder, plan, **options):
    examples = SubgraphExampleGenOptions(plan=plan, rules=RULES, num_shards=1, **options)
    generate_subgraph_examples(tables_dir=shop.folder, examples_dir=str(folder), options=examples)
    return {split: list(read_split(str(folder), split).as_numpy_iterator()) for split in plan.splits.names}


@pytest.mark.parametrize("kind", [ROWS, LABELS, PAIRS])
def test_all_paths_sample_the_same_bytes(tmp_path, kind):
    shop = _propose(tmp_path, number=0, seeds=kind)
    expected = shop.records(shop.tables)
    index, with_rows = _index(shop.folder, tmp_path / "index"), _with_rows_on_top(shop, tmp_path)

    assert shop.records(index) == expected
    assert shop.records(with_rows) == expected
    assert _files(shop, tmp_path / "memory", shop.plan) == expected
    assert _files(shop, tmp_path / "beam", shop.plan, execution="beam", num_partitions=2) == expected

    if kind == PAIRS:
        negatives, table = shop.plan.negatives, shop.plan.seed_table
        assert shop.plan.seed_edge_set == "users_order_lines_product_id"
        assert (negatives.time_feature, negatives.excludes_neighbors) == ("listed", False)
        assert (table.is_forecast, table.splits_edges, table.now_feature) == (True, False, "time")
        # A request is one pair, where an example has negatives, too.
        return
    node_set, recorded = shop.plan.seed_node_set, RecordedPlan(plan=shop.plan, sampling_seed=0)
    seed_time = shop.plan.temporal.seed_time
    asked = {"id": [], seed_time: []}
    unlabeled = []
    for split, seeds in shop.seeds.items():
        ids = shop.tables.node_tables[node_set].ids.take(pa.array(seeds.readout_nodes["seed"])).to_pylist()
        times = pa.array(seeds.time_limits)
        of_split = [_without_label(record, shop.plan) for record in expected[split]]
        for graph in (index, with_rows):
            sampler = RecordSampler(graph, recorded)
            inputs = {seed_time: times} if kind == LABELS else None
            assert list(sampler.input_types) == list(inputs or ())
            assert sampler.sample(sampler.find({"seed": ids}), inputs) == of_split
        asked["id"] += ids
        asked[seed_time] += times.to_pylist()
        unlabeled += of_split
    pq.write_table(pa.table(asked), f"{shop.folder}/asked.parquet")
    in_bulk = _files(shop, tmp_path / "bulk", plan_for_inference(shop.plan, ids="asked.parquet"))
    assert sorted(in_bulk["all"]) == sorted(unlabeled)

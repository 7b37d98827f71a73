"""No subgraph of a database that nobody prepared holds a row that is newer than its seed."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals.project_text import project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


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


@pytest.mark.parametrize("number", range(3))
def test_rows_and_edges_are_not_newer_than_their_seed(tmp_path, number):
    (tmp_path / "raw").mkdir()
    _write_shop(tmp_path / "raw", random.Random(number))
    prepared = tmp_path / "tables"
    proposal = propose_project(str(tmp_path / "raw"), label="orders.kept", prepared_dir=str(prepared))
    write_schema(proposal.schema, str(prepared / "graph_schema.pbtxt"))
    (tmp_path / "project.yaml").write_text(project_text(proposal, name="it", tables_dir="tables"), encoding="utf-8")
    plan = read_project(str(tmp_path)).task.plan
    extra = tables_with_splits(plan).extra_columns_by_table
    tables = read_tables(str(prepared), extra_columns=extra, rules=RowRules(dangling_edges="drop"))
    sampler = InMemorySampler(tables, plan, sampling_seed=0, edge_ranks=rank_edges(tables, plan))
    encoder = SubgraphExampleEncoder(tables, plan)
    users = pq.read_table(tmp_path / "raw" / "users.parquet").to_pydict()
    # Who ordered something was there, whenever that began.
    timeless = {one.encode() for one, at in zip(users["user_id"], users["created_at"], strict=True) if at is None}
    num_seen = dict.fromkeys(proposal.schema.node_sets, 0)
    for seeds in make_seeds(tables, plan, 0)[0].values():
        for record in encoder.encode(sampler.sample(seeds)):
            example = tf.train.Example.FromString(record).features.feature
            place = example["edges/_readout/seed.#source"].int64_list.value[0]
            now = example["nodes/orders.ordered_at"].int64_list.value[place]
            for name in num_seen:
                num_seen[name] += len(example[f"nodes/{name}.#id"].bytes_list.value)
            of_times = [
                key
                for key in example
                if key.rpartition(".")[2] in ("created_at", "listed", "written", "ordered_at", "row_time")
            ]
            for key in of_times:
                values = example[key].int64_list.value
                if key == "nodes/users.created_at":
                    ids = example["nodes/users.#id"].bytes_list.value
                    values = [value for one, value in zip(ids, values, strict=True) if one not in timeless]
                assert max(values, default=now) <= now, key
    # Every table is reached, and nothing is hidden but by times: half of all rows are too new for the average seed.
    assert min(num_seen.values()) > 0, num_seen
    assert num_seen["orders"] > 1.5 * 150

"""Projects that recommend rows of one table to those of another, as `tfx-gnn new` proposes them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn_pipelines.project import read_project

WORDS = [
    "--predict", "distinct(orders.product_id, 0 to 10 days) top 3", "--for-each", "users",
    "--validation-from", "2026-02-01", "--test-from", "2026-02-15",
]  # fmt: skip


@pytest.fixture(scope="module")
def proposed(tmp_path_factory):
    """The project of a shop whose orders are rows of their own between users and products."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "raw").mkdir()
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - Parquet's times have no zone.
    tables = {
        "users": {"user_id": [f"u{i}" for i in range(20)], "country": ["DE", "FR"] * 10},
        "products": {"product_id": [f"p{i}" for i in range(9)], "price": [float(i * i % 7) for i in range(9)]},
        "orders": {
            "order_id": [f"o{i}" for i in range(240)],
            "user_id": [f"u{i * i % 19}" for i in range(240)],
            "product_id": [f"p{i * 5 % 9}" for i in range(240)],
            "placed_at": [start + dt.timedelta(days=i / 4) for i in range(240)],
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / "raw" / f"{name}.parquet")
    done = CliRunner().invoke(app, ["new", str(folder / "it"), "--tables", str(folder / "raw"), *WORDS])
    assert done.exit_code == 0, done.output
    return folder / "it"


def test_pairs_are_seeds_and_products_have_something_learned_of_their_own(proposed):
    task = read_project(str(proposed)).task

    assert list(plan_problems(task.plan, read_schema(str(proposed / "tables" / "graph_schema.pbtxt")))) == []
    assert type(task.prediction).__name__ == "LinkPrediction"
    assert task.features["nodes/products"]["own"].column == "#id"
    # The way from user to product, besides that over the rows of orders.
    assert "users_orders_product_id" in {hop.edge_set for hop in task.plan.hops}


def test_pairs_are_scored_from_plain_states_and_given_time_to_learn(proposed):
    """Residual or joined states make the first scores so large that a proposed network would learn nothing."""
    project = yaml.safe_load((proposed / "project.yaml").read_text())

    assert project["graph_trainer"] == {"hyperparameters": {"reduce_type": "mean", "dropout_rate": 0.1}}
    assert project["num_epochs"] > 2 * project["early_stopping_patience"] > 20

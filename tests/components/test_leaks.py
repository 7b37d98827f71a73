"""Leaks through neighbors: planted ones are found by name, and what is hidden or only helps is none."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals import leaks
from tfx_gnn_pipelines.proposals.project_text import project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project

NUM_ORDERS = 200
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


@pytest.fixture
def tables():
    """A shop without a leak: orders of users, with lines of products, and refunds that come later."""
    draw = random.Random(7)
    rows = range(NUM_ORDERS)
    return {
        "orders": {
            "order_id": [f"o{i}" for i in rows],
            "at": [START + dt.timedelta(hours=i) for i in rows],
            "user_id": [f"u{draw.randrange(20)}" for _ in rows],
            "total": [draw.randrange(10, 99) for _ in rows],
            "kept": [draw.random() < 0.6 for _ in rows],
        },
        "users": {"user_id": [f"u{i}" for i in range(20)], "age": [draw.randrange(18, 80) for _ in range(20)]},
        "lines": {
            "line_id": [f"l{i}" for i in range(2 * NUM_ORDERS)],
            "order_id": [f"o{i // 2}" for i in range(2 * NUM_ORDERS)],
            "pieces": [draw.randrange(1, 9) for _ in range(2 * NUM_ORDERS)],
        },
        "refunds": {
            "refund_id": [f"r{i}" for i in range(NUM_ORDERS)],
            "order_id": [f"o{i}" for i in rows],
            "written": [START + dt.timedelta(hours=i + 30) for i in rows],
            "reason": [draw.choice(["late", "broken", "wrong"]) for _ in rows],
        },
    }


@pytest.fixture
def proposal_of(tmp_path):
    def propose(tables, label="orders.kept"):
        (tmp_path / "raw").mkdir()
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), tmp_path / "raw" / f"{name}.parquet")
        return propose_project(str(tmp_path / "raw"), label=label, prepared_dir=str(tmp_path / "tables"))

    return propose


def places(proposal):
    return {(leak.place, leak.feature) for leak in proposal.leaks}


def test_neighbors_that_only_help_are_no_leaks(proposal_of, tables):
    assert places(proposal_of(tables)) == set()


def test_copy_of_a_label_in_several_neighbors_is_told_by_their_mean(proposal_of, tables, tmp_path):
    kept = tables["orders"]["kept"]
    tables["lines"]["state"] = [kept[i // 2] * 5 + i % 2 for i in range(2 * NUM_ORDERS)]

    proposal = proposal_of(tables)

    assert places(proposal) == {("nodes/lines", "state")}
    (tmp_path / "project.yaml").write_text(project_text(proposal, name="it", tables_dir="tables"), encoding="utf-8")
    plan = read_project(str(tmp_path)).task.plan
    assert plan.excluded_features == {"lines": ("state",)}
    assert list(plan_problems(plan, proposal.schema)) == []
    assert "state" not in proposal.features["nodes/lines"]
    (said,) = [line for line in proposal.remarks() if line.startswith("lines.state is left out")]
    assert "the mean: alone it tells the label of 100.0% of 100 rows" in said


def test_number_of_neighbors_and_which_one_it_is_can_tell_a_label(proposal_of, tables):
    kept = tables["orders"]["kept"]
    complaints = [f"o{i}" for i in range(NUM_ORDERS) if not kept[i] for _ in range(2)]
    tables["complaints"] = {"complaint_id": [f"c{i}" for i in range(len(complaints))], "order_id": complaints}
    tables["orders"]["state_id"] = [f"s{int(one)}" for one in kept]
    tables["states"] = {"state_id": ["s0", "s1"], "rank": [2, 1]}

    proposal = proposal_of(tables)

    assert places(proposal) == {("edges/complaints_order_id", ""), ("edges/orders_state_id", "")}
    assert {hop.edge_set for hop in proposal.hops} == {"orders_user_id", "lines_order_id", "refunds_order_id"}
    said = [line for line in proposal.remarks() if "is not followed" in line]
    assert [line.partition(":")[0] for line in said] == [
        "edges/complaints_order_id is not followed",
        "edges/orders_state_id is not followed",
    ]


def test_what_is_newer_than_the_seed_is_hidden_and_no_leak(proposal_of, tables):
    kept = tables["orders"]["kept"]
    tables["refunds"]["reason"] = ["late" if one else "broken" for one in kept]

    assert places(proposal_of(tables)) == set()


def test_older_rows_that_tell_the_label_are_a_leak(proposal_of, tables):
    kept = tables["orders"]["kept"]
    tables["refunds"]["reason"] = ["late" if one else "broken" for one in kept]
    tables["refunds"]["written"] = tables["orders"]["at"]

    assert places(proposal_of(tables)) == {("nodes/refunds", "reason")}


def test_price_of_a_product_is_told_by_its_copy_in_order_lines(proposal_of):
    draw = random.Random(3)
    prices = [draw.uniform(1, 99) for _ in range(300)]
    products = {
        "product_id": [f"p{i}" for i in range(300)],
        "price": prices,
        "weight": [draw.uniform(1, 9) for _ in prices],
    }
    lines = {
        "line_id": [f"l{i}" for i in range(900)],
        "product_id": [f"p{i % 300}" for i in range(900)],
        "unit_price": [prices[i % 300] * draw.uniform(0.99, 1.01) for i in range(900)],
        "pieces": [draw.randrange(1, 5) for _ in range(900)],
    }

    proposal = proposal_of({"products": products, "lines": lines}, label="products.price")

    assert places(proposal) == {("nodes/lines", "unit_price")}


@pytest.mark.parametrize("days_later", [0, 20])
def test_what_tells_the_label_two_hops_away_is_a_leak_unless_it_is_hidden(proposal_of, tables, days_later):
    kept = tables["orders"]["kept"]
    tables["parcels"] = {
        "parcel_id": [f"x{i}" for i in range(2 * NUM_ORDERS)],
        "line_id": tables["lines"]["line_id"],
        "packed": [tables["orders"]["at"][i // 2] + dt.timedelta(days=days_later) for i in range(2 * NUM_ORDERS)],
        "state": [kept[i // 2] * 5 + i % 2 for i in range(2 * NUM_ORDERS)],
    }

    proposal = proposal_of(tables)

    assert places(proposal) == (set() if days_later else {("nodes/parcels", "state")})
    assert all("two hops away, by lines_order_id" in leak.evidence for leak in proposal.leaks)


def test_a_number_that_orders_the_rows_of_two_classes_is_a_leak(proposal_of, tables):
    draw = random.Random(1)
    tables["orders"]["score"] = [draw.gauss(4.0 * one, 1.0) for one in tables["orders"]["kept"]]
    tables["orders"]["hint"] = [draw.gauss(1.0 * one, 1.0) for one in tables["orders"]["kept"]]

    proposal = proposal_of(tables)

    assert places(proposal) == {("nodes/orders", "score")}
    assert "alone it orders 200 rows by the label with ROC AUC 0.99" in proposal.leaks[0].evidence


def test_a_copy_of_a_number_that_some_rows_lack_is_one(proposal_of):
    draw = random.Random(3)
    prices = [draw.uniform(1, 99) for _ in range(400)]
    products = {
        "product_id": [f"p{i}" for i in range(400)],
        "price": prices,
        "old_price": [None if i % 12 == 0 else price for i, price in enumerate(prices)],
    }
    lines = {"line_id": [f"l{i}" for i in range(800)], "product_id": [f"p{i % 400}" for i in range(800)]}

    assert places(proposal_of({"products": products, "lines": lines}, label="products.price")) == {
        ("nodes/products", "old_price")
    }


def test_what_many_seeds_share_is_not_followed_further(proposal_of, tables, monkeypatch):
    kept = tables["orders"]["kept"]
    tables["parcels"] = {
        "parcel_id": [f"x{i}" for i in range(NUM_ORDERS)],
        "line_id": [f"l{2 * i}" for i in range(NUM_ORDERS)],
        "state": [int(one) for one in kept],
    }
    monkeypatch.setattr(leaks, "_MOST_PAIRS", NUM_ORDERS - 1)

    assert places(proposal_of(tables)) == set()

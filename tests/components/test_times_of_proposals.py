"""Projects that are proposed for tables with times: splits by them, edges that are visible, and ages."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.sampling.plan.plan import Temporal
from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn.tables.keys.given_keys import read_given_keys
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals.project_text import project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project


def write(folder, **tables):
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder)


def task_of(folder, proposal) -> Any:
    """The task that the project file of a proposal holds; Any, because its kinds of plan and prediction are known."""
    (folder / "project.yaml").write_text(project_text(proposal, name="it", tables_dir="."), encoding="utf-8")
    return read_project(str(folder)).task


USERS = {
    "id": [f"u{i}" for i in range(40)],
    "age": [20 + i for i in range(40)],
    "plan": ["free", "pro"] * 20,
}
ITEMS = {"id": ["p0", "p1"], "price": [1.0, 2.0]}
BUYS = {"user": ["u0", "u1", "u2", "u3"], "item": ["p0", "p1", "p1", "p0"]}


def test_database_as_it_is_becomes_a_project_split_by_time_that_sees_no_later_edges(tmp_path):
    number = range(400)
    raw, prepared = tmp_path / "raw", tmp_path / "tables"
    raw.mkdir()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    orders = {
        "customerId": [None if i % 9 == 0 else i % 40 for i in number],
        "shop": [f"s{i % 5}" for i in number],
        "at": [start + dt.timedelta(hours=i // 2) for i in number],
        "amount": [(i * 37) % 101 / 4 for i in number],
        "returned": [(i * 37) % 101 % 3 == 0 for i in number],
    }
    shops = {"code": [f"s{i}" for i in range(5)], "size": [10, 20, 30, 40, 50]}

    proposal = propose_project(
        write(raw, orders=orders, shops=shops), label="orders.returned", prepared_dir=str(prepared)
    )

    assert proposal.tables_dir == str(prepared)
    write_schema(proposal.schema, str(prepared / "graph_schema.pbtxt"))
    task = task_of(tmp_path, proposal)
    assert list(plan_problems(task.plan, proposal.schema)) == []
    assert task.plan.temporal == Temporal(
        seed_time="at", edge_times={"orders_customerId": "row_time", "orders_shop": "row_time"}, inclusive=True
    )
    hours = [int((start + dt.timedelta(hours=hour)).timestamp()) for hour in (160, 180)]
    assert task.plan.splits.until == {"train": hours[0], "val": hours[1], "test": None}
    said = list(proposal.remarks())
    assert "customer has no table: its nodes are the different values of orders.customerId, without features." in said
    assert "orders.shop names shops in 100.0% of its rows (named after it)." in said
    assert any(
        "split by at: train before 2026-01-07 16:00; val before 2026-01-08 12:00; then test." in one for one in said
    )


def test_times_that_are_not_those_of_rows_divide_nothing(tmp_path):
    people = {
        "person_id": [str(i) for i in range(40)],
        "birth_date": [dt.date(1960 + i, 1, 1) for i in range(40)],
        "boss_id": [None if i % 4 == 0 else str(i // 4) for i in range(40)],
        "plan": ["free", "pro"] * 20,
    }

    proposal = propose_project(write(tmp_path, people=people), label="people.plan", prepared_dir=str(tmp_path / "new"))

    assert (proposal.splits.rule, proposal.temporal) == ("hash", None)
    assert proposal.schema.edge_sets["people_boss_id"].target == "people"


def test_tidy_tables_are_written_anew_only_where_some_have_times(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "timeless").mkdir()
    users = {**USERS, "joined": [f"2026-0{1 + i % 9}-11" for i in range(40)]}
    folder = write(tmp_path / "raw", users=users, items=ITEMS, buys=BUYS)
    timeless = write(tmp_path / "timeless", users=USERS, items=ITEMS, buys=BUYS)

    of_users = propose_project(folder, label="users.plan", prepared_dir=str(tmp_path / "tables"))
    of_items = propose_project(folder, label="items.price", prepared_dir=str(tmp_path / "more"))
    of_none = propose_project(timeless, label="users.plan", prepared_dir=str(tmp_path / "none"))

    assert of_users.tables_dir == str(tmp_path / "tables")
    assert of_users.splits.time_feature == "joined"
    # Nobody has bought anything before they were there.
    assert of_users.temporal == Temporal(seed_time="joined", edge_times={"buys": "row_time"}, inclusive=True)
    assert of_items.tables_dir == str(tmp_path / "more")
    assert of_items.features["nodes/users"]["joined"].kind == "drop"
    assert any(
        line.startswith("items has no time of its rows, but buys, users do: a seed sees all of them")
        for line in of_items.remarks()
    )
    assert of_none.tables_dir == timeless
    assert not (tmp_path / "none").exists()


def test_a_given_time_is_that_of_the_rows_and_a_given_key_is_followed(tmp_path):
    (tmp_path / "raw").mkdir()
    number = range(60)
    first, second = ([f"2026-0{1 + (i * step) % 7}-{1 + i % 28:02}" for i in number] for step in (1, 3))
    visits = {
        "clerk_id": [i % 30 for i in number],
        "seen": first,
        "heard": second,
        "good": [i % 3 == 0 for i in number],
    }
    folder = write(tmp_path / "raw", visits=visits, staff={"id": list(range(30)), "size": [1.5, 2.5] * 15})
    given = read_given_keys([], ["visits.clerk_id=staff"], ["visits=heard"])

    open_, told = (
        propose_project(folder, label="visits.good", prepared_dir=str(tmp_path / name), given=keys)
        for name, keys in (("open", None), ("told", given))
    )

    assert open_.seed_time == ""
    assert any("If one is it, give --time-column visits=COLUMN." in line for line in open_.questions)
    assert any("If it does, give --foreign-key visits.clerk_id=staff." in line for line in open_.questions)
    assert (told.splits.time_feature, [hop.edge_set for hop in told.hops][:1]) == ("heard", ["visits_clerk_id"])
    assert told.questions == ()
    text = project_text(open_, name="it", tables_dir=".")
    assert "# Open questions, of which `tfx-gnn new` tells how to answer them:\n# - Does visits.clerk_id name" in text
    assert "Open questions" not in project_text(told, name="it", tables_dir=".")
    assert max(map(len, text[: text.index("tables_dir")].splitlines())) <= 120
    with pytest.raises(ValueError, match=r"`time_columns` must name columns of dates, time stamps, .* got staff.size"):
        propose_project(folder, label="visits.good", given=read_given_keys([], [], ["staff=size"]))
    write_schema(told.schema, f"{folder}/graph_schema.pbtxt")
    with pytest.raises(ValueError, match=r"must be given where no graph schema has them; got some, and .*pbtxt"):
        propose_project(folder, label="visits.good", given=given)


def test_times_of_which_some_have_a_zone_are_asked_about(tmp_path):
    seen = [f"2026-05-{1 + i % 28:02d} {i // 28:02d}:00:00{'+02:00' * (i % 2)}" for i in range(60)]
    (tmp_path / "raw").mkdir()
    visits = {"id": list(range(60)), "seen": seen, "good": [i % 3 == 0 for i in range(60)]}
    folder = write(tmp_path / "raw", visits=visits)

    proposal = propose_project(folder, label="visits.good", prepared_dir=str(tmp_path / "out"))

    (question,) = proposal.questions
    assert question.startswith("visits.seen has times with a zone, such as '2026-05-")
    assert question.endswith("Give all a zone, or none, and run this again; until then it is read as a text.")
    with pytest.raises(ValueError, match=r"must name columns that can be read as times; visits.seen has times with a"):
        propose_project(folder, label="visits.good", given=read_given_keys([], [], ["visits=seen"]))


def test_edges_without_a_time_have_the_latest(tmp_path):
    number = range(60)
    at = [None if i == 7 else dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=i) for i in number]
    visits = {"clerk": [f"c{i % 4}" for i in number], "at": at, "good": [i % 3 == 0 for i in number]}
    clerks = {"code": [f"c{i}" for i in range(4)], "size": [1, 2, 3, 4]}

    proposal = propose_project(
        write(tmp_path, visits=visits, clerks=clerks), label="visits.good", prepared_dir=str(tmp_path / "new")
    )

    latest = int(dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc).timestamp())
    extra = {one.key: one.value for one in proposal.schema.edge_sets["visits_clerk"].metadata.extra}
    assert extra["default.row_time"] == str(latest)
    assert any(line.startswith("visits.at holds times, but is empty in some rows") for line in proposal.remarks())


def test_times_of_labels_hide_later_edges_also_where_a_column_splits(tmp_path):
    (tmp_path / "raw").mkdir()
    visits = {
        "id": [f"v{i}" for i in range(60)],
        "at": [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=i) for i in range(60)],
        "clerk_id": [f"c{i % 4}" for i in range(60)],
        "good": [i % 3 == 0 for i in range(60)],
        "split": ["train"] * 40 + ["val"] * 10 + ["test"] * 10,
    }
    clerks = {"clerk_id": [f"c{i}" for i in range(4)], "shop_id": [f"s{i % 2}" for i in range(4)]}
    shops = {"shop_id": ["s0", "s1"], "size": [1.5, 2.5]}
    folder = write(tmp_path / "raw", visits=visits, clerks=clerks, shops=shops)

    proposal = propose_project(folder, label="visits.good", prepared_dir=str(tmp_path / "new"))

    assert proposal.splits.column == "split"
    assert proposal.temporal == Temporal(seed_time="at", edge_times={"visits_clerk_id": "row_time"}, inclusive=True)
    assert "Edges without a time are visible to all seeds: clerks_shop_id." in list(proposal.remarks())


def test_times_become_ages_and_the_newest_neighbors_are_taken(tmp_path):
    (tmp_path / "raw").mkdir()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    orders = {
        "order_id": [f"o{i}" for i in range(60)],
        "at": [start + dt.timedelta(days=i) for i in range(60)],
        "shipped_at": [None if i > 50 else start + dt.timedelta(days=i + 3) for i in range(60)],
        "shop_id": [f"s{i % 4}" for i in range(60)],
        "good": [i % 3 == 0 for i in range(60)],
    }
    lines = {
        "order_id": [f"o{i % 60}" for i in range(120)],
        "item_id": [f"i{i % 30}" for i in range(120)],
        "pieces": [i % 7 for i in range(120)],
    }
    tables = {"orders": orders, "lines": lines, "shops": {"shop_id": ["s0", "s1", "s2", "s3"], "size": [1, 2, 4, 8]}}
    folder = write(tmp_path / "raw", **tables, items={"item_id": [f"i{i}" for i in range(30)]})

    proposal = propose_project(folder, label="orders.good", prepared_dir=str(tmp_path / "new"))

    age = {"kind": "age", "options": {"seed_time": "at"}}
    kinds = {
        (prefix, name): {"kind": one.kind, "options": one.options}
        for prefix, of_set in proposal.features.items()
        for name, one in of_set.items()
    }
    assert kinds["nodes/orders", "at"] == kinds["nodes/orders", "shipped_at"] == kinds["edges/lines", "row_time"] == age
    assert kinds["edges/orders_shop_id", "row_time"]["kind"] == "drop"
    assert proposal.temporal is not None
    assert dict(proposal.temporal.edge_times) == {"lines": "row_time", "orders_shop_id": "row_time"}
    newest = {hop.name: hop.weight_feature for hop in proposal.hops if hop.strategy == "top_k"}
    assert set(newest.values()) == {"row_time"}
    assert "orders_shop_id_backward_of_shops" in newest
    task = task_of(tmp_path, proposal)
    assert list(plan_problems(task.plan, proposal.schema)) == []
    assert "lines has no time of its own: a row of it is there as soon as what it names, of orders." in list(
        proposal.remarks()
    )


@pytest.mark.parametrize("unlabeled", [0, 20])
def test_times_that_are_too_few_to_split_by_are_said(tmp_path, unlabeled):
    (tmp_path / "raw").mkdir()
    visits = {
        "visit_id": [f"v{i}" for i in range(80)],
        "at": [dt.date(2026, 1 + i // 40, 1) for i in range(80)],
        "grade": [None if i < unlabeled else i % 3 for i in range(80)],
    }
    folder = write(tmp_path / "raw", visits=visits)

    proposal = propose_project(folder, label="visits.grade", prepared_dir=str(tmp_path / "new"))

    said = "visits.at holds times, but is empty in some rows or has too few different ones to split by: training sees"
    assert proposal.splits.rule == ("column" if unlabeled else "hash")
    assert any(one.startswith(said) for one in proposal.remarks())


def test_integers_that_may_be_days_are_asked_about(tmp_path):
    users = {**USERS, "batch": [20260101 + i % 28 for i in range(40)]}

    said = "\n".join(propose_project(write(tmp_path, users=users), label="users.plan").questions)

    assert "users.batch holds numbers, but all 28 different numbers are days of the calendar" in said


@pytest.mark.parametrize(("num_before", "is_asked"), [(10, True), (30, False)])
def test_edges_that_hardly_any_seed_sees_are_asked_about(tmp_path, num_before, is_asked):
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    days = [start + dt.timedelta(days=i) for i in range(40)]
    ids = [f"u{i}" for i in range(40)]
    users = {"user_id": ids, "plan": ["free", "pro"] * 20, "asked_at": days}
    # A call of each user, of some before the user is asked, and of one at that moment.
    calls = {
        "call_id": [f"c{i}" for i in range(40)],
        "user_id": ids,
        "called_at": [at + dt.timedelta(hours=min(i + 1 - num_before, 1)) for i, at in enumerate(days)],
    }

    proposal = propose_project(
        write(tmp_path, users=users, calls=calls), label="users.plan", prepared_dir=str(tmp_path / "new")
    )

    asked = [one for one in proposal.questions if "see one" in one]
    assert len(asked) == is_asked
    if is_asked:
        assert f"Of 40 rows of users with edges of calls_user_id, {num_before} see one: those of the other" in asked[0]
        assert "give --time-column users= to see edges of all times" in asked[0]


def test_edges_of_rows_without_a_label_are_not_asked_about(tmp_path):
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    ids, days = [f"u{i}" for i in range(80)], [start + dt.timedelta(days=i) for i in range(80)]
    users = {"user_id": ids, "plan": ["free", "pro", None, None, None] * 16, "asked_at": days}
    calls = {
        "call_id": [f"c{i}" for i in range(80)],
        "user_id": ids,
        "called_at": [at + dt.timedelta(hours=-1 if i % 5 < 2 else 1) for i, at in enumerate(days)],
    }

    proposal = propose_project(
        write(tmp_path, users=users, calls=calls), label="users.plan", prepared_dir=str(tmp_path / "new")
    )

    assert not [one for one in proposal.questions if "see one" in one]

"""When rows came to be: by a column, the first of several, or what they name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.prepared_tables import PreparedTables, write_prepared_tables
from tfx_gnn.tables.row_times import day_questions, find_row_times, time_columns
from tfx_gnn.tables.table_access import TableAccess

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - as a database without zones has it
DAYS = [START + dt.timedelta(days=i) for i in range(60)]
ORDERS = {"order_id": [f"o{i}" for i in range(60)], "ordered": DAYS, "good": [i % 3 == 0 for i in range(60)]}


@pytest.fixture
def database_of(tmp_path):
    def find(label: str = ".", **tables):
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        access = TableAccess()
        table, _, column = label.partition(".")
        return find_keys(find_tables(str(tmp_path), access), str(tmp_path), label=(table, column), access=access)

    return find


@pytest.fixture
def times_of(database_of, tmp_path):
    def find(**tables):
        return find_row_times(database_of(**tables), str(tmp_path))

    return find


@pytest.fixture
def prepared_of(database_of, tmp_path):
    def write(label: str, **tables) -> PreparedTables:
        (tmp_path / "new").mkdir()
        database, (table, _, column) = database_of(label, **tables), label.partition(".")
        return write_prepared_tables(database, str(tmp_path), str(tmp_path / "new"), label=(table, column))

    return write


def days(array) -> list[int | None]:
    return [None if one is None else (one - START).days for one in array.to_pylist()]


PARTS = {"Year": [2026] * 60, "Month": [day.month for day in DAYS], "Day": [day.day for day in DAYS]}


@pytest.mark.parametrize("hours", [0, 7], ids=["days", "hours"])
def test_a_time_in_parts_is_that_of_the_row(prepared_of, tmp_path, hours):
    visits = {"visit_id": ORDERS["order_id"], **PARTS, "good": ORDERS["good"]}
    visits |= {"Hour": [7] * 60} if hours else {}

    prepared = prepared_of("visits.good", visits=visits)

    columns = pq.read_table(tmp_path / "new" / "visits.parquet")
    assert prepared.node_times == {"visits": "row_time"}
    assert columns["row_time"].to_pylist() == [day + dt.timedelta(hours=hours) for day in DAYS]
    assert {*PARTS} <= {*prepared.schema.node_sets["visits"].features}
    named = "Year, Month, Day, Hour" if hours else "Year, Month, Day"
    assert f"{named} of visits are the time of its rows, in parts." in prepared.row_times.remarks


@pytest.mark.parametrize(
    "changed",
    [{"Day": [None, *PARTS["Day"][1:]]}, {"Month": [13] * 60}, {"Day": [1.5] * 60}, {"seen": DAYS}],
    ids=["a row without", "no month", "no whole day", "a better one"],
)
def test_parts_that_are_no_times_of_all_rows_are_none(times_of, changed):
    times = times_of(visits={"visit_id": ORDERS["order_id"], **PARTS, **changed})

    assert times.in_parts == {}


def test_the_first_of_several_times_is_that_of_the_row(times_of):
    paid = [None if i % 5 == 0 else day + dt.timedelta(days=2) for i, day in enumerate(DAYS)]

    times = times_of(orders={**ORDERS, "approved": paid})

    assert times.columns == {"orders": "ordered"}
    assert days(times.by_row["orders"]) == list(range(60))
    (remark,) = times.remarks
    assert remark == (
        "orders.ordered is the time of its rows: it is not after approved in 99% of them. Of a time that comes after "
        "its own, a seed sees nothing but that."
    )


def test_a_row_is_not_seen_before_the_second_that_its_fraction_ends(prepared_of, tmp_path):
    tenth, ninth = dt.timedelta(milliseconds=100), dt.timedelta(milliseconds=900)
    alerts = {
        "alert_id": [f"a{i}" for i in range(60)],
        "order_id": ORDERS["order_id"],
        "raised": [day + ninth for day in DAYS],
    }

    prepared = prepared_of(
        "orders.good",
        orders={**ORDERS, "ordered": [day + tenth for day in DAYS], "user_id": ["u"] * 60},
        alerts=alerts,
        users={"user_id": ["u", "v"]},
    )

    def column(name, feature):
        return pq.read_table(tmp_path / "new" / f"{name}.parquet")[feature].to_pylist()

    def times_in(name):
        return column(name, "row_time")

    seconds = [day + dt.timedelta(seconds=1) for day in DAYS]
    assert times_in("alerts_order_id") == seconds
    # The own edges of a seed have its time, and a row has the time of its edges.
    assert times_in("orders_user_id") == DAYS
    assert column("orders", "ordered") == DAYS
    assert column("alerts", "raised") == seconds
    of_alerts, of_orders = sorted(prepared.row_times.remarks)
    assert of_alerts == "alerts.raised has fractions of seconds in 60 rows, which are rounded up."
    assert of_orders.endswith("in 60 rows, which are left out: rows of orders in one second see each other.")


@pytest.mark.parametrize("unit", [1e0, 1e3, 1e6, 1e9])
def test_numbers_since_1970_are_times_in_any_unit_and_with_fractions(times_of, unit):
    stamps = [day.replace(tzinfo=dt.timezone.utc).timestamp() * unit for day in DAYS]

    times = times_of(orders={"order_id": ORDERS["order_id"], "ordered_at": stamps})

    assert days(times.by_row["orders"]) == list(range(60))


@pytest.mark.parametrize("other", [[*DAYS[30:], *DAYS[:30]], [None if i % 2 else day for i, day in enumerate(DAYS)]])
def test_of_times_of_which_none_comes_first_the_latest_of_each_row_is_taken(times_of, other):
    ordered = [None if i % 2 == 0 and other[1] is None else day for i, day in enumerate(DAYS)]

    times = times_of(orders={**ORDERS, "ordered": ordered, "approved": other})

    assert (times.columns, times.undecided) == ({}, {"orders": ("ordered", "approved")})
    # Nothing is seen too early.
    assert times.by_row["orders"].to_pylist() == [max(filter(None, both)) for both in zip(ordered, other, strict=True)]


def test_times_of_rows_to_predict_are_left_open(database_of, tmp_path):
    database = database_of(orders={**ORDERS, "approved": [*DAYS[30:], *DAYS[:30]]})

    times = find_row_times(database, str(tmp_path), label=("orders", "good"))

    assert (times.by_row, times.undecided) == ({}, {"orders": ("ordered", "approved")})


def test_rows_without_a_time_have_the_latest_of_what_they_name(times_of):
    items = {"item_id": [f"i{i}" for i in range(30)], "made": [DAYS[2 * i] for i in range(30)]}
    lines = {
        "line_id": [f"l{i}" for i in range(60)],
        "order_id": ["unknown" if i == 7 else None if i == 9 else f"o{i}" for i in range(60)],
        "item_id": [f"i{i % 30}" for i in range(60)],
    }
    notes = {
        "note_id": [f"n{i}" for i in range(60)],
        "line_id": [f"l{59 - i}" for i in range(60)],
        "stars": [1, 2] * 30,
    }

    times = times_of(orders=ORDERS, items=items, lines=lines, notes=notes)

    expected = [2 * (i % 30) if i in (7, 9) else max(i, 2 * (i % 30)) for i in range(60)]
    assert days(times.by_row["lines"]) == expected
    assert days(times.by_row["notes"]) == expected[::-1]
    assert times.inherited == {"lines": ("items", "orders"), "notes": ("lines",)}


def test_an_edge_is_not_older_than_the_row_that_it_leads_to(times_of):
    shops = {
        "shop_id": [f"s{i}" for i in range(60)],
        "opened": [day + dt.timedelta(days=i % 3 - 1) for i, day in enumerate(DAYS)],
    }
    orders = {**ORDERS, "shop_id": shops["shop_id"]}
    database_times = times_of(orders=orders, shops=shops)

    (edges,) = [database_times.of_edges(key) for key in database_times._named]

    assert days(edges) == [i + (i % 3 == 2) for i in range(60)]


def test_tables_that_name_each_other_find_an_end(times_of):
    left = {"left_id": [f"a{i}" for i in range(60)], "right_id": [f"b{i}" for i in range(60)]}
    right = {
        "right_id": [f"b{i}" for i in range(60)],
        "left_id": [f"a{i}" for i in range(60)],
        "order_id": ORDERS["order_id"],
    }

    times = times_of(orders=ORDERS, left=left, right=right)

    assert days(times.by_row["right"]) == days(times.by_row["left"]) == list(range(60))


def test_parts_have_the_time_of_their_whole_and_others_only_edges(prepared_of, tmp_path):
    lines = {
        "id": [f"l{i}" for i in range(60)],
        "order_id": ORDERS["order_id"],
        "back": [i % 2 == 0 for i in range(60)],
    }

    prepared = prepared_of("order_items.back", orders=ORDERS, order_items=lines, complaints=lines)

    assert dict(prepared.node_times) == {"orders": "ordered", "order_items": "row_time"}
    written = pq.read_table(tmp_path / "new" / "order_items.parquet")
    assert days(written["row_time"]) == list(range(60))
    assert "row_time" not in pq.read_schema(tmp_path / "new" / "complaints.parquet").names
    assert prepared.edge_times == {"order_items_order_id": "row_time", "complaints_order_id": "row_time"}
    assert prepared.repeated_times == {"order_items_order_id"}


@pytest.mark.parametrize(("num_days", "column"), [(60, "row_time"), (10, None)])
def test_rows_of_the_label_have_the_times_of_what_they_name_if_these_differ_enough(prepared_of, num_days, column):
    races = {"race_id": [f"r{i}" for i in range(60)], "held": [DAYS[i % num_days] for i in range(60)]}
    results = {"id": [f"x{i}" for i in range(60)], "race_id": races["race_id"], "won": [i % 2 == 0 for i in range(60)]}

    prepared = prepared_of("results.won", races=races, results=results)

    assert prepared.node_times.get("results") == column
    assert prepared.edge_times == {"results_race_id": "row_time"}


def test_a_year_is_the_time_of_rows_without_a_better_one(times_of):
    salaries = {"id": [f"s{i}" for i in range(60)], "yearID": [1990.0 + i % 20 if i else None for i in range(60)]}
    seasons = {"id": [f"s{i}" for i in range(60)], "year": [2026] * 30 + [2027] * 30, "played": DAYS}

    times = times_of(salaries=salaries, seasons=seasons)

    assert times.columns == {"salaries": "yearID", "seasons": "played"}
    assert times.by_row["salaries"][0].as_py() is None
    assert times.by_row["salaries"][1].as_py() == dt.datetime(1991, 1, 1)  # noqa: DTZ001


def test_what_is_empty_in_many_rows_or_is_predicted_is_no_time_of_them(database_of, tmp_path):
    orders = {
        "order_id": ORDERS["order_id"],
        "canceled": [day if i % 10 == 0 else None for i, day in enumerate(DAYS)],
        "year": [2000 + i % 9 for i in range(60)],
    }

    database = database_of("orders.year", orders=orders)

    assert find_row_times(database, str(tmp_path)).columns == {"orders": "year"}
    assert find_row_times(database, str(tmp_path), label=("orders", "year")).columns == {}


@pytest.mark.parametrize("spell", [int, float, str])
def test_integers_that_are_days_of_the_calendar_are_dates_where_the_name_says_so(prepared_of, spell):
    orders = {
        "order_id": [f"o{i}" for i in range(60)],
        "order_day": [spell(f"{day:%Y%m%d}") for day in DAYS],
        "good": [i % 3 == 0 for i in range(60)],
    }

    prepared = prepared_of("orders.good", orders=orders)

    assert prepared.node_times == {"orders": "order_day"}
    assert days(prepared.row_times.by_row["orders"]) == list(range(60))
    (said,) = (one for one in prepared.row_times.remarks if "order_day" in one)
    assert said.startswith("orders.order_day holds dates: all 60 different numbers are days of the calendar, as 2026")


def test_days_without_a_fitting_name_are_asked_about(database_of, tmp_path):
    database = database_of(orders={**ORDERS, "batch": [int(f"{day:%Y%m%d}") for day in DAYS]})

    (question,) = day_questions(database.tables["orders"])

    assert find_row_times(database, str(tmp_path)).columns == {"orders": "ordered"}
    assert question.startswith("orders.batch holds numbers, but all 60 different numbers are days of the calendar")
    assert "name the column batch_date" in question


@pytest.mark.parametrize("wrong", [20260230, 20261301, 18991231, 2026010])
def test_integers_of_which_one_is_no_day_are_no_dates(times_of, wrong):
    numbers = [wrong, *(int(f"{day:%Y%m%d}") for day in DAYS[1:])]

    times = times_of(orders={**ORDERS, "due_date": numbers, "ship_dt": numbers})

    assert times.columns == {"orders": "ordered"}
    assert not any("due_date" in one or "ship_dt" in one for one in times.remarks)


def test_one_time_in_some_rows_is_a_time_but_not_that_of_the_rows(database_of, tmp_path):
    stamps = [DAYS[9]] * 40 + [None] * 20
    users = {
        "id": ORDERS["order_id"],
        "deleted_at": [stamps[-1 - i] for i in range(60)],
        "seen": stamps,
        "made": [DAYS[0]] * 60,
    }
    database = database_of(users=users)

    assert time_columns(database.tables["users"]) == ("deleted_at", "seen")
    assert dict(find_row_times(database, str(tmp_path)).columns) == {}

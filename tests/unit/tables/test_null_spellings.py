r"""Texts that stand for no value: where they do, and where they are texts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.null_spellings import drop_null_spellings, take_given
from tfx_gnn.tables.prepared_tables import write_prepared_tables
from tfx_gnn.tables.table_access import TableAccess


def columns_of(folder, *lines, name="it.csv"):
    (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return find_tables(str(folder), TableAccess())["it"].columns


@pytest.mark.parametrize("spelling", ["NA", "N/A", "NULL", "null", "\\N", "None", "NaN", '""', "?"])
def test_among_numbers_and_times_they_stand_for_no_value(tmp_path, spelling):
    columns = columns_of(
        tmp_path, "size,day,open", "1.5,2026-01-01,true", f"{spelling},{spelling},{spelling}", "2.5,2026-01-02,false"
    )

    assert {name: column.values.to_pylist() for name, column in columns.items()} == {
        "size": ["1.5", "2.5"],
        "day": ["2026-01-01", "2026-01-02"],
        "open": ["true", "false"],
    }
    assert [column.num_filled for column in columns.values()] == [2, 2, 2]
    assert [dict(column.null_spellings) for column in columns.values()] == [{spelling.strip('"'): 1}] * 3


def test_among_texts_they_are_texts_unless_the_table_shows_otherwise(tmp_path):
    rows = ["DE,3", "NA,4", "NULL,NULL"]

    columns = columns_of(tmp_path, "country,size", *rows)

    assert sorted(columns["country"].values.to_pylist()) == ["DE", "NA"]
    assert dict(columns["country"].null_spellings) == {"NULL": 1}


def test_names_of_keys_and_spellings_of_no_text_tell_without_numbers(tmp_path):
    columns = columns_of(tmp_path, "user_id,name,town", "u1,NULL,\\N", "NULL,Ann,Rome")

    assert columns["user_id"].values.to_pylist() == ["u1"]
    assert sorted(columns["name"].values.to_pylist()) == ["Ann", "NULL"]
    assert columns["town"].values.to_pylist() == ["Rome"]


def test_floats_that_are_no_numbers_are_no_values(tmp_path):
    pq.write_table(pa.table({"size": [1.0, float("nan"), None]}), tmp_path / "it.parquet")
    column = find_tables(str(tmp_path), TableAccess())["it"].columns["size"]

    dropped = drop_null_spellings(pa.array([1.0, float("nan"), None]), column.null_spellings)

    assert (column.num_filled, dict(column.null_spellings)) == (1, {"nan": 1})
    assert dropped.to_pylist() == [1.0, None, None]


def test_prepared_tables_have_numbers_and_keys_without_them_and_a_line_says_so(tmp_path):
    raw, folder = tmp_path / "raw", tmp_path / "tables"
    raw.mkdir()
    folder.mkdir()
    users = [f"{i},{'NULL' if i % 4 == 0 else 20 + i}" for i in range(1, 31)]
    orders = [f"{100 + i},{'NULL' if i % 3 == 0 else 1 + i % 30},{i % 2}" for i in range(60)]
    (raw / "users.csv").write_text("\n".join(["user_id,age", *users, ""]))
    (raw / "orders.csv").write_text("\n".join(["order_id,user_id,paid", *orders, ""]))

    database = find_keys(find_tables(str(raw), TableAccess()), str(raw), label=("orders", "paid"))
    write_prepared_tables(database, str(raw), str(folder))

    assert "users: 'NULL' stands for no value in age (7 rows)." in database.describe()
    assert pq.read_table(folder / "users.parquet")["age"].to_pylist()[:4] == [21, 22, 23, None]
    assert len(pq.read_table(folder / "orders_user_id.parquet")) == 40


@pytest.mark.parametrize(
    ("array", "given", "kept"),
    [
        (pa.array([-1, 0, 3, -1]), "-1", [None, 0, 3, None]),
        (pa.array([-1.0, 0.5, None]), "-1", [None, 0.5, None]),
        (pa.array(["unknown", "good", "bad"]), "unknown", [None, "good", "bad"]),
        (pa.array([Decimal("-1.00"), Decimal("2.50")]), "-1", [None, Decimal("2.50")]),
        (pa.array([dt.date(1900, 1, 1), dt.date(2026, 1, 2)]), "1900-01-01", [None, dt.date(2026, 1, 2)]),
        (pa.array([-2_208_988_800, 86_400]).cast(pa.timestamp("s", "UTC")), "1900-01-01", [None, 86_400]),
        (pa.array(["-1", "-1.0", "x"]).dictionary_encode(), "x", ["-1", "-1.0", None]),
    ],
)
def test_what_is_given_stands_for_no_value_in_columns_of_all_types(tmp_path, array, given, kept):
    pq.write_table(pa.table({"value": array}), tmp_path / "it.parquet")
    column = find_tables(str(tmp_path), TableAccess())["it"].columns["value"]

    taken = take_given(column, [given])

    assert sum(taken.null_spellings.values()) == taken.num_rows - taken.num_filled - array.null_count > 0
    found = drop_null_spellings(array, taken.null_spellings)
    assert (found.cast(pa.int64()) if pa.types.is_timestamp(found.type) else found).to_pylist() == kept


def test_what_is_given_must_be_there(tmp_path):
    column = columns_of(tmp_path, "size", "1", "2")["size"]

    with pytest.raises(ValueError, match="'-1', which no row has; there are"):
        take_given(column, ["-1"])

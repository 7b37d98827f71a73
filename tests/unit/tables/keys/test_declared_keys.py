"""Keys that files declare: how they are kept, and that they come before what names and values tell."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey, DeclaredKeys, read_declared_keys
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.row_times import row_time_columns
from tfx_gnn.tables.table_access import TableAccess

NUMBERS = list(range(30))


def refers(columns, table):
    return DeclaredForeignKey(columns=tuple(columns.split("+")), table=table)


@pytest.fixture
def write(tmp_path):
    def write_table(name, columns, metadata):
        metadata = metadata.to_metadata() if isinstance(metadata, DeclaredKeys) else metadata
        table = pa.table(columns).replace_schema_metadata(metadata)
        pq.write_table(table, tmp_path / f"{name}.parquet")
        return str(tmp_path / f"{name}.parquet")

    return write_table


@pytest.fixture
def found(tmp_path):
    def find(label=("", "")):
        return find_keys(find_tables(str(tmp_path), TableAccess()), str(tmp_path), label=label)

    return find


def told(database):
    return {(f"{key.table}.{'+'.join(key.columns)}", key.node_set): key for key in database.foreign_keys}


@pytest.mark.parametrize(
    "keys",
    [
        DeclaredKeys(),
        DeclaredKeys(primary_key=("a",), foreign_keys=(refers("b", "t"),), time_column="c"),
        DeclaredKeys(primary_key=("b", "a"), foreign_keys=(refers("a", "t"), refers("b+c", "u"))),
        DeclaredKeys(primary_key=("a",), foreign_keys=(refers("a", "t"), refers("a", "u"))),
    ],
    ids=["none", "single", "composite", "one column of two tables"],
)
def test_keys_come_back_from_a_file_as_they_were(write, keys):
    path = write("orders", {"a": [1], "b": [2], "c": [3]}, keys)

    assert read_declared_keys(path) == keys


def test_keys_of_one_column_are_in_relbenchs_form_and_nothing_else_is_written():
    keys = DeclaredKeys(primary_key=("id",), foreign_keys=(refers("user", "users"),))

    assert keys.to_metadata() == {
        "pkey_col": '"id"',
        "fkey_col_to_pkey_table": '{"user": "users"}',
        "time_col": "null",
    }


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"pkey_col": "id"}, "`pkey_col` in the schema metadata of a Parquet file must be JSON .* got 'id'"),
        ({"fkey_col_to_pkey_table": "[1]"}, "`fkey_col_to_pkey_table` .* got '\\[1\\]'"),
        ({"composite_keys": '{"primary_key": ["a"]}'}, "`composite_keys` .* must be JSON"),
        ({"pkey_col": '"gone"'}, "must name its columns; got 'gone' in .*orders.parquet, which has \\['a'\\]"),
    ],
)
def test_metadata_of_another_form_are_refused(write, metadata, message):
    path = write("orders", {"a": [1]}, metadata)

    with pytest.raises(ValueError, match=message):
        read_declared_keys(path)


def test_a_declared_key_comes_before_names_and_counts_nulls_and_unknown_values(write, found):
    # By names, `id` would be the key of users and `buyer` small integers that fit by chance.
    write("users", {"id": [7] * 30, "number": NUMBERS}, DeclaredKeys(primary_key=("number",)))
    buyers = [None, None, 99, *NUMBERS[3:]]
    write("orders", {"id": NUMBERS, "buyer": buyers}, DeclaredKeys(foreign_keys=(refers("buyer", "users"),)))

    database = found()

    assert database.keys == {"orders": ("id",), "users": ("number",)}
    (key,) = database.foreign_keys
    assert (key.columns, key.node_set, key.num_rows, key.num_null, key.num_known) == (("buyer",), "users", 30, 2, 27)
    assert key.describe() == (
        "orders.buyer names users in 90.0% of its rows; 2 rows are empty and have no edge; 1 names nothing that is "
        "there (declared by the database)."
    )


def test_a_declared_composite_key_is_referred_to_by_several_columns(write, found):
    pairs = {"left": [i // 6 for i in NUMBERS], "right": [i % 6 for i in NUMBERS], "weight": [0.5] * 30}
    write("pairs", pairs, DeclaredKeys(primary_key=("right", "left")))
    uses = {"l": [0, 1, None, 4], "r": [5, 0, 2, 9], "note": list("abcd")}
    write("uses", uses, DeclaredKeys(foreign_keys=(refers("r+l", "pairs"),)))

    database = found()

    assert database.keys["pairs"] == ("right", "left")
    key = told(database)["uses.r+l", "pairs"]
    assert (key.num_rows, key.num_null, key.num_known) == (4, 1, 2)


def test_a_declared_composite_key_is_found_by_the_names_of_its_columns(write, found):
    pairs = {"left": [i // 6 for i in NUMBERS], "right": [i % 6 for i in NUMBERS], "weight": [0.5] * 30}
    write("pairs", pairs, DeclaredKeys(primary_key=("right", "left")))
    uses = {"left": [i % 5 for i in NUMBERS], "right": [i % 6 if i else 9 for i in NUMBERS], "note": ["a"] * 30}
    write("uses", uses, DeclaredKeys())

    database = found()

    key = told(database)["uses.right+left", "pairs"]
    assert (database.keys["pairs"], key.num_rows, key.num_known) == (("right", "left"), 30, 29)
    assert "columns of the same names" in key.describe()


def test_two_foreign_keys_that_make_up_a_key_are_edges_unless_something_refers_to_them(write, found):
    write("tracks", {"id": NUMBERS}, DeclaredKeys(primary_key=("id",)))
    write("lists", {"id": NUMBERS}, DeclaredKeys(primary_key=("id",)))
    keys = DeclaredKeys(primary_key=("a", "b"), foreign_keys=(refers("a", "lists"), refers("b", "tracks")))
    write("entries", {"a": NUMBERS, "b": NUMBERS[::-1]}, keys)

    role = found().edges["entries"]
    assert (role.source_column, role.source, role.target_column, role.target) == ("a", "lists", "b", "tracks")

    write("votes", {"x": [1, 2], "y": [28, 27]}, DeclaredKeys(foreign_keys=(refers("x+y", "entries"),)))

    database = found()
    assert database.edges == {}
    assert database.keys["entries"] == ("a", "b")
    assert told(database)["votes.x+y", "entries"].num_known == 2


def test_a_table_of_which_nothing_is_declared_joins_tables_with_declared_keys(write, found):
    write("users", {"id": [f"u{i}" for i in NUMBERS]}, DeclaredKeys(primary_key=("id",)))
    write("items", {"sku": [f"s{i}" for i in NUMBERS]}, DeclaredKeys(primary_key=("sku",)))
    # Each value is there once, so that either column looks like a key.
    write("likes", {"user": [f"u{i}" for i in range(20)], "item": [f"s{i}" for i in range(20)]}, DeclaredKeys())

    role = found().edges["likes"]

    assert (role.source, role.target) == ("users", "items")


def test_a_table_that_is_not_there_and_a_second_table_of_a_column_are_said(write, found):
    write("users", {"id": NUMBERS}, DeclaredKeys(primary_key=("id",)))
    write("people", {"id": NUMBERS}, DeclaredKeys(primary_key=("id",)))
    keys = DeclaredKeys(foreign_keys=(refers("who", "users"), refers("who", "people"), refers("what", "things")))
    write("orders", {"id": NUMBERS, "who": NUMBERS, "what": [1] * 30}, keys)

    database = found()

    assert set(told(database)) == {("orders.who", "users")}
    assert any(
        one.startswith("orders.what names things by its declaration, whose rows have no such key here")
        for one in database.questions
    )
    assert any(
        one.startswith("orders.who is declared to name people, and another table before it")
        for one in database.questions
    )


def test_a_label_that_is_declared_a_foreign_key_stays_the_label(write, found):
    write("users", {"id": NUMBERS}, DeclaredKeys(primary_key=("id",)))
    write("orders", {"id": NUMBERS, "who": NUMBERS}, DeclaredKeys(foreign_keys=(refers("who", "users"),)))

    assert found(("orders", "who")).foreign_keys == ()


def test_the_declared_time_is_taken_where_several_columns_hold_times(write, tmp_path):
    times = pa.array(NUMBERS, pa.timestamp("s"))
    write("orders", {"id": NUMBERS, "made": times, "paid": times}, {"time_col": json.dumps("paid")})

    table = find_tables(str(tmp_path), TableAccess())["orders"]

    assert row_time_columns(table) == ("paid",)


def test_a_decimal_key_is_spelled_as_an_integer_is(write, found):
    numbers = pa.array(NUMBERS, pa.int64()).cast(pa.decimal128(38, 2))
    write("users", {"id": numbers}, DeclaredKeys(primary_key=("id",)))
    write("orders", {"id": NUMBERS, "user_id": NUMBERS}, DeclaredKeys())

    assert told(found())["orders.user_id", "users"].num_known == 30

"""Keys and times that a user gives: how they are written, and that they come before what is declared or found."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey, DeclaredKeys
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.given_keys import GivenKeys, read_given_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.row_times import row_time_columns
from tfx_gnn.tables.table_access import TableAccess

NUMBERS = list(range(30))
TIMES = [f"2026-01-{1 + number:02}" for number in NUMBERS]


@pytest.fixture
def find(tmp_path):
    """Finds the keys of a shop: two tables whose ids `party` could be, and a weather of two columns."""
    declared = DeclaredKeys(foreign_keys=(DeclaredForeignKey(columns=("party",), table="sellers"),))
    tables = {
        "buyers": {"id": NUMBERS, "size": [1.5] * 30},
        "sellers": {"id": NUMBERS, "size": [2.5] * 30},
        "orders": {"id": NUMBERS, "party": NUMBERS[::-1], "town": ["A", "B"] * 15, "day": [*range(15)] * 2},
        "few": {"id": [0, 100, 200, 300, 400, 500, 600, 1, 2], "size": [0.5] * 9},
        "weather": {"town": ["A", "B"] * 15, "day": [number // 2 for number in NUMBERS], "rain": [0.5] * 30},
        "visits": {"buyer_id": NUMBERS, "came": TIMES, "left": TIMES},
    }
    for name, columns in tables.items():
        metadata = declared.to_metadata() if name == "orders" else None
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), tmp_path / f"{name}.parquet")

    def find_with(given, label=("", "")):
        tables = given.declare(find_tables(str(tmp_path), TableAccess()))
        return find_keys(tables, str(tmp_path), label=label)

    return find_with


def named(database):
    return {f"{key.table}.{','.join(key.columns)}": (key.node_set, key.reason) for key in database.foreign_keys}


def test_given_keys_are_read_as_they_are_written():
    assert read_given_keys(
        ["weather=town,day"], ["orders.party=buyers", "a.b="], ["orders=placed", "users="], ["a.b=-1", "a.b=x=y"]
    ) == GivenKeys(
        primary_keys={"weather": ("town", "day")},
        foreign_keys={("orders", ("party",)): "buyers", ("a", ("b",)): ""},
        time_columns={"orders": "placed", "users": ""},
        missing_values={("a", "b"): ("-1", "x=y")},
    )
    assert not read_given_keys()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["users"], [], []), "`primary_keys` must have the form TABLE=COLUMN; got 'users'"),
        ((["users="], [], []), "`primary_keys` must have the form TABLE=COLUMN; got 'users='"),
        (([], ["user=users"], []), "`foreign_keys` must have the form TABLE.COLUMN=TABLE; got 'user=users'"),
        (([], [], ["orders"]), "`time_columns` must have the form TABLE=COLUMN; got 'orders'"),
        (([], [], [], ["a.b="]), "`missing_values` must have the form TABLE.COLUMN=VALUE; got 'a.b='"),
        (([], ["a.b=c", "a.b=d"], []), "`foreign_keys` must say once what 'a.b' is; got 'c' and 'd'"),
    ],
)
def test_another_form_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_given_keys(*given)


def test_a_given_foreign_key_comes_before_a_declared_one(find):
    database = find(GivenKeys(foreign_keys={("orders", ("party",)): "buyers"}))

    assert named(database)["orders.party"] == ("buyers", "given")
    assert "orders.party names buyers in 100.0% of its rows (given)." in database.describe()


def test_a_column_may_be_given_as_no_key(find):
    database = find(GivenKeys(foreign_keys={("orders", ("party",)): "", ("visits", ("buyer_id",)): ""}))

    assert {"orders.party", "visits.buyer_id"}.isdisjoint(named(database))
    assert "party" in database.tables["orders"].columns
    assert not any("party" in question for question in database.questions)


def test_a_given_name_without_a_table_has_the_values_as_entities(find):
    database = find(GivenKeys(foreign_keys={("orders", ("party",)): "parties"}))

    assert database.entities == {"parties": (("orders", "party"),)}
    assert named(database)["orders.party"] == ("parties", "given")


def test_several_columns_name_a_given_key(find):
    database = find(
        GivenKeys(primary_keys={"weather": ("town", "day")}, foreign_keys={("orders", ("town", "day")): "weather"})
    )

    assert database.keys["weather"] == ("town", "day")
    assert named(database)["orders.town,day"] == ("weather", "given")


def test_given_times_are_those_of_the_rows(find):
    of_one = find(GivenKeys(time_columns={"visits": "left"})).tables["visits"]
    of_none = find(GivenKeys(time_columns={"visits": ""})).tables["visits"]

    assert row_time_columns(of_one) == ("left",)
    assert row_time_columns(of_none) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"primary_keys": {"buyer": ("id",)}},
            "`primary_keys` must name a table; got 'buyer' .* Did you mean 'buyers'",
        ),
        (
            {"primary_keys": {"buyers": ("size",)}},
            "another value in each row; got buyers.size, with 1 different values",
        ),
        ({"time_columns": {"visits": "come"}}, "got 'come' of visits, which has buyer_id, came, left. Did you mean"),
        ({"foreign_keys": {("orders", ("town", "day")): "towns"}}, "got orders.town,day for 'towns'. Give the key"),
        ({"foreign_keys": {("orders", ("town", "day")): "buyers"}}, "got orders.town,day for 'buyers'. Give the key"),
        ({"foreign_keys": {("orders", ("party",)): "visits"}}, "got orders.party for 'visits'. Give the key"),
        ({"missing_values": {("orders", "towns"): ("A",)}}, "got 'towns' of orders, .* Did you mean 'town'"),
        ({"missing_values": {("orders", "town"): ("C",)}}, "for orders.town got 'C', which no row has; there are"),
        ({"foreign_keys": {("orders", ("town", "day")): ""}}, "Write orders.town= and orders.day="),
        ({"foreign_keys": {("orders", ("town",)): "buyers"}}, "none of them: compare orders.town, such as .*'A'"),
        (
            {"primary_keys": {"weather": ("town", "rain")}},
            "weather.town,rain, with 2 different values in 30 rows, such as 'A|0.5' in several",
        ),
        ({"foreign_keys": {("orders", ("party",)): "Buyer"}}, "got 'Buyer' for orders.party, .* orders.party=buyers;"),
        ({"foreign_keys": {("orders", ("party",)): "buyers.id"}}, "got 'buyers.id' for orders.party, .* table buyers"),
        ({"foreign_keys": {("orders", ("party",)): "a/b"}}, "by letters, digits and underscores; got 'a/b' for orders"),
        (
            {"foreign_keys": {("buyers", ("id",)): "buyers"}},
            "other rows than their own; got buyers.id, the key of buyers",
        ),
        ({"primary_keys": {"buyers": ("id", "id")}}, "name each column once; got id, id of buyers"),
    ],
)
def test_what_is_not_there_is_refused(find, given, message):
    with pytest.raises(ValueError, match=message):
        find(GivenKeys(**given))


def test_few_known_values_of_a_given_key_are_asked_about(find):
    database = find(GivenKeys(foreign_keys={("visits", ("buyer_id",)): "few"}))

    (question,) = database.questions
    assert question == (
        "visits.buyer_id is given as the key of few, but only 10.0% of its values are there: the other rows have no "
        "edge. Is another table meant, or are rows missing?"
    )


def test_a_label_that_is_given_as_a_foreign_key_is_a_class_of_its_table(find):
    database = find(GivenKeys(foreign_keys={("orders", ("day",)): "buyers"}), label=("orders", "day"))
    of_none = find(GivenKeys(foreign_keys={("orders", ("party",)): ""}), label=("orders", "party"))

    assert database.named_by_label == "buyers"
    assert "orders.day" not in named(database)
    assert not database.questions
    assert not of_none.named_by_label

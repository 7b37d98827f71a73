"""Tables of types and shapes that no graph has: each is read, or a line says what is left out."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.prepared_tables import write_prepared_tables
from tfx_gnn.tables.table_access import TableAccess

NUMBERS = range(40)


@pytest.fixture
def keys_of(tmp_path):
    """Writes users and another table, and finds the keys of both."""
    (tmp_path / "raw").mkdir()

    def find(users=None, label=("", ""), **other):
        plain = {"user_id": list(NUMBERS), "age": [20 + i for i in NUMBERS]}
        pq.write_table(pa.table({**plain, **(users or {})}), tmp_path / "raw" / "users.parquet")
        for name, table in other.items():
            pq.write_table(pa.table(table), tmp_path / "raw" / f"{name}.parquet")
        return find_keys(find_tables(str(tmp_path / "raw"), TableAccess()), str(tmp_path / "raw"), label=label)

    return find


def decimals(values, precision, scale=0):
    return pa.array([decimal.Decimal(one) for one in values], pa.decimal128(precision, scale))


def test_whole_decimals_are_keys_as_databases_write_them(keys_of):
    database = keys_of(
        users={"user_id": decimals(NUMBERS, 38)},
        orders={"order_id": decimals(range(100, 190), 38), "user_id": decimals([i % 40 for i in range(90)], 38)},
    )

    assert database.keys == {"users": ("user_id",), "orders": ("order_id",)}
    assert [(key.table, key.node_set, key.share) for key in database.foreign_keys] == [("orders", "users", 1.0)]


def test_decimals_beyond_integers_are_counted_and_become_floats(keys_of, tmp_path):
    large = [10**25 + i for i in NUMBERS]
    database = keys_of(users={"balance": decimals(large, 38), "rate": decimals(NUMBERS, 20, 4)})
    (tmp_path / "tables").mkdir()
    prepared = write_prepared_tables(database, str(tmp_path / "raw"), str(tmp_path / "tables"))

    assert database.tables["users"].columns["balance"].values.to_pylist() == [str(one) for one in large]
    features = prepared.schema.node_sets["users"].features
    assert features["balance"].dtype == features["rate"].dtype != features["age"].dtype


@pytest.mark.parametrize(
    "ids", [pa.array([{"a": i} for i in NUMBERS]), pa.nulls(40, pa.string())], ids=["structs", "nothing"]
)
def test_a_column_id_without_ids_is_no_key(keys_of, ids):
    database = keys_of(tags={"id": ids, "size": [i / 2 for i in NUMBERS]})

    assert database.keys == {"tags": (), "users": ("user_id",)}


@pytest.mark.parametrize("columns", [{}, {"Unnamed: 0": list(NUMBERS)}], ids=["none", "row numbers"])
def test_a_table_without_data_is_left_out_with_a_line(keys_of, tmp_path, columns):
    database = keys_of(tags=columns)
    (tmp_path / "tables").mkdir()
    prepared = write_prepared_tables(database, str(tmp_path / "raw"), str(tmp_path / "tables"))

    assert "tags is left out: it has no column but the numbers of its rows." in database.describe()
    assert list(prepared.schema.node_sets) == ["users"]


def test_a_suffix_in_capitals_is_not_passed_over(keys_of, tmp_path):
    keys_of()
    (tmp_path / "raw" / "ORDERS.CSV").write_text("id\n1\n")

    with pytest.raises(ValueError, match=r"suffix is in small letters; got 'ORDERS\.CSV'"):
        find_tables(str(tmp_path / "raw"), TableAccess())


def test_a_label_that_names_rows_of_a_table_is_explained(keys_of):
    orders = {"order_id": list(range(100, 190)), "user_id": [i % 40 for i in range(90)]}

    database = keys_of(orders=orders, label=("orders", "user_id"))

    (question,) = database.questions
    assert question.startswith("orders.user_id, the label, names users: should a model choose one of its rows?")
    assert not database.foreign_keys

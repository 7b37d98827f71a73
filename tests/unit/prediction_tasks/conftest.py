"""A small shop: users place orders, which have items of products; ratings join users and products."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCHEMA = """
node_sets { key: "users" value {
  features { key: "country" value { dtype: DT_STRING } }
  features { key: "signed_up" value { dtype: DT_INT64 } }
  metadata { filename: "users.parquet" extra { key: "id_column" value: "user_id" } } } }
node_sets { key: "orders" value {
  features { key: "amount" value { dtype: DT_FLOAT } }
  features { key: "status" value { dtype: DT_STRING } }
  features { key: "placed_at" value { dtype: DT_INT64 } }
  metadata { filename: "orders.parquet" } } }
node_sets { key: "items" value {
  features { key: "quantity" value { dtype: DT_INT64 } }
  features { key: "added_at" value { dtype: DT_INT64 } }
  metadata { filename: "items.parquet" } } }
node_sets { key: "products" value { metadata { filename: "products.parquet" } } }
edge_sets { key: "orders_user_id" value { source: "orders" target: "users"
  features { key: "placed_at" value { dtype: DT_INT64 } }
  metadata { filename: "orders_user_id.parquet" } } }
edge_sets { key: "items_order_id" value { source: "items" target: "orders"
  features { key: "added_at" value { dtype: DT_INT64 } }
  metadata { filename: "items_order_id.parquet" } } }
edge_sets { key: "items_product_id" value { source: "items" target: "products"
  metadata { filename: "items_product_id.parquet" } } }
edge_sets { key: "ratings" value { source: "users" target: "products"
  features { key: "stars" value { dtype: DT_INT64 } }
  features { key: "rated_at" value { dtype: DT_INT64 } }
  metadata { filename: "ratings.parquet"
    extra { key: "source_column" value: "user" } extra { key: "target_column" value: "product" } } } }
"""
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - Parquet's times have no zone.


def day(number):
    """The time so many days after the beginning."""
    return START + dt.timedelta(days=number)


def write_tables(folder, tables, schema=SCHEMA):
    """Writes tables as Parquet files beside their schema."""
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "graph_schema.pbtxt").write_text(schema)
    return str(folder)


TEXT, TIME = pa.string(), pa.timestamp("us")
SHOP = {
    # Ann is there from the beginning, Bob from day 15 on, and Cy bought nothing.
    "users": {"user_id": ["ann", "bob", "cy"], "country": ["DE", None, "FR"], "signed_up": [day(0), day(15), day(1)]},
    "orders": {
        "id": ["o1", "o2", "o3", "o4", "o5", "o6"],
        "amount": [10.0, 20.0, 5.0, 7.0, None, 40.0],
        "status": ["paid", "open", "paid", "open", "paid", "open"],
        "placed_at": [day(5), day(10), day(20), day(25), day(35), day(50)],
    },
    "items": {
        "id": ["i1", "i2", "i3", "i4"],
        "quantity": [1, 2, 3, 4],
        "added_at": [day(5), day(12), day(21), day(36)],
    },
    "products": {"id": ["p", "q"]},
    "orders_user_id": {
        "source": ["o1", "o2", "o3", "o4", "o5"],
        "target": ["ann", "ann", "ann", "bob", "bob"],
        "placed_at": [day(5), day(10), day(20), day(25), day(35)],
    },
    "items_order_id": {
        "source": ["i1", "i2", "i3", "i4"],
        "target": ["o1", "o1", "o3", "o5"],
        "added_at": [day(5), day(12), day(21), day(36)],
    },
    "items_product_id": {"source": ["i1", "i2", "i3", "i4"], "target": ["p", "q", "p", "p"]},
    "ratings": {
        "user": ["ann", "ann", "bob"],
        "product": ["p", "q", "p"],
        "stars": [5, 3, 1],
        "rated_at": [day(11), day(21), day(31)],
    },
}
"""Order o6 has no user."""


@pytest.fixture
def shop(tmp_path):
    """Folder of the shop's tables."""
    return write_tables(tmp_path, SHOP)

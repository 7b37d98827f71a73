"""Values of columns, counted in bounded memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables import column_values
from tfx_gnn.tables.column_values import read_column_values
from tfx_gnn.tables.schema_inference import undeclared_layout
from tfx_gnn.tables.table_access import TableAccess


@pytest.fixture
def columns_of(tmp_path, monkeypatch):
    """Reads the columns of a table in blocks of 100 rows, where more than 1,000 values are too many."""
    monkeypatch.setattr(column_values, "_MOST_VALUES", 1_000)

    def read(**columns):
        pq.write_table(pa.table(columns), tmp_path / "it.parquet", row_group_size=100)
        return read_column_values(undeclared_layout("node", "it", str(tmp_path), "it.parquet", TableAccess()))

    return read


def test_fractions_and_long_texts_are_sampled_evenly_and_keys_are_not(columns_of):
    rows = range(20_000)
    found = columns_of(
        key=[1_000_000 + i for i in rows],
        code=[f"C{i}" for i in rows],
        amount=[i + 0.5 if i % 4 else None for i in rows],
        comment=[f"{i} " * 40 for i in rows],
    )

    assert {name for name, column in found.items() if column.is_sample} == {"amount", "comment"}
    assert found["key"].is_key
    assert found["code"].is_key
    assert not found["comment"].is_key
    assert found["amount"].num_filled == 15_000
    assert found["amount"].num_distinct < 4_000
    assert found["amount"].mean() == pytest.approx(10_000, rel=0.1)
    assert found["amount"].median() == pytest.approx(10_000, rel=0.1)


def test_repeated_fractions_are_counted_in_all_rows(columns_of):
    found = columns_of(price=[(i % 50) + 0.99 for i in range(20_000)])

    assert not found["price"].is_sample
    assert set(found["price"].counts.to_pylist()) == {400}


def test_what_may_stand_for_no_value_is_counted_in_rows_that_are_passed_over(columns_of):
    found = columns_of(amount=[float("nan") if i % 10 == 0 else i + 0.5 for i in range(20_000)])["amount"]

    assert found.is_sample
    assert dict(zip(found.values.to_pylist(), found.counts.to_pylist(), strict=True))["nan"] == 2_000

"""Numbers that later rows have outside of the range of training."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.schema_inference import undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn_pipelines.proposals.drifting_columns import find_drifting_columns

NUM_ROWS = 200


@pytest.fixture
def drifting(tmp_path):
    """Finds what drifts among columns, of rows one second apart, the first 100 of which are for training."""

    def find(num_rows=NUM_ROWS, **columns):
        table = {"at": pa.array(range(num_rows), pa.timestamp("s")), **columns}
        pq.write_table(pa.table(table), tmp_path / "rows.parquet", row_group_size=33)
        layout = undeclared_layout("node", "rows", str(tmp_path), "rows.parquet", TableAccess())
        return {
            one.column: one.share
            for one in find_drifting_columns(layout, time="at", bound=num_rows // 2, columns=list(columns))
        }

    return find


def test_counters_and_months_drift_and_what_repeats_does_not(drifting):
    rows = range(NUM_ROWS)
    found = drifting(
        counter=list(rows),
        month=[i // 40 for i in rows],
        falling=[-float(i) for i in rows],
        minute=[i % 60 for i in rows],
        constant=[7] * NUM_ROWS,
    )

    # The month of rows 100 to 119 is one that training saw.
    assert found == {"counter": 1.0, "month": 0.8, "falling": 1.0}


def test_empty_values_and_few_rows_tell_nothing(drifting):
    rows = range(NUM_ROWS)

    assert drifting(gone=[None if i % 100 >= 10 else i for i in rows], nan=[float("nan")] * NUM_ROWS) == {}
    assert drifting(num_rows=30, counter=list(range(30))) == {}

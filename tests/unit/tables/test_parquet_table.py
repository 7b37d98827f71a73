import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import seeds_layout
from tfx_gnn.tables.table_files import list_units, read_table, read_unit
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, table_format
from tfx_gnn.tables.table_layout import TableColumn

TEXT = pa.large_string()


def _layout(tmp_path, columns, *, row_group_size=None, **dtypes):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=row_group_size)
    return seeds_layout(
        str(tmp_path), "t.parquet", {name: TableColumn(name=name, dtype=dtype) for name, dtype in dtypes.items()}
    )


def test_columns_are_typed_and_others_left_alone(tmp_path):
    layout = _layout(
        tmp_path,
        {"a": pa.array(["x", "y"]).dictionary_encode(), "b": [1, 2], "c": [0.5, 1.5], "other": [{"q": 1}, None]},
        a=TEXT,
        b=pa.int32(),
        c=pa.float32(),
    )

    table = read_table(layout)

    assert {name: column.to_pylist() for name, column in table.columns.items()} == {
        "a": ["x", "y"],
        "b": [1, 2],
        "c": [0.5, 1.5],
    }
    assert [str(column.type) for column in table.columns.values()] == ["large_string", "int32", "float"]


def test_each_row_group_is_a_unit_and_rows_are_counted_over_the_file(tmp_path):
    numbers = [0, 1, 2, 3, None, 5, 6, None]
    layout = _layout(tmp_path, {"a": numbers}, row_group_size=3, a=pa.int64())
    rules = RowRules(invalid_rows="drop", max_dropped_share=0.5)

    units = list_units(layout)
    blocks = [block for unit in reversed(units) for block in read_unit(layout, unit, rules)]
    table = read_table(layout, rules)

    assert [(unit.part, unit.index) for unit in units] == [(0, 0), (1, 1), (2, 2)]
    assert [block.rows.tolist() for block in blocks] == [[0], [0, 2], [0, 1, 2]]
    assert [[problem.row for problem in block.problems] for block in blocks] == [[7], [4], []]
    assert table.rows.tolist() == table.columns["a"].to_pylist() == [0, 1, 2, 3, 5, 6]
    assert table.unit_starts.tolist() == [0, 3, 6, 8]
    path = str(tmp_path / "t.parquet")
    assert table.locate(np.array([2, 3, 6])) == [(path, 2), (path, 3), (path, 6)]
    assert table.problems[1].place == f"{path}, row 7"


def test_large_row_groups_come_in_blocks(tmp_path):
    layout = _layout(tmp_path, {"a": np.arange(MAX_BLOCK_ROWS + 5)}, a=pa.int64())

    blocks = list(read_unit(layout, list_units(layout)[0], RowRules()))

    assert [block.num_rows for block in blocks] == [MAX_BLOCK_ROWS, 5]
    assert blocks[1].rows.tolist() == blocks[1].columns["a"].to_pylist()


def test_lists_are_read_by_their_declared_shapes(tmp_path):
    lists = pa.table({"fixed": [[[1.0, 2.0]], [[3.0, 4.0]]], "ragged": [["a"], []]})
    pq.write_table(lists, tmp_path / "t.parquet", row_group_size=1)
    columns = {
        "fixed": TableColumn(name="fixed", dtype=pa.float32(), shape=(1, 2)),
        "ragged": TableColumn(name="ragged", dtype=TEXT, shape=(-1,)),
    }

    table = read_table(seeds_layout(str(tmp_path), "t.parquet", columns))

    assert table.columns["fixed"].type == pa.list_(pa.float32(), 2)
    assert table.columns["fixed"].to_pylist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.columns["ragged"].type == pa.large_list(TEXT)
    assert table.columns["ragged"].to_pylist() == [["a"], []]


def test_an_empty_file_is_refused(tmp_path):
    layout = _layout(tmp_path, {"a": pa.array([], pa.int64())}, a=pa.int64())

    with pytest.raises(ValueError, match=r"t.parquet` must hold at least one record; got none"):
        read_table(layout)


def test_damaged_pages_are_refused_with_their_row_group(tmp_path):
    layout = _layout(tmp_path, {"a": np.random.default_rng(0).integers(0, 2**60, 4000)}, a=pa.int64())
    path = tmp_path / "t.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = b"\xff" * 196
    path.write_bytes(data)

    with pytest.raises(ValueError, match=r"t.parquet` must be a whole Parquet file; got .* in row group 0"):
        read_table(layout)


def test_column_names_that_are_not_utf_8_are_refused_with_the_file(tmp_path):
    layout = _layout(tmp_path, {"xx": [1]}, xx=pa.int64())
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes().replace(b"xx", b"x\xe9"))

    with pytest.raises(ValueError, match=r"t.parquet` must be a whole Parquet file; got .* byte 0xe9"):
        read_table(layout)


@pytest.mark.parametrize("column", [["x" * 8192], [{"a": "x" * 8192}]], ids=["plain", "nested"])
def test_a_column_with_a_dot_in_its_name_counts_towards_the_size_of_records(tmp_path, column):
    pq.write_table(pa.table({"a.b": column}), tmp_path / "t.parquet", use_dictionary=False, compression="none")
    layout = dataclasses.replace(seeds_layout(str(tmp_path), "t.parquet", {}), max_record_bytes=1 << 11)
    reader = table_format(layout)

    with pytest.raises(ValueError, match=r"must have records of at most 0 MiB; got .*t.parquet, row 0"):
        next(iter(reader.read_raw_blocks(layout.files[0], 0, ["a.b"])))

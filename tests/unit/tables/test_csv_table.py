import csv
import dataclasses
import gzip
import io
import threading
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfx_gnn.tables import csv_table
from tfx_gnn.tables.csv_table import (
    MarkedStream,
    OpenQuoteError,
    TextAfterQuoteError,
    TooLargeRecordError,
    record_blocks,
    restore_batch,
    restore_text,
)
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import seeds_layout
from tfx_gnn.tables.table_files import list_units, read_table, read_unit
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import TableColumn

TEXT = pa.large_string()
LONG = "x" * 200_000


def _layout(tmp_path, data, columns):
    (tmp_path / "table.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    return seeds_layout(str(tmp_path), "table.csv", columns)


def _read_columns(tmp_path, data, columns):
    return read_table(_layout(tmp_path, data, columns))


def _read(tmp_path, data, **dtypes):
    return _read_columns(tmp_path, data, {name: TableColumn(name=name, dtype=dtype) for name, dtype in dtypes.items()})


def _values(table):
    return {name: column.to_pylist() for name, column in table.columns.items()}


def test_columns_are_typed_and_others_left_alone(tmp_path):
    table = _read(
        tmp_path, "a,b,c,d,e\nx,1,2.5,true,?\ny,-7,1e3,0,?\n", a=TEXT, b=pa.int64(), c=pa.float32(), d=pa.bool_()
    )

    assert table.num_rows == 2
    assert _values(table) == {"a": ["x", "y"], "b": [1, -7], "c": [2.5, 1000.0], "d": [True, False]}
    assert table.columns["b"].type == pa.int64()


def test_arrow_threads_hold_nothing_of_python(tmp_path, monkeypatch):
    # A thread that lets go of a Python object while Python ends aborts the process.
    opened = []

    def open_csv(source, reading, cells, conversion):
        opened.append((type(source), cells.invalid_row_handler))
        return pa_csv.open_csv(source, reading, cells, conversion)

    monkeypatch.setattr(csv_table, "pa_csv", SimpleNamespace(**{**vars(pa_csv), "open_csv": open_csv}))

    assert _values(_read(tmp_path, "a,b\nx,y\n", a=TEXT)) == {"a": ["x"]}
    with pytest.raises(ValueError, match="have 2 cells in every record"):
        _read(tmp_path, "a,b\nx,y\nz\n", a=TEXT)
    assert opened == [(pa.BufferReader, None)] * 2


def test_one_column_may_be_read_twice(tmp_path):
    table = _read_columns(
        tmp_path,
        "a\n1\n",
        {"text": TableColumn(name="a", dtype=TEXT), "number": TableColumn(name="a", dtype=pa.int64())},
    )

    assert _values(table) == {"text": ["1"], "number": [1]}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", [("1", "2")]),
        ('a,b\n"x\ny",2\n\n"p, q","say ""hi"""\n', [("x\ny", "2"), ("p, q", 'say "hi"')]),
        ('a,b\n"",nan\n', [("", "nan")]),
        ("a,b\nnaïve,2", [("naïve", "2")]),
        ('a,b\n1,2\n3,"4"', [("1", "2"), ("3", "4")]),
        ('a,b\r\n5" disk,"2"\r\n', [('5" disk', "2")]),
    ],
    ids=["byte order mark and CRLF", "quoted", "quoted empty text", "no last newline", "quote at end", "inner quote"],
)
def test_text_is_taken_as_it_stands(tmp_path, data, expected):
    table = _read(tmp_path, data, a=TEXT, b=TEXT)

    assert list(zip(*_values(table).values(), strict=True)) == expected


def test_a_long_text_is_read_whole(tmp_path):
    table = _read(tmp_path, f"a\n{'x' * 3_000_000}\n", a=TEXT)

    assert len(table.columns["a"][0].as_py()) == 3_000_000


def test_empty_cells_get_the_declared_default(tmp_path):
    table = _read_columns(
        tmp_path,
        "a,b\n,1\nx,\n",
        {
            "a": TableColumn(name="a", dtype=TEXT, default="?"),
            "b": TableColumn(name="b", dtype=pa.int64(), default="-1"),
        },
    )

    assert _values(table) == {"a": ["?", "x"], "b": [1, -1]}


def test_a_record_is_placed_by_the_line_where_it_starts(tmp_path):
    table = _read(tmp_path, 'a,b\n1,1\n"2\n2\n2",2\n\n\n3,3\n', a=TEXT)

    path = str(tmp_path / "table.csv")
    assert table.locate(table.rows) == [(path, 2), (path, 3), (path, 8)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "table.csv` must start with a header line; got an empty file"),
        ("a,b\n", "table.csv` must hold at least one record; got a header line only"),
        ("a,c\n1,2\n", r"`b` must be one column of the table; got none among \['a', 'c'\] in .*table.csv"),
        ("a,b,b\n1,2,3\n", r"`b` must be one column of the table; got 2 of that name among"),
        ("a,b\n1,2\n3\n", "must have 2 cells in every record; got 1 cells in .*table.csv, line 3"),
        ("a,b\n1,2\n\n3,4,5\n", r"got 3 cells in .*table.csv, line 4"),
        (b"a,b\n1,2\n\xff,4\n", "`a` must be UTF-8 text; got byte 0xff in .*table.csv, line 3"),
        ("a,b\n1,2\n".encode("utf-16"), "must be a UTF-8 CSV file; got byte 0xff in .*table.csv, line 1"),
        ('a,b\n1,2\n3,"4\n5,6\n', "must close every quote; got one that is open at the end .* begins in line 3"),
        ('a,b\n1,2\n\n"u3"x,1\n5,6\n', r"""after the closing quote of a cell; got '"u3"x' in .*table.csv, line 4\."""),
        ('a,b\n1,2\n3,"4 \n', "must close every quote; got one .* begins in line 3"),
        ('a,b\n"1",2\n"u3,4\n"u5",6\n', r"""got '"u3,4\\n"u5' in .*table.csv, lines 3 to 4\. Write a quote inside"""),
        ('a,b\n"1\n1","2\n"" 3""4"5,6\n', r"""got '"2\\n"" 3""4"5' in .*table.csv, lines 3 to 4\."""),
        (f'a,b\n"{LONG}",2\n"{LONG}é"x,3\n', r"""got '"x{39} \.\.\. x{37}é"x' in .*table.csv, line 3\."""),
        (b'a,b\n"\xff"\xffx,1\n', r"""got '"\\\\xff"\\\\xffx' in .*table.csv, line 2\."""),
        ('a,b\n"u3" ,1\n', r"""got '"u3" ' in .*table.csv, line 2\."""),
        ('a,"b"c\n1,2\n', "after the closing quote of a cell, and close every quote; got a header .*table.csv, line 1"),
        ('\n\na,"b\n1,2\n', "and close every quote; got a header that does not in .*table.csv, line 3"),
        (f'a,b\n"{LONG}",2\n3,six\n', "`b` must be of type int32; got 'six' in .*table.csv, line 3"),
        ("a,b\nx\0,2\n3,six\n", "`b` must be of type int32; got 'six' in .*table.csv, line 3"),
        ("a,b\n1,2\n\n,4\n", "`a` must have a value in every record; got an empty cell in .*table.csv, line 4"),
        ("a,b\n1,2\n3,\n", "`b` must have a value in every record; got an empty cell in .*table.csv, line 3"),
        ("a,b\n1,2\n3,4\n5,six\n7,8\n9,ten\n", "`b` must be of type int32; got 'six' in .*table.csv, line 4"),
        ("a,b\n1,2\n3,2147483648\n", "`b` must be of type int32; got '2147483648' in .*table.csv, line 3"),
        ("a,b\n1,2\n3,4.5\n", "`b` must be of type int32; got '4.5' in .*table.csv, line 3"),
        ("a,b\n1, 2\n", "`b` must be of type int32; got ' 2' in .*table.csv, line 2"),
    ],
)
def test_a_bad_table_is_refused_with_file_line_and_rule(tmp_path, data, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, data, a=TEXT, b=pa.int32())


@pytest.mark.parametrize("cell", ["nan", "-inf", "1e39"])
def test_numbers_must_be_finite(tmp_path, cell):
    with pytest.raises(
        ValueError, match=rf"`a` must be a finite number \(float\); got '{cell}' in .*table.csv, line 3"
    ):
        _read(tmp_path, f"a\n1\n{cell}\n", a=pa.float32())


def test_a_number_that_is_none_is_found_among_many(tmp_path):
    cells = [str(i) for i in range(1000)]
    cells[777] = "x"

    with pytest.raises(ValueError, match=r"got 'x' in .*table.csv, line 779"):
        _read(tmp_path, "a\n" + "\n".join(cells) + "\n", a=pa.float32())


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`metadata.filename` must name a file that exists.* got 'absent.csv'"):
        seeds_layout(str(tmp_path), "absent.csv", {})


def test_gzip_is_told_by_content_and_the_delimiter_by_the_name(tmp_path):
    (tmp_path / "zipped.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "tabs.tsv.gz").write_text("a\tb\n1\t2,3\n")
    columns = {"b": TableColumn(name="b", dtype=TEXT)}

    zipped = read_table(seeds_layout(str(tmp_path), "zipped.csv", columns))
    tabs = read_table(seeds_layout(str(tmp_path), "tabs.tsv.gz", columns))
    bars = read_table(seeds_layout(str(tmp_path), "zipped.csv", columns, delimiter=","))

    assert [table.columns["b"].to_pylist() for table in (zipped, tabs, bars)] == [["2"], ["2,3"], ["2"]]


@pytest.fixture
def small_blocks(monkeypatch):
    """Lets no block have more than 7 rows."""
    monkeypatch.setattr(csv_table, "MAX_BLOCK_ROWS", 7)


def test_records_are_numbered_over_blocks_blank_lines_and_uneven_records(tmp_path, small_blocks):
    lines, places, uneven = ["a,b"], [], []
    for row in range(2000):
        if row % 11 == 0:
            lines.append("")
        if row % 13 == 5 or row % 400 > 380:
            uneven.append((len(lines) + 1, row))
            lines.append(f"{row}" if row % 2 else f"{row},1,1")
        elif row % 17 == 3:
            places.append((len(lines) + 1, row))
            lines += [f'{row},"x', "", 'y"']
        else:
            places.append((len(lines) + 1, row))
            lines.append(f"{row},{row}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    layout = seeds_layout(
        str(tmp_path),
        "table.csv",
        {"a": TableColumn(name="a", dtype=pa.int64()), "b": TableColumn(name="b", dtype=TEXT)},
    )
    layout = dataclasses.replace(layout, max_record_bytes=1 << 12)  # Arrow reads 4 KiB at a time
    rules = RowRules(invalid_rows="drop", max_dropped_share=0.5)

    blocks = list(read_unit(layout, list_units(layout)[0], rules))
    table = read_table(layout, rules)

    assert max(block.num_rows for block in blocks) == 7
    assert all(block.num_rows_read == block.num_rows + len(block.problems) for block in blocks)
    assert [row for block in blocks for row in block.rows.tolist()] == [row for _, row in places]
    assert [number for block in blocks for number in block.columns["a"].to_pylist()] == [row for _, row in places]
    assert table.columns["a"].to_pylist() == table.rows.tolist() == [row for _, row in places]
    assert [line for _, line in table.locate(table.rows)] == [line for line, _ in places]
    assert [problem.row for problem in table.problems] == [line for line, _ in uneven]
    assert table.report.rows_read == 2000
    assert table.report.dropped == {"cells": len(uneven)}


def test_uneven_records_at_the_end_are_counted(tmp_path):
    layout = _layout(tmp_path, "a,b\n1,2\n3\n4,5,6\n7", {"a": TableColumn(name="a", dtype=TEXT)})

    table = read_table(layout, RowRules(invalid_rows="drop", max_dropped_share=0.9))

    assert (table.report.rows_read, table.report.dropped) == (4, {"cells": 3})
    assert [problem.place.rpartition(", ")[2] for problem in table.problems] == ["line 3", "line 4", "line 5"]


@pytest.mark.parametrize(
    ("before", "record", "line"),
    [
        ("", f'"{"x" * 20_000}",b', 1),
        ("a,b\n1,2\n\n", f"{'x' * 20_000},2", 4),
        ("a,b\n1,2\n", f'"{"x" * 20_000}",2', 3),
        ("a,b\n" + "1,2\n" * 9000, '"' + "x\n" * 20_000 + '",2', 9002),
        ("a,b\n1,2\n", '"xy\n",' * 20_000, 3),
    ],
    ids=["header", "plain", "quoted", "lines", "cells"],
)
def test_a_record_that_is_larger_than_allowed_is_refused_with_its_line(tmp_path, before, record, line):
    layout = dataclasses.replace(
        _layout(tmp_path, f"{before}{record}\n1,2\n", {"a": TableColumn(name="a", dtype=TEXT)}),
        max_record_bytes=1 << 12,
    )

    with pytest.raises(ValueError, match=rf"must have records of at most 0 MiB; got .*table.csv, line {line}\. Split"):
        read_table(layout)


class _WatchedBytes(io.BytesIO):
    """Notes which thread reads."""

    threads: ClassVar[set[threading.Thread]] = set()

    def read(self, size=-1):
        self.threads.add(threading.current_thread())
        return super().read(size)


def test_no_other_thread_reads_so_that_reading_may_stop_at_any_record(tmp_path, monkeypatch):
    layout = dataclasses.replace(_layout(tmp_path, "a\n", {}), max_record_bytes=1 << 12)
    streams = []

    def open_watched(path):
        streams.append(_WatchedBytes(b"a\n" + b"1\n" * 20_000))
        return streams[-1]

    monkeypatch.setattr(csv_table, "open_table_bytes", open_watched)
    blocks = table_format(layout).read_raw_blocks(layout.files[0], 0, ["a"])

    next(blocks)
    blocks.close()

    assert _WatchedBytes.threads == {threading.main_thread()}
    assert all(stream.closed for stream in streams)


def test_a_byte_order_mark_that_begins_a_block_is_text(tmp_path):
    layout = dataclasses.replace(
        _layout(tmp_path, "a\n" + "\ufeffx\n" * 2000, {"a": TableColumn(name="a", dtype=TEXT)}),
        max_record_bytes=1 << 10,
    )

    assert set(read_table(layout).columns["a"].to_pylist()) == {"\ufeffx"}


def test_a_quote_that_opens_in_an_uneven_record_is_found(tmp_path):
    with pytest.raises(ValueError, match=r"must close every quote; .* begins in line 4"):
        _read(tmp_path, 'a,b\n1,2\n3,4\n5,6,7,"\n8,9\n', a=TEXT)


def test_a_quote_that_is_not_doubled_joins_no_records(tmp_path):
    lines = [f'{row},"text {row}"' for row in range(1000)]
    lines[400] = '400,"never closed'
    layout = _layout(tmp_path, "\n".join(["a,b", *lines, ""]), {"b": TableColumn(name="b", dtype=TEXT)})

    with pytest.raises(ValueError, match=r"""got '"never closed\\n401,"text 401' in .*, lines 402 to 403\."""):
        read_table(layout, RowRules(invalid_rows="drop"))


def test_cells_of_a_file_without_declared_columns_are_not_shown(tmp_path):
    layout = _layout(tmp_path, 'a\n"secret"x\n', {})

    with pytest.raises(ValueError, match=r"got other text in .*table.csv, line 2\. Write"):
        list(table_format(layout).read_raw_blocks(layout.files[0], 0, ["a"]))


def test_what_is_no_utf_8_may_stand_in_columns_that_are_not_read(tmp_path):
    table = _read(tmp_path, b"a,b\n1,\xff\n2,\xfe\n", a=TEXT)

    assert table.columns["a"].to_pylist() == ["1", "2"]


def test_a_record_that_is_neither_even_nor_utf_8_is_dropped(tmp_path):
    data = b"\xef\xbb\xbfa,b\n1,2\n\xff\n3,4\n\xc3,x\nx,\xe2\x82"
    layout = _layout(tmp_path, data, {name: TableColumn(name=name, dtype=TEXT) for name in "ab"})

    table = read_table(layout, RowRules(invalid_rows="drop", max_dropped_share=0.9))

    assert table.columns["a"].to_pylist() == ["1", "3"]
    assert table.report.dropped == {"cells": 1, "encoding": 2}
    assert [problem.value for problem in table.problems] == ["1 cells", "byte 0xc3", "byte 0xe2"]
    assert r"cells of '\\xff'" in table.problems[0].advice


def test_text_beside_what_is_no_utf_8_is_taken_as_it_stands(tmp_path):
    texts = ["é", "\U0010ff00", "\U0010ff80", "\U0010ffc3\U0010ffa9", "\U0010ffff", "\0", "\N{REPLACEMENT CHARACTER}"]
    data = "a\n" + "\n".join(texts) + "\n"
    layout = _layout(tmp_path, data.encode() + b"\xff\n", {"a": TableColumn(name="a", dtype=TEXT)})

    table = read_table(layout, RowRules(invalid_rows="drop", max_dropped_share=0.9))

    assert table.columns["a"].to_pylist() == texts
    assert table.report.dropped == {"encoding": 1}
    assert _read(tmp_path, data, a=TEXT).columns["a"].to_pylist() == texts


TEXTS = st.lists(st.sampled_from([b"a", b",", b'"', b'""', b"\n", b"\r\n", b'5" x', b'"y\n"'])).map(b"".join)


def _blocks(data, max_record_bytes=1 << 10, delimiter=","):
    blocks = []
    error = None
    try:
        blocks.extend(map(bytes, record_blocks(io.BytesIO(data), delimiter, max_record_bytes)))
    except ValueError as raised:
        error = type(raised)
    return blocks, error


def _records(data, *, strict=False):
    """Reads records by Python's reader; where it is strict, those before the first misplaced quote."""
    records = []
    try:
        records.extend(csv.reader(io.StringIO(data.decode(), newline=""), strict=strict))
    except csv.Error as error:
        return [record for record in records if record], str(error)
    return [record for record in records if record], ""


@given(TEXTS, st.integers(8, 40))
@example(b'"a\n""b",c\n5" d,e\n"f\n",g', 16)
@example(b'5" a\n"b\n,""c"\n' * 3, 24)
def test_blocks_hold_whole_records(text, max_record_bytes):
    blocks, error = _blocks(b"\xef\xbb\xbf\nh,i\n" + text, max_record_bytes)

    records = [record for block in blocks for record in _records(block)[0]]

    expected, fault = _records(text, strict=True)
    assert records == expected[: len(records)]
    assert all(len(block) <= max_record_bytes + 1 for block in blocks)
    if error is not TooLargeRecordError:
        assert len(records) == len(expected)
        assert error is (TextAfterQuoteError if "expected after" in fault else OpenQuoteError if fault else None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ([b""], None)),
        (b"\r\n\r\n", ([b""], None)),
        (b"a,b", ([b""], None)),
        (b'"a\nb",c\n1,2', ([b"1,2\n"], None)),
        (b'a\n1\n"2\n3', ([b"1\n"], OpenQuoteError)),
        (b'a\n1\n2"\n3', ([b'1\n2"\n3\n'], None)),
        (b'a\n1\n"2\n3"\n', ([b'1\n"2\n3"\n\n'], None)),
        (b'a\n1\n"2"3\n4\n', ([b"1\n"], TextAfterQuoteError)),
        (b'a\n1\n"2\n3"4\n', ([b"1\n"], TextAfterQuoteError)),
        (b'a\n1"\n"2""3" \n', ([b'1"\n'], TextAfterQuoteError)),
        (b'a\n"1"\r\n"2"\r"3""",""\n"4"', ([b'"1"\r\n"2"\r"3""",""\n"4"\n'], None)),
        (b'"a"b\n1\n', ([], TextAfterQuoteError)),
        (b"a\n1\n" + b"2" * 64 + b"\n3\n", ([b"1\n"], TooLargeRecordError)),
        (b"a\n1\n" + b"2" * 63 + b"\n3\n", ([b"1\n", b"2" * 63 + b"\n", b"3\n\n"], None)),
    ],
)
def test_text_is_cut_where_records_end(data, expected):
    assert _blocks(data, 64) == expected


def test_a_larger_record_is_gathered_up_to_the_limit(monkeypatch):
    monkeypatch.setattr("tfx_gnn.tables.csv_table._BLOCK_BYTES", 4)

    assert _blocks(b'a;b\n1;2\n"x\ny;z"";";3\n4;5\n', delimiter=";")[0] == [
        b"",
        b"1;2\n",
        b'"x\ny;z"";";3\n',
        b"4;5\n",
        b"\n",
    ]


@given(st.integers(8, 40))
def test_a_closing_quote_at_the_end_of_a_block_may_be_followed_by_text(max_record_bytes):
    blocks, error = _blocks(b'a\n"b"\n"c"d\n', max_record_bytes)

    assert (b"".join(blocks), error) == (b'"b"\n', TextAfterQuoteError)


def test_text_after_a_closing_quote_is_told_with_its_cell():
    with pytest.raises(TextAfterQuoteError) as raised:
        list(record_blocks(io.BytesIO(b'a,b\n1,2\n\n3,"4\n5,""6"x7,8\n"9"\n'), ",", 1 << 10))

    assert raised.value.before == b"3,"
    assert raised.value.cell == b'"4\n5,""6"'
    assert raised.value.after == b"x7"


PARTS = st.sampled_from([b"a", b"\xc3", b"\xa9", b"\xff", b"\xed\xa0\x80", "\U0010ff80\U0010ffff\U0010ff00é".encode()])


@given(st.lists(PARTS).map(b"".join), st.integers(1, 9))
@example(b"\xe2\x82", 1)
def test_every_byte_comes_back_and_what_is_between_is_utf_8(data, size):
    stream = MarkedStream(io.BufferedReader(io.BytesIO(data)))

    marked = b"".join(iter(lambda: stream.read(size), b""))

    marked.decode()
    batch = pa.RecordBatch.from_arrays([pa.array([marked, None], pa.large_binary())], names=["x"])
    assert restore_batch(batch).column(0).to_pylist() == [data, None]
    if not stream.has_marks:
        assert marked == data


def test_people_see_escapes():
    stream = MarkedStream(io.BufferedReader(io.BytesIO(b"a\xff")))

    assert restore_text(stream.read().decode()) == r"a\xff"

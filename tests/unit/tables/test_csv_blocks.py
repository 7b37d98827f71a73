import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfx_gnn.tables.csv_blocks import OpenQuoteError, TextAfterQuoteError, TooLargeRecordError, record_blocks

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
    monkeypatch.setattr("tfx_gnn.tables.csv_blocks._BLOCK_BYTES", 4)

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

import io

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tfx_gnn.tables.csv_blocks import MarkedStream, restore_batch, restore_text

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

import io
import tracemalloc

import pytest

from tfx_gnn.tables.tfrecord_table import is_record_head, record_heads

HEAD_3 = b"\x03\0\0\0\0\0\0\0\xb0\x99I\x0e"
HEAD_4_GIB = b"\0\0\0\0\x01\0\0\0\xb2\x8d\xe7\xd2"
RECORD = HEAD_3 + b"abc" + b"crc!"


class _Unseekable(io.BytesIO):
    def seekable(self):
        return False


class _EndedFile(io.BytesIO):
    """Cannot be moved behind its end, as TensorFlow's files."""

    def seek(self, offset, whence=io.SEEK_SET):
        size = len(self.getvalue())
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: size}[whence]
        if start + offset > size:
            raise EOFError
        return super().seek(start + offset)


@pytest.mark.parametrize("kind", [_Unseekable, _EndedFile])
@pytest.mark.parametrize(
    ("data", "heads"),
    [
        (b"", []),
        (RECORD * 2, [HEAD_3, HEAD_3]),
        (RECORD + RECORD[:-1], [HEAD_3, HEAD_3]),
        (RECORD + HEAD_3[:5], [HEAD_3]),
        (RECORD + b"\x04" + RECORD[1:] + RECORD, [HEAD_3]),
        (RECORD + HEAD_4_GIB + b"abc", [HEAD_3, HEAD_4_GIB]),
    ],
    ids=["empty", "whole", "cut data", "cut head", "damaged length", "longer than the file"],
)
def test_heads_are_told_up_to_the_end_or_to_damage_without_memory_for_what_is_missing(kind, data, heads):
    tracemalloc.start()

    found = list(record_heads(kind(data)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == heads
    assert peak < 1 << 22


def test_a_head_is_told_by_its_checksum():
    assert is_record_head(HEAD_3)
    assert not is_record_head(HEAD_3[:-1] + b"\0")

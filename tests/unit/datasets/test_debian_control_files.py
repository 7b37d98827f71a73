from __future__ import annotations

import bz2
import gzip
import itertools
import lzma

import pyarrow as pa
import pytest

from tfx_gnn.datasets.debian_control_files import parse_relations, read_stanzas, split_clauses, version_key

TEXT = """\
Package: one
Version: 1.0
Tag: role::program,
 use::editing
\tworks-with::text
Description: not kept
 nor this

Package: two
Version:


Package: three
Version: 3:1
"""
STANZAS = [
    {"Package": "one", "Version": "1.0", "Tag": "role::program,\nuse::editing\nworks-with::text"},
    {"Package": "two", "Version": ""},
    {"Package": "three", "Version": "3:1"},
]
FIELDS = ("Package", "Version", "Tag")


def _arrow_codec(name):
    return lambda data: pa.compress(data, codec=name, asbytes=True) if name == "zstd" else _framed(data)


def _framed(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "compress",
    [bytes, gzip.compress, bz2.compress, lzma.compress, _arrow_codec("lz4"), _arrow_codec("zstd")],
    ids=["plain", "gzip", "bz2", "xz", "lz4", "zstd"],
)
def test_stanzas_are_read_whatever_their_compression(tmp_path, compress):
    path = tmp_path / "Packages"
    path.write_bytes(compress(TEXT.encode()))

    assert list(read_stanzas(str(path), FIELDS)) == STANZAS


def test_the_last_stanza_needs_no_empty_line_and_no_newline(tmp_path):
    path = tmp_path / "Packages"
    path.write_text("Package: one\n\nPackage: two")

    assert list(read_stanzas(str(path), FIELDS)) == [{"Package": "one"}, {"Package": "two"}]


def test_an_empty_file_has_no_stanzas(tmp_path):
    path = tmp_path / "Packages"
    path.write_bytes(b"")

    assert list(read_stanzas(str(path), FIELDS)) == []


def test_a_stanza_is_there_before_the_rest_is_read(tmp_path):
    path = tmp_path / "Packages"
    path.write_text("Package: one\n\nno colon here\n")

    stanzas = read_stanzas(str(path), FIELDS)

    assert next(stanzas) == {"Package": "one"}
    with pytest.raises(ValueError, match=r"got no colon in line 3: 'no colon here"):
        next(stanzas)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" Package: one\n", "got a continuation line without a field in line 1"),
        (b"Package: one\nVersion: \xff\n", "must be UTF-8 text; got byte 0xff"),
        (gzip.compress(TEXT.encode())[:-20], "must be a complete file; got damaged data"),
        (lzma.compress(TEXT.encode())[:-20], "must be a complete file; got damaged data"),
        (_framed(TEXT.encode() * 100)[:80], "must be a complete file; got damaged data"),
        (TEXT.encode(), "`Version` must be given in every stanza; got none in .*, in the stanza that begins in line 9"),
    ],
    ids=["continuation", "utf-8", "gzip", "xz", "lz4", "required"],
)
def test_what_is_no_index_file_is_refused_with_its_place(tmp_path, data, message):
    path = tmp_path / "Packages"
    path.write_bytes(data)

    with pytest.raises(ValueError, match=message):
        list(read_stanzas(str(path), FIELDS, required=("Version",)))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must be a file that can be read; got .*nowhere.*No such file"):
        list(read_stanzas(str(tmp_path / "nowhere"), FIELDS))


# Each older than all behind it; Debian Policy 5.6.12 tells why.
ASCENDING = [
    "~~", "~~a", "~", "0~~1-1", "0~", "0", "1~rc1", "1", "1-0+b1", "1-1", "1.0", "1.0a", "1.0+b1", "1.0.1", "1.2-3-4",
    "1.10", "2", "10", "a", "1:0", "1:0.1", "10:0",
]  # fmt: skip


def test_versions_have_the_order_of_dpkg():
    for older, newer in itertools.combinations(ASCENDING, 2):
        assert version_key(older) < version_key(newer), (older, newer)


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.00"), ("0:1", "1"), ("1-0", "1"), ("1.a01", "1.a1")])
def test_versions_that_differ_in_spelling_only_are_equal(one, other):
    assert version_key(one) == version_key(other)


def test_the_end_comes_before_letters_and_these_before_other_signs():
    assert sorted(["1+", "1a", "1", "1~"], key=version_key) == ["1~", "1", "1a", "1+"]


def test_an_epoch_is_a_number():
    with pytest.raises(ValueError, match="must begin with a number if it has a colon; got 'x:1'"):
        version_key("x:1")


def test_every_condition_is_understood():
    text = (
        "a, b (>= 1:2.0-1~) | c:any (<< 3) |d,\n e.f+g [linux-any !amd64], i <!nocheck> <cross !stage1>, j (= 1) [i386]"
    )

    assert [tuple(relation) for relation in parse_relations(text)] == [
        ("a", 0, 1, False),
        ("b", 0, 3, True),
        ("c", 1, 3, True),
        ("d", 2, 3, False),
        ("e.f+g", 0, 1, False),
        ("i", 0, 1, False),
        ("j", 0, 1, True),
    ]


def test_empty_clauses_are_none():
    assert list(parse_relations("")) == []
    assert split_clauses(" a,, b ,\n") == ["a", "b"]


@pytest.mark.parametrize("text", ["a | ", "${misc:Depends}", "a (>= 1", "a b", "a, _b"])
def test_what_is_no_relation_is_refused(text):
    with pytest.raises(ValueError, match="`text` must be relations like"):
        list(parse_relations(text))

from __future__ import annotations

import io
import sys

import pytest
from rich.table import Table

from tfx_gnn.io.plain_console import PlainConsole, escape_controls, escape_what_cannot_be_encoded


def _printed(shown):
    console = PlainConsole(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    console.print(shown)
    return console.file.getvalue()


@pytest.mark.parametrize("text", ["u[/v]", "[red]u[/]", "[/]", "u\\[v]", "a:smile:b", "[link=x]y"])
def test_text_that_looks_like_markup_is_printed_as_it_is(text):
    table = Table(text, title=text, caption=text)
    table.add_row(text)

    assert _printed(text) == f"{text}\n"
    assert _printed(table).count(text) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb", r"a\x0db"),
        ("a\x00\x7f", r"a\x00\x7f"),
        ("é\nb", "é\nb"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    table = Table("x", title=text)
    table.add_row(text)

    assert escape_controls(text) == shown
    assert _printed(text) == f"{shown}\n"
    for character in "\x00\r\x7f\x9b":
        assert character not in _printed(table)
    assert "\x1b[2J" not in _printed(table)


def test_what_a_stream_cannot_encode_is_escaped(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for encoding in ("ascii", "utf-8")]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])

    escape_what_cannot_be_encoded()
    for stream in streams:
        stream.write("日\udcff")
        stream.flush()

    assert streams[0].buffer.getvalue() == rb"\u65e5\udcff"
    assert streams[1].buffer.getvalue() == "日".encode() + rb"\udcff"


def test_streams_of_another_kind_stay(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    escape_what_cannot_be_encoded()

    sys.stdout.write("日")
    assert sys.stdout.getvalue() == "日"

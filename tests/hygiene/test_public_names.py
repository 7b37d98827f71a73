"""The names by which code written for TF-GNN finds its way here.

public_names.txt lists them all: `here` if the name resolves, `later` if it is still to come.
A name that has come must be marked, so the list of those to come can only shrink.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import tfx_gnn

_LINES = [
    line.split()
    for line in (Path(__file__).parent / "public_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
_HERE = [name for mark, name in _LINES if mark == "here"]
_LATER = [name for mark, name in _LINES if mark == "later"]


def _resolve(name: str) -> object:
    return functools.reduce(getattr, name.split("."), tfx_gnn)


def test_the_list_of_names_is_well_formed():
    assert {mark for mark, _ in _LINES} <= {"here", "later"}
    assert len({name for _, name in _LINES}) == len(_LINES)
    assert [name for _, name in _LINES] == sorted(name for _, name in _LINES)


def _resolves(name: str) -> bool:
    try:
        _resolve(name)
    except AttributeError:
        return False
    return True


def test_every_public_name_resolves_from_the_top_of_the_package():
    assert [name for name in _HERE if not _resolves(name)] == []
    assert [name for name in _HERE if name.split(".")[0] not in dir(tfx_gnn)] == []


def test_a_name_to_come_is_marked_as_soon_as_it_is_here():
    assert [name for name in _LATER if _resolves(name)] == []


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="module 'tfx_gnn' has no attribute 'no_such_name'"):
        _resolve("no_such_name")

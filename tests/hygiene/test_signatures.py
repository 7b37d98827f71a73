"""Calls written for TF-GNN bind here: the same parameters, order, kinds and defaults.

Parameters of ours beyond these must be keyword-only, have a default, and come last.
"""

from __future__ import annotations

import functools
import inspect
from pathlib import Path

import pytest

import tfx_gnn

oracle = pytest.importorskip("tensorflow_gnn", reason="tensorflow-gnn ends with Python 3.10")

_LISTED = (Path(__file__).parent / "public_names.txt").read_text().splitlines()
# Pieces and specs are made by `from_fields`, `from_indices` and the like; what their constructors take is each
# library's own business.
_INNER_CONSTRUCTORS = (
    *("Adjacency", "Context", "EdgeSet", "GraphTensor", "HyperAdjacency", "NodeSet"),
    *("AdjacencySpec", "ContextSpec", "EdgeSetSpec", "GraphTensorSpec", "HyperAdjacencySpec", "NodeSetSpec"),
)
# Made by protoc.
_MESSAGES = ("Feature", "GraphSchema")


def _resolve(library, name):
    return functools.reduce(getattr, name.split("."), library)


def _is_ours_or_theirs(cls, member):
    """Whether a class, or one of its bases in either library, defines the member; Keras' own do not count."""
    owner = next((base for base in cls.__mro__ if member in vars(base)), None)
    return owner is not None and owner.__module__.split(".")[0] in ("tensorflow_gnn", "tfx_gnn")


def _members(cls):
    public = {name for name in dir(cls) if not name.startswith("_")}
    return sorted(name for name in public | {"__init__", "__getitem__", "__call__"} if _is_ours_or_theirs(cls, name))


def _shared_names():
    for name in _LISTED:
        if not name or name.startswith(("#", "proto.")) or name in _MESSAGES:
            continue
        try:
            theirs = _resolve(oracle, name)
        except AttributeError:
            # A name of our own.
            continue
        if inspect.isfunction(theirs):
            yield name
        elif inspect.isclass(theirs) and theirs.__module__.startswith("tensorflow_gnn."):
            for member in _members(theirs):
                if not (member == "__init__" and name in _INNER_CONSTRUCTORS):
                    yield f"{name}.{member}"


def _parameters(function):
    """(name, kind, default) of each parameter, and whether there are `**kwargs` beside them."""
    parameters = inspect.signature(function).parameters.values()
    # Nobody passes *args by that name.
    described = [("" if p.kind == p.VAR_POSITIONAL else p.name, p.kind, p.default) for p in parameters]
    named = [parameter for parameter in described if parameter[1] != inspect.Parameter.VAR_KEYWORD]
    return named, named != described


@pytest.mark.parametrize("name", [*_shared_names()])
def test_a_call_written_for_tf_gnn_binds_here(name):
    theirs, here = _resolve(oracle, name), _resolve(tfx_gnn, name)
    if not callable(theirs):
        assert not callable(here)
        return

    expected, expects_more = _parameters(theirs)
    got, takes_more = _parameters(here)

    shared, ours = got[: len(expected)], got[len(expected) :]
    assert shared == expected
    assert {kind for _, kind, _ in ours} <= {inspect.Parameter.KEYWORD_ONLY}
    assert [name for name, _, default in ours if default is inspect.Parameter.empty] == []
    assert takes_more or not expects_more

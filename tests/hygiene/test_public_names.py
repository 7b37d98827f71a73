"""The names by which users find things: public_names.txt lists them, and nothing is public beside them.

A name that goes, or comes, changes that file, and so is seen by whoever reviews it.
"""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

import pytest

import tfx_gnn
from tfx_gnn import experimental, runner
from tfx_gnn.graph import proto
from tfx_gnn.keras import feature_encoders, layers

_NAMES = [
    line
    for line in (Path(__file__).parent / "public_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def _resolve(name: str) -> object:
    return functools.reduce(getattr, name.split("."), tfx_gnn)


def test_the_list_of_names_is_well_formed():
    assert sorted(set(_NAMES)) == _NAMES


@pytest.mark.parametrize("name", _NAMES)
def test_a_public_name_resolves_from_the_top_of_the_package(name):
    assert _resolve(name) is not None
    assert name.split(".")[0] in dir(tfx_gnn)


def test_what_a_package_exports_is_listed():
    exported = [
        *tfx_gnn.graph.__all__,
        *(f"experimental.{name}" for name in experimental.__all__),
        *(f"keras.feature_encoders.{name}" for name in feature_encoders.__all__),
        *(f"keras.layers.{name}" for name in layers.__all__),
        *(f"proto.{name}" for name in proto.__all__),
        *(f"runner.{name}" for name in runner.__all__),
        "keras.ConvGNNBuilder",
        "keras.clone_initializer",
    ]

    assert sorted(exported) == _NAMES


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="module 'tfx_gnn' has no attribute 'no_such_name'"):
        _resolve("no_such_name")


_LIBRARY = Path(tfx_gnn.__file__).parent


def test_the_faces_of_the_rooms_are_what_faces_txt_lists():
    """Each package with a stub is a face: what it exports is public, what lies behind it is not."""
    faces = {}
    for stub in sorted(_LIBRARY.rglob("__init__.pyi")):
        if stub.parent not in (_LIBRARY, _LIBRARY / "graph"):
            faces[".".join(stub.parent.relative_to(_LIBRARY).parts)] = [
                alias.name for node in ast.parse(stub.read_text()).body for alias in node.names
            ]

    listed = (Path(__file__).parent / "faces.txt").read_text().splitlines()
    assert sorted(f"{face}.{name}" for face, names in faces.items() for name in names) == listed
    for face, names in faces.items():
        package = importlib.import_module(f"tfx_gnn.{face}")
        assert package.__all__ == sorted(names)
        assert set(names) <= set(dir(package))
        assert [name for name in names if getattr(package, name) is None] == []

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jsonschema
import pytest

from tfx_gnn.io.option_groups import choice_option, option_group
from tfx_gnn.io.option_kinds import register_kinds
from tfx_gnn.io.option_schema import attribute_texts, json_schema, kind_text, list_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """A shape."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    """A circle.

    Attributes:
        radius: how far
            it reaches: in metres.
    """

    radius: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Several(Shape):
    """Several shapes."""

    shapes: tuple[Shape, ...] = ()


register_kinds(Shape, {"circle": Circle, "several": Several})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paint:
    """Paint.

    Attributes:
        color: what it looks like.
    """

    color: Literal["red", "blue"] = "red"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawing.

    Attributes:
        shape: what is drawn.
        paint: with what.
        layers: more paint, by name.
        width: None: as wide as it needs.

    Example:
        >>> width: 3
    """

    shape: Shape
    paint: Paint = option_group(Paint)
    layers: dict[str, Paint] = dataclasses.field(default_factory=dict)
    more: tuple[Paint, ...] = ()
    width: int | None = None
    style: str = choice_option("", ("", "bold"))
    anything: Any = None


def test_options_are_listed_with_those_of_what_they_hold():
    listed = {entry.name: (entry.kind, entry.default, entry.meaning) for entry in list_options(Drawing, "drawing.")}

    assert listed == {
        "drawing.shape": ("Shape of kind circle, several", "", "what is drawn."),
        "drawing.shape[circle].radius": ("number", "", "how far it reaches: in metres."),
        # What a shape of several shapes holds is not listed again.
        "drawing.shape[several].shapes": ("list of Shape of kind circle, several", "[]", ""),
        "drawing.paint.color": ('"red" or "blue"', '"red"', "what it looks like."),
        "drawing.layers": ("mapping from text to Paint", "{}", "more paint, by name."),
        "drawing.layers.NAME.color": ('"red" or "blue"', '"red"', "what it looks like."),
        "drawing.more": ("list of Paint", "[]", ""),
        "drawing.more[].color": ('"red" or "blue"', '"red"', "what it looks like."),
        "drawing.width": ("integer or null", "null", "None: as wide as it needs."),
        "drawing.style": ('"" or "bold"', '""', ""),
        "drawing.anything": ("any value", "null", ""),
    }


def test_attributes_are_read_up_to_the_next_section():
    assert list(attribute_texts(Drawing)) == ["shape", "paint", "layers", "width"]


GOOD = {"shape": {"kind": "circle", "radius": 1.5}, "layers": {"top": {"color": "blue"}}, "width": None}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({}, None),
        ({"shape": {"kind": "several", "shapes": [{"kind": "circle", "radius": 2}]}}, None),
        ({"shape": {"kind": "square"}}, "shape"),
        ({"shape": {"kind": "circle"}}, "shape"),
        ({"shape": {"kind": "circle", "radius": 1, "diameter": 2}}, "shape"),
        ({"paint": {"color": "green"}}, "paint"),
        ({"layers": {"top": {"colour": "red"}}}, "layers"),
        ({"width": 1.5}, "width"),
        ({"style": "bold"}, None),
        ({"style": "bolt"}, "style"),
        ({"breadth": 1}, ""),
    ],
)
def test_schema_takes_what_the_classes_take_and_refuses_the_rest(change, path):
    validator = jsonschema.Draft202012Validator(json_schema(Drawing))
    validator.check_schema(validator.schema)

    errors = list(validator.iter_errors({**GOOD, **change}))

    assert [".".join(map(str, list(error.absolute_path)[:1])) for error in errors] == ([] if path is None else [path])


def test_schema_says_what_an_option_means_and_its_default():
    schema = json_schema(Drawing)

    assert schema["description"] == "A drawing."
    assert schema["required"] == ["shape"]
    assert schema["properties"]["width"] == {
        "description": "None: as wide as it needs.",
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }


def test_type_that_has_no_text_keeps_its_name():
    assert kind_text(complex) == "complex"
    with pytest.raises(TypeError, match=r"`kind` must be a type that options have; got .*complex"):
        json_schema(dataclasses.make_dataclass("Odd", [("number", complex)]))

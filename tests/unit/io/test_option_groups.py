from __future__ import annotations

import dataclasses
from typing import Literal

import pytest

from tfx_gnn.io.option_groups import (
    check_choices,
    check_groups,
    choice_option,
    flat_options,
    flat_values,
    from_flat,
    grouped_option,
    option_group,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lid:
    kind: str = grouped_option("flat", flat_name="lid")
    is_open: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    width: int
    lid: Lid = option_group(Lid)
    color: str = "red"

    def __post_init__(self) -> None:
        check_groups(self)


def test_options_of_groups_stand_among_the_others_by_their_flat_names():
    assert flat_options(Box) == {"width": int, "lid": str, "is_open": bool, "color": str}
    assert flat_values(Box(width=2, lid=Lid(kind="domed"))) == {
        "width": 2,
        "lid": "domed",
        "is_open": False,
        "color": "red",
    }


def test_flat_values_build_the_groups_and_absent_ones_keep_their_defaults():
    assert from_flat(Box, {"width": 2, "is_open": True}) == Box(width=2, lid=Lid(kind="flat", is_open=True))


def test_building_undoes_reading():
    box = Box(width=3, lid=Lid(kind="domed", is_open=True), color="blue")

    assert from_flat(Box, flat_values(box)) == box


def test_unknown_name_is_refused():
    with pytest.raises(TypeError, match=r"`Box` must get options of .*'is_open', 'lid', 'width'\]; got \['kind'\]"):
        from_flat(Box, {"width": 2, "kind": "domed"})


def test_option_without_a_default_must_be_given():
    with pytest.raises(TypeError, match="width"):
        from_flat(Box, {"lid": "domed"})


def test_bare_value_in_place_of_a_group_is_refused():
    with pytest.raises(TypeError, match=r"`lid` must be a Lid; got 'domed'. Write Lid\(...\) .* \['kind', 'is_open'\]"):
        Box(width=2, lid="domed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parcel:
    size: Literal["small", "large"] = "small"
    service: str = choice_option("post", ["post", "courier"], flat_name="parcel_service")
    labels: tuple[Literal["fragile", "heavy"], ...] = ()

    def __post_init__(self) -> None:
        check_choices(self, place=" in a parcel")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"size": "larg"},
            r"`size` must be one of \['small', 'large'\]; got 'larg' in a parcel\. Did you mean 'large'\?",
        ),
        (
            {"service": "ship"},
            r"`parcel_service` must be one of \['post', 'courier'\]; got 'ship' in a parcel\. Choose one of these\.",
        ),
        ({"size": ["small"]}, r"`size` must be one of .*; got \['small'\] in a parcel"),
        (
            {"labels": ("heavy", "fragil")},
            r"`labels` must name some of \['fragile', 'heavy'\], each once; got \['heavy', 'fragil'\] in a parcel\.",
        ),
        ({"labels": ("heavy", "heavy")}, r"each once; got \['heavy', 'heavy'\] in a parcel\. Remove the repetition"),
    ],
)
def test_value_that_is_no_choice_is_refused(wrong, message):
    Parcel(size="large", service="courier", labels=("heavy", "fragile"))

    with pytest.raises(ValueError, match=message):
        Parcel(**wrong)

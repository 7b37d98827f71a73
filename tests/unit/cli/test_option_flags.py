from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.io.option_groups import choice_option, grouped_option, option_group


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    """A group.

    Attributes:
        kind: how it is done.
        strict: whether to be strict.
    """

    kind: Literal["fast", "slow"] = grouped_option("fast", flat_name="pace")
    strict: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options.

    Attributes:
        name: what it is called.
        size: how large it is,
            in metres.
        tags: words.
        order: words in order.
        sides: where it is.
        pairs: names of things.
        bounds: limits by name.
        weights: "" or numbers by name.
        share: None for all.
        quiet: whether to be quiet.
        hidden: not a flag.
        inner: a group.
    """

    name: str
    size: float = 1.5
    tags: tuple[str, ...] = ()
    order: tuple[str, ...] = ("a", "b")
    sides: tuple[Literal["left", "right"], ...] = ("left",)
    pairs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    bounds: dict[str, Any] = dataclasses.field(default_factory=dict)
    weights: str | dict[str, float] = ""
    share: float | None = None
    quiet: bool = False
    style: str = choice_option("", ("", "bold"), flat_name="font_style")
    hidden: int = 7
    inner: Inner = option_group(Inner)


@pytest.fixture
def run():
    """Types a line, and returns what the command got."""
    got = []
    app = typer.Typer(cls=OneLineErrors)

    @app.command()
    @flags_of_options(
        Options, leave_out=("hidden",), names={"quiet": "--silently"}, comma_separated=("order",), panel="What"
    )
    def verb(place: str, *, options: Options, num: int = 3) -> None:
        """Do it."""
        got.append((place, options, num))

    app.command("other")(lambda: None)

    def typed(*line):
        result = CliRunner().invoke(app, ["verb", *line])
        return result, got[-1] if got else None

    return typed


def test_options_that_are_not_given_have_the_defaults_of_the_class(run):
    result, got = run("here", "--name", "x")

    assert result.exit_code == 0, result.output
    assert got == ("here", Options(name="x"), 3)


def test_every_kind_of_option_is_given(run):
    result, got = run(
        *("here", "--num", "4", "--name", "x", "--size", "2", "--tag", "one", "--tag", "two", "--order", "b,a"),
        *("--side", "right", "--side", "left"),
        *("--pair", "k=v", "--pair", "a=b=c", "--bounds", '{"mrr": {"min": 0.3}}', "--weights", '{"a": 2}'),
        *("--share", "0.5", "--silently", "--pace", "slow", "--no-strict", "--font-style", "bold"),
    )

    assert result.exit_code == 0, result.output
    assert got == (
        "here",
        Options(
            name="x",
            size=2.0,
            tags=("one", "two"),
            order=("b", "a"),
            sides=("right", "left"),
            pairs={"k": "v", "a=b": "c"},
            bounds={"mrr": {"min": 0.3}},
            weights={"a": 2},
            share=0.5,
            quiet=True,
            style="bold",
            inner=Inner(kind="slow", strict=False),
        ),
        4,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("--pair", "k"), "`--pair` must have the form '<name>=<value>'; got 'k'"),
        (("--bounds", "[1]"), "`--bounds` must be a JSON object"),
        (("--weights", "{1}"), "`--weights` must be JSON"),
        (("--pace", "steady"), "'steady' is not one of 'fast', 'slow'"),
        (("--font-style", "bolt"), "'bolt' is not one of"),
        (("--side", "top"), "'top' is not one of 'left', 'right'"),
        (("--hidden", "1"), "No such option"),
    ],
)
def test_mistakes_name_the_flag(run, line, message):
    result, _ = run("here", "--name", "x", *line)

    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_option_without_a_default_must_be_given(run):
    result, _ = run("here")

    assert result.exit_code == 2
    assert "Missing option '--name'" in result.output


def test_help_says_what_the_class_says(run):
    result, _ = run("--help")

    shown = " ".join(result.output.replace("│", " ").split())
    assert "How large it is, in metres. [default: 1.5]" in shown
    assert "Words. Repeat for several." in shown
    assert "<fast|slow>" in shown
    assert "─ What ─" in shown


def test_values_are_given_to_a_command_that_completes_them():
    app = typer.Typer()
    got = []

    @app.command()
    @flags_of_options(Options, into="values", leave_out=("name",), as_values=True)
    def verb(*, values: dict[str, Any]) -> None:
        """Do it."""
        got.append(Options(name="made", **{name: values[name] for name in ("size", "tags")}))

    assert CliRunner().invoke(app, ["--size", "3", "--tag", "a"]).exit_code == 0
    assert got == [Options(name="made", size=3.0, tags=("a",))]

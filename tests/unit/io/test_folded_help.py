from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tfx_gnn.io.folded_help import FOLDED, Folded, FoldedCommand


@pytest.fixture
def small_app():
    small = typer.Typer(add_completion=False, rich_markup_mode="markdown")

    @small.command(cls=FoldedCommand)
    def verb(
        *,
        must: Annotated[str, typer.Option(help="Needed."), FOLDED],
        often: Annotated[str, typer.Option(help=f"{'Often used ' * 10}(by some; not all); by most. And more.")] = "",
        one: Annotated[str, typer.Option(help="First."), Folded(step="graph_trainer")] = "",
        two: Annotated[str, typer.Option(help="Second."), FOLDED] = "",
        three: Annotated[str, typer.Option(help="Third."), FOLDED] = "",
    ) -> None:
        """Do it."""
        typer.echo(f"{must} {often} {one} {two} {three}")

    return small


def test_required_options_are_shown_and_long_texts_end_after_a_clause(small_app):
    text = CliRunner().invoke(small_app, ["--help"], prog_name="small").stdout
    words = " ".join(text.replace("│", " ").split())

    assert "Needed." in words
    assert "(by some; not all) … " in words
    assert "--one" not in words
    assert words.endswith("3 more options: small --help-all; small options graph_trainer")


def test_folded_options_are_read(small_app):
    result = CliRunner().invoke(small_app, ["--must", "a", "--one", "b", "--three", "c"])

    assert result.stdout.split() == ["a", "b", "c"]


def test_two_options_are_not_worth_folding():
    small = typer.Typer(add_completion=False)

    @small.command(cls=FoldedCommand)
    def verb(
        *, one: Annotated[str, typer.Option(), FOLDED] = "", two: Annotated[str, typer.Option(), FOLDED] = ""
    ) -> None:
        """Do it."""

    text = CliRunner().invoke(small, ["--help"]).stdout

    assert "--one" in text
    assert "--help-all" in text

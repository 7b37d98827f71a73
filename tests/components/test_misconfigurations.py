"""Each row of docs/misconfigurations.md is run, and must print its message."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tfx_gnn_pipelines.command import app

PAGE = Path(__file__).parents[2] / "docs" / "misconfigurations.md"
COMPILE = "--compile-only --image registry.example/n:1"
PLACES = {"kubeflow": "--push-to gs://bucket/serving", "vertex": "--root gs://bucket/root"}


def rows(num_columns):
    """Cells of the tables with so many columns, without their headings."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if len(row) == num_columns and row[0] not in ("options", "service")]


def printed(*arguments):
    result = CliRunner().invoke(app, ["debian_sections", *arguments])
    assert result.exit_code in (1, 2), result.output
    return " ".join(re.sub("[│╭╮╰╯─]", " ", result.output).split())


def assert_message(expected, output):
    """Parts between ellipses must follow one another."""
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), output), output


def test_there_are_thirty():
    assert len(rows(2)) + len(rows(3)) >= 30


@pytest.mark.parametrize(("options", "message"), rows(2))
def test_options_are_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)

    output = printed(*shlex.split(options.strip("`").replace("COMPILE", COMPILE)))

    assert_message(message, output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("service", "text", "message"), rows(3))
def test_resources_are_refused(tmp_path, monkeypatch, service, text, message):
    monkeypatch.chdir(tmp_path)
    Path("resources.yaml").write_text(text.strip("`"), encoding="utf-8")

    output = printed("--runner", service, *shlex.split(f"{COMPILE} {PLACES[service]}"), "--resources", "resources.yaml")

    assert_message(message, output)
    assert [path.name for path in tmp_path.iterdir()] == ["resources.yaml"]

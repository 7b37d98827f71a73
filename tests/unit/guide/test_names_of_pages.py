"""The names and commands that pages mention exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import typer.main

import tfx_gnn
from tfx_gnn.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "templates" / "starter" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Blocks that are indented, and those that are marked as shell.
_CODE = re.compile(r"^```shell\n([\s\S]*?)^```$|^(    .*\n)", re.MULTILINE)
_COMMAND = re.compile(r"^ *(?:\S*/)?(tfx-gnn (?:.*\\\n)*.*)$", re.MULTILINE)


def command_of(words):
    """The command that a line names, and the words after it."""
    command = typer.main.get_command(app)
    while hasattr(command, "list_commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist_with_their_options(page):
    unknown = []
    code = "".join(fenced or indented for fenced, indented in _CODE.findall(page.read_text()))
    for line in _COMMAND.findall(code):
        command, words = command_of(line.replace("\\\n", "").split("#")[0].split()[1:])
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        flags = [word.split("=")[0] for word in words if word.startswith("--")]
        unknown += [f"{line}: {flag}" for flag in flags if flag not in known | {"--help", "--help-all"}]
        if hasattr(command, "list_commands") and words and not flags:
            unknown.append(f"{line}: no command {words[0]}")

    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_graphs_on_a_page_exist(page):
    missing = []
    for name in sorted(set(re.findall(r"\btfgnn((?:\.\w+)+)", page.read_text()))):
        try:
            functools.reduce(getattr, name[1:].split("."), tfx_gnn)
        except AttributeError:
            missing.append(name)

    assert missing == []

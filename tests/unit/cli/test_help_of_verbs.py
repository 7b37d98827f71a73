from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.io.folded_help import folded_parameters
from tfx_gnn_pipelines.config import step_names

MOST_LINES = 60


def _commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


PROGRAM = get_command(app)
COMMANDS = dict(_commands(PROGRAM))


@pytest.fixture
def shown(monkeypatch, capsys):
    """Runs a command line in 80 columns, or as many as asked; the commands are made once, as `CliRunner` would not."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", None)
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", None)

    def run(*words, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        assert PROGRAM.main([*words], prog_name="tfx-gnn", standalone_mode=False) in (0, None)
        return capsys.readouterr().out

    return run


def test_help_of_every_command_fits_a_screen(shown):
    lengths = {" ".join(path): len(shown(*path, "--help").splitlines()) for path in COMMANDS}

    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_help_all_of_every_command_names_every_parameter(shown):
    missing = []
    for path, command in COMMANDS.items():
        text = shown(*path, "--help-all", width=200)
        for parameter in command.params:
            is_argument = parameter.param_type_name == "argument"
            name = (parameter.metavar or parameter.name) if is_argument else parameter.opts[0]
            missing += [] if name in text else [f"{' '.join(path)}: {name}"]

    assert missing == []


def test_program_lists_each_command_in_one_line(shown):
    lines = shown("--help").splitlines()

    for path, command in COMMANDS.items():
        if len(path) == 1:
            assert [line for line in lines if line.startswith(f"│ {path[0]} ") and command.short_help in line], path


def test_what_is_folded_is_optional_and_of_a_step_that_projects_have():
    for path, command in COMMANDS.items():
        for name, mark in folded_parameters(command).items():
            (parameter,) = (one for one in command.params if one.name == name)
            assert not parameter.required, (path, name)
            assert not mark.step or mark.step in step_names(), (path, name)


def test_folded_help_ends_with_how_many_more_there_are(shown):
    folded = folded_parameters(COMMANDS[("train",)])

    last = f"{len(folded)} more options: tfx-gnn train --help-all; tfx-gnn options graph_trainer"
    assert shown("train", "--help").split("╯")[-1].strip() == last
    assert "--jit-compile" not in shown("train", "--help")
    assert "--num-epochs" in shown("train", "--help")


def test_exit_codes_are_in_the_whole_help_of_the_program(shown):
    assert "Exit codes:" not in shown("--help")
    assert "Exit codes:" in shown("--help-all")
    assert "--version" in shown("--help-all")


def test_misspelled_folded_options_are_suggested():
    result = CliRunner().invoke(app, ["train", "--jit-compil"])

    assert result.exit_code == 2
    assert "--jit-compile" in result.output


def test_shells_complete_folded_options():
    environment = {"COMP_WORDS": "tfx-gnn train --jit", "COMP_CWORD": "2", "_TFX_GNN_COMPLETE": "complete_bash"}

    completed = CliRunner().invoke(app, [], prog_name="tfx-gnn", env=environment)

    assert completed.stdout.split() == ["--jit-compile"]

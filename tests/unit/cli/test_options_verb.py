from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli import app


def _options(*words):
    return CliRunner().invoke(app, ["options", *words])


def _found(*words):
    result = _options(*words, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_group_is_listed():
    assert {entry["name"].split(".")[0] for entry in _found("graph_pusher")} == {"graph_pusher"}


@pytest.mark.parametrize("words", [("early", "stopping"), ("Early Stopping",), ("early-stopping-patience",)])
def test_options_are_found_by_words_of_their_names(words):
    assert [entry["name"] for entry in _found(*words)] == [
        "early_stopping_patience",
        "graph_trainer.early_stopping_patience",
    ]


def test_names_come_first_and_the_last_line_counts():
    names = [entry["name"] for entry in _found("dropout")]
    shown = _options("dropout").stdout

    by_name = [name for name in names if "dropout" in name]
    assert names[: len(by_name)] == by_name
    assert "graph_trainer.training_seed" in names[len(by_name) :]
    last = shown.splitlines()[-1]
    assert last.startswith(f"Found {len(names)} of ")
    assert last.endswith(f" options: {len(by_name)} by name, {len(names) - len(by_name)} by meaning.")


def test_hyperparameters_say_which_networks_take_them():
    found = {entry["name"]: entry["meaning"] for entry in _found("num_bases")}

    assert found["graph_trainer.hyperparameters.num_bases"].endswith("Taken by rgcn.")


def test_all_words_must_be_there():
    names = [entry["name"] for entry in _found("graph_trainer", "learning", "rate")]

    assert "graph_trainer.optimization.learning_rate" in names
    assert all(name.startswith("graph_trainer.") for name in names)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("dropuot",), "got 'dropuot'. Did you mean 'dropout'"),
        (("graph_traner",), "Did you mean 'graph_trainer'"),
        (("batch", "dropout", "quantiles"), "got 'batch dropout quantiles'. Give fewer or other words."),
    ],
)
def test_nothing_found_is_an_error_with_advice(words, advice):
    result = _options(*words)

    assert result.exit_code == 2
    assert advice in result.stderr

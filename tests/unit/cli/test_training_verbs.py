from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.components.graph_tuner.search_space import Choice
from tfx_gnn.components.graph_tuner.trials import Trial, TuningSummary, write_tuning_summary
from tfx_gnn.components.graph_tuner.tuning_report import render_tuning_report

FOLDERS = [
    *("--transformed-examples-dir", "t", "--transform-graph-dir", "g", "--graph-schema-dir", "s"),
    *("--transformed-graph-schema-dir", "u", "--size-constraints-dir", "z", "--best-hyperparameters-dir", "b"),
    *("--model-fn", "nowhere:model_fn", "--label-feature", "color", "--class-vocabulary", "colors"),
]
SPACE = '{"units": {"kind": "choice", "values": [8, 16]}}'


def _run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_page_is_written_anew_from_its_figures(tmp_path):
    trial = Trial(
        number=0,
        hyperparameters={"units": 8},
        state="complete",
        value=0.5,
        exported_epoch=1,
        epochs=({"loss": 1.0, "val_loss": 0.5},),
        objective_by_epoch=(0.5,),
        num_parameters=3,
        seconds=1.0,
    )
    summary = TuningSummary(
        model_fn="my.model:model_fn",
        objective="val_loss",
        maximizes=False,
        sampler="grid",
        pruner="none",
        num_epochs=1,
        search_space={"units": Choice(values=(8, 16))},
        fixed={},
        trials=(trial,),
        best_trial=0,
    )
    write_tuning_summary(summary, str(tmp_path))

    done = _run("report", str(tmp_path), "--output", str(tmp_path / "new" / "page.html"))
    again = _run("report", str(tmp_path))

    assert (done.exit_code, again.exit_code) == (0, 0), done.output + again.output
    assert str(tmp_path / "report.html") in again.output.replace("\n", "")
    pages = [(tmp_path / name).read_text() for name in ("new/page.html", "report.html")]
    assert pages == [render_tuning_report(summary)] * 2


def test_a_folder_without_figures_is_named(tmp_path):
    done = _run("report", str(tmp_path))

    assert done.exit_code == 2
    assert "must hold training_summary.json" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--search-space", "units"], "`--search-space` must be JSON that describes"),
        (
            ["--search-space", '{"units": {"kind": "int", "low": 0.5, "high": 2}}'],
            "`units.low` must be an integer; got 0.5 in `--search-space`",
        ),
        (["--search-space", SPACE, "--trainer-json", '{"num_epochs": 3}'], "got ['num_epochs']. Remove them from it."),
        (
            ["--search-space", SPACE, "--trainer-json", '{"batch": 3}'],
            "; got ['batch']. Did you mean 'batching'?",
        ),
        (
            ["--search-space", SPACE, "--trainer-json", '{"batching": {"batch_size": "many"}}'],
            "`batching.batch_size` must be an integer; got 'many' in `--trainer-json`",
        ),
        (["--search-space", SPACE, "--trainer-json", "[]"], "`--trainer-json` must be a JSON object"),
        (["--search-space", SPACE], "must name an importable module; got 'nowhere:model_fn'"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)

    done = _run("tune", *FOLDERS, *arguments)

    assert done.exit_code == 2
    assert message in done.output
    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

import pytest

from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange
from tfx_gnn.components.graph_tuner.trials import Trial, TuningSummary
from tfx_gnn.components.graph_tuner.tuning_report import describe_range, render_tuning_report

ODD = '<script>alert("x")</script>& {{ x }} $\\frac{'


def made_trial(number, value, *, state="complete", error="", **hyperparameters):
    curve = (0.9, value) if value is not None else (0.95,)
    return Trial(
        number=number,
        hyperparameters=hyperparameters,
        state=state,
        value=value,
        exported_epoch=2 if value is not None else 0,
        epochs=tuple({"loss": one, "val_loss": one} for one in curve),
        objective_by_epoch=curve,
        num_parameters=1000 * (number + 1),
        seconds=30.0,
        error=error,
    )


def made_summary(trials, space, **fields):
    defaults = {
        "model_fn": "my.model:model_fn",
        "objective": "val_loss",
        "maximizes": False,
        "sampler": "tpe",
        "pruner": "median",
        "num_epochs": 2,
        "search_space": space,
        "fixed": {"dropout": 0.5},
        "trials": tuple(trials),
        "best_trial": 1,
    }
    return TuningSummary(**{**defaults, **fields})


@pytest.fixture(scope="module")
def summary():
    trials = [
        made_trial(0, 0.75, rate=0.001, units=8, kind="mean"),
        made_trial(1, 0.25, rate=0.0123456, units=32, kind=None),
        made_trial(2, None, state="pruned", rate=0.1, units=16, kind="mean"),
        made_trial(3, None, state="failed", error="ValueError: bad", rate=0.5, units=16, kind="mean"),
    ]
    space = {
        "rate": FloatRange(low=1e-4, high=1.0, log=True),
        "units": IntRange(low=8, high=64, step=8),
        "kind": Choice(values=("mean", None, [1])),
    }
    return made_summary(trials, space)


def test_the_page_shows_the_best_values_all_trials_and_their_errors(summary, read_page):
    page = render_tuning_report(summary)

    read = read_page(page)
    text = " ".join(read.text.split())
    best, trials = read.tables
    assert best == [
        ["hyperparameter", "best", "searched"],
        ["kind", "null", "mean, null, [1]"],
        ["rate", "0.01235", "0.0001 to 1, logarithmic"],
        ["units", "32", "8 to 64, in steps of 8"],
        ["dropout", "0.5", "fixed"],
    ]
    assert trials[1:] == [
        ["1 (best)", "0.2500", "null", "0.01235", "32", "2,000", "2", "30 s"],
        ["0", "0.7500", "mean", "0.001", "8", "1,000", "2", "30 s"],
        ["2", "pruned", "mean", "0.1", "16", "3,000", "1", "30 s"],
        ["3", "failed", "mean", "0.5", "16", "4,000", "1", "30 s"],
    ]
    assert "4 trials, 2 complete, 1 pruned, 1 failed; 2 min 0 s." in text
    assert "Trial 1 had the smallest val_loss, 0.2500, in epoch 2." in text
    assert "ValueError: bad" in text
    assert page.count("<svg") == page.count('role="img"') == 5
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert render_tuning_report(summary) == page


def test_one_trial_with_odd_names_is_shown_as_it_is(read_page):
    space = {ODD: Choice(values=(ODD, 1))}
    summary = made_summary(
        [made_trial(0, 1e-9, **{ODD: ODD})], space, best_trial=0, maximizes=True, fixed={}, model_fn=ODD
    )

    read = read_page(render_tuning_report(summary))

    assert "script" not in read.tags
    assert read.text.count(ODD) >= 5
    assert "Trial 0 had the largest" in " ".join(read.text.split())


def test_the_best_come_first_whatever_is_better(summary):
    assert [trial.number for trial in summary.best_first()] == [1, 0, 2, 3]
    assert summary.best_hyperparameters == {"dropout": 0.5, "rate": 0.0123456, "units": 32, "kind": None}


def test_ranges_are_told_in_words():
    assert describe_range(IntRange(low=1, high=8, log=True)) == "1 to 8, logarithmic"
    assert describe_range(FloatRange(low=0.0, high=0.5)) == "0 to 0.5"

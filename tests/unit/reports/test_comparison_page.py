from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tfx_gnn.reports.comparison_page import compare_runs, identical_results, name_runs, render_comparison_page
from tfx_gnn.reports.option_differences import differing_options
from tfx_gnn.reports.paired_metrics import PairedMetric, PairedTask
from tfx_gnn.reports.run_contents import read_contents


@pytest.fixture
def pair(tmp_path, folders, make_run, write_artifacts):
    """Two runs; the second has another option, split, feature and accuracy, and no slices."""
    other = write_artifacts(tmp_path)
    metrics = Path(other["GraphEvaluator"]["evaluation"], "metrics.json")
    content = json.loads(metrics.read_text())
    content |= {"accuracy": 0.5, "rmse": 2.0, "slices": []}
    content["per_class"]["b"]["f1"] = 0.9
    metrics.write_text(json.dumps(content))
    examples = Path(other["SubgraphExampleGen"]["examples"])
    (examples / "statistics.json").write_text('{"statistics": {"num_subgraphs": {"test": 1, "train": 4}}}')
    schema = tmp_path / "schema"
    schema.mkdir()
    (schema / "schema.pbtxt").write_text('feature { name: "context/year" type: INT }')
    second = make_run(other, root="runs/other")
    steps = [dataclasses.replace(step, options={**step.options, "nested": {"rate": 0.2}}) for step in second.steps[:1]]
    second = dataclasses.replace(second, steps=(*steps, *second.steps[1:]))
    return name_runs(
        [
            (make_run(folders), read_contents(folders)),
            (second, read_contents({**other, "GraphSchemaGen": {"schema": str(schema)}})),
        ]
    )


def test_what_differs_is_found_and_nothing_else(pair):
    comparison = compare_runs(pair)

    assert [(row.names, row.values) for row in comparison.options] == [
        (("SubgraphExampleGen", "nested.rate"), ("0.1", "0.2")),
    ]
    assert [(row.names, row.values) for row in comparison.data] == [
        (("examples", "train"), ("3", "4")),
        (("feature", "context/year"), ("\u2013", "integer")),
    ]


def test_differences_of_metrics_are_from_the_first_run_and_without_a_test_no_gain_or_loss(pair):
    comparison = compare_runs(pair)

    rows = {row.names: row for row in comparison.metrics}
    assert rows["", "accuracy"].deltas == (0.0, -0.25)
    assert rows["", "accuracy"].moods == ("plain", "plain")
    assert rows["", "accuracy"].tests == (None, None)
    assert rows["", "rmse"].values == (None, 2.0)
    assert rows["", "rmse"].deltas == (None, None)
    assert not identical_results(comparison)
    best = comparison.classes[0]
    assert (best.names, best.deltas[1], best.moods[1]) == (("", "b"), pytest.approx(0.1), "plain")
    assert {row.names[3]: row.values for row in comparison.slices} == {"accuracy": (0.75, None)}


def _tested(pair, *metrics, **counts):
    first, second = pair
    paired = PairedTask(first=(4, 4), other=(4, 4), num_common=4, num_replicas=2000, metrics=metrics, **counts)
    return [first, dataclasses.replace(second, paired={"": paired})]


def _test(metric, lower, upper, p_value=0.01, test="bootstrap"):
    return PairedMetric(
        metric=metric, difference=(lower + upper) / 2, lower=lower, upper=upper, p_value=p_value, test=test
    )


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        (_test("accuracy", 0.01, 0.05), "gain"),
        (_test("accuracy", -0.05, -0.01), "loss"),
        (_test("rmse", -0.05, -0.01), "gain"),
        (_test("rmse", 0.01, 0.05), "loss"),
        (_test("accuracy", -0.01, 0.05), "no clear difference"),
        (_test("accuracy", 0.0, 0.05), "no clear difference"),
        # The interval leaves 0 out, and McNemar's test disagrees: too few examples differ.
        (_test("accuracy", 0.01, 0.05, p_value=0.0625), "no clear difference"),
        (
            PairedMetric(metric="mae", difference=-9.0, lower=None, upper=None, p_value=0.0, test=""),
            "no clear difference",
        ),
    ],
)
def test_a_gain_has_an_interval_without_0_and_a_p_value_below_5_percent(test, verdict):
    assert test.verdict == verdict


def test_marks_are_those_of_paired_tests_and_the_notes_say_what_was_tested(pair):
    runs = _tested(pair, _test("accuracy", -0.5, -0.01, test="exact McNemar"), num_other_labels=1)

    comparison = compare_runs(runs)
    page = render_comparison_page(runs, comparison)

    (accuracy,) = (row for row in comparison.metrics if row.names[1] == "accuracy")
    assert accuracy.moods == ("plain", "bad")
    assert '<span class="mark bad">loss</span>' in page
    assert "[\u22120.5000, \u22120.0100]" in page
    assert list(comparison.notes) == [
        "4 examples are common, of 4 of task and 4 of other. Left out: 1 example with another label.",
        (
            "Accuracy has the p value of the exact McNemar test, other metrics have that of a paired bootstrap of "
            "2,000 replicas, which also gives the 95% intervals. A gain or a loss has an interval without 0 and "
            "p < 0.05."
        ),
        (
            "1 difference was tested. The p values are not corrected for their number: where there is no difference, "
            "1 test in 20 finds one."
        ),
    ]


def test_why_nothing_was_tested_and_how_many_predictions_were_kept_is_said(pair):
    first, second = pair
    untested = dataclasses.replace(second, paired={"": PairedTask(reason="no example is common")})
    kept = dataclasses.replace(
        second, paired={"": PairedTask(num_common=1, first=(2, 9), other=(3, 3), metrics=(_test("accuracy", 0, 1),))}
    )

    (reason,) = compare_runs([first, untested]).notes
    counts = compare_runs([first, kept]).notes[0]

    assert reason == "The metrics of other are not tested: no example is common."
    assert counts == (
        "1 example is common, of 2 of task and 3 of other. Of 9 examples, task kept the 2 with the smallest hashes."
    )


def test_defaults_are_shown_where_a_run_has_them_or_does_not_set_the_option(folders, make_run):
    run = make_run(folders)
    (step,) = (step for step in run.steps if step.component == "GraphTrainer")
    sage = {"model_fn": "tfx_gnn.models.model_fns:graph_sage"}

    def with_options(**options):
        return dataclasses.replace(run, steps=(dataclasses.replace(step, options={**sage, **options}),))

    rows = differing_options(
        [
            with_options(num_epochs=10, hyperparameters={}, monitor=""),
            with_options(num_epochs=5, hyperparameters={"learning_rate": 0.01, "own": 1}, monitor="val_loss"),
            with_options(hyperparameters={"learning_rate": 0.001}, monitor=""),
            dataclasses.replace(run, steps=()),
        ],
        {"GraphTrainer": {"num_epochs": 10, "monitor": ""}}.__getitem__,
    )

    assert {row.names[1]: row.values for row in rows} == {
        "whole step": ("ran", "ran", "ran", "did not run"),
        "num_epochs": ("10 (default)", "5", "10 (default)", "\u2013"),
        "monitor": ("empty (default)", "val_loss", "empty (default)", "\u2013"),
        "hyperparameters.learning_rate": ("0.001 (default)", "0.01", "0.001 (default)", "\u2013"),
        "hyperparameters.own": ("not set", "1", "not set", "\u2013"),
    }


def test_the_same_run_twice_has_two_titles(folders, make_run):
    contents, run = read_contents(folders), make_run(folders)

    assert [one.title for one in name_runs([(run, contents), (run, contents)])] == ["task", "task (2)"]


@pytest.mark.parametrize(("seconds", "mood"), [(10.9, "plain"), (11.4, "plain"), (12.0, "bad"), (8.0, "good")])
def test_seconds_that_differ_by_chance_have_no_mood(pair, seconds, mood):
    first, second = pair
    timed = [
        dataclasses.replace(
            one,
            run=dataclasses.replace(one.run, steps=(dataclasses.replace(one.run.steps[0], seconds=value),)),
        )
        for one, value in ((first, 10.0), (second, seconds))
    ]

    (row,) = compare_runs(timed).seconds

    assert row.moods[1] == mood


def test_the_page_shows_both_runs_and_hostile_names_stay_text(pair, hostile):
    page = render_comparison_page(pair, compare_runs(pair))

    assert page.count("<script") == 1
    assert "<img" not in page
    assert "\u22120.2500" in page
    assert "nested.<wbr>rate" in page
    assert "not tested" in page


def test_runs_of_equal_names_are_told_apart(folders, make_run):
    contents = read_contents(folders)
    runs = [make_run(folders, root=root) for root in ("a/task", "b/task")]

    assert [one.title for one in name_runs([(run, contents) for run in runs])] == ["a/task", "b/task"]


def test_a_run_that_failed_early_can_be_compared(folders, make_run):
    early = make_run({}, failed="SubgraphExampleGen")
    runs = name_runs([(early, read_contents({})), (make_run(folders, root="runs/b"), read_contents(folders))])

    page = render_comparison_page(runs, compare_runs(runs))

    assert "task has no evaluation, so no difference is tested." in page
    assert "Failed in SubgraphExampleGen." in page
    curves = page.partition('id="curves"')[2].partition("</section>")[0]
    assert "b</bdi>" in curves
    assert "task</bdi>" not in curves

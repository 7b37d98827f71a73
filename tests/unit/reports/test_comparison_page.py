from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tfx_gnn.reports.comparison_page import compare_runs, identical_results, name_runs, render_comparison_page
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
    schema = examples / "graph_schema.pbtxt"
    schema.write_text(schema.read_text() + 'context { features { key: "year" value { dtype: DT_INT64 } } }')
    second = make_run(other, root="runs/other")
    steps = [dataclasses.replace(step, options={**step.options, "nested": {"rate": 0.2}}) for step in second.steps[:1]]
    second = dataclasses.replace(second, steps=(*steps, *second.steps[1:]))
    return name_runs([(make_run(folders), read_contents(folders)), (second, read_contents(other))])


def test_what_differs_is_found_and_nothing_else(pair):
    comparison = compare_runs(pair)

    assert [(row.names, row.values) for row in comparison.options] == [
        (("SubgraphExampleGen", "nested.rate"), ("0.1", "0.2")),
    ]
    assert [(row.names, row.values) for row in comparison.data] == [
        (("examples", "train"), ("3", "4")),
        (("context", "year"), ("\u2013", "int64")),
    ]


def test_differences_of_metrics_are_from_the_first_run_and_know_which_way_is_better(pair):
    comparison = compare_runs(pair)

    rows = {row.names: row for row in comparison.metrics}
    assert rows["", "accuracy"].deltas == (0.0, -0.25)
    assert rows["", "accuracy"].moods == ("plain", "bad")
    assert rows["", "rmse"].values == (None, 2.0)
    assert rows["", "rmse"].deltas == (None, None)
    assert not identical_results(comparison)
    best = comparison.classes[0]
    assert (best.names, best.deltas[1], best.moods[1]) == (("", "b"), pytest.approx(0.1), "good")
    assert {row.names[3]: row.values for row in comparison.slices} == {"accuracy": (0.75, None)}


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
    page = render_comparison_page(pair)

    assert page.count("<script") == 1
    assert "<img" not in page
    assert "\u22120.2500" in page
    assert "nested.<wbr>rate" in page
    assert "one standard error of the accuracy is 0.217" in page


def test_runs_of_equal_names_are_told_apart(folders, make_run):
    contents = read_contents(folders)
    runs = [make_run(folders, root=root) for root in ("a/task", "b/task")]

    assert [one.title for one in name_runs([(run, contents) for run in runs])] == ["a/task", "b/task"]


def test_a_run_that_failed_early_can_be_compared(folders, make_run):
    early = make_run({}, failed="SubgraphExampleGen")
    runs = name_runs([(early, read_contents({})), (make_run(folders, root="runs/b"), read_contents(folders))])

    page = render_comparison_page(runs)

    assert "Failed in SubgraphExampleGen." in page
    curves = page.partition('id="curves"')[2].partition("</section>")[0]
    assert "b</bdi>" in curves
    assert "task</bdi>" not in curves

from __future__ import annotations

import dataclasses
import html.parser
import json
from pathlib import Path

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.records.warning_kinds import LOOSE_BOUND
from tfx_gnn.reports.outcome import outcome_of
from tfx_gnn.reports.report_page import script_hash
from tfx_gnn.reports.run_contents import read_contents
from tfx_gnn.reports.run_page import not_started, render_run_page
from tfx_gnn.reports.statistics_files import Distance, SplitDistances


class _Reader(html.parser.HTMLParser):
    """Collects elements, their attributes and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts, self.scripts = [], [], [], []
        self.is_script = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.is_script = tag == "script"
        if self.is_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.is_script = False

    def handle_data(self, data):
        if self.is_script:
            self.scripts[-1] += data
        else:
            self.texts.append(data)


@pytest.fixture(scope="session")
def page(folders, make_run):
    return render_run_page(make_run(folders), read_contents(folders))


def test_figures_of_all_artifacts_are_on_the_page(page):
    text = " ".join(" ".join(_Reader(page).texts).split())

    for figure in (
        "Pushed as version 7.",
        "1,234 parameters",
        "Overfitting after epoch 2",
        "0.7500",
        "0.5000",
        "Expected calibration error 0.125",
        "overconfident by 0.125",
        "label_copy",
        "2 KiB",
        "8 graphs in 1 min 1 s",
        "66.7%",
        "paper to paper",
        "0.2500 to 0.9688",
        "95% intervals are from a bootstrap of 4 examples.",
        "0.6875 +0.0625 0.0312 to 0.1250",
        "0.6250 +0.1250 -0.0625 to 0.3125",
        "alone; on 8 training and 4 evaluated examples, 95% interval.",
        "(2, 4]",
        "0.3750 to 0.9375 too few examples",
    ):
        assert figure in text


def test_span_of_the_tables_is_named(folders, make_run):
    run = make_run(folders)
    (examples, *outputs), (first, *steps) = run.steps[0].outputs, run.steps
    examples = dataclasses.replace(examples, properties={"span_name": "2026-01-31"})
    run = dataclasses.replace(run, steps=(dataclasses.replace(first, outputs=(examples, *outputs)), *steps))

    texts = _Reader(render_run_page(run, read_contents(folders))).texts

    assert {"span of the tables", "2026-01-31"} <= {text.strip() for text in texts}


def test_hostile_names_stay_text(page, hostile):
    reader = _Reader(page)

    assert reader.tags.count("script") == 2
    assert "img" not in reader.tags
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert sum(hostile in text for text in reader.texts) > 15
    assert "alert(1)" not in reader.scripts[-1]


def test_drawn_examples_can_be_read_back_from_the_page(page, hostile):
    (example, *_) = json.loads(_Reader(page).scripts[0])

    assert example["labels"] == [["kind", hostile[:59] + "\u2026"]]
    assert example["sets"] == [
        {"name": "paper", "size": 2, "features": {"#id": ["first", hostile[:59] + "\u2026"]}},
    ]
    assert example["edges"] == [{"name": "cites", "source": 0, "target": 0, "s": [0], "t": [1]}]
    assert example["seeds"] == [[0, 1]]


def test_the_policy_allows_this_script_alone_and_no_network(page):
    script = _Reader(page).scripts[-1]

    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert f"script-src '{script_hash(script)}'" in policy.replace("&#39;", "'")
    assert "default-src 'none'" in policy
    assert "://" not in page.replace("http://www.w3.org/", "")  # names of SVG's namespaces


def test_equal_runs_give_equal_pages(page, folders, make_run):
    assert render_run_page(make_run(folders), read_contents(folders)) == page


def test_a_failed_run_says_where_and_why_and_what_did_not_start(folders, make_run, hostile):
    made = {name: folders[name] for name in ("SubgraphExampleGen", "GraphExampleValidator")}
    run = make_run(made, failed="GraphTransform")
    contents = read_contents(run.folders())

    outcome = outcome_of(run, contents.files)
    text = " ".join(_Reader(render_run_page(run, contents)).texts)

    assert (outcome.mood, outcome.title, outcome.text) == ("bad", "Failed in GraphTransform.", hostile)
    assert not_started(run)[:3] == ["GraphSchemaGen", "SizeConstraintLearner", "GraphTrainer"]
    assert "There is no summary of GraphTrainer in this run." in text
    assert "There is no evaluation in this run." in text


def test_a_cached_push_is_not_told_as_a_new_one_and_a_lost_version_is_named(tmp_path, write_artifacts, make_run):
    folders = write_artifacts(tmp_path)
    path = Path(folders["GraphPusher"]["pushed_model"], "pushed_version.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "path": str(tmp_path / "serving" / "7")}))
    run = make_run(folders)
    run = dataclasses.replace(run, steps=tuple(dataclasses.replace(step, state="cached") for step in run.steps))

    outcome = outcome_of(run, read_contents(folders).files)

    assert outcome.title == "Nothing new: an earlier run pushed version 7."
    assert outcome.text == f"{tmp_path / 'serving' / '7'} is gone since."


def test_a_model_that_was_pushed_before_is_named(tmp_path, write_artifacts, make_run):
    folders = write_artifacts(tmp_path)
    path = Path(folders["GraphPusher"]["pushed_model"], "pushed_version.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "identical_to": 3}))

    outcome = outcome_of(make_run(folders), read_contents(folders).files)

    assert outcome.title == "Pushed as version 7, identical to version 3."


def test_a_run_without_any_artifact_has_a_page(make_run):
    run = make_run({}, failed="SubgraphExampleGen")

    page = render_run_page(run, read_contents({}))

    assert "There are no examples to draw." in page
    assert "Failed in SubgraphExampleGen." in page


@pytest.fixture
def evaluation_page(tmp_path, make_run):
    """Renders the page of a run that made nothing but an evaluation."""

    def render(**task):
        (tmp_path / "metrics.json").write_text(
            json.dumps({"split": "test", "blessed": True, "reasons": [], "objections": [], "num_examples": 4, **task})
        )
        folders = {"GraphEvaluator": {"evaluation": str(tmp_path)}}
        return render_run_page(make_run(folders), read_contents(folders))

    return render


def test_residuals_are_drawn_by_target_and_the_largest_are_listed(evaluation_page, hostile):
    bins = [{"low": -0.5, "high": -0.25, "num_examples": 1}, {"low": 7.0, "high": 7.25, "num_examples": 3}]
    page = evaluation_page(
        kind="regression",
        rmse=6.25,
        residuals=[{"target": 0, "bins": []}, {"target": 1, "bins": bins}],
        largest_residuals=[{"id": hostile, "target": 1, "label": 1234.5, "prediction": 1227.5, "residual": 7.0}],
    )

    reader = _Reader(page)
    text = " ".join(" ".join(reader.texts).split())
    assert "Shown are 1 of 2 targets. Target 1 Of 4 examples, the label is below the prediction in 25.0%" in text
    assert f"Largest residuals id target label prediction residual {hostile} 1 1,234.500 1,227.500 7.000 " in text
    assert page.count("Examples by residual") == 1
    assert "img" not in reader.tags


def test_ranks_are_drawn_and_the_lowest_are_listed(evaluation_page, hostile):
    bins = [
        {"low": 1, "high": 1, "num_pairs": 3, "num_by_chance": 0.25},
        {"low": 2, "high": 2, "num_pairs": 0, "num_by_chance": 0.25},
        {"low": 3, "high": 4, "num_pairs": 1, "num_by_chance": 3.5},
    ]
    low = {"source": hostile, "target": "t", "rank": 2.5, "num_candidates": 1200, "score": -0.5, "best_score": 1.25}

    page = evaluation_page(kind="link_prediction", mrr=0.5, ranks=bins, worst_ranks=[low])

    reader = _Reader(page)
    text = " ".join(" ".join(reader.texts).split())
    assert "Of 4 true pairs, 3 rank first; in a random order 0.25 would on average." in text
    assert f"source true target rank candidates score best score {hostile} t 2.5 1,200 -0.500 1.250 " in text
    assert page.count("True pairs by rank</title>") == 1
    assert "img" not in reader.tags


def test_names_of_warnings_show_what_they_mean(evaluation_page, hostile):
    warnings = [LOOSE_BOUND.mark(hostile), f"{hostile} [of_another_version]", hostile]

    page = evaluation_page(kind="regression", warnings=warnings)

    text = " ".join(" ".join(_Reader(page).texts).split())
    mark = f'<abbr title="{LOOSE_BOUND.meaning} {LOOSE_BOUND.remedy}">[loose_bound]</abbr>'.replace("`", "")
    # At the top, and beside the evaluation.
    assert page.count(mark) == 2
    assert text.count(f"{hostile} [of_another_version]") == 2
    assert "img" not in _Reader(page).tags
    assert "explains each name" in text
    assert "explains each name" not in evaluation_page(kind="regression", warnings=[hostile])


def test_a_single_target_has_no_number(evaluation_page):
    page = evaluation_page(
        kind="regression", residuals=[{"target": 0, "bins": [{"low": 0.0, "high": 1.0, "num_examples": 4}]}]
    )

    assert "Examples by residual" in page
    assert "Target 0" not in page
    assert "Largest residuals" not in page


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "must be a JSON file"),
        ("[]", "must be an object; got a list"),
        ('{"split": "test"}', "`blessed` must be there"),
    ],
)
def test_damaged_files_are_named(tmp_path, write_artifacts, content, problem):
    folders = write_artifacts(tmp_path)
    path = Path(folders["GraphEvaluator"]["evaluation"], "metrics.json")
    path.write_text(content)

    contents = read_contents(folders)

    (found,) = contents.problems
    assert str(path) in found
    assert "\n" not in found
    assert problem in found


def test_missing_files_are_named_and_the_rest_is_shown(tmp_path, write_artifacts, make_run):
    folders = write_artifacts(tmp_path)
    path = Path(folders["GraphTrainer"]["model_run"], "training_summary.json")
    path.unlink()

    contents = read_contents(folders)

    assert contents.problems == (f"GraphTrainer has no training_summary.json: {path} is missing.",)
    page = render_run_page(make_run(folders), contents)
    assert "There is no summary of GraphTrainer in this run." in page
    assert "version 7." in page


def test_features_have_their_splits_beside_each_other_and_distances_that_are_too_high(make_run, folders, hostile):
    dataset = statistics_pb2.DatasetFeatureStatistics(num_examples=4)
    feature = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    feature.path.step.append("nodes/paper.topic")
    feature.string_stats.common_stats.num_non_missing = 3
    feature.string_stats.common_stats.tot_num_values = 4
    feature.string_stats.unique = 2
    for text, number in ((hostile, 3), ("b", 1)):
        feature.string_stats.top_values.add(value=text, frequency=number)
        feature.string_stats.rank_histogram.buckets.add(label=text, sample_count=number)
    drift = {"nodes/paper.topic": Distance(measure="L-infinity", value=0.75, threshold=0.5)}
    contents = dataclasses.replace(
        read_contents(folders),
        statistics={"train": dataset, "test": dataset},
        distances={"train": SplitDistances(drift=drift)},
    )

    page = render_run_page(make_run(folders), contents)

    part = page[page.index("<h3>Features by split</h3>") : page.index('<section aria-labelledby="checks"')]
    assert hostile not in page
    assert 'rowspan="2"><bdi>topic</bdi>' in part
    assert part.count("<rect") == 4
    assert part.count("<title>b: 25.0%</title>") == 2
    assert part.count("0.750 high, allowed 0.5") == 1
    assert part.count('1 <span class="muted">25.0%</span>') == 2

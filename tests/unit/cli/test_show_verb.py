from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.kept_predictions import KeptPredictions, write_predictions
from tfx_gnn.reports.paired_metrics import p_value_words

METRICS = {"split": "test", "blessed": True, "reasons": [], "objections": [], "kind": "regression", "num_examples": 2}


def _root(folder: Path, rmse: float) -> str:
    evaluation = folder / "artifacts" / "GraphEvaluator" / "evaluation" / "3"
    evaluation.mkdir(parents=True)
    (evaluation / "metrics.json").write_text(json.dumps({**METRICS, "rmse": rmse}))
    return str(folder)


def _run(*arguments: str, exit_code: int = 0) -> Any:
    shown = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "120"})
    assert shown.exit_code == exit_code, shown.output
    return shown.stdout


def test_show_writes_a_page_into_the_root_and_tells_what_it_found(tmp_path: Path) -> None:
    root = _root(tmp_path, 0.25)

    found = json.loads(_run("show", root, "--json"))

    assert found["metrics"] == {"": {"rmse": 0.25}}
    assert found["page"] == str(tmp_path / "index.html")
    assert "0.2500" in (tmp_path / "index.html").read_text()


def test_show_takes_the_newest_run_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _root(tmp_path / "runs" / "task", 0.25)
    monkeypatch.chdir(tmp_path)

    shown = _run("show", "--no-open", "--output", "page.html")

    assert shown.split() == ["page", "page.html"]
    assert "<title>task</title>" in (tmp_path / "page.html").read_text()


def test_without_a_display_no_browser_takes_the_terminal_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")

    assert "open the page yourself" in _run("show", _root(tmp_path, 0.25))


def test_compare_tells_differences_from_the_first_run(tmp_path: Path) -> None:
    roots = [_root(tmp_path / name, rmse) for name, rmse in (("a", 0.5), ("b", 0.25))]

    found = json.loads(_run("compare", *roots, "--json"))

    assert found["runs"] == ["a", "b"]
    assert found["metrics"] == [
        {
            "names": ["", "rmse"],
            "values": [0.5, 0.25],
            "deltas": [0.0, -0.25],
            "moods": ["plain", "plain"],
            "tests": [None, None],
        }
    ]
    assert found["paired"][1][""]["reason"].startswith("a and b kept no predictions")
    assert (tmp_path / "a" / "comparison.html").is_file()


def _keep(root: str, errors: Any) -> None:
    """Keeps predictions whose distances from the truth, 0, are `errors`."""
    number = len(errors)
    values = {"truth": np.zeros(number), "predicted": np.asarray(errors, np.float64)}
    hashes = np.arange(number, dtype=np.uint64)
    sample = BootstrapSample(
        limit=1 << 64, hashes=hashes, slices={}, lengths=np.ones(number, np.int64), model=values, blessed={}
    )
    kept = KeptPredictions(
        kind="regression", split="test", identified_by="seed", num_examples=number, setting=(1,), sample=sample
    )
    (Path(root) / "artifacts/GraphEvaluator/evaluation/3/predictions.parquet").write_bytes(write_predictions(kept))


def test_compare_says_the_same_in_the_terminal_as_json_and_on_the_page_without_tensorflow(tmp_path: Path) -> None:
    roots = [_root(tmp_path / name, rmse) for name, rmse in (("a", 1.0), ("b", 0.5), ("c", 1.0))]
    errors = np.linspace(0.5, 1.5, 60)
    for root, factor in zip(roots, (1.0, 0.5, 1.0), strict=True):
        _keep(root, errors * factor)
    code = (
        "import sys; from tfx_gnn.cli.app import app\n"
        "try:\n    app(sys.argv[1:])\n"
        "finally:\n    assert not {'tensorflow', 'scipy', 'tfx', 'apache_beam'} & set(sys.modules)"
    )
    arguments = [sys.executable, "-W", "ignore", "-c", code, "compare", *roots]
    done = subprocess.run([*arguments, "--no-open"], capture_output=True, text=True, check=True)
    found = json.loads(_run("compare", *roots, "--json"))

    page = (tmp_path / "a" / "comparison.html").read_text()
    (rmse,) = found["metrics"]
    _, gain, same = rmse["tests"]
    assert (gain["verdict"], same["verdict"]) == ("gain", "no clear difference")
    assert rmse["moods"] == ["plain", "good", "plain"]
    assert gain["difference"] == pytest.approx(-0.5 * np.sqrt(np.mean(errors**2)))
    assert found["paired"][1][""]["num_common"] == 60
    shown = " ".join(done.stdout.split())
    difference = f"{gain['difference']:+.4f}"
    assert difference in shown
    assert difference.replace("-", "\u2212") in page
    for text in (shown, " ".join(page.split())):
        assert "60 examples are common, of 60 of a and 60 of b." in text
        assert "no clear difference" in text
        assert p_value_words(gain["p_value"]) in text


def test_a_damaged_file_of_predictions_is_said_and_no_error(tmp_path: Path) -> None:
    roots = [_root(tmp_path / name, 0.5) for name in ("a", "b")]
    _keep(roots[0], [1.0, 2.0])
    (Path(roots[1]) / "artifacts/GraphEvaluator/evaluation/3/predictions.parquet").write_bytes(b"no table")

    shown = " ".join(_run("compare", *roots, "--no-open").split())

    assert "are not tested" in shown
    assert "got a damaged file" in shown


def test_mistakes_end_with_2(tmp_path: Path) -> None:
    root = _root(tmp_path / "a", 0.5)

    _run("show", str(tmp_path / "nowhere"), exit_code=2)
    _run("compare", root, exit_code=2)


def _write_statistics(root: Path) -> None:
    dataset = """datasets { num_examples: 4 features {
      path { step: "nodes/user.age" } type: FLOAT
      num_stats {
        common_stats { num_non_missing: 3 tot_num_values: 3 } mean: 41.5 std_dev: 2
        histograms { type: QUANTILES buckets { low_value: 40 high_value: 43 sample_count: 3 } }
      } } }"""
    distances = """drift_skew_info {
      path { step: "nodes/user.age" }
      skew_measurements { type: JENSEN_SHANNON_DIVERGENCE value: 0.75 threshold: 0.5 } }"""
    for output, name, message in (
        ("statistics", "FeatureStats.pb", text_format.Parse(dataset, statistics_pb2.DatasetFeatureStatisticsList())),
        ("anomalies", "SchemaDiff.pb", text_format.Parse(distances, anomalies_pb2.Anomalies())),
    ):
        for split in ("train", "val"):
            folder = root / "artifacts" / "GraphExampleValidator" / output / "1" / f"Split-{split}"
            folder.mkdir(parents=True)
            of_split = anomalies_pb2.Anomalies() if (output, split) == ("anomalies", "train") else message
            (folder / name).write_bytes(of_split.SerializeToString())


def test_data_are_shown_by_feature_with_splits_beside_each_other_and_no_page(tmp_path: Path) -> None:
    _write_statistics(tmp_path)

    shown = _run("show", str(tmp_path), "--data")
    found = json.loads(_run("show", str(tmp_path), "--data", "--json"))

    lines = [line.split() for line in shown.splitlines()]
    assert ["mean", "41.5", "41.5"] in lines
    assert ["age", "missing", "1", "(25.0%)", "1", "(25.0%)"] in lines
    assert ["skew", "JS", "-", "0.750", ">", "0.5"] in lines
    assert "Skew is the distance from split train." in shown
    assert found["splits"] == {"train": 4, "val": 4}
    assert found["features"]["nodes/user"][0]["splits"]["val"]["skew"]["value"] == 0.75
    assert not (tmp_path / "index.html").exists()


def test_data_of_a_run_without_statistics_are_refused(tmp_path: Path) -> None:
    _run("show", _root(tmp_path, 0.25), "--data", exit_code=2)

from __future__ import annotations

import json

import pytest

from tfx_gnn.reports.outcome import outcome_of
from tfx_gnn_pipelines.recorded_run import newest_root, read_run

_SCHEMA = "title: tfx.Examples\ntype: object\n"


def _task(name, state, *, seconds=0.0, attempts=0, reason="", artifacts=None):
    return {
        "task": name,
        "state": state,
        "seconds": seconds,
        "attempts": attempts,
        "reason": reason,
        "log": f"logs/{name}.log" if attempts else "",
        "artifacts": artifacts or {},
    }


def _artifact(number, uri, **metadata):
    return {"name": str(number), "uri": uri, "type": {"instanceSchema": _SCHEMA}, "metadata": metadata}


def _write(root, run_id, tasks):
    folder = root / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"pipeline": "shop", "tasks": tasks}))


@pytest.fixture
def root(tmp_path):
    """A root with a finished trial and one that failed."""
    root = tmp_path / "runs" / "shop_kubeflow"
    (root / "store/minio/bucket/r/examples").mkdir(parents=True)
    made = {
        "examples": _artifact(1, "minio://bucket/r/examples", span=0),
        "executor-logs": _artifact(2, "minio://bucket/r/logs"),
    }
    pushed = {"pushed_model": _artifact(3, str(root), pushed_destination=str(root / "serving" / "4"))}
    (root / "serving" / "4").mkdir(parents=True)
    first = [
        _task("SubgraphExampleGen", "done", seconds=2.0, attempts=1, artifacts=made),
        _task("GraphPusher", "done", seconds=3.0, attempts=1, artifacts=pushed),
    ]
    second = [
        _task("SubgraphExampleGen", "cached", artifacts=made),
        _task("GraphTrainer", "failed", seconds=1.0, attempts=2, reason="loss is NaN"),
        _task("GraphPusher", "not run"),
    ]
    _write(root, "20260102T030405000000", first)
    _write(root, "20260103T030405000000", second)
    return root


def test_a_trial_is_read_with_its_artifacts_and_times(root):
    run = read_run(f"{root}@1")

    sampling, push = run.steps
    assert (run.pipeline, run.name, run.number, run.num_runs) == ("shop", "2026-01-02T03:04:05", 1, 2)
    assert [artifact.name for artifact in sampling.outputs] == ["examples"]
    assert (sampling.outputs[0].number, sampling.outputs[0].kind) == (1, "tfx.Examples")
    assert run.folders()["SubgraphExampleGen"] == {"examples": str(root / "store/minio/bucket/r/examples")}
    assert (sampling.state, push.state, push.seconds) == ("complete", "complete", 3.0)
    assert push.started - sampling.started == 2.0


def test_the_latest_trial_and_why_it_failed(root):
    run = read_run(str(root))

    assert [step.state for step in run.steps] == ["cached", "failed", "did not start"]
    outcome = outcome_of(run, {})
    assert (outcome.title, outcome.text) == ("Failed in GraphTrainer.", "loss is NaN; see logs/GraphTrainer.log")
    assert newest_root(str(root.parent)) == str(root)


def test_a_version_leads_to_the_trial_that_pushed_it(root):
    assert read_run(str(root / "serving" / "4")).number == 1
    (root / "serving" / "5").mkdir()
    with pytest.raises(ValueError, match=r"`RUN` must be a version that a trial run of .* pushed; got .*5"):
        read_run(str(root / "serving" / "5"))


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ("running", "GraphPusher began at 2026-01-04 03:04:05 UTC and has not ended."),
        ("skipped", "Nothing was pushed."),
    ],
)
def test_a_trial_that_was_killed_or_met_a_condition(root, state, title):
    _write(root, "20260104T030405000000", [_task("GraphPusher", state, reason="blessed")])

    assert outcome_of(read_run(str(root)), {}).title == title


def test_what_cannot_be_shown_is_told_in_one_line(root):
    with pytest.raises(ValueError, match=r"`RUN` must name one of the 2 trial runs of .*; got run 3"):
        read_run(f"{root}@3")
    _write(root, "20260105T030405000000", [_task("A", "done", artifacts={"model": _artifact(1, "s3://b/model")})])
    with pytest.raises(ValueError, match=r"must be a trial whose artifacts are in its folder 'store'.*--store"):
        read_run(str(root))
    _write(root, "20260106T030405000000", 3)
    with pytest.raises(ValueError, match=r"`tasks` must be a list; got an integer in .*run.json"):
        read_run(str(root))

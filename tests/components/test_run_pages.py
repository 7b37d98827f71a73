"""Pages that runs leave: finished, failed, stopped by a check, refused by it, and killed while they went on."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck
from tfx_gnn_pipelines.lineage import close_abandoned_executions
from tfx_gnn_pipelines.local_runs import locked_root, record_refusal
from tfx_gnn_pipelines.recorded_run import read_run
from tfx_gnn_pipelines.run_pages import LivePage, write_run_page

FOUND = PipelineCheck(
    findings=(
        Finding(severity="warning", step="GraphTrainer", message="`x` should be y."),
        Finding(severity="error", step="GraphTransform", message="`features` must be <known>."),
    )
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "runs" / "task"


def _texts(path):
    return path.read_text()


def test_the_latest_run_has_the_page_of_the_root_and_earlier_ones_keep_theirs(root, run_database):
    metadata = run_database(root)
    for run, error in (("2026-01-01T00:00:00", "of the first"), ("2026-01-02T00:00:00", "of the second")):
        metadata.step(run, "GraphTrainer", "failed", properties={"tfx_gnn_error": f"ValueError: {error}"})
        assert write_run_page(str(root)) == str(root / "index.html")

    assert "of the second" in _texts(root / "index.html")
    assert "of the second" in _texts(root / "run_2.html")
    assert "of the first" in _texts(root / "run_1.html")
    assert write_run_page(f"{root}@1") == str(root / "run_1.html")
    assert "of the second" in _texts(root / "index.html")


def test_the_folder_above_lists_all_runs_with_links(root, run_database):
    for folder in (root, root.parent / "with space"):
        run_database(folder).step("2026-01-01T00:00:00", "GraphTrainer", "failed")
        write_run_page(str(folder))
    (root.parent / "no runs").mkdir()
    (root.parent / "damaged").mkdir()
    (root.parent / "damaged" / "metadata.sqlite").write_text("no database")

    write_run_page(str(root))

    page = _texts(root.parent / "index.html")
    assert 'href="task/run_1.html"' in page
    assert 'href="with%20space/run_1.html"' in page
    assert page.count("Failed in GraphTrainer.") == 2
    assert "damaged" not in page


def test_no_list_is_written_into_folders_of_others(tmp_path, run_database):
    run_database(tmp_path / "root").step("2026-01-01T00:00:00", "GraphTrainer", "failed")

    write_run_page(str(tmp_path / "root"))

    assert not (tmp_path / "index.html").exists()


def test_a_run_that_a_check_stopped_shows_what_it_found_and_not_the_step_it_struck(root, tiny_config, run_database):
    config = dataclasses.replace(tiny_config, root=str(root))
    since = time.time() - 1
    run_database(root).step("today", "GraphTransform", "running")
    reason = "The check beside the run found an error, and stopped it here."
    close_abandoned_executions(config.metadata_path, config.artifacts_dir, reason=reason)

    record_refusal(config, FOUND, since=since)
    run = read_run(str(root))
    write_run_page(str(root))

    assert (run.number, run.num_runs) == (1, 1)
    assert run.stop == ("GraphTransform: `features` must be <known>.", "GraphTrainer: `x` should be y.")
    assert [(step.state, step.error) for step in run.steps] == [("canceled", reason)]
    page = _texts(root / "index.html")
    assert "Stopped in GraphTransform by the check beside the run." in page
    assert "<code>features</code> must be &lt;known&gt;." in page
    assert "<code>x</code> should be y." in page


def test_a_run_that_a_check_kept_from_starting_is_a_run_and_not_the_one_before(root, tiny_config, run_database):
    config = dataclasses.replace(tiny_config, root=str(root))
    run_database(root).step("yesterday", "GraphTransform", "complete")

    record_refusal(config, FOUND, since=time.time() + 1)
    write_run_page(str(root))

    run = read_run(str(root))
    assert (run.number, run.steps, len(run.stop)) == (2, (), 2)
    assert "Stopped at once by the check beside the run." in _texts(root / "index.html")
    assert read_run(f"{root}@1").stop == ()


def test_the_first_run_may_be_kept_from_starting_and_tfx_finds_its_types_as_it_makes_them(root, tiny_config):
    config = dataclasses.replace(tiny_config, root=str(root))

    record_refusal(config, FOUND, since=time.time())

    assert (read_run(str(root)).pipeline, read_run(str(root)).num_runs) == (config.pipeline_name, 1)


def test_nothing_is_written_down_in_the_root_of_another_run(root, tiny_config):
    config = dataclasses.replace(tiny_config, root=str(root))

    with locked_root(config), pytest.raises(BlockingIOError, match="`root` must be used by one run at a time"):
        record_refusal(config, FOUND, since=time.time())


@pytest.mark.parametrize(
    ("stop", "written"),
    [
        (KeyboardInterrupt(), "Interrupted."),
        (KeyboardInterrupt("Stopped in epoch 3. Run it again."), "Stopped in epoch 3. Run it again."),
    ],
)
def test_a_run_that_is_interrupted_says_where(root, tiny_config, run_database, stop, written):
    config = dataclasses.replace(tiny_config, root=str(root))
    metadata = run_database(root)

    def run():
        with locked_root(config):
            metadata.step("today", "GraphTrainer", "running")
            raise stop

    with pytest.raises(KeyboardInterrupt):
        run()

    write_run_page(str(root))
    page = _texts(root / "index.html")
    assert "Interrupted in GraphTrainer." in page
    assert written in page
    # Nothing is left for the next run to close.
    assert close_abandoned_executions(config.metadata_path, config.artifacts_dir) == []


def test_while_a_run_goes_on_its_page_says_how_far_it_is(root):
    live = LivePage(str(root), "shop")
    live.tell("SubgraphExampleGen", "cached")
    live.tell("GraphTransform", "running")
    live.tell("GraphTransform", "complete")
    live.tell("GraphTrainer", "running")

    page = _texts(root / "index.html")
    assert "GraphTrainer began at 20" in page
    assert "The run is still going on, or it was killed there." in page
    assert '<meta http-equiv="refresh"' in page
    states = [page.partition(f'class="ours">{name}')[2].split("<span class")[1] for name in ("Sub", "GraphTransform")]
    assert [state.partition(">")[2].partition("<")[0] for state in states] == ["cached", "complete"]


def test_the_page_of_a_run_that_ended_is_not_read_again_and_again(root, run_database):
    run_database(root).step("2026-01-01T00:00:00", "GraphTrainer", "failed")

    write_run_page(str(root))

    assert "refresh" not in _texts(root / "index.html")


def test_warnings_stand_at_the_top_and_commands_fit_the_run(root, run_database):
    metadata = run_database(root)
    budgets, push = root / "artifacts" / "SizeConstraintLearner" / "size_constraints" / "1", root / "push"
    for folder in (budgets, push):
        folder.mkdir(parents=True)
    (budgets / "size_constraints.json").write_text(json.dumps({"budgets": {}, "warnings": ["Few graphs. Add some."]}))
    version = str(root / "serving" / "1")
    pushed = {"pushed": True, "reason": "blessed", "destination": str(root / "serving"), "version": 1, "path": version}
    (push / "pushed_version.json").write_text(json.dumps(pushed))
    for run in ("first", "second"):
        metadata.step(run, "SubgraphExampleGen", "cached", properties={"tables_dir": "/some/tables"})
        metadata.step(run, "SizeConstraintLearner", "complete", outputs={"size_constraints": budgets})
        metadata.step(run, "GraphPusher", "complete", outputs={"pushed_model": push}, pushed=version)

    write_run_page(str(root))

    page = _texts(root / "index.html")
    assert "1 warning<" in page
    assert page.index("SizeConstraintLearner: Few graphs. Add some.") < page.index("What to do next")
    assert f"tfx-gnn index --tables-dir /some/tables --graph-index-dir {root}/index" in page
    assert f"tfx-gnn serve --model-dir {root}/serving --graph-index-dir {root}/index" in page
    assert f"tfx-gnn compare {root}@1 {root}@2" in page

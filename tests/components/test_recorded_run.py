from __future__ import annotations

import json
import shutil
import time

import pytest

from tfx_gnn_pipelines.lineage import record_error
from tfx_gnn_pipelines.recorded_run import METADATA_FILE, newest_root, read_run


@pytest.fixture(scope="module")
def root(tmp_path_factory, run_database):
    """A root with two runs: one that pushed, and one that failed."""
    root = tmp_path_factory.mktemp("runs") / "task"
    metadata = run_database(root)
    folder = root / "artifacts" / "Gen" / "examples" / "1"
    folder.mkdir(parents=True)
    options = {"plan": json.dumps({"hops": [1, 2]}), "name": "none of JSON", "flag": "true"}
    made = metadata.step("first", "Gen", "complete", outputs={"examples": folder}, properties=options)
    metadata.step(
        "first",
        "Pusher",
        "complete",
        inputs=made,
        outputs={"examples": root / "elsewhere"},
        pushed=root / "serving" / "4",
    )
    metadata.step("second", "Gen", "cached")
    metadata.step("second", "Pusher", "failed", inputs=made)
    record_error(str(root / METADATA_FILE), ValueError("of a later run"), since=time.time() + 60)
    record_error(str(root / METADATA_FILE), ValueError("too bad"), since=0.0)
    return root


def test_the_latest_run_is_read_with_its_error(root):
    run = read_run(str(root))

    assert (run.pipeline, run.name, run.number, run.num_runs, run.title) == ("my-pipeline", "second", 2, 2, "task@2")
    assert [(step.component, step.state, step.error) for step in run.steps] == [
        ("Gen", "cached", ""),
        ("Pusher", "failed", "ValueError: too bad"),
    ]
    assert run.folders() == {"Gen": {}}


def test_an_earlier_run_is_read_with_options_and_lineage(root):
    run = read_run(f"{root}@1")

    gen, pusher = run.steps
    assert gen.options == {"plan": {"hops": [1, 2]}, "name": "none of JSON", "flag": True}
    assert (pusher.inputs[0].name, pusher.inputs[0].maker) == ("examples", gen.execution)
    assert pusher.error == ""
    assert gen.outputs[0].folder == str(root / "artifacts" / "Gen" / "examples" / "1")


def test_a_pushed_version_names_the_run_that_pushed_it(root):
    (root / "serving" / "4").mkdir(parents=True, exist_ok=True)
    (root / "serving" / "5").mkdir(parents=True, exist_ok=True)

    assert read_run(str(root / "serving" / "4")).name == "first"
    with pytest.raises(ValueError, match=r"`RUN` must be a version that a run of .* pushed; got '.*5'"):
        read_run(str(root / "serving" / "5"))


def test_a_root_that_was_copied_shows_the_copied_artifacts(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")

    run = read_run(f"{tmp_path / 'copy'}@1")

    assert run.steps[0].outputs[0].folder == str(tmp_path / "copy" / "artifacts" / "Gen" / "examples" / "1")


def test_without_a_database_the_newest_folders_are_read(tmp_path):
    for number in ("1", "12", ".13.partial"):
        (tmp_path / "artifacts" / "Gen" / "examples" / number).mkdir(parents=True)

    run = read_run(str(tmp_path))

    assert run.folders() == {"Gen": {"examples": str(tmp_path / "artifacts" / "Gen" / "examples" / "12")}}
    assert [step.state for step in run.steps] == ["unknown"]


def test_reading_changes_nothing(root):
    before = (root / METADATA_FILE).read_bytes()

    read_run(str(root))

    assert (root / METADATA_FILE).read_bytes() == before


def test_mistakes_name_what_is_there(root, tmp_path):
    with pytest.raises(ValueError, match=r"must name one of the 2 runs of .*; got run 3"):
        read_run(f"{root}@3")
    with pytest.raises(FileNotFoundError, match=r"must be a folder; got .* which does not exist"):
        read_run(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"must hold metadata.sqlite, trial runs or a folder artifacts"):
        read_run(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"Name the root of a pipeline: it holds .*/task\."):
        read_run(str(root.parent))
    (tmp_path / METADATA_FILE).write_text("no database")
    with pytest.raises(ValueError, match=r"must hold a database of ML Metadata"):
        read_run(str(tmp_path))


def test_an_empty_database_has_no_run(tmp_path, run_database):
    run_database(tmp_path)

    with pytest.raises(FileNotFoundError, match=r"where none has started"):
        read_run(str(tmp_path))


def test_the_newest_root_of_a_project_is_found(root, tmp_path):
    (tmp_path / "shop").mkdir()
    shutil.copytree(root.parent, tmp_path / "shop" / "runs")

    assert newest_root(str(root.parent)) == str(root)
    assert read_run(str(tmp_path / "shop")).root == str(tmp_path / "shop" / "runs" / root.name)
    with pytest.raises(FileNotFoundError, match=r"`RUN` must be given where .* holds no run"):
        newest_root(str(tmp_path))

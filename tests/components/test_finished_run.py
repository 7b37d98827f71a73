"""What is answered from the record of a finished run, and what is left to TFX; the run itself is made up."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from tfx_gnn.components import LatestBlessedModelResolverOptions
from tfx_gnn.io import options_json
from tfx_gnn.io.whole_files import write_whole
from tfx_gnn.models import NodeClassification
from tfx_gnn.sampling import SamplingPlan
from tfx_gnn_pipelines import finished_run
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.finished_run import (
    FINISHED_FILE,
    find_finished_run,
    fingerprint_run,
    forget_finished_run,
    remember_finished_run,
)
from tfx_gnn_pipelines.run_outcome import RunOutcome, StepOutcome
from tfx_gnn_pipelines.task import PipelineTask

FILES = {
    "toy_shop/__init__.py": "",
    "toy_shop/model.py": "import toy_layers\nNAMES = 'names.txt'\n\ndef model_fn(): ...\n",
    "toy_shop/preprocessing.py": "def preprocessing_fn(): ...\n",
    "toy_layers.py": "UNITS = 1\n",
    "names.txt": "a",
    "README.md": "",
    "tables/graph_schema.pbtxt": "",
    "tables/user.csv": "id",
    "root/metadata.sqlite": "",
    "root/artifacts/GraphTrainer/model/1/Format-Serving/saved_model.pb": "1",
    "root/artifacts/GraphPusher/pushed_model/2/pushed_version.json": "{}",
    "root/serving/1/saved_model.pb": "1",
    "root/serving/1/variables/variables.index": "1",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder of a project, in which a run has ended."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path


@pytest.fixture
def config(folder):
    task = PipelineTask(
        name="toy_shop",
        tables_dir=str(folder / "tables"),
        plan=SamplingPlan(seed_node_set="user", label_features=("interest",)),
        preprocessing_fn="toy_shop.preprocessing:preprocessing_fn",
        model_fn="toy_shop.model:model_fn",
        prediction=NodeClassification(label_feature="interest", num_classes=2),
    )
    return quickstart(task, root=str(folder / "root"))


@pytest.fixture
def outcome(folder):
    artifacts = folder / "root" / "artifacts"
    return RunOutcome(
        pipeline="toy-shop",
        root=str(folder / "root"),
        steps=(
            StepOutcome(
                component="GraphTrainer", state="complete", outputs={"model": str(artifacts / "GraphTrainer/model/1")}
            ),
            StepOutcome(
                component="GraphPusher",
                state="cached",
                outputs={"pushed_model": str(artifacts / "GraphPusher/pushed_model/2")},
            ),
        ),
        metrics={"split": "test", "macro_f1": 0.5, "accuracy": 0.25, "counts": [1, 2]},
        pushed_model=str(folder / "root" / "serving" / "1"),
        objections=(),
        warnings=(),
        metadata=str(folder / "root" / "metadata.sqlite"),
        examples_dir="examples",
    )


@pytest.fixture
def remembered(config, outcome):
    """The outcome that is remembered of the run."""
    remember_finished_run(config, fingerprint_run(config), outcome)
    return outcome


def test_same_run_again_has_the_same_outcome_with_every_step_cached(config, remembered):
    found = find_finished_run(config)

    assert found == remembered.as_cached()
    assert [step.state for step in found.steps] == ["cached", "cached"]
    assert list(found.metrics) == ["split", "macro_f1", "accuracy", "counts"]
    assert found.is_pushed


def test_run_that_pushed_nothing_is_remembered_with_its_reasons(config, outcome):
    refused = dataclasses.replace(outcome, pushed_model="", objections=("accuracy 0.1 is below 0.5",))
    remember_finished_run(config, fingerprint_run(config), refused)

    found = find_finished_run(config)

    assert found.objections == ("accuracy 0.1 is below 0.5",)
    assert not found.is_pushed


def test_refused_model_is_judged_again_when_another_version_is_the_newest(config, outcome, folder):
    config = dataclasses.replace(config, latest_blessed_model_resolver=LatestBlessedModelResolverOptions())
    remember_finished_run(config, fingerprint_run(config), dataclasses.replace(outcome, pushed_model=""))
    assert find_finished_run(config) is not None

    (folder / "root" / "serving" / "2").mkdir()

    assert find_finished_run(config) is None


def test_run_of_a_project_without_python_is_remembered(folder, outcome):
    task = PipelineTask(
        name="toy_shop",
        tables_dir=str(folder / "tables"),
        plan=SamplingPlan(seed_node_set="user", label_features=("interest",)),
        prediction=NodeClassification(label_feature="interest", num_classes=2),
    )
    config = quickstart(task, root=str(folder / "root"))
    remember_finished_run(config, fingerprint_run(config), outcome)

    assert find_finished_run(config) == outcome.as_cached()


def test_folder_behind_a_link_is_left_to_tfx(config, folder, tmp_path):
    (folder / "tables" / "more").symlink_to(tmp_path)

    assert fingerprint_run(config) == ""


def test_defect_is_not_taken_for_something_unknown(config, monkeypatch):
    def broken(*_args, **_options):
        raise ValueError("a defect")

    monkeypatch.setattr(finished_run, "code_places", broken)

    with pytest.raises(ValueError, match="a defect"):
        fingerprint_run(config)


@pytest.mark.parametrize(
    "edited",
    [
        "toy_shop/__init__.py",
        "toy_shop/model.py",
        "toy_shop/preprocessing.py",
        "toy_layers.py",
        "names.txt",
        "tables/graph_schema.pbtxt",
        "tables/user.csv",
        "root/metadata.sqlite",
        "root/artifacts/GraphTrainer/model/1/Format-Serving/saved_model.pb",
        "root/artifacts/GraphPusher/pushed_model/2/pushed_version.json",
        "root/serving/1/variables/variables.index",
    ],
)
@pytest.mark.parametrize("how", ["edited", "removed"])
def test_edited_or_removed_file_is_left_to_tfx(config, remembered, folder, edited, how):
    if how == "removed":
        (folder / edited).unlink()
    else:
        (folder / edited).write_text("# edited\n")
    importlib.invalidate_caches()

    assert find_finished_run(config) is None


@pytest.mark.parametrize("added", ["toy_shop/more.py", "tables/user-2.csv", "root/serving/2/saved_model.pb"])
def test_added_file_is_left_to_tfx(config, remembered, folder, added):
    (folder / added).parent.mkdir(exist_ok=True)
    (folder / added).write_text("")

    assert find_finished_run(config) is None


@pytest.mark.parametrize(
    "gone", ["root/serving/1", "root/serving", "root/artifacts/GraphTrainer/model/1", "tables", "toy_shop"]
)
def test_removed_folder_is_left_to_tfx(config, remembered, folder, gone):
    shutil.rmtree(folder / gone)
    importlib.invalidate_caches()

    assert find_finished_run(config) is None


def test_files_of_no_consequence_change_nothing(config, remembered, folder):
    (folder / "README.md").write_text("More.")
    (folder / "toy_shop" / "__pycache__").mkdir()
    (folder / "toy_shop" / "__pycache__" / "model.cpython-310.pyc").write_text("")
    (folder / "root" / "serving" / ".1.lock").write_text("")

    assert find_finished_run(config) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_cache": False},
        {"push_destination": "elsewhere"},
        {"push_destination": "gs://bucket/serving"},
        {"root": "elsewhere"},
        {"root": "gs://bucket/root"},
        {"root": ""},
        {"tables_fingerprint": "monday"},
        {"beam_args": ("--direct_num_workers=2",)},
        {"runtime_parameters": ("num_epochs",)},
    ],
    ids=str,
)
def test_other_settings_are_left_to_tfx(config, remembered, folder, monkeypatch, changes):
    monkeypatch.chdir(folder)

    assert find_finished_run(dataclasses.replace(config, **changes)) is None


def test_other_options_of_a_step_are_left_to_tfx(config, remembered):
    trainer = dataclasses.replace(config.graph_trainer, training_seed=1)

    assert find_finished_run(dataclasses.replace(config, graph_trainer=trainer)) is None


def test_code_that_another_option_names_counts(config, folder):
    named = dataclasses.replace(config.graph_trainer, hyperparameters={"loss": "toy_extra.losses:loss"})
    config = dataclasses.replace(config, graph_trainer=named)
    (folder / "toy_extra").mkdir()
    for name in ("__init__.py", "losses.py"):
        (folder / "toy_extra" / name).write_text("")
    importlib.invalidate_caches()
    before = fingerprint_run(config)

    (folder / "toy_extra" / "losses.py").write_text("# edited\n")

    assert "" != before != fingerprint_run(config)


@pytest.mark.parametrize("name", ["version", "executable"])
def test_another_python_is_left_to_tfx(config, remembered, monkeypatch, name):
    monkeypatch.setattr(sys, name, "another")

    assert find_finished_run(config) is None


def test_another_role_in_a_cluster_is_left_to_tfx(config, remembered, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")

    assert find_finished_run(config) is None


def test_package_that_is_installed_or_installed_again_is_left_to_tfx(config, outcome, folder, monkeypatch):
    packages = folder / "site-packages"
    (packages / "toy-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    found = [fingerprint_run(config)]

    os.utime(packages / "toy-1.0.dist-info", ns=(0, 0))
    found.append(fingerprint_run(config))
    (packages / "more-1.0.dist-info").mkdir()
    found.append(fingerprint_run(config))

    assert len({*found, ""}) == 4


def test_edit_of_this_library_is_left_to_tfx(config, remembered, monkeypatch):
    describe = finished_run.describe_folder_version

    def described(folder, **options):
        return f"{'edited ' if folder.endswith('/tfx_gnn') else ''}{describe(folder, **options)}"

    monkeypatch.setattr(finished_run, "describe_folder_version", described)

    assert find_finished_run(config) is None


def test_tables_elsewhere_are_left_to_tfx(config):
    access = dataclasses.replace(config.subgraph_example_gen.access, allow_outside_files=True)
    reads_elsewhere = dataclasses.replace(config.subgraph_example_gen, access=access)

    assert fingerprint_run(dataclasses.replace(config, subgraph_example_gen=reads_elsewhere)) == ""
    assert fingerprint_run(dataclasses.replace(config, tables_dir="gs://bucket/tables")) == ""


def test_remote_tables_count_by_the_version_that_is_given(config):
    remote = dataclasses.replace(config, tables_dir="gs://bucket/tables", tables_fingerprint="monday")

    assert fingerprint_run(remote) != ""
    assert fingerprint_run(remote) != fingerprint_run(dataclasses.replace(remote, tables_fingerprint="tuesday"))


def test_code_that_cannot_be_read_is_left_to_tfx(config, folder):
    (folder / "toy_layers.py").write_text("UNITS =")

    assert fingerprint_run(config) == ""


def test_run_during_which_something_was_edited_is_not_remembered(config, outcome, folder):
    before = fingerprint_run(config)
    (folder / "toy_shop" / "model.py").write_text("# edited\n")

    remember_finished_run(config, before, outcome)

    assert not (folder / "root" / FINISHED_FILE).exists()


@pytest.mark.parametrize("what", ["no fingerprint", "no output", "older version"])
def test_run_that_cannot_be_told_again_is_not_remembered(config, outcome, folder, what):
    fingerprint = "" if what == "no fingerprint" else fingerprint_run(config)
    if what == "no output":
        shutil.rmtree(folder / "root" / "artifacts" / "GraphTrainer")
    if what == "older version":
        (folder / "root" / "serving" / "10").mkdir()

    remember_finished_run(config, fingerprint, outcome)

    assert not (folder / "root" / FINISHED_FILE).exists()


def test_another_run_makes_the_record_void_when_it_has_the_root_and_not_before(config, remembered):
    from tfx_gnn_pipelines.local_runs import locked_root

    # This made-up file is no database.
    os.remove(config.metadata_path)
    record = os.path.join(config.root, FINISHED_FILE)
    with locked_root(config):
        assert not os.path.exists(record)
        write_whole(record, "{}")
        with pytest.raises(BlockingIOError, match="`root` must be used by one run at a time"), locked_root(config):
            pass
        assert os.path.exists(record)


def test_forgetting_nothing_is_no_error(tmp_path):
    forget_finished_run(str(tmp_path))


def _as(changes):
    def change(text):
        return json.dumps({**json.loads(text), **changes})

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[]",
        lambda _: "null",
        _as({"format": 2}),
        _as({"outcome": {}}),
        _as({"more": 1}),
        _as({"versions": {}}),
        _as({"fingerprint": ""}),
    ],
    ids=["half", "empty", "list", "null", "format", "outcome", "key", "versions", "fingerprint"],
)
def test_damaged_record_is_left_to_tfx(config, remembered, folder, damage):
    path = folder / "root" / FINISHED_FILE
    path.write_text(damage(path.read_text()))

    assert find_finished_run(config) is None


def test_kill_while_the_record_is_written_leaves_no_record(config, outcome, folder, monkeypatch):
    def killed(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        remember_finished_run(config, fingerprint_run(config), outcome)

    assert find_finished_run(config) is None


def test_record_is_read_without_tensorflow(config, remembered, folder):
    program = (
        "import sys\n"
        "from tfx_gnn.io import options_json\n"
        "from tfx_gnn_pipelines.config import PipelineConfig\n"
        "from tfx_gnn_pipelines.finished_run import find_finished_run\n"
        "from tfx_gnn_pipelines import summary\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "config = options_json.from_json(sys.stdin.read(), PipelineConfig)\n"
        "print(find_finished_run(config).pipeline)\n"
        "print({'tensorflow', 'tfx', 'apache_beam', 'numpy'} & set(sys.modules))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=options_json.to_json(config),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "toy-shop\nset()\n"

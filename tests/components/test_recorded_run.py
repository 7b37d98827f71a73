from __future__ import annotations

import json
import shutil
import time

import pytest
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from tfx_gnn_pipelines.lineage import record_error
from tfx_gnn_pipelines.recorded_run import METADATA_FILE, newest_root, read_run


class _Metadata:
    """Writes what TFX writes about runs."""

    def __init__(self, root):
        root.mkdir(parents=True, exist_ok=True)
        config = mlmd.ConnectionConfig()
        config.sqlite.filename_uri = str(root / METADATA_FILE)
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self.root, self.store = root, metadata_store.MetadataStore(config)
        types = ("pipeline", "pipeline_run", "node")
        self.types = {name: self.store.put_context_type(mlmd.ContextType(name=name)) for name in types}
        self.execution_type = self.store.put_execution_type(mlmd.ExecutionType(name="step"))
        self.artifact_type = self.store.put_artifact_type(mlmd.ArtifactType(name="Examples"))
        self.context("pipeline", "my-pipeline")

    def context(self, kind, name):
        found = self.store.get_context_by_type_and_name(kind, name)
        return found.id if found else self.store.put_contexts([mlmd.Context(type_id=self.types[kind], name=name)])[0]

    def step(self, run, component, state, *, inputs=(), output="", properties=()):
        execution = mlmd.Execution(type_id=self.execution_type, last_known_state=state)
        for name, value in dict(properties).items():
            execution.custom_properties[name].string_value = value
        events = [self._event(artifact, "examples", mlmd.Event.INPUT) for artifact in inputs]
        made = 0
        if output:
            artifact = mlmd.Artifact(type_id=self.artifact_type, uri=output)
            artifact.custom_properties["pushed_destination"].string_value = f"{self.root}/serving/4"
            (made,) = self.store.put_artifacts([artifact])
            events.append(self._event(made, "examples", mlmd.Event.OUTPUT))
        (number,) = self.store.put_executions([execution])
        for event in events:
            event.execution_id = number
        if events:
            self.store.put_events(events)
        contexts = (self.context("pipeline_run", run), self.context("node", f"my-pipeline.{component}"))
        self.store.put_attributions_and_associations(
            [], [mlmd.Association(execution_id=number, context_id=context) for context in contexts]
        )
        return made

    @staticmethod
    def _event(artifact, name, kind):
        event = mlmd.Event(artifact_id=artifact, type=kind)
        event.path.steps.add(key=name)
        return event


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with two runs: one that pushed, and one that failed."""
    root = tmp_path_factory.mktemp("runs") / "task"
    metadata = _Metadata(root)
    folder = root / "artifacts" / "Gen" / "examples" / "1"
    folder.mkdir(parents=True)
    options = {"plan": json.dumps({"hops": [1, 2]}), "name": "none of JSON", "flag": "true"}
    made = metadata.step("first", "Gen", mlmd.Execution.COMPLETE, output=str(folder), properties=options)
    metadata.step("first", "Pusher", mlmd.Execution.COMPLETE, inputs=[made], output=str(root / "elsewhere"))
    metadata.step("second", "Gen", mlmd.Execution.CACHED)
    metadata.step("second", "Pusher", mlmd.Execution.FAILED, inputs=[made])
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


def test_an_empty_database_has_no_run(tmp_path):
    _Metadata(tmp_path)

    with pytest.raises(FileNotFoundError, match=r"where none has started"):
        read_run(str(tmp_path))


def test_the_newest_root_is_found(root, tmp_path):
    assert newest_root(str(root.parent)) == str(root)
    with pytest.raises(FileNotFoundError, match=r"`RUN` must be given where .* holds no run"):
        newest_root(str(tmp_path))

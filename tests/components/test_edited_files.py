"""Compiled files, and files of earlier runs, that somebody edited by hand or a full disk damaged."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest

from tfx_gnn_pipelines.compiled_pipeline import compiled_service, read_compiled, run_parameters
from tfx_gnn_pipelines.emulator.run import run_compiled
from tfx_gnn_pipelines.exit_handler import add_report_task, report_after_all_tasks
from tfx_gnn_pipelines.services import Service

TEXT = {"artifacts": {"text": {"artifactType": {"schemaTitle": "system.Artifact"}}}}


class NothingRuns:
    """Containers that end at once, without an output; remembers their commands."""

    def __init__(self):
        self.commands = []

    def root_inside(self, folder):
        return folder

    def remove_leftovers(self, pods):
        pass

    def run(self, container):
        self.commands.append(container.command)
        return 0


def two_tasks():
    """The specification of two tasks, where the second one reads the output of the first one."""
    word = {"parameters": {"word": {"componentInputParameter": "word"}}}
    source = {"taskOutputArtifact": {"producerTask": "first", "outputArtifactKey": "text"}}
    tasks = {
        "first": {"componentRef": {"name": "first"}, "inputs": word, "cachingOptions": {"enableCache": True}},
        "second": {
            "componentRef": {"name": "second"},
            "inputs": word | {"artifacts": {"text": source}},
            "dependentTasks": ["first"],
            "cachingOptions": {"enableCache": True},
            "retryPolicy": {"maxRetryCount": 1, "backoffDuration": "0s"},
        },
    }
    container = {"image": "registry/image:tag", "command": ["run"], "args": ["{{$}}"]}
    spec = {
        "schemaVersion": "2.1.0",
        "pipelineInfo": {"name": "chain"},
        "root": {
            "dag": {"tasks": tasks},
            "inputDefinitions": {"parameters": {"word": {"parameterType": "STRING", "defaultValue": "a"}}},
        },
        "components": {
            "first": {"executorLabel": "first", "outputDefinitions": TEXT},
            "second": {"executorLabel": "second", "outputDefinitions": TEXT, "inputDefinitions": TEXT},
        },
        "deploymentSpec": {
            "executors": {
                "first": {"container": container},
                "second": {"container": container | {"env": [{"name": "A", "value": "b"}]}},
            }
        },
    }
    # Each part on its own, so that a change of it changes no other.
    return json.loads(json.dumps(spec))


def with_exit_handler(spec):
    add_report_task(spec, image="registry/image:tag", report_to="")
    report_after_all_tasks(spec)
    return spec


def run(spec, tmp_path, *, folder="run", engine=None):
    """Writes a specification to a file, reads and runs it."""
    (tmp_path / "edited.json").write_text(json.dumps(spec))
    compiled = read_compiled(str(tmp_path / "edited.json"))
    results = run_compiled(
        compiled,
        service=Service.KUBEFLOW,
        folder=str(tmp_path / folder),
        parameters=run_parameters(compiled, {}),
        engine=engine or NothingRuns(),
    )
    compiled_service(compiled)
    return {result.task: result for result in results}


def place_of(spec, folders):
    for folder in folders:
        spec = spec[folder]
    return spec


def paths_in(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths_in(inner, (*path, key))


@pytest.mark.parametrize("change", ["missing", None, 7], ids=str)
def test_every_field_may_be_edited_by_hand(tmp_path, change):
    whole = with_exit_handler(two_tasks())
    for number, (*folders, name) in enumerate(paths_in(whole)):
        spec = copy.deepcopy(whole)
        place = place_of(spec, folders)
        if change == "missing":
            del place[name]
        else:
            place[name] = change
        # Any other error would end as a traceback.
        with contextlib.suppress(ValueError):
            run(spec, tmp_path, folder=str(number))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\n", "\ud800"])
@pytest.mark.parametrize("kind", ["pipeline", "task", "output"])
def test_names_that_lead_out_of_their_folders_are_refused(tmp_path, kind, name):
    spec = two_tasks()
    if kind == "pipeline":
        spec["pipelineInfo"]["name"] = name
    elif kind == "task":
        tasks = spec["root"]["dag"]["tasks"]
        tasks[name] = tasks.pop("second")
    else:
        spec["components"]["second"]["outputDefinitions"]["artifacts"] = {name: {"artifactType": {}}}

    with pytest.raises(ValueError, match="must have names that a folder can have") as refused:
        run(spec, tmp_path)
    assert f"got {name!r}. " in str(refused.value)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("root/inputDefinitions/parameters/word", "the parameter 'word', for the task 'first'"),
        ("components/first/outputDefinitions", "the output 'text' of 'first', for the task 'second'"),
        ("components/second/inputDefinitions", "the type of its input 'text'"),
        ("components/second/outputDefinitions/artifacts/text/artifactType", "the type of its output 'text'"),
        ("deploymentSpec/executors/second/container/command", "the command of its container"),
        ("deploymentSpec/executors/second/container/env/0/value", "the name and value of each variable"),
    ],
)
def test_what_a_task_needs_must_be_in_the_file(tmp_path, path, missing):
    spec = two_tasks()
    *folders, name = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = place_of(spec, folders)
    del place[name]
    if name == "command":
        del place["args"]

    with pytest.raises(ValueError, match=f"The file must have {missing}"):
        run(spec, tmp_path)


def test_nested_task_with_the_name_of_the_exit_handler_is_refused(tmp_path):
    spec = with_exit_handler(two_tasks())
    nested = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    nested["RunReport"] = nested.pop("second")

    with pytest.raises(ValueError, match="A nested DAG must be the only one"):
        run(spec, tmp_path)


def test_optional_parameter_without_a_value_is_not_sent(tmp_path):
    spec, engine = two_tasks(), NothingRuns()
    spec["root"]["inputDefinitions"]["parameters"]["more"] = {"parameterType": "STRING", "isOptional": True}
    first = spec["root"]["dag"]["tasks"]["first"]
    first["inputs"]["parameters"]["more"] = {"componentInputParameter": "more"}

    run(spec, tmp_path, engine=engine)

    assert json.loads(engine.commands[0][1])["inputs"]["parameterValues"] == {"word": "a"}


def test_number_of_retries_may_be_text_and_never_below_zero(tmp_path):
    spec = two_tasks()
    for count in ("2", -3):
        spec["root"]["dag"]["tasks"]["second"]["retryPolicy"]["maxRetryCount"] = count

        assert run(spec, tmp_path)["second"].state in ("done", "cached")


@pytest.mark.parametrize("content", ["null", "[]", '"x"', '{"text": null}', '{"text": {}}', "[" * 100_000])
def test_cache_that_somebody_changed_is_not_used(tmp_path, content):
    run(two_tasks(), tmp_path)
    for path in (tmp_path / "run" / "cache").rglob("*.json"):
        path.write_text(content)

    results = run(two_tasks(), tmp_path)

    assert [result.state for result in results.values()] == ["done", "done"]


@pytest.mark.parametrize("content", ["null", "[]", "x", "1e999", "[" * 100_000])
def test_damaged_number_of_the_last_artifact_is_told(tmp_path, content):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last_artifact.json").write_text(content)

    results = run(two_tasks(), tmp_path)

    assert results["first"].state == "failed"
    assert "last_artifact.json'; got a damaged file" in results["first"].reason


def test_full_disk_is_told_with_the_record_that_cannot_be_written(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".last_artifact.json.partial").symlink_to("/dev/full")

    results = run(two_tasks(), tmp_path)

    assert results["first"].reason.endswith(f"No space left on device: '{tmp_path}/run/last_artifact.json'")


def test_full_disk_is_told_with_the_log_that_cannot_be_written(tmp_path):
    class KilledWhileTheDiskFills(NothingRuns):
        def run(self, container):
            container.log.unlink(missing_ok=True)
            container.log.symlink_to("/dev/full")
            return -9

    with pytest.raises(OSError, match=r"No space left on device: '.*/run/runs/[^/]*/first\.log'"):
        run(two_tasks(), tmp_path, engine=KilledWhileTheDiskFills())

from __future__ import annotations

import json
import os
import sys

import pytest

from tfx_gnn_pipelines import container
from tfx_gnn_pipelines.container import ContainerError, Contract, container_arguments, run_executor

EXECUTOR = '''
import json
import os

from tfx.dsl.components.base import base_beam_executor, base_executor


class Executor(base_executor.BaseExecutor):
    """Writes what it was given."""

    def Do(self, input_dict, output_dict, exec_properties):
        (words,) = output_dict["words"]
        os.makedirs(words.uri)
        given = {
            "inputs": {name: [(type(one).__name__, one.uri) for one in found] for name, found in input_dict.items()},
            "outputs": sorted(output_dict),
            "parameters": exec_properties,
            "span": input_dict["examples"][0].span,
            "size": input_dict["examples"][0].get_int_custom_property("size"),
            "share": input_dict["examples"][0].get_float_custom_property("share"),
            "kind": input_dict["examples"][0].get_string_custom_property("kind"),
        }
        with open(os.path.join(words.uri, "given.json"), "w") as file:
            json.dump(given, file)
        words.set_string_custom_property("of", input_dict["examples"][0].uri)
        words.set_int_custom_property("count", 3)
        words.set_float_custom_property("share", float("inf"))
        words.set_json_value_custom_property("verdicts", {"train": 1, "val": None, "test": ["a", 2.5]})
        words.set_json_value_custom_property("nothing", None)


class BeamExecutor(base_beam_executor.BaseBeamExecutor):
    """Writes its Beam arguments."""

    def Do(self, input_dict, output_dict, exec_properties):
        os.makedirs(output_dict["words"][0].uri)
        with open(os.path.join(output_dict["words"][0].uri, "args.json"), "w") as file:
            json.dump(list(self._beam_pipeline_args), file)


class Replica(base_executor.BaseExecutor):
    """Does nothing."""

    def Do(self, input_dict, output_dict, exec_properties):
        pass


class FailingExecutor(base_executor.BaseExecutor):
    """Fails with a message of two lines."""

    def Do(self, input_dict, output_dict, exec_properties):
        raise ValueError("`words` must be short;\\n  got long ones")
'''
CONTRACT = Contract(
    inputs={"examples": "tfx.types.standard_artifacts.Examples"},
    outputs={"words": "tfx_gnn.components.artifacts.GraphSchemaArtifact"},
    parameters={"count": "int", "share": "float", "name": "str"},
)


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """Import path of the package with the executors."""
    (tmp_path / "echo_container.py").write_text(EXECUTOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "echo_container"
    sys.modules.pop("echo_container", None)


def message(root, *, examples="minio://bucket/examples", words="minio://bucket/words", **parameters):
    """What Kubeflow's driver sends: no types of inputs, numbers as floats, one output more than declared."""
    values = {"count": 3.0, "share": 2.0, "name": "a"} | parameters
    metadata = {"span": 4.0, "size": 7.0, "share": 0.5, "kind": "big"}
    return {
        "inputs": {
            "parameterValues": {name: value for name, value in values.items() if value is not None},
            "artifacts": {
                "examples": {
                    "artifacts": [{"name": "12", "type": {"instanceSchema": ""}, "uri": examples, "metadata": metadata}]
                },
                "condition": {"artifacts": [{"name": "13", "uri": "minio://bucket/else"}]},
            },
        },
        "outputs": {
            "artifacts": {
                "words": {"artifacts": [{"type": {"schemaTitle": "tfx_gnn.GraphSchemaArtifact"}, "uri": words}]},
                "executor-logs": {
                    "artifacts": [{"type": {"schemaTitle": "system.Artifact"}, "uri": "minio://bucket/logs"}]
                },
            },
            "outputFile": str(root / "out" / "output_metadata.json"),
        },
    }


def run(echo, sent, *, uses_launcher=True, executor="Executor", beam_args=()):
    run_executor(
        executor=f"{echo}.{executor}",
        contract=CONTRACT,
        executor_input=sent,
        uses_launcher=uses_launcher,
        beam_args=beam_args,
    )
    with open(sent["outputs"]["outputFile"]) as file:
        return json.load(file)["artifacts"]


def test_kubeflows_message_gives_typed_artifacts_in_the_launchers_folders(echo, tmp_path, monkeypatch):
    monkeypatch.setenv(container.LAUNCHER_ROOT_VARIABLE, str(tmp_path))

    run(echo, message(tmp_path))

    given = json.loads((tmp_path / "minio/bucket/words/given.json").read_text())
    assert given == {
        "inputs": {"examples": [["Examples", str(tmp_path / "minio/bucket/examples")]]},
        "outputs": ["words"],
        "parameters": {"count": 3, "share": 2.0, "name": "a"},
        "span": 4,
        "size": 7,
        "share": 0.5,
        "kind": "big",
    }
    assert isinstance(given["parameters"]["count"], int)


def test_answer_has_uris_of_the_store_and_no_null(echo, tmp_path, monkeypatch):
    monkeypatch.setenv(container.LAUNCHER_ROOT_VARIABLE, str(tmp_path))

    answer = run(echo, message(tmp_path))

    (record,) = answer["words"]["artifacts"]
    assert answer.keys() == {"words"}
    assert record["uri"] == "minio://bucket/words"
    assert record["metadata"]["of"] == "minio://bucket/examples"
    assert record["metadata"]["count"] == 3
    assert record["metadata"]["share"] == "inf"
    assert record["metadata"]["verdicts"] == {"train": 1, "val": None, "test": ["a", 2.5]}
    assert "nothing" not in record["metadata"]


@pytest.mark.parametrize(("scheme", "folder"), [("gs", "gcs"), ("s3", "s3"), ("minio", "minio")])
def test_launcher_has_a_folder_for_each_store(echo, tmp_path, monkeypatch, scheme, folder):
    monkeypatch.setenv(container.LAUNCHER_ROOT_VARIABLE, str(tmp_path))

    run(echo, message(tmp_path, words=f"{scheme}://b/words"))

    assert (tmp_path / folder / "b" / "words" / "given.json").exists()


def test_without_a_launcher_places_are_used_as_they_are(echo, tmp_path):
    words = str(tmp_path / "words")

    answer = run(echo, message(tmp_path, words=words), uses_launcher=False)

    assert (tmp_path / "words" / "given.json").exists()
    assert answer["words"]["artifacts"][0]["uri"] == words
    assert answer["words"]["artifacts"][0]["metadata"]["of"] == "minio://bucket/examples"


def test_values_of_older_messages_are_read(echo, tmp_path):
    sent = message(tmp_path, words=str(tmp_path / "words"))
    artifact = sent["inputs"]["artifacts"]["examples"]["artifacts"][0]
    artifact["properties"] = {"span": {"intValue": "9"}}
    artifact["customProperties"] = {"kind": {"stringValue": "old"}, "share": {"doubleValue": 0.25}}
    artifact["metadata"] = {}

    run(echo, sent, uses_launcher=False)

    given = json.loads((tmp_path / "words" / "given.json").read_text())
    assert (given["span"], given["kind"], given["share"]) == (9, "old", 0.25)


def test_what_an_earlier_attempt_left_is_removed(echo, tmp_path, capsys):
    words = tmp_path / "words"
    words.mkdir()
    (words / "half.txt").write_text("")

    run(echo, message(tmp_path, words=str(words)), uses_launcher=False)

    assert os.listdir(words) == ["given.json"]
    assert f"removes what an earlier attempt left in {words}" in capsys.readouterr().out


@pytest.mark.parametrize(("task_type", "is_chief"), [("chief", True), ("worker", False)])
def test_of_several_replicas_none_clears_and_the_chief_answers(echo, tmp_path, monkeypatch, task_type, is_chief):
    config = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": task_type, "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    words = tmp_path / "words"
    words.mkdir()
    (words / "half.txt").write_text("")
    sent = message(tmp_path, words=str(words))
    executor = f"{echo}.Replica"

    run_executor(executor=executor, contract=CONTRACT, executor_input=sent, uses_launcher=False, beam_args=[])

    assert os.listdir(words) == ["half.txt"]
    assert os.path.exists(sent["outputs"]["outputFile"]) is is_chief


def test_a_job_of_one_machine_is_a_task_like_any_other(echo, tmp_path, monkeypatch):
    config = {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    words = tmp_path / "words"
    words.mkdir()
    (words / "half.txt").write_text("")

    answer = run(echo, message(tmp_path, words=str(words)), uses_launcher=False)

    assert os.listdir(words) == ["given.json"]
    assert answer.keys() == {"words"}


def test_beam_arguments_reach_beam_executors(echo, tmp_path):
    words = str(tmp_path / "words")

    run(echo, message(tmp_path, words=words), uses_launcher=False, executor="BeamExecutor", beam_args=["--runner=X"])

    # TFX adds some of its own.
    assert json.loads((tmp_path / "words" / "args.json").read_text())[0] == "--runner=X"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"count": None}, r"must have a value for each parameter; got none for \['count'\]"),
        ({"count": 2.5}, "The parameter 'count' must be of type int; got 2.5"),
        ({"count": True}, "The parameter 'count' must be of type int; got True"),
        ({"share": "1"}, "The parameter 'share' must be of type float; got '1'"),
        ({"name": 1.0}, "The parameter 'name' must be of type str; got 1.0"),
    ],
)
def test_parameter_that_does_not_fit_is_named(echo, tmp_path, parameters, text):
    with pytest.raises(ContainerError, match=text):
        run(echo, message(tmp_path, **parameters))


def test_input_of_a_skipped_task_is_named(echo, tmp_path):
    sent = message(tmp_path)
    del sent["inputs"]["artifacts"]["examples"]

    with pytest.raises(ContainerError, match=r"must have an artifact for the input 'examples'; got .*skipped"):
        run(echo, sent)


def test_executor_that_is_not_in_the_image_is_named(echo, tmp_path):
    with pytest.raises(ContainerError, match=r"`echo_container\.Absent` must be importable in the image"):
        run(echo, message(tmp_path), executor="Absent")


def test_failure_ends_the_log_with_one_line(echo, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(container.LAUNCHER_ROOT_VARIABLE, str(tmp_path))
    arguments = container_arguments(f"{echo}.FailingExecutor", CONTRACT, uses_launcher=True, beam_args=[])
    arguments[arguments.index("{{$}}")] = json.dumps(message(tmp_path))

    code = container.main(arguments)

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[-1] == "echo_container.FailingExecutor failed: ValueError: `words` must be short; got long ones"
    assert "Traceback (most recent call last):" in lines
    assert not os.path.exists(tmp_path / "out")


@pytest.mark.parametrize(("code", "expected"), [(0, 1), (7, 7), ("'no'", 1)])
def test_executor_that_exits_has_failed(echo, tmp_path, capsys, code, expected):
    with open(tmp_path / "echo_container.py", "a") as file:
        file.write(f"\nclass Leaving(Executor):\n    def Do(self, *_):\n        raise SystemExit({code})\n")
    arguments = container_arguments(f"{echo}.Leaving", CONTRACT, uses_launcher=False, beam_args=[])
    arguments[arguments.index("{{$}}")] = json.dumps(message(tmp_path, words=str(tmp_path / "words")))

    assert container.main(arguments) == expected
    assert capsys.readouterr().out.splitlines()[-1].startswith("echo_container.Leaving failed: SystemExit: ")


def test_file_that_an_earlier_attempt_left_is_removed(echo, tmp_path):
    (tmp_path / "words").write_text("")

    run(echo, message(tmp_path, words=str(tmp_path / "words")), uses_launcher=False)

    assert os.listdir(tmp_path / "words") == ["given.json"]


def test_arguments_bring_beams_own_after_two_dashes(echo, tmp_path, monkeypatch):
    monkeypatch.setenv(container.LAUNCHER_ROOT_VARIABLE, str(tmp_path))
    arguments = container_arguments(
        f"{echo}.BeamExecutor",
        CONTRACT,
        uses_launcher=True,
        beam_args=["--runner=DirectRunner", "--direct_num_workers=2"],
    )
    arguments[arguments.index("{{$}}")] = json.dumps(message(tmp_path))

    assert container.main(arguments) == 0
    written = tmp_path / "minio" / "bucket" / "words" / "args.json"
    assert json.loads(written.read_text())[:2] == ["--runner=DirectRunner", "--direct_num_workers=2"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{$}}", "must be JSON; got '{{$}}'"),
        ("[]", "must be a JSON object; got '[]'"),
        ("{}", "must have an artifact"),
    ],
)
def test_message_that_no_service_sends_is_named(echo, capsys, text, found):
    arguments = container_arguments(f"{echo}.Executor", CONTRACT, uses_launcher=True, beam_args=[])
    arguments[arguments.index("{{$}}")] = text

    assert container.main(arguments) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("echo_container.Executor failed: ContainerError: `executor-input` must")
    assert found in last

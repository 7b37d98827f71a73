from __future__ import annotations

import copy
import json

import pytest

from tfx_gnn_pipelines.compiled_pipeline import read_compiled, run_parameters

JOB = {
    "pipelineSpec": {
        "schemaVersion": "2.1.0",
        "pipelineInfo": {"name": "shop"},
        "root": {
            "dag": {"tasks": {"Trainer": {}}},
            "inputDefinitions": {"parameters": {"rate": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.1}}},
        },
        "deploymentSpec": {"executors": {"Trainer": {"container": {}}}},
    },
    "runtimeConfig": {"parameterValues": {}},
}


def _changed(*path, value):
    job = copy.deepcopy(JOB)
    place = job
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return json.dumps(job).encode()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b"", "Expecting value"),
        ("a.json", b"\x80\x81", "bytes that are no text"),
        ("a.yaml", b"\x80\x81", "bytes that are no text"),
        ("a.json", b"[" * 100_000, "recursion"),
        ("a.json", _changed("pipelineSpec", "pipelineInfo", value={}), "no 'name'"),
        (
            "a.json",
            _changed("pipelineSpec", "root", "dag", "tasks", value=["Trainer"]),
            "`root.dag.tasks` that is no object",
        ),
        (
            "a.json",
            _changed("pipelineSpec", "deploymentSpec", "executors", value={"a": None}),
            "`deploymentSpec.executors.a` that is",
        ),
        (
            "a.json",
            _changed("pipelineSpec", "root", "inputDefinitions", "parameters", value=["rate"]),
            "parameters` that is no object",
        ),
        ("a.json", _changed("pipelineSpec", value=["root"]), "no object"),
        ("a.json", _changed("runtimeConfig", value=[1]), "a `runtimeConfig` that is no object"),
        ("a.json", _changed("runtimeConfig", "parameterValues", value=[1]), "no object of `parameterValues`"),
        ("a.json", _changed("pipelineSpec", "root", "dag", value={"tasks": {}}), "0 tasks and 1 executors"),
        ("a.json", _changed("runtimeConfig", "parameterValues", value={"rate": float("nan")}), "not JSON compliant"),
        ("a.yaml", _changed("runtimeConfig", value={}).replace(b'"runtimeConfig": {}', b"a: 2024-01-01"), "type date"),
    ],
)
def test_a_file_without_a_pipeline_is_told(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"`file` must hold a compiled pipeline of schema .*; got ") as failed:
        read_compiled(str(path))

    assert told in str(failed.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "no object"), ("{", "expected"), ("a: 1", "no 'schemaVersion'"), ("schemaVersion: '1.0'", "no 'root'")],
)
def test_file_without_a_pipeline_is_refused(tmp_path, text, found):
    (tmp_path / "file.yaml").write_text(text)

    with pytest.raises(ValueError, match=rf"`file` must hold a compiled pipeline .*file.yaml' with .*{found}"):
        read_compiled(str(tmp_path / "file.yaml"))


def test_fields_that_are_null_are_empty(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(_changed("runtimeConfig", value=None))

    assert read_compiled(str(path)).parameters == {}


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"dependentTasks": "Reader"}, "`root.dag.tasks.Trainer.dependentTasks` that is no list"),
        ({"dependentTasks": [None]}, "dependentTasks[0]` that is no text"),
        ({"inputs": {"parameters": {"rate": None}}}, "inputs.parameters.rate` that is no object"),
        ({"cachingOptions": {"enableCache": "yes"}}, "enableCache` that is no true or false"),
        ({"retryPolicy": {"maxRetryCount": "three"}}, "maxRetryCount` that is no number"),
        ({"retryPolicy": {"backoffDuration": 60}}, "backoffDuration` that is no duration such as 60s"),
    ],
)
def test_a_field_of_another_type_is_named(tmp_path, task, told):
    path = tmp_path / "a.json"
    path.write_bytes(_changed("pipelineSpec", "root", "dag", "tasks", "Trainer", value=task))

    with pytest.raises(ValueError, match=r"`file` must hold a compiled pipeline") as failed:
        read_compiled(str(path))

    assert told in str(failed.value)


def test_fields_that_are_null_are_left_out_but_null_values_stay(tmp_path):
    path = tmp_path / "a.json"
    constant = {"runtimeValue": {"constant": None}, "componentInputParameter": None}
    task = {"inputs": {"parameters": {"rate": constant}, "artifacts": None}, "retryPolicy": {"maxRetryCount": "3"}}
    path.write_bytes(_changed("pipelineSpec", "root", "dag", "tasks", "Trainer", value=task | {"triggerPolicy": None}))

    assert read_compiled(str(path)).tasks["Trainer"] == {
        "inputs": {"parameters": {"rate": {"runtimeValue": {"constant": None}}}},
        "retryPolicy": {"maxRetryCount": "3"},
    }


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e400"])
def test_a_number_that_json_does_not_have_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(JOB))

    with pytest.raises(ValueError, match=f"NUMBER_DOUBLE for 'rate'; got '{text}'"):
        run_parameters(read_compiled(str(path)), {"rate": text})

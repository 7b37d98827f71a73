"""Specifications whose containers run small scripts, so that what the services do is seen alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tfx_gnn_pipelines.command import app
from tfx_gnn_pipelines.compiled_pipeline import compiled_service, read_compiled, run_parameters
from tfx_gnn_pipelines.emulator.driver import record_outputs
from tfx_gnn_pipelines.emulator.run import run_compiled
from tfx_gnn_pipelines.exit_handler import add_report_task, report_after_all_tasks
from tfx_gnn_pipelines.services import Service

# Copies the input, adds the parameter, and writes the message beside it.
SCRIPT = """
import json, os, sys
message = json.loads(sys.argv[1])
def place(uri):
    for scheme, folder in (("gs://", "gcs"), ("s3://", "s3"), ("minio://", "minio")):
        if uri.startswith(scheme):
            return os.path.join(os.environ["TFX_GNN_LAUNCHER_ROOT"], folder, uri[len(scheme):])
    return uri
found = message["inputs"].get("artifacts", {}).get("text", {}).get("artifacts", [])
text = open(os.path.join(place(found[0]["uri"]), "text.txt")).read() if found else ""
output = message["outputs"]["artifacts"]["text"]["artifacts"][0]
os.makedirs(place(output["uri"]))
os.makedirs(os.path.join(place(output["uri"]), "empty"))
open(os.path.join(place(output["uri"]), "text.txt"), "w").write(text + message["inputs"]["parameterValues"]["word"])
open(os.path.join(place(output["uri"]), "message.json"), "w").write(json.dumps(message))
print("wrote", output["uri"])
answer = {"artifacts": {"text": {"artifacts": [{"uri": output["uri"], "metadata": {"n": 1, "ok": True, "l": [1]}}]}}}
os.makedirs(os.path.dirname(message["outputs"]["outputFile"]), exist_ok=True)
open(message["outputs"]["outputFile"], "w").write(json.dumps(answer))
"""
DECLARED = {"artifacts": {"text": {"artifactType": {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"}}}}


def pipeline(tmp_path, *, second="", caching=False, retries=0, root="minio://bucket/root", name="chain"):
    """A compiled pipeline of two tasks, where the second one reads the output of the first one."""
    parameter = {"parameters": {"word": {"componentInputParameter": "word"}}}
    first = {"taskInfo": {"name": "first"}, "componentRef": {"name": "first"}, "inputs": parameter}
    source = {"taskOutputArtifact": {"producerTask": "first", "outputArtifactKey": "text"}}
    after = {
        "taskInfo": {"name": "second"},
        "componentRef": {"name": "second"},
        "dependentTasks": ["first"],
        "inputs": parameter | {"artifacts": {"text": source}},
        "retryPolicy": {"maxRetryCount": retries, "backoffDuration": "0s"},
    }
    for task in (first, after):
        task["cachingOptions"] = {"enableCache": caching}
    container = {"image": "registry/image:tag", "command": [sys.executable, "-c"]}
    spec = {
        "schemaVersion": "2.1.0",
        "pipelineInfo": {"name": name},
        "root": {
            # The second one first, because a file has no order.
            "dag": {"tasks": {"second": after, "first": first}},
            "inputDefinitions": {"parameters": {"word": {"parameterType": "STRING", "defaultValue": "a"}}},
        },
        "components": {
            "first": {"executorLabel": "first", "outputDefinitions": DECLARED},
            "second": {"executorLabel": "second", "outputDefinitions": DECLARED, "inputDefinitions": DECLARED},
        },
        "deploymentSpec": {
            "executors": {
                "first": {"container": container | {"args": [SCRIPT, "{{$}}"]}},
                "second": {"container": container | {"args": [second or SCRIPT, "{{$}}"]}},
            }
        },
    }
    if root:
        spec["defaultPipelineRoot"] = root
    path = tmp_path / "chain.yaml"
    path.write_text(yaml.safe_dump(spec))
    return read_compiled(str(path))


def run(compiled, folder, *, service=Service.KUBEFLOW, **parameters):
    results = run_compiled(
        compiled, service=service, folder=str(folder), parameters=run_parameters(compiled, parameters)
    )
    return {result.task: result for result in results}


def text_of(results, folder, name="second"):
    uri = results[name].artifacts["text"]["uri"]
    return (folder / "store" / uri.replace("://", "/", 1) / "text.txt").read_text()


def sent_to(results, folder, name="second"):
    uri = results[name].artifacts["text"]["uri"]
    return json.loads((folder / "store" / uri.replace("://", "/", 1) / "message.json").read_text())


def test_tasks_run_in_order_on_what_the_launcher_copied(tmp_path):
    results = run(pipeline(tmp_path), tmp_path / "run", word="ab")

    assert [(result.task, result.state, result.attempts) for result in results.values()] == [
        ("first", "done", 1),
        ("second", "done", 1),
    ]
    assert text_of(results, tmp_path / "run") == "abab"
    assert results["second"].artifacts["text"]["uri"].startswith("minio://bucket/root/chain/")


def test_kubeflow_sends_no_types_of_inputs_and_one_more_output(tmp_path):
    results = run(pipeline(tmp_path), tmp_path / "run")

    message = sent_to(results, tmp_path / "run")
    (artifact,) = message["inputs"]["artifacts"]["text"]["artifacts"]
    assert artifact["type"] == {"instanceSchema": ""}
    assert artifact["name"].isdigit()
    assert artifact["metadata"] == {"n": 1.0, "ok": 1.0, "l": {"list": [1.0]}}
    assert message["outputs"]["artifacts"].keys() == {"text", "executor-logs"}
    logs = tmp_path / "run" / "store" / results["second"].artifacts["executor-logs"]["uri"].replace("://", "/", 1)
    assert logs.read_text().startswith("wrote minio://")


def test_vertex_sends_types_and_takes_the_answer_beside_the_outputs(tmp_path):
    results = run(pipeline(tmp_path), tmp_path / "run", service=Service.VERTEX)

    uri = Path(results["second"].artifacts["text"]["uri"])
    message = json.loads((uri / "message.json").read_text())
    (artifact,) = message["inputs"]["artifacts"]["text"]["artifacts"]
    assert artifact["type"] == DECLARED["artifacts"]["text"]["artifactType"]
    assert message["outputs"]["artifacts"].keys() == {"text"}
    assert message["outputs"]["outputFile"] == str(uri.parent / "executor_output.json")
    assert uri.is_relative_to(tmp_path / "run" / "artifacts")


def test_empty_folders_are_no_objects(tmp_path):
    results = run(pipeline(tmp_path), tmp_path / "run")

    uri = results["first"].artifacts["text"]["uri"]
    assert sorted(os.listdir(tmp_path / "run" / "store" / uri.replace("://", "/", 1))) == ["message.json", "text.txt"]
    assert not any((tmp_path / "run" / "pods").iterdir())


def test_null_in_metadata_fails_as_in_kubeflows_launcher():
    outputs = {"artifacts": {"text": {"artifacts": [{"uri": "minio://b/t", "metadata": {}}]}}}
    answer = {"artifacts": {"text": {"artifacts": [{"uri": "minio://b/t", "metadata": {"n": None}}]}}}

    with pytest.raises(ValueError, match="must not be null"):
        record_outputs(service=Service.KUBEFLOW, outputs=outputs, answer=answer, first_id=1)


def test_failed_task_is_told_by_its_last_line_and_stops_what_depends_on_it(tmp_path):
    compiled = pipeline(tmp_path, second="print('begins', flush=True); raise SystemExit('no disk left')")
    compiled.spec["root"]["dag"]["tasks"]["third"] = {
        "taskInfo": {"name": "third"},
        "componentRef": {"name": "first"},
        "dependentTasks": ["second"],
        "inputs": {"parameters": {"word": {"componentInputParameter": "word"}}},
    }

    results = run(compiled, tmp_path / "run")

    assert {name: result.state for name, result in results.items()} == {
        "first": "done",
        "second": "failed",
        "third": "not run",
    }
    assert results["second"].reason == "no disk left"
    assert Path(results["second"].log).read_text() == "begins\nno disk left\n"


def test_task_that_a_signal_ended_says_so(tmp_path):
    compiled = pipeline(tmp_path, second="import os; os.kill(os.getpid(), 9)")

    assert run(compiled, tmp_path / "run")["second"].reason == "second was ended by signal 9"


def test_task_is_retried_as_the_file_says(tmp_path):
    count = f"{tmp_path}/count"
    twice = f"import sys; open({count!r}, 'a').write('x')\nif len(open({count!r}).read()) < 3: sys.exit('not yet')\n"

    results = run(pipeline(tmp_path, second=twice + SCRIPT, retries=2), tmp_path / "run")

    assert (results["second"].state, results["second"].attempts) == ("done", 3)
    log = Path(results["second"].log).read_text().splitlines()
    assert log[:4] == [
        "not yet",
        "second is started again in 0 s, for attempt 2 of 3",
        "not yet",
        "second is started again in 0 s, for attempt 3 of 3",
    ]


def test_waits_before_retries_are_told(tmp_path):
    compiled, told = pipeline(tmp_path, second="raise SystemExit('no disk left')", retries=1), []

    run_compiled(
        compiled,
        service=Service.KUBEFLOW,
        folder=str(tmp_path / "run"),
        parameters={"word": "a"},
        report=lambda task, result: told.append((task, result and result.state, result and result.reason)),
    )

    assert told[3:] == [
        ("second", "waiting", "no disk left"),
        ("second", "failed", "no disk left"),
    ]


def test_attempts_of_a_task_write_to_the_same_place(tmp_path):
    places = tmp_path / "places"
    note = (
        "import json, sys\nplace = json.loads(sys.argv[1])['outputs']['artifacts']['text']['artifacts'][0]['uri']\n"
        f"open({str(places)!r}, 'a').write(place + chr(10))\nsys.exit(1)"
    )

    run(pipeline(tmp_path, second=note, retries=1), tmp_path / "run")

    first, second = places.read_text().splitlines()
    assert first == second


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("{", "JSONDecodeError"), ('{"text": {"artifacts": [{"metadata": {"n": null}}]}}', "be null")],
)
def test_answer_that_no_launcher_takes_fails_the_task(tmp_path, answer, reason):
    if answer != "{":
        answer = f'{{"artifacts": {answer}}}'
    script = (
        "import json, os, sys\n"
        "place = json.loads(sys.argv[1])['outputs']['outputFile']\n"
        "os.makedirs(os.path.dirname(place))\n"
        f"open(place, 'w').write({answer!r})"
    )

    results = run(pipeline(tmp_path, second=script), tmp_path / "run")

    assert results["second"].state == "failed"
    assert reason in results["second"].reason


def test_program_that_does_not_exist_fails_the_task(tmp_path):
    compiled = pipeline(tmp_path)
    compiled.spec["deploymentSpec"]["executors"]["first"]["container"]["command"] = ["no-such-program"]

    results = run(compiled, tmp_path / "run")

    assert results["first"].state == "failed"
    assert "No such file or directory: 'no-such-program'" in results["first"].reason
    assert results["second"].state == "not run"


def test_what_a_task_leaves_running_ends_with_it(tmp_path):
    pid = tmp_path / "pid"
    leave = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(left.pid))\n"
    )

    run(pipeline(tmp_path, second=leave + SCRIPT), tmp_path / "run")

    stat = Path(f"/proc/{pid.read_text()}/stat")
    # Ended, though perhaps not yet collected.
    while stat.exists() and stat.read_text().split()[2] != "Z":
        time.sleep(0.02)


def test_environment_of_the_container_reaches_the_task(tmp_path):
    compiled = pipeline(tmp_path, second="import os; raise SystemExit('color ' + os.environ['COLOR'])")
    container = compiled.spec["deploymentSpec"]["executors"]["second"]["container"]
    container["env"] = [{"name": "COLOR", "value": "red"}]

    assert run(compiled, tmp_path / "run")["second"].reason == "color red"


def test_task_that_fails_too_often_has_failed(tmp_path):
    results = run(pipeline(tmp_path, second="raise SystemExit('never')", retries=1), tmp_path / "run")

    assert (results["second"].state, results["second"].attempts) == ("failed", 2)


def test_equal_tasks_are_taken_from_an_earlier_run(tmp_path):
    compiled = pipeline(tmp_path, caching=True)
    before = run(compiled, tmp_path / "run")

    again = run(compiled, tmp_path / "run")
    changed = run(compiled, tmp_path / "run", word="b")

    assert [result.state for result in again.values()] == ["cached", "cached"]
    assert again["second"].artifacts == before["second"].artifacts
    assert [result.state for result in changed.values()] == ["done", "done"]
    assert text_of(changed, tmp_path / "run") == "bb"


def test_cache_is_not_used_if_its_artifacts_are_gone_or_torn(tmp_path):
    compiled = pipeline(tmp_path, caching=True)
    run(compiled, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "store")

    assert [result.state for result in run(compiled, tmp_path / "run").values()] == ["done", "done"]
    for entry in (tmp_path / "run" / "cache").rglob("*.json"):
        entry.write_text("")
    assert [result.state for result in run(compiled, tmp_path / "run").values()] == ["done", "done"]


def test_each_service_has_its_own_cache(tmp_path):
    compiled = pipeline(tmp_path, caching=True)
    run(compiled, tmp_path / "run")

    results = run(compiled, tmp_path / "run", service=Service.VERTEX)

    assert [result.state for result in results.values()] == ["done", "done"]


def test_cache_of_another_pipeline_or_image_does_not_count(tmp_path):
    run(pipeline(tmp_path, caching=True), tmp_path / "run")
    renamed = pipeline(tmp_path, caching=True, name="other")
    rebuilt = pipeline(tmp_path, caching=True)
    rebuilt.spec["deploymentSpec"]["executors"]["first"]["container"]["image"] = "registry/image:new"

    assert [result.state for result in run(renamed, tmp_path / "run").values()] == ["done", "done"]
    # The second one has the same image, but an input of another name.
    assert [result.state for result in run(rebuilt, tmp_path / "run").values()] == ["done", "done"]


def test_without_the_files_permission_nothing_is_cached(tmp_path):
    compiled = pipeline(tmp_path)

    assert [run(compiled, tmp_path / "run")["first"].state for _ in range(2)] == ["done", "done"]


@pytest.mark.parametrize(
    ("store", "service", "root", "message"),
    [
        ("127.0.0.1:8333", Service.KUBEFLOW, "minio://b", r"must be the URL of an S3 server, as in http://HOST:PORT"),
        (
            "http://127.0.0.1:8333/b",
            Service.KUBEFLOW,
            "minio://b",
            r"must be the URL of an S3 server.*bucket is that of",
        ),
        (
            "http://127.0.0.1:8333",
            Service.KUBEFLOW,
            "gs://b",
            r"whose root is minio:// or s3://; got .* the root 'gs://b'",
        ),
        ("http://127.0.0.1:8333", Service.VERTEX, "gs://b", r"`--store` must be given with Kubeflow's semantics"),
    ],
)
def test_store_must_fit_the_pipeline(tmp_path, store, service, root, message):
    compiled = pipeline(tmp_path, root=root)

    with pytest.raises(ValueError, match=message):
        run_compiled(compiled, service=service, folder=str(tmp_path / "run"), store=store, parameters={"word": "a"})


def test_run_that_was_killed_goes_on_from_its_cache(tmp_path):
    started = tmp_path / "started"
    waiting = f"import time; open({str(started)!r}, 'w'); time.sleep(60)\n"
    pipeline(tmp_path, second=waiting, caching=True)
    arguments = [str(tmp_path / "chain.yaml"), *("--runner", "spec", "--semantics", "kubeflow")]
    with subprocess.Popen(
        [sys.executable, "-m", "tfx_gnn_pipelines", *arguments, "--root", str(tmp_path / "run")]
    ) as process:
        while not started.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()

    results = run(pipeline(tmp_path, caching=True), tmp_path / "run")

    assert [result.state for result in results.values()] == ["cached", "done"]
    assert text_of(results, tmp_path / "run") == "aa"


def test_folder_is_used_by_one_run_at_a_time(tmp_path):
    compiled = pipeline(tmp_path)

    def run_inside(task, result):
        if result is None:
            run_compiled(compiled, service=Service.KUBEFLOW, folder=str(tmp_path / "run"), parameters={"word": "a"})

    with pytest.raises(BlockingIOError, match="`root` must be used by one run at a time"):
        run_compiled(
            compiled,
            service=Service.KUBEFLOW,
            folder=str(tmp_path / "run"),
            parameters={"word": "a"},
            report=run_inside,
        )


@pytest.mark.parametrize(
    ("condition", "states"),
    [
        ("inputs.artifacts['text'].artifacts[0].metadata['n'] == 1.0", ["done", "done"]),
        ("inputs.artifacts['text'].artifacts[0].metadata['n'] == 2.0", ["done", "skipped"]),
        ("inputs.parameter_values['word'] == 'a' && inputs.artifacts['text'].artifacts[0].uri != ''", ["done", "done"]),
        ("!(inputs.parameter_values['word'] == 'a')", ["done", "skipped"]),
    ],
)
def test_task_runs_if_its_condition_holds(tmp_path, condition, states):
    compiled = pipeline(tmp_path)
    compiled.spec["root"]["dag"]["tasks"]["second"]["triggerPolicy"] = {"condition": condition}

    results = run(compiled, tmp_path / "run")

    assert [result.state for result in results.values()] == states


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("1 +", "`condition` must be true or false for the inputs of 'second'; got"),
        ("1.0", "got the answer DoubleType(1.0) for '1.0'"),
        ("inputs.artifacts['x'].name == ''", "`condition` must be true or false"),
    ],
)
def test_condition_that_cannot_be_evaluated_fails_the_task(tmp_path, condition, reason):
    compiled = pipeline(tmp_path)
    compiled.spec["root"]["dag"]["tasks"]["second"]["triggerPolicy"] = {"condition": condition}

    results = run(compiled, tmp_path / "run")

    assert [result.state for result in results.values()] == ["done", "failed"]
    assert reason in results["second"].reason


def test_command_tells_what_was_skipped_and_by_which_condition(tmp_path):
    compiled = pipeline(tmp_path)
    compiled.spec["root"]["dag"]["tasks"]["second"]["triggerPolicy"] = {"condition": "1 == 2"}
    (tmp_path / "chain.yaml").write_text(yaml.safe_dump(compiled.spec))

    result = CliRunner().invoke(
        app, [str(tmp_path / "chain.yaml"), *("--runner", "spec"), *("--root", str(tmp_path / "run"))]
    )

    assert result.exit_code == 1
    assert "- 2/2 second                   skipped" in result.output
    assert "1 of 2 tasks succeeded as vertex would run them" in result.output
    assert "second was skipped, because this is not true: 1 == 2" in result.output


def test_trial_does_not_push_to_the_compiled_place(tmp_path):
    compiled = pipeline(tmp_path)
    declared = {"push_destination": {"parameterType": "STRING", "defaultValue": "gs://bucket/serving"}}
    compiled.spec["root"]["inputDefinitions"]["parameters"].update(declared)
    (tmp_path / "chain.yaml").write_text(yaml.safe_dump(compiled.spec))
    arguments = [str(tmp_path / "chain.yaml"), *("--runner", "spec"), *("--root", str(tmp_path / "run"))]

    refused = CliRunner().invoke(app, arguments)
    done = CliRunner().invoke(app, [*arguments, "--parameter", f"push_destination={tmp_path}/serving"])

    assert refused.exit_code == 2
    assert "so that a trial does not push to the compiled place, 'gs://bucket/serving'" in refused.output
    assert done.exit_code == 0, done.output


def test_state_of_the_run_is_a_file(tmp_path):
    run(pipeline(tmp_path), tmp_path / "run", word="b")

    (state,) = (tmp_path / "run" / "runs").glob("*/run.json")
    told = json.loads(state.read_text())
    assert (told["pipeline"], told["service"], told["parameters"]) == ("chain", "kubeflow", {"word": "b"})
    assert [task["state"] for task in told["tasks"]] == ["done", "done"]


def test_root_that_the_launcher_does_not_know_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`root` must be on a store that Kubeflow's launcher knows.*got 'hdfs://"):
        run(pipeline(tmp_path, root="hdfs://name/root"), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"triggerPolicy": {"strategy": 2}}, r"got 'second' with \['container', 'strategy'\]"),
        ({"dependentTasks": ["second"]}, r"without a circle; got \['second'\]"),
        (
            {"dependentTasks": ["zeroth"]},
            "must depend on tasks of the pipeline; got 'zeroth', on which 'second' depends",
        ),
        ({"componentRef": {}}, "got 'second' with no executor"),
        ({"parameterIterator": {}}, "must run once, .*got 'second'"),
        (
            {"inputs": {"parameters": {"word": {"taskOutputParameter": {}}}}},
            r"got \['taskOutputParameter'\] for 'word'",
        ),
    ],
)
def test_what_is_not_imitated_is_refused(tmp_path, change, message):
    compiled = pipeline(tmp_path)
    compiled.spec["root"]["dag"]["tasks"]["second"].update(change)

    with pytest.raises(ValueError, match=message):
        run(compiled, tmp_path / "run")


def test_values_of_parameters_are_typed_as_declared(tmp_path):
    compiled = pipeline(tmp_path)
    kinds = {"n": "NUMBER_INTEGER", "x": "NUMBER_DOUBLE", "b": "BOOLEAN", "l": "LIST"}
    compiled.spec["root"]["inputDefinitions"]["parameters"].update(
        {name: {"parameterType": kind} for name, kind in kinds.items()}
    )

    given = {"n": "3", "x": "0.5", "b": "True", "l": "[1]"}
    assert run_parameters(compiled, given) == {"word": "a", "n": 3, "x": 0.5, "b": True, "l": [1]}
    with pytest.raises(
        ValueError, match="`parameter` must have the declared type, NUMBER_INTEGER for 'n'; got 'three'"
    ):
        run_parameters(compiled, given | {"n": "three"})
    with pytest.raises(ValueError, match="`parameter` must give 'x', which has no default"):
        run_parameters(compiled, {"n": "3"})
    with pytest.raises(ValueError, match=r"must name a parameter of the pipeline, among \['b', .*; got 'words'"):
        run_parameters(compiled, given | {"words": "a"})


def test_service_of_a_file_is_told_by_its_containers(tmp_path):
    compiled = pipeline(tmp_path)
    assert compiled_service(compiled) is Service.VERTEX

    compiled.spec["deploymentSpec"]["executors"]["first"]["container"]["args"] += ["--storage", "launcher"]
    assert compiled_service(compiled) is Service.KUBEFLOW


def with_exit_handler(compiled):
    """Adds the handler of this project, which is a process of its own here."""
    spec = compiled.spec
    add_report_task(spec, image="registry/image:tag", report_to="")
    report_after_all_tasks(spec)
    return compiled


def test_exit_handler_is_told_that_all_tasks_succeeded(tmp_path):
    results = run(with_exit_handler(pipeline(tmp_path)), tmp_path / "run", word="ab")

    assert [(result.task, result.state) for result in results.values()] == [
        ("first", "done"),
        ("second", "done"),
        ("RunReport", "done"),
    ]
    assert text_of(results, tmp_path / "run") == "abab"
    assert Path(results["RunReport"].log).read_text().startswith("chain: SUCCEEDED (run ")


def test_exit_handler_runs_after_a_failure_and_names_the_task(tmp_path):
    compiled = with_exit_handler(pipeline(tmp_path, second="raise SystemExit(3)"))

    results = run(compiled, tmp_path / "run", service=Service.VERTEX)

    assert [result.state for result in results.values()] == ["done", "failed", "done"]
    assert Path(results["RunReport"].log).read_text().startswith("chain: FAILED: Failed tasks: second. (run ")


def test_trial_does_not_report_to_the_compiled_address(tmp_path):
    compiled = with_exit_handler(pipeline(tmp_path))
    compiled.spec["root"]["inputDefinitions"]["parameters"]["report_to"]["defaultValue"] = "https://hooks.example/x"
    (tmp_path / "chain.yaml").write_text(yaml.safe_dump(compiled.spec))

    result = CliRunner().invoke(
        app, [str(tmp_path / "chain.yaml"), *("--runner", "spec"), *("--root", str(tmp_path / "run"))]
    )

    assert result.exit_code == 0, result.output
    assert "The report of this trial is only printed. Add --parameter report_to=ADDRESS to send it." in result.output
    assert "+ 3/3 RunReport" in result.output


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("exit-handler-1", {"inputs": {"parameters": {"word": {"runtimeValue": {"constant": "b"}}}}}),
        ("exit-handler-1", {"triggerPolicy": {"condition": "1 == 1"}}),
        ("RunReport", {"dependentTasks": ["second"]}),
        ("third", {"taskInfo": {"name": "third"}, "componentRef": {"name": "first"}}),
    ],
    ids=["renamed-parameter", "condition", "handler-of-one-task", "task-beside"],
)
def test_other_nesting_is_refused(tmp_path, task, change):
    compiled = with_exit_handler(pipeline(tmp_path))
    compiled.spec["root"]["dag"]["tasks"].setdefault(task, {}).update(change)

    with pytest.raises(ValueError, match="A nested DAG must be the only one"):
        run(compiled, tmp_path / "run")

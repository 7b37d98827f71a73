"""The starter whole on Cloud Storage, as Vertex AI would run it; also while requests fail and are slow."""

from __future__ import annotations

import json
import shutil

import pytest

# A task that a service would start again; the first wait is as short as a file may say.
RESOURCES = "defaults: {retries: 2}\n"


@pytest.fixture(scope="module")
def run_starter(gcs, project, local_run, type_command, tmp_path_factory):
    """Runs the compiled starter below a name of the bucket, in a folder without a cache; returns its tasks."""
    (project / "resources.yaml").write_text(RESOURCES)
    places = [
        "--root",
        "gs://bucket/compiled",
        "--push-to",
        "gs://bucket/compiled_to",
        "--image",
        "registry/web-shop:1",
    ]
    options = [
        "--runner",
        "vertex",
        "--compile-only",
        "--epochs",
        str(local_run.epochs),
        "--resources",
        "resources.yaml",
    ]
    compiled = type_command(
        ["-m", "tfx_gnn_pipelines", "web_shop:TASK", *options, *places, "--output", "web_shop.json"], project
    )
    assert compiled.returncode == 0, compiled.stderr

    def run(name):
        folder = tmp_path_factory.mktemp(name) / "project"
        shutil.copytree(project, folder)
        places = ["--root", f"gs://bucket/{name}", "--parameter", f"push_destination=gs://bucket/{name}_served"]
        done = type_command(["-m", "tfx_gnn_pipelines", "web_shop.json", "--runner", "spec", *places], folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "9 of 9 tasks succeeded as vertex would run them" in done.stdout
        (state,) = folder.glob("runs/*/runs/*/run.json")
        return {task["task"]: task for task in json.loads(state.read_text())["tasks"]}

    return run


@pytest.fixture(scope="module")
def healthy(gcs, run_starter):
    with gcs.failing() as counts:
        tasks = run_starter("healthy")
        counts["attempts"] = attempts_of(tasks)
    return tasks


def attempts_of(tasks):
    return {name: task["attempts"] for name, task in tasks.items()}


def metrics_of(gcs, name):
    (found,) = [path for path in gcs.objects(f"{name}/") if path.endswith("/evaluation/metrics.json")]
    return json.loads(gcs.read(found))


def sizes_of(gcs, prefix):
    """Sizes of the files below a prefix; a marker of a folder is no file."""
    files = [name for name in gcs.objects(prefix) if not name.endswith("/")]
    return {name.removeprefix(prefix): len(gcs.read(name)) for name in files}


def test_starter_on_cloud_storage_gives_the_same_metrics_as_here(gcs, healthy, local_run):
    local_run.assert_metrics(metrics_of(gcs, "healthy"))


def test_pushed_model_is_loaded_from_the_bucket_and_predicts_as_the_one_here(
    gcs, healthy, local_run, project, type_command
):
    examples = healthy["SubgraphExampleGen"]["artifacts"]["examples"]["uri"] + "/Split-test"

    # As consoles and gcsfuse make them, for each folder.
    for folder in ("healthy_served/", "healthy_served/1/", "healthy_served/1/variables/", "healthy_served/1/assets/"):
        gcs.write(folder, b"")
    asked = ["predict", "--model-dir", "gs://bucket/healthy_served", "--examples", examples, "--limit", "0", "--json"]
    answered = type_command(["-m", "tfx_gnn.cli", *asked], project)

    assert answered.returncode == 0, answered.stderr
    predictions = [json.loads(line) for line in answered.stdout.splitlines()]
    assert len(predictions) == 60
    assert predictions == local_run.predictions()


def test_store_that_fails_and_is_slow_tears_and_loses_nothing(gcs, healthy, run_starter, local_run):
    with gcs.failing(rate=0.05, seed=1, latency=0.03, bytes_per_second=4e6) as counts:
        counts["attempts"] = attempts_of(run_starter("failing"))

    assert counts["refused"] > 10
    assert counts["lost"] > 10
    local_run.assert_metrics(metrics_of(gcs, "failing"))
    served = {name: sizes_of(gcs, f"{name}_served/1/") for name in ("healthy", "failing")}
    assert served["failing"].keys() == served["healthy"].keys()
    # TensorFlow numbers the functions of a graph anew.
    del served["failing"]["saved_model.pb"], served["healthy"]["saved_model.pb"]
    assert served["failing"] == served["healthy"]

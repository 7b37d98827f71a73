"""The starter whole on Cloud Storage, as Vertex AI would run it, while requests fail and are slow."""

from __future__ import annotations

import csv
import json

import pytest

ROOT = "gs://bucket/starter"
SERVED = "gs://bucket/served"


@pytest.fixture(scope="module")
def counts(gcs, compile_starter, type_command):
    """Runs the compiled starter; returns what the store was asked."""
    places = ("--root", "gs://bucket/compiled", "--push-to", "gs://bucket/compiled_to")
    compiled = compile_starter("vertex", *places, file="web_shop.json")

    with gcs.failing(rate=0.05, seed=1, latency=0.03, bytes_per_second=4e6) as counts:
        run = [compiled.name, "--runner", "spec", "--root", ROOT, "--parameter", f"push_destination={SERVED}"]
        done = type_command(["-m", "tfx_gnn_pipelines", *run], compiled.parent)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "9 of 9 tasks succeeded as vertex would run them" in done.stdout
        (state,) = compiled.parent.glob("runs/web-shop_vertex/runs/*/run.json")
        counts["attempts"] = {task["task"]: task["attempts"] for task in json.loads(state.read_text())["tasks"]}
    return counts


@pytest.fixture(scope="module")
def metrics(gcs, counts):
    (found,) = [name for name in gcs.objects("starter/") if name.endswith("/evaluation/metrics.json")]
    return json.loads(gcs.read(found))


def files_of(gcs, prefix):
    """Contents of the files below a prefix; a marker of a folder is no file."""
    return {name.removeprefix(prefix): gcs.read(name) for name in gcs.objects(prefix) if not name.endswith("/")}


def test_starter_on_a_failing_and_slow_store_gives_the_same_metrics_as_here(counts, metrics, metrics_here):
    assert counts["refused"] > 10
    assert counts["lost"] > 10
    assert metrics == metrics_here()


def test_pushed_version_has_the_files_of_the_trained_model(gcs, counts):
    (saved,) = [name for name in gcs.objects("starter/") if name.endswith("/model/Format-Serving/saved_model.pb")]

    pushed = files_of(gcs, "served/1/")

    del pushed["tfx_gnn_version.json"]
    assert pushed == files_of(gcs, saved.removesuffix("saved_model.pb"))
    assert {name.partition("/")[0] for name in files_of(gcs, "served/")} == {"1"}


def test_pushed_model_is_loaded_from_the_bucket_and_predicts_as_it_was_evaluated(
    gcs, counts, metrics, project, type_command
):
    (examples,) = {name.rpartition("/")[0] for name in gcs.objects("starter/") if "/examples/Split-test/" in name}
    # As consoles and gcsfuse make them, for each folder.
    for folder in ("served/", "served/1/", "served/1/variables/", "served/1/assets/"):
        gcs.write(folder, b"")

    asked = ["predict", "--model-dir", SERVED, "--examples", f"gs://bucket/{examples}", "--limit", "0", "--json"]
    answered = type_command(["-m", "tfx_gnn.cli", *asked], project)

    assert answered.returncode == 0, answered.stderr
    predictions = [json.loads(line) for line in answered.stdout.splitlines()]
    with (project / "web_shop" / "data" / "users.csv").open(newline="") as file:
        interests = {user["user_id"]: user["interest"] for user in csv.DictReader(file)}
    num_right = sum(interests[prediction["id"]] == prediction["label"] for prediction in predictions)
    assert len({prediction["id"] for prediction in predictions}) == metrics["num_examples"] == 60
    assert num_right / 60 == pytest.approx(metrics["accuracy"], abs=1e-9)

"""Artifacts on an S3 server, copied as Kubeflow's launcher does."""

from __future__ import annotations

import json

import pytest

from tfx_gnn_pipelines.emulator.artifact_stores import S3Store

URI = "minio://mlpipeline/tests"
#: Artifacts in the order in which they are made, and their files that are the same wherever the starter runs.
REPRODUCIBLE = {
    ("SubgraphExampleGen", "examples"): "**/*.gz",
    ("GraphTransform", "transformed_examples"): "**/*.gz",
    ("SizeConstraintLearner", "size_constraints"): "size_constraints.json",
    ("GraphTrainer", "model"): "**/variables.data*",
    ("GraphEvaluator", "evaluation"): "metrics.json",
}
BIG = bytes(range(256)) * (12 << 12)


@pytest.fixture
def client(s3):
    from pyarrow import fs

    return fs.S3FileSystem(endpoint_override=s3.url.removeprefix("http://"), scheme="http", region="us-east-1")


def write(client, key, content):
    with client.open_output_stream(key) as file:
        file.write(content)


def files_of(folder, pattern="**/*"):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob(pattern) if path.is_file()}


def test_copies_are_whole_although_requests_fail(s3, tmp_path):
    store = S3Store(s3.url, root=URI)
    # More than a part of an upload, none, and a few.
    written = {"big": BIG, "empty": b"", "a/b/small": b"small"}
    for name, content in written.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(content)
    (tmp_path / "source" / "no_object").mkdir()

    with s3.failing(rate=0.2, seed=1) as counts:
        for number in range(3):
            assert store.upload(tmp_path / "source", f"{URI}/{number}") == 3
            store.download(f"{URI}/{number}", tmp_path / str(number))

    assert counts["refused"] > 3
    assert counts["lost"] > 3
    for number in range(3):
        assert files_of(tmp_path / str(number)) == written
        assert not (tmp_path / str(number) / "no_object").exists()


def test_one_file_and_what_is_not_there(s3, tmp_path):
    store = S3Store(s3.url, root=URI)
    (tmp_path / "log").write_text("a line\n")

    assert store.upload(tmp_path / "log", f"{URI}/logs/executor-logs") == 1
    store.download(f"{URI}/logs/executor-logs", tmp_path / "copy")
    store.download(f"{URI}/absent", tmp_path / "absent")

    assert (tmp_path / "copy").read_text() == "a line\n"
    assert not (tmp_path / "absent").exists()
    assert store.exists(f"{URI}/logs/executor-logs")
    assert store.exists(f"{URI}/logs")
    # Only the beginning of a name.
    assert not store.exists(f"{URI}/logs/executor")


def test_zero_byte_markers_of_folders_are_no_files(s3, client, tmp_path):
    write(client, "mlpipeline/tests/marked/saved_model.pb", b"model")
    write(client, "mlpipeline/tests/marked/variables/variables.index", b"index")
    # This makes the objects "marked/variables/" and "marked/assets/", as consoles do.
    client.create_dir("mlpipeline/tests/marked/variables")
    client.create_dir("mlpipeline/tests/marked/assets")

    S3Store(s3.url, root=URI).download(f"{URI}/marked", tmp_path / "marked")

    assert files_of(tmp_path / "marked") == {"saved_model.pb": b"model", "variables/variables.index": b"index"}


def test_bucket_must_be_there(s3):
    with pytest.raises(ValueError, match=r"`--store` must have the bucket of the pipeline's root, 'absent'; got 'http"):
        S3Store(s3.url, root="s3://absent/root")


def test_credentials_must_be_right(s3, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(ValueError, match=r"`--store` must be an S3 server that answers with these credentials; got"):
        S3Store(s3.url, root=URI)


def test_starter_on_a_failing_store_makes_the_same_artifacts_as_here(
    s3, compile_starter, type_command, run_locally, tmp_path
):
    compiled = compile_starter("kubeflow", "--push-to", "gs://bucket/serving", file="web_shop.yaml")

    with s3.failing(rate=0.05, seed=1) as counts:
        run = [compiled.name, "--runner", "spec", "--store", s3.url, "--parameter", "push_destination=served"]
        done = type_command(["-m", "tfx_gnn_pipelines", *run], compiled.parent)
        assert done.returncode == 0, done.stdout + done.stderr
        (state,) = compiled.parent.glob("runs/web-shop_kubeflow/runs/*/run.json")
        tasks = {task["task"]: task for task in json.loads(state.read_text())["tasks"]}
        counts["attempts"] = {name: task["attempts"] for name, task in tasks.items()}

    assert "9 of 9 tasks succeeded as kubeflow would run them" in done.stdout
    assert counts["refused"] > 3
    assert counts["lost"] > 3
    store, here = S3Store(s3.url, root=URI), run_locally()
    for (task, name), pattern in REPRODUCIBLE.items():
        store.download(tasks[task]["artifacts"][name]["uri"], tmp_path / name)
        (made_here,) = here.glob(f"{task}/{name}/*")
        expected = files_of(made_here, pattern)
        assert expected
        assert files_of(tmp_path / name, pattern) == expected, f"{name} of {task}"
    # No copy of the store is left here.
    assert not (compiled.parent / "runs" / "web-shop_kubeflow" / "store").exists()

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tfx_gnn_pipelines.command import app


def type_line(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def flat(text: str) -> str:
    """Output without the line breaks and the frame that a narrow terminal needs."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("runner", ["kubeflow", "vertex"])
def test_submission_is_refused_with_what_is_supported(runner):
    result = type_line("debian_sections", "--runner", runner)

    assert result.exit_code == 2
    assert f"--runner {runner} only writes the file that {runner} runs. Add --compile-only" in flat(result.output)
    assert "`tfx-gnn submit FILE`" in flat(result.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compile-only",), "--runner local runs here; compile for kubeflow or vertex"),
        (("--runner", "beam", "--compile-only"), "--runner beam runs here"),
        (("--output", "x.json"), "--output only for --runner kubeflow or vertex"),
        (("--image", "x", "--open-parameter", "A.b"), "--image and --open-parameter only for"),
        (("--runner", "airflow"), "'airflow' is not one of"),
        (("--runner", "vertex", "--compile-only", "--no-check"), "--no-check only where the pipeline runs here"),
        (("--runner", "kubeflow", "--compile-only", "--check"), "--check only where the pipeline runs here"),
        (("--runner", "spec", "--no-check"), "--no-check only where the pipeline runs here, with --runner local or"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, message):
    result = type_line("debian_sections", *arguments)

    assert result.exit_code == 2
    assert message in flat(result.output)


@pytest.mark.parametrize("output", ["", "/"])
def test_compiled_file_needs_a_name(tmp_path, output):
    result = type_line(
        *("debian_sections", "--runner", "vertex", "--compile-only", "--image", "registry/image:tag"),
        *("--root", "gs://bucket/root", "--output", f"{tmp_path}{output}"),
    )

    assert result.exit_code == 2
    assert f"`output` must name a file; got the folder '{tmp_path}{output}'" in flat(result.output)


def test_list_shows_the_tasks():
    result = type_line("list")

    assert result.exit_code == 0
    assert result.output.startswith("debian_sections  section of a Debian package")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            "debian",
            "`PROJECT` must be a folder with project.yaml, 'package.module:ATTRIBUTE', or one of ['debian_sec",
        ),
        ("no_such_package.task:TASK", "`task` must name an importable module; got 'no_such_package.task:TASK'"),
        ("tfx_gnn_pipelines.task:load_task", "`task` must name a tfx_gnn_pipelines.task.PipelineTask; got"),
    ],
)
def test_unknown_task_is_refused(task, message):
    result = type_line(task)

    assert result.exit_code == 2
    assert message in flat(result.output)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("runner", ["kubeflow", "vertex"])
def test_compilation_writes_the_job_and_says_what_it_expects(tiny_project, tmp_path, runner):
    output = tmp_path / "job.json"

    result = type_line(
        *("tiny_project.task:TASK", "--runner", runner, "--compile-only", "--output", str(output), "--epochs", "3"),
        *("--root", "gs://bucket/root", "--tables", "gs://bucket/tables", "--image", "registry/image:tag"),
    )

    assert result.exit_code == 0, result.output
    values = json.loads(output.read_text())["runtimeConfig"]["parameterValues"]
    assert values["num_epochs"] == 3
    assert values["push_destination"] == "gs://bucket/root/serving"
    assert values["tables_version"].startswith("compiled 20")
    assert f"{output}: pipeline spec 2.1.0 for {runner}" in flat(result.output)
    assert "push to gs://bucket/root/serving" in flat(result.output)
    assert f"tfx-gnn run {output} --runner spec" in flat(result.output)


@pytest.mark.parametrize(
    ("runner", "arguments", "message"),
    [
        ("vertex", (), "`root` must be on an object store on Vertex AI"),
        ("vertex", ("--root", "gs://bucket/root"), "`image` must name a container image on Vertex AI; got none"),
        ("kubeflow", ("--image", "registry/image"), "`push_destination` must be given on Kubeflow Pipelines"),
    ],
)
def test_compilation_says_what_is_missing(tiny_project, tmp_path, runner, arguments, message):
    output = tmp_path / "job.json"

    result = type_line(
        "tiny_project.task:TASK", "--runner", runner, "--compile-only", "--output", str(output), *arguments
    )

    assert result.exit_code == 2
    assert message in flat(result.output)
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--parameter", "num_epochs=3"), "--parameter only for --runner spec"),
        (("--runner", "beam", "--semantics", "vertex"), "--semantics only for --runner spec"),
        (("--store", "http://127.0.0.1:8333"), "--store only for --runner spec"),
        (("--runner", "spec", "--epochs", "3"), "--runner spec takes --epochs from the compiled file"),
        (("--runner", "spec", "--image", "x"), "--image only for --runner kubeflow or vertex"),
        (("--runner", "spec", "--compile-only"), "--runner spec runs here"),
        ((), "job.json is run by --runner spec, or by its service; --runner local takes a project"),
    ],
)
def test_options_of_a_compiled_file_are_its_own(arguments, message):
    result = type_line("job.json", *arguments)

    assert result.exit_code == 2
    assert message in flat(result.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "`file` must name a compiled pipeline; got 'absent.json'"),
        (("--parameter", "num_epochs"), "`--parameter` must have the form NAME=VALUE; got 'num_epochs'"),
    ],
)
def test_compiled_file_that_cannot_be_run_is_named(arguments, message):
    result = type_line("absent.json", "--runner", "spec", *arguments)

    assert result.exit_code == 2
    assert message in flat(result.output)


def test_local_run_refuses_a_remote_root(tiny_project):
    result = type_line("tiny_project.task:TASK", "--root", "gs://bucket/root", "--push-to", "/tmp/serving")

    assert result.exit_code == 2
    assert "`root` must be a local folder for a local run; got 'gs://bucket/root'" in flat(result.output)

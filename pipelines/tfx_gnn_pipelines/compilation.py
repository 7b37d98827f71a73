"""Compiles a pipeline into the specification (schema 2.1) that Kubeflow Pipelines and Vertex AI run."""

from __future__ import annotations

import json
import os
from typing import Any

import yaml
from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner

from tfx_gnn_pipelines.assembly import build_pipeline, open_values
from tfx_gnn_pipelines.config import PipelineConfig


def compile_to(config: PipelineConfig, output: str, *, image: str) -> None:
    """Compiles a pipeline and writes it; see `write_pipeline`.

    Local paths in `config` must exist in Kubeflow's containers, on a mounted volume or in the image; Vertex AI needs a
    root on Cloud Storage.
    """
    write_pipeline(compile_pipeline(config, image=image, display_name=config.pipeline_name), output)


def compile_pipeline(config: PipelineConfig, *, image: str, display_name: str) -> dict[str, Any]:
    """Compiles a pipeline into a PipelineJob as plain JSON values.

    The specification is under "pipelineSpec", the root and the values of open parameters under "runtimeConfig".
    `image` is a container image with this project and its extra `kfp`.
    """
    runner = kubeflow_v2_dag_runner.KubeflowV2DagRunner(
        config=kubeflow_v2_dag_runner.KubeflowV2DagRunnerConfig(
            display_name=display_name, default_image=image, use_pipeline_spec_2_1=True
        )
    )
    job: dict[str, Any] = runner.run(
        build_pipeline(config, sqlite_metadata=False), parameter_values=open_values(config), write_out=False
    )
    return job


def write_pipeline(job: dict[str, Any], output: str) -> None:
    """Writes a compiled pipeline atomically.

    If the name ends in `.yaml` or `.yml`, only the pipeline specification is written, as Kubeflow's user interface and
    client expect it; otherwise the whole job is written as JSON, as Vertex AI expects it.
    """
    if output.endswith((".yaml", ".yml")):
        text = yaml.safe_dump(job["pipelineSpec"], sort_keys=True)
    else:
        text = json.dumps(job, indent=2, sort_keys=True) + "\n"
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    partial = f"{output}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, output)


def mounted_path(uri: str) -> str:
    """Returns the folder under which Vertex AI mounts a Cloud Storage path in every container."""
    if not uri.startswith("gs://"):
        raise ValueError(f"`uri` must be on Cloud Storage; got {uri!r}. Use gs://BUCKET/FOLDER.")
    return "/gcs/" + uri.removeprefix("gs://")

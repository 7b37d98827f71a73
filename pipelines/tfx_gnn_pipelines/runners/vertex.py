"""Compiles a pipeline for Vertex AI Pipelines."""

from __future__ import annotations

from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.runners.pipeline_spec import compile_pipeline, write_pipeline


def compile_to(config: PipelineConfig, output: str, *, image: str) -> None:
    """Writes the compiled pipeline."""
    write_pipeline(compile_pipeline(config, image=image, display_name=config.pipeline_name), output)


def mounted_path(uri: str) -> str:
    """Names the folder under which Vertex AI mounts a Cloud Storage path in every container."""
    if not uri.startswith("gs://"):
        raise ValueError(f"`uri` must be on Cloud Storage; got {uri!r}. Use gs://BUCKET/FOLDER.")
    return "/gcs/" + uri.removeprefix("gs://")

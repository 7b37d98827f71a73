"""Compiles a pipeline for Kubeflow Pipelines 2."""

from __future__ import annotations

from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.runners.pipeline_spec import compile_pipeline, write_pipeline


def compile_to(config: PipelineConfig, output: str, *, image: str) -> None:
    """Writes the compiled pipeline."""
    write_pipeline(compile_pipeline(config, image=image, display_name=config.pipeline_name), output)

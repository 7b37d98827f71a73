"""Compiles a pipeline for Kubeflow Pipelines 2."""

from __future__ import annotations

from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.runners.pipeline_spec import compile_pipeline, write_pipeline


def compile_to(config: PipelineConfig, output: str, *, image: str) -> None:
    """Writes the compiled pipeline.

    Args:
        config: paths and options. Local paths must exist in the containers, on a
            mounted volume or in the image.
        output: file to write; `.yaml` for the bare spec, else JSON of the whole job.
        image: container image that holds this project with the extra `kfp`.

    Raises:
        ValueError: if the tables, or a parameter left open, do not exist.
    """
    write_pipeline(compile_pipeline(config, image=image, display_name=config.pipeline_name), output)

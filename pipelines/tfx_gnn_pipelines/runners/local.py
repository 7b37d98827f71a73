"""Runs a pipeline in this process, one component after another."""

from __future__ import annotations

from tfx.orchestration.local.local_dag_runner import LocalDagRunner

from tfx_gnn_pipelines.assembly import build_pipeline
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.run_lock import locked_root


def run(config: PipelineConfig) -> None:
    """Runs the pipeline to its end."""
    with locked_root(config):
        LocalDagRunner().run(build_pipeline(config, sqlite_metadata=True))

"""Runs a pipeline as an Apache Beam job on the direct runner, in this process."""

from __future__ import annotations

from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner

from tfx_gnn_pipelines.assembly import build_pipeline
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.run_lock import locked_root


def run(config: PipelineConfig) -> None:
    """Runs the pipeline to its end."""
    with locked_root(config):
        BeamDagRunner().run(build_pipeline(config, sqlite_metadata=True))

"""Runs a pipeline in this process: one run at a time under a root, after removing what killed runs left there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner
from tfx.orchestration.local.local_dag_runner import LocalDagRunner

from tfx_gnn.io.process_lock import process_lock
from tfx_gnn.serving.server.temporary_server import check_server_is_installed
from tfx_gnn_pipelines.assembly import build_pipeline
from tfx_gnn_pipelines.checks.findings import PipelineCheck
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.finished_run import fingerprint_run, forget_finished_run, remember_finished_run
from tfx_gnn_pipelines.lineage import (
    close_abandoned_executions,
    read_latest_run,
    record_error,
    record_peak_memory,
    record_stop,
)
from tfx_gnn_pipelines.process_memory import MemoryWatch
from tfx_gnn_pipelines.run_outcome import RunOutcome, read_outcome

_LOCK_FILE = ".lock"


def run_locally(config: PipelineConfig) -> RunOutcome:
    """Runs the components of the pipeline one after another; raises whatever a component raises."""
    return _run(config, LocalDagRunner())


def run_on_beam(config: PipelineConfig) -> RunOutcome:
    """Runs the pipeline as an Apache Beam job on the direct runner; raises the errors that Beam passes on."""
    return _run(config, BeamDagRunner())


def _run(config: PipelineConfig, runner: LocalDagRunner | BeamDagRunner) -> RunOutcome:
    if config.graph_skew_validator.asks_server:
        # Not after the training.
        check_server_is_installed("graph_skew_validator.asks_server")
    with locked_root(config), MemoryWatch() as memory:
        fingerprint = fingerprint_run(config)
        runner.run(build_pipeline(config, sqlite_metadata=True))
        record_peak_memory(config.metadata_path, memory.peak_between)
        outcome = read_outcome(config, read_latest_run(config.metadata_path))
        remember_finished_run(config, fingerprint, outcome)
    return outcome


def record_refusal(config: PipelineConfig, found: PipelineCheck, *, since: float) -> None:
    """Writes down in the metadata why a check stopped a run, or kept it from starting.

    Args:
        config: the pipeline.
        found: what the check found.
        since: the time at which the run was to begin, in seconds since 1970.

    Raises:
        BlockingIOError: if another run holds the root.
    """
    ordered = sorted(found.findings, key=lambda finding: finding.severity != "error")
    with _lock(config):
        record_stop(
            config.metadata_path,
            [f"{finding.step}: {finding.message}" for finding in ordered],
            pipeline=config.pipeline_name,
            since=since,
        )


@contextlib.contextmanager
def locked_root(config: PipelineConfig) -> Iterator[None]:
    """Locks the root of a local run, and removes what killed runs left there.

    The lock is released when the process exits, however it ends. While this process holds it, other executions that
    are marked as running belong to dead processes. Raises BlockingIOError if another run holds the root.
    """
    if is_uri(config.root):
        raise ValueError(
            f"`root` must be a local folder for a local run; got {config.root!r}. Give --root a folder, or compile "
            "for a remote runner."
        )
    if config.runtime_parameters:
        raise ValueError(
            f"`runtime_parameters` must be empty for a local run; got {config.runtime_parameters}. Give the values "
            "themselves, or compile for a remote runner."
        )
    with _lock(config):
        forget_finished_run(config.root)
        close_abandoned_executions(config.metadata_path, config.artifacts_dir)
        started_at = time.time()
        try:
            yield
        except Exception as error:
            record_error(config.metadata_path, error, since=started_at)
            raise
        # Ctrl-C, or a check beside the run.
        except BaseException as stop:
            # Beam appends in which of its transforms it was.
            reason = str(stop).partition(" [while running")[0] or "Interrupted."
            close_abandoned_executions(config.metadata_path, config.artifacts_dir, reason=reason)
            raise


def _lock(config: PipelineConfig) -> contextlib.AbstractContextManager[None]:
    rule = f"`root` must be used by one run at a time; got {config.root!r}"
    return process_lock(os.path.join(config.root, _LOCK_FILE), rule=rule)

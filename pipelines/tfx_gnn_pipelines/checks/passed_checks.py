"""Remembers that a pipeline passed its check, so that a second run of the same pipeline starts at once."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable

import tensorflow as tf

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_files, fingerprint_text
from tfx_gnn.io.user_code import fingerprint_function
from tfx_gnn.io.whole_files import write_whole
from tfx_gnn.tables.graph_tables import list_table_files
from tfx_gnn_pipelines.checks.findings import PipelineCheck
from tfx_gnn_pipelines.checks.pipeline_check import check_pipeline
from tfx_gnn_pipelines.config import PipelineConfig, is_uri

PASSED_FILE = "passed_check.json"
"""File in the root of a local run with the fingerprint of the pipeline that passed last."""


def check_before_run(
    config: PipelineConfig, *, check: Callable[[PipelineConfig], PipelineCheck] = check_pipeline
) -> PipelineCheck | None:
    """Checks a pipeline before it runs, unless the same pipeline passed before.

    The same are all options, the user's code, the tables and this library's version. What passed is noted in the
    root of the pipeline, if that is a local folder.

    Args:
        config: the pipeline.
        check: makes the check.

    Returns:
        What was found; None if this very pipeline passed before.
    """
    path = os.path.join(config.root, PASSED_FILE) if config.root and not is_uri(config.root) else ""
    fingerprint = _fingerprint(config)
    if path and fingerprint and _read(path) == fingerprint:
        return None
    found = check(config)
    if path and fingerprint and not found.findings and not found.not_checked:
        os.makedirs(config.root, exist_ok=True)
        write_whole(path, json.dumps({"fingerprint": fingerprint}) + "\n")
    return found


def _fingerprint(config: PipelineConfig) -> str:
    """Hashes what a check depends on; empty if some of it cannot be read, which a check then says."""
    try:
        tables = config.tables_fingerprint or fingerprint_files(
            list_table_files(config.tables_dir, access=config.subgraph_example_gen.access)
        )
        code = [
            fingerprint_function(reference)
            for reference in filter(None, (config.graph_transform.preprocessing_fn, config.graph_trainer.model_fn))
        ]
    except (ValueError, ImportError, SyntaxError, OSError, tf.errors.OpError):
        return ""
    steps = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    options = [f"{name} {options_json.to_json(step)}" for name, step in steps.items() if dataclasses.is_dataclass(step)]
    return fingerprint_text("\n".join([tfx_gnn.__version__, tables, *code, *options]))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # none, or one that somebody edited: the check is made again

"""Remembers that a pipeline passed its check, so that another run of the same pipeline is not checked again."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.user_code import fingerprint_function
from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck
from tfx_gnn_pipelines.config import PipelineConfig, is_uri

PASSED_FILE = "passed_check.json"
"""File in the root of a local run with the fingerprint of the pipeline that passed last, and its warnings."""


def read_passed(config: PipelineConfig) -> PipelineCheck | None:
    """Reads the check that this very pipeline passed before.

    That is one with the same options, code of the user, tables and version of this library. Local tables are the same
    if their files have kept size and times, so that nothing large is read.

    Args:
        config: the pipeline.

    Returns:
        The check with its warnings, or None if the pipeline has to be checked.
    """
    path = _path(config)
    try:
        with open(path, encoding="utf-8") as file:
            noted = json.load(file)
        fingerprint, findings = noted["fingerprint"], tuple(Finding(**one) for one in noted["findings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or one that somebody edited: the check is made again
    return PipelineCheck(findings=findings) if fingerprint and fingerprint == _fingerprint(config) else None


def remember_passed(config: PipelineConfig, found: PipelineCheck) -> None:
    """Notes in the root of the pipeline that it passed, if everything was checked and the root is a local folder.

    Nothing is noted where a table is outside of the folder of the tables, because `read_passed` would not notice that
    it changed.

    Args:
        config: the pipeline.
        found: what its check found.
    """
    # Not above: `read_passed` needs no TensorFlow.
    from tfx_gnn.io.whole_files import write_whole
    from tfx_gnn.tables.graph_tables import list_table_files

    path = _path(config)
    if not path or not found.passed or found.not_checked:
        return
    files = list_table_files(config.tables_dir, access=config.subgraph_example_gen.access)
    inside = os.path.join(config.tables_dir, "")
    fingerprint = _fingerprint(config)
    if fingerprint and all(file.startswith(inside) for file in files):
        os.makedirs(config.root, exist_ok=True)
        findings = [dataclasses.asdict(finding) for finding in found.findings]
        write_whole(path, json.dumps({"fingerprint": fingerprint, "findings": findings}) + "\n")


def _path(config: PipelineConfig) -> str:
    return os.path.join(config.root, PASSED_FILE) if config.root and not is_uri(config.root) else ""


def _fingerprint(config: PipelineConfig) -> str:
    """Hashes what a check depends on; empty if some of it cannot be read, which a check then says."""
    from tfx_gnn.io.fingerprint import fingerprint_text

    try:
        tables = config.tables_fingerprint if is_uri(config.tables_dir) else "\n".join(_versions(config.tables_dir))
        code = [
            fingerprint_function(reference)
            for reference in filter(None, (config.graph_transform.preprocessing_fn, config.graph_trainer.model_fn))
        ]
    except (ValueError, ImportError, SyntaxError, OSError):
        return ""
    steps = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    options = [f"{name} {options_json.to_json(step)}" for name, step in steps.items() if dataclasses.is_dataclass(step)]
    return fingerprint_text("\n".join([tfx_gnn.__version__, config.tables_dir, tables, *code, *options]))


def _versions(folder: str) -> Iterator[str]:
    from tfx_gnn.io.fingerprint import describe_file_version

    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            yield f"{os.path.relpath(path, folder)} {describe_file_version(path)}"

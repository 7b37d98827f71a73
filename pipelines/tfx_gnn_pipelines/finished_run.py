"""Remembers how the last run in a root ended, so that the same run again is answered without TFX.

TFX decides what is cached; this only knows whether nothing at all has changed, by the versions of files: a file that
was touched counts as changed. Whatever cannot be known for sure is left to TFX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.code_files import COMPILED, code_places
from tfx_gnn.io.fingerprint import describe_file_version, describe_folder_version, fingerprint_text
from tfx_gnn.io.user_code import is_installation, split_reference
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.run_outcome import RunOutcome

FINISHED_FILE = "finished_run.json"
"""File in a local root with the outcome of the last run there, and what it depended on."""

_FORMAT = 3
_LIBRARY = (tfx_gnn.__name__, __name__.partition(".")[0])
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+:[^\W\d]\w*")
_SAVED_MODEL = "saved_model.pb"


class _UnknownInputError(Exception):
    """What a run depends on, or made, cannot be known without TFX."""


_CANNOT_KNOW = (_UnknownInputError, OSError, UnicodeDecodeError, SyntaxError, ImportError)
"""Errors of reading what a run depends on or made; any other is a defect."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """The record of a run in which every component succeeded.

    Attributes:
        format: number of this format.
        fingerprint: `fingerprint_run` before and after the run.
        versions: what the run left: a text by folder or file that changes with it.
        outcome: what the run found.
    """

    format: int
    fingerprint: str
    versions: dict[str, str]
    outcome: RunOutcome


def fingerprint_run(config: PipelineConfig) -> str:
    """Hashes everything that decides the result of a local run, without TensorFlow.

    These are the options, the files of the tables folder, the user's code as `code_places` finds it, the files of this
    library, Python and all installed packages.

    Args:
        config: the pipeline.

    Returns:
        The hash; empty if a run of this pipeline is never answered from a record, or something cannot be read.
    """
    is_local = bool(config.root) and not is_uri(config.root) and not is_uri(config.push_destination)
    if not is_local or not config.enable_cache or config.runtime_parameters:
        return ""
    try:
        options = {
            field.name: options_json.to_json(getattr(config, field.name)) for field in dataclasses.fields(config)
        }
        parts = [
            json.dumps(options, sort_keys=True),
            _tables(config),
            *_code(config, options),
            *_installed(),
            sys.version,
            sys.executable,
            os.environ.get("TF_CONFIG", ""),
        ]
    except _CANNOT_KNOW:
        return ""
    return fingerprint_text("\n".join(parts))


def find_finished_run(config: PipelineConfig) -> RunOutcome | None:
    """Returns the outcome of running a pipeline again in which nothing has changed.

    Args:
        config: the pipeline.

    Returns:
        The outcome, with every component cached; None if TFX must decide, because something has changed, or that
        cannot be known.
    """
    record = _read(os.path.join(config.root, FINISHED_FILE))
    if record is None or record.fingerprint != fingerprint_run(config):
        return None
    try:
        is_same = _left_by(config, record.outcome) == record.versions
    except _CANNOT_KNOW:
        return None
    return record.outcome.as_cached() if is_same else None


def remember_finished_run(config: PipelineConfig, fingerprint: str, outcome: RunOutcome) -> None:
    """Records how a run ended, if the same run again would end in the same way.

    Only the holder of the root's lock may call this.

    Args:
        config: the pipeline.
        fingerprint: `fingerprint_run` before the first component started.
        outcome: what the run found.
    """
    # Otherwise something was edited during the run, and nobody knows which version of it the run has read.
    if not fingerprint or fingerprint_run(config) != fingerprint:
        return
    try:
        versions = _left_by(config, outcome)
    except _CANNOT_KNOW:
        return
    from tfx_gnn.io.whole_files import write_whole

    record = FinishedRun(format=_FORMAT, fingerprint=fingerprint, versions=versions, outcome=outcome)
    # Unsorted: metrics are shown in the order in which they were written.
    write_whole(os.path.join(config.root, FINISHED_FILE), json.dumps(dataclasses.asdict(record)) + "\n")


def forget_finished_run(root: str) -> None:
    """Removes the record of a root in which another run begins; only the holder of the root's lock may call this."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(root, FINISHED_FILE))


def _read(path: str) -> FinishedRun | None:
    """Reads a record; None if there is none, or one of another release, or one that somebody edited."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return options_json.from_json(text, FinishedRun) if json.loads(text)["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tables(config: PipelineConfig) -> str:
    """Describes the tables folder as a whole: which of its files are tables is known to TensorFlow's readers only."""
    accesses = (config.subgraph_example_gen.access, config.graph_transform.access)
    if any(access.allow_outside_files for access in accesses):
        raise _UnknownInputError("Tables outside of their folder are not seen.")
    if not is_uri(config.tables_dir):
        return "\n".join(f"{folder} {_folder_version(folder)}" for folder in config.find_tables_folders())
    if not config.tables_fingerprint:
        raise _UnknownInputError("Remote tables are not read.")
    return config.tables_fingerprint


def _code(config: PipelineConfig, options: dict[str, str]) -> Iterator[str]:
    # A project without Python has no `preprocessing_fn`.
    named = filter(None, (config.graph_transform.preprocessing_fn, config.graph_trainer.model_fn))
    modules = {_module(reference) for reference in named}
    # Options such as the classes of a search may name more code.
    for text in options.values():
        modules |= {_module(found) for found in _references(json.loads(text))}
    for place in code_places({*modules, *_LIBRARY}, without=_LIBRARY):
        is_folder = os.path.isdir(place)
        version = _folder_version(place, without=[COMPILED]) if is_folder else describe_file_version(place)
        yield f"{place} {version}"


def _module(reference: str) -> str:
    try:
        return split_reference(reference)[0]
    except ValueError as error:
        raise _UnknownInputError(f"{reference!r} names no function.") from error


def _folder_version(folder: str, without: Sequence[str] = ()) -> str:
    try:
        return describe_folder_version(folder, without=without)
    except ValueError as error:
        raise _UnknownInputError(f"{folder!r} holds links to folders.") from error


def _references(plain: Any) -> Iterator[str]:
    if isinstance(plain, dict):
        plain = list(plain.values())
    if isinstance(plain, list):
        for value in plain:
            yield from _references(value)
    elif isinstance(plain, str) and _REFERENCE.fullmatch(plain):
        yield plain


def _installed() -> Iterator[str]:
    """Describes the installed packages: their folders of metadata have their versions as names."""
    for folder in sorted({Path(path).resolve() for path in sys.path}):
        # Others come and go: setuptools puts its copies of packages there when it is imported.
        if folder.is_dir() and is_installation(folder):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    # A package that is installed again keeps its version.
                    yield f"{entry.path} {entry.stat().st_mtime_ns} {entry.inode()}"


def _left_by(config: PipelineConfig, outcome: RunOutcome) -> dict[str, str]:
    """Describes what a run left: outputs, metadata, and the pushed version if it is the newest.

    A model that was refused may have been compared with the newest version: if that is another one now, it may pass.
    """
    folders = {folder for step in outcome.steps for folder in step.outputs.values()}
    if outcome.pushed_model:
        _check_newest(outcome.pushed_model)
        folders.add(outcome.pushed_model)
    compared = {}
    if not outcome.pushed_model and config.latest_blessed_model_resolver is not None:
        compared = {config.push_destination: str(max(_versions(config.push_destination), default=0))}
    return {
        **{folder: _folder_version(folder) for folder in folders},
        **compared,
        outcome.metadata: describe_file_version(outcome.metadata),
    }


def _versions(destination: str) -> list[int]:
    if not os.path.isdir(destination):
        return []
    return [int(name) for name in os.listdir(destination) if name.isdecimal()]


def _check_newest(pushed_model: str) -> None:
    destination, version = os.path.split(pushed_model)
    versions = _versions(destination)
    if not os.path.isfile(os.path.join(pushed_model, _SAVED_MODEL)) or int(version) != max(versions):
        raise _UnknownInputError(f"{pushed_model!r} is not whole, or not the newest of the versions {versions}.")

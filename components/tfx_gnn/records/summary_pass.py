"""Runs a mergeable Beam pass over record files and returns its result."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from tfx_gnn.io import options_json
from tfx_gnn.records.beam_arguments import read_beam_args
from tfx_gnn.records.examples_folder import RecordFile


def make_pipeline(beam_args: Sequence[str] = ()) -> beam.Pipeline:
    """Makes an empty pipeline from Beam's command-line flags.

    Without `--runner`, the pipeline runs in this process, in all versions of Beam, unless `--direct_running_mode`
    asks for more.

    Raises:
        ValueError: if Beam would ignore an argument, cannot read its value, or lacks another one for this runner.
    """
    args = read_beam_args(beam_args)
    named = {arg.partition("=")[0] for arg in args}
    if not named & {"--runner", "--direct_running_mode"}:
        # Since Beam 2.68 the direct runner may hand over to a separate process, which takes seconds to start.
        args.append("--direct_running_mode=in_memory")
    if "--runner" not in named:
        args.append("--runner=DirectRunner")
    try:
        return beam.Pipeline(options=PipelineOptions(args))
    except ValueError as error:
        said = " ".join(str(error).split())
        raise ValueError(
            f"`beam_args` must be complete for the runner; got {list(beam_args)}. Beam says: {said}"
        ) from error


_Summary = TypeVar("_Summary")


def summarize_files(
    files: Sequence[RecordFile],
    *,
    summarize: Callable[[RecordFile], _Summary],
    merge: Callable[[Iterable[_Summary]], _Summary],
    kind: type[_Summary],
    scratch_dir: str,
    beam_args: Sequence[str] = (),
) -> _Summary:
    """Summarizes files on as many workers as Beam has; each file is one unit of work.

    `merge` adds up summaries in any order; without any, it makes an empty one. A summary is a dataclass that
    `options_json` can write, and `scratch_dir` is an existing folder that all workers and the caller see.
    """
    # Use a file: not every runner lets a pipeline return a value to its launcher.
    path = os.path.join(scratch_dir, f"summary-{uuid.uuid4().hex}.json")
    with make_pipeline(beam_args) as pipeline:
        summaries = (
            pipeline | "Files" >> beam.Create(files) | "Spread" >> beam.Reshuffle() | "Summarize" >> beam.Map(summarize)
        )
        write_merged(summaries, merge, path)
    return take_merged(path, kind)


def write_merged(summaries: Any, merge: Callable[[Iterable[_Summary]], _Summary], path: str) -> Any:
    """Adds the step that merges summaries and writes the result to a file; emits one None once it is written."""
    return write_one(summaries | "Merge" >> beam.CombineGlobally(merge), path)


def write_one(summary: Any, path: str) -> Any:
    """Adds the step that writes the only summary of a PCollection to a file; emits one None once it is written."""
    return summary | "Write" >> beam.Map(_write, path)


def take_merged(path: str, kind: type[_Summary]) -> _Summary:
    """Reads and removes what `write_merged` wrote."""
    with tf.io.gfile.GFile(path, "r") as file:
        summary = options_json.from_json(file.read(), kind)
    tf.io.gfile.remove(path)
    return summary


def _write(summary: object, path: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(options_json.to_json(summary))

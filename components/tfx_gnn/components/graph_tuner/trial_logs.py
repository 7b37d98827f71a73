"""Event files by which TensorBoard compares the trials of a search."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.components.graph_tuner.trials import FAILED, Trial, TuningSummary
from tfx_gnn.io.protobuf_wire import Message
from tfx_gnn.training.loop.event_files import (
    domain_of_range,
    domain_of_values,
    write_experiment,
    write_scalars,
    write_session_end,
    write_session_start,
)

LOGS_DIR = "logs"

_VALIDATION = "val_"


def write_trial_logs(summary: TuningSummary, folder: str) -> None:
    """Writes the trials for TensorBoard, whose HParams tab compares them; none shows twice, however often resumed.

    `folder` itself describes the search. Each trial has a folder of its own, such as `trial-00003`, with its
    hyperparameters and, if it is complete, its value as `best_<objective>`; `train` and `validation` in it hold the
    curves. The step of every event is its epoch, from 0.

    Args:
        summary: results of the search.
        folder: folder of the event files, made if necessary.
    """
    group, tag = _run_and_tag(summary.objective)
    with _written(folder):
        write_experiment(
            {name: _domain(values) for name, values in summary.search_space.items()},
            [("", f"best_{summary.objective}", f"best {summary.objective}"), (group, tag, summary.objective)],
        )
    for trial in summary.trials:
        _write_trial(summary, trial, os.path.join(folder, f"trial-{trial.number:05d}"))


def _write_trial(summary: TuningSummary, trial: Trial, folder: str) -> None:
    with _written(folder):
        write_session_start({**summary.fixed, **trial.hyperparameters}, group=f"trial {trial.number + 1}")
        if trial.value is not None:
            write_scalars({f"best_{summary.objective}": trial.value}, step=trial.exported_epoch - 1)
        write_session_end(step=len(trial.epochs), succeeded=trial.state != FAILED)
    runs: dict[str, list[tuple[int, str, float]]] = {}
    for epoch, logs in enumerate(trial.epochs):
        for name, value in logs.items():
            run, tag = _run_and_tag(name)
            # TensorBoard draws NaN as a mark of its own; in the summary it is None.
            runs.setdefault(run, []).append((epoch, tag, float("nan") if value is None else value))
    for run, scalars in runs.items():
        with _written(os.path.join(folder, run)):
            for epoch, tag, value in scalars:
                write_scalars({tag: value}, step=epoch)


@contextlib.contextmanager
def _written(folder: str) -> Iterator[None]:
    """Makes an event file in `folder` the default writer, and closes it at the end."""
    writer = tf.summary.create_file_writer(folder)
    with contextlib.closing(writer), writer.as_default():
        yield


def _run_and_tag(name: str) -> tuple[str, str]:
    """Names the run and the tag of a metric as those of a GraphTrainer."""
    run = "validation" if name.startswith(_VALIDATION) else "train"
    return run, f"epoch_{name.removeprefix(_VALIDATION)}"


def _domain(values: SearchRange) -> Message:
    if isinstance(values, Choice):
        return domain_of_values(values.values)
    assert isinstance(values, (FloatRange, IntRange))
    return domain_of_range(values.low, values.high)

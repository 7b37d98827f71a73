"""Keeps what plans predicted, and counts how many later runs lay in the intervals."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.reports.run_record import RecordedRun
from tfx_gnn_pipelines.planning.pipeline_plan import START, PipelinePlan

PREDICTIONS_FILE = "predictions.jsonl"
"""File in a pipeline's root: one prediction in each line."""

TOTAL = "total"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a plan predicted.

    Attributes:
        made: when, in seconds since 1970.
        num_examples: examples by split.
        num_epochs: most epochs of the training.
        seconds: lower end, value and upper end of each step, without the imports before the first one.
    """

    made: float
    num_examples: Mapping[str, int]
    num_epochs: float
    seconds: Mapping[str, tuple[float, float, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hits:
    """How many runs lay in an interval.

    Attributes:
        num_runs: runs that a prediction preceded.
        num_inside: those of them that took as long as predicted.
    """

    num_runs: int
    num_inside: int


def keep_prediction(root: str, plan: PipelinePlan) -> None:
    """Appends a prediction to the file of a pipeline's root, which is made if necessary."""
    kept = Prediction(
        made=time.time(),
        num_examples=dict(plan.num_examples),
        num_epochs=plan.training.num_epochs.high,
        seconds={
            step.step: (step.seconds.low, step.seconds.value, step.seconds.high)
            for step in plan.steps
            if step.step != START
        },
    )
    os.makedirs(root, exist_ok=True)
    with open(os.path.join(root, PREDICTIONS_FILE), "a", encoding="utf-8") as file:
        file.write(json.dumps(dataclasses.asdict(kept)) + "\n")


def read_predictions(root: str) -> list[Prediction]:
    """Reads the predictions of a root, oldest first; none if there is no file.

    Raises:
        ValueError: if a line is damaged.
    """
    path = os.path.join(root, PREDICTIONS_FILE)
    if not os.path.exists(path):
        return []
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                content: dict[str, Any] = json.loads(line)
                seconds = {step: (float(low), float(value), float(high)) for step, (low, value, high) in
                           content.pop("seconds").items()}  # fmt: skip
                found.append(Prediction(**content, seconds=seconds))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(
                    f"`{path}` must have a prediction in each line; got another text in line {number}. Remove the line."
                ) from error
    return found


def count_hits(
    predictions: Sequence[Prediction], runs: Sequence[tuple[RecordedRun, Mapping[str, int]]]
) -> dict[str, Hits]:
    """Counts which steps of runs, and which runs in total, took as long as predicted.

    A run is counted against the newest prediction that was made before it began, if it had the same number of epochs at
    most and as many examples, up to a tenth. Steps that were cached or failed are not counted, and totals only of runs
    that completed every predicted step.

    Args:
        predictions: of one root, oldest first.
        runs: of the same root, with their examples by split.

    Returns:
        Hits by step and, under `TOTAL`, of whole runs; nothing without a run to count.
    """
    inside: dict[str, list[bool]] = {}
    for run, num_examples in runs:
        started = min((step.started for step in run.steps if step.started), default=0.0)
        earlier = [one for one in predictions if one.made < started]
        if not earlier or not _is_of(run, num_examples, earlier[-1]):
            continue
        planned = earlier[-1].seconds
        took = {step.component: step.seconds for step in run.steps if step.state == "complete"}
        for step in planned.keys() & took.keys():
            low, _, high = planned[step]
            inside.setdefault(step, []).append(low <= took[step] <= high)
        if planned.keys() <= took.keys():
            low, high = (sum(one[place] for one in planned.values()) for place in (0, 2))
            inside.setdefault(TOTAL, []).append(low <= sum(took[step] for step in planned) <= high)
    return {step: Hits(num_runs=len(found), num_inside=sum(found)) for step, found in inside.items()}


def _is_of(run: RecordedRun, num_examples: Mapping[str, int], prediction: Prediction) -> bool:
    epochs = next((step.options.get("num_epochs") for step in run.steps if step.component == "GraphTrainer"), None)
    now, then = sum(num_examples.values()), sum(prediction.num_examples.values())
    return epochs == prediction.num_epochs and abs(now - then) <= 0.1 * then


def describe_hits(hits: Mapping[str, Hits]) -> str:
    """Says in a sentence how many predictions came true; "" if no run was counted."""
    if not hits:
        return ""
    whole = hits.get(TOTAL, Hits(num_runs=0, num_inside=0))
    steps = [one for step, one in hits.items() if step != TOTAL]
    num_steps, num_inside = sum(one.num_runs for one in steps), sum(one.num_inside for one in steps)
    missed = [f"{step} {one.num_inside} of {one.num_runs}" for step, one in hits.items()
              if step != TOTAL and one.num_inside < one.num_runs]  # fmt: skip
    by_step = f"{num_inside} of {num_steps} steps"
    if not whole.num_runs:
        words = f"of earlier predictions, {by_step} lay inside their 80 % interval; no whole run can be counted yet"
        return f"{words} ({', '.join(missed)})" if missed else words
    words = (
        f"of {whole.num_runs} earlier {'prediction' if whole.num_runs == 1 else 'predictions'}, {whole.num_inside} lay "
        f"inside their 80 % interval in total, and {num_inside} of {num_steps} by step"
    )
    return f"{words} ({', '.join(missed)})" if missed else words

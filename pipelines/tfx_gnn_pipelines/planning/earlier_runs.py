"""Reads what the steps of earlier runs cost: as measurements for a plan, and to set beside one."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from typing import Any

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.io.option_groups import flat_options, flat_values
from tfx_gnn.io.user_code import fingerprint_function
from tfx_gnn.reports.run_record import RecordedRun, RecordedStep
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.planning.measurements import (
    RESOLVER,
    STEPS,
    Measurements,
    StepMeasurement,
    TrainingMeasurement,
    examples_of_step,
    planned_steps,
    with_upstream,
)
from tfx_gnn_pipelines.planning.sample_run import describe_training, folder_bytes, mean_record_bytes
from tfx_gnn_pipelines.recorded_run import METADATA_FILE, parsed_value, read_run

_OPTIONS = {
    "SubgraphExampleGen": "subgraph_example_gen",
    RESOLVER: "latest_blessed_model_resolver",
    "GraphSchemaGen": "graph_schema_gen",
    "GraphExampleValidator": "graph_example_validator",
    "GraphTransform": "graph_transform",
    "SizeConstraintLearner": "size_constraint_learner",
    "GraphTuner": "graph_tuner",
    "GraphTrainer": "graph_trainer",
    "GraphEvaluator": "graph_evaluator",
    "GraphSkewValidator": "graph_skew_validator",
    "GraphPusher": "graph_pusher",
}
_SAME_COST = frozenset({"num_epochs", "early_stopping_patience", "training_seed", "search_seed", "learning_rate"})
"""Options that change no measurement of a step: an epoch costs the same, however many there are."""
_MOST_RUNS = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActualStep:
    """What a step of a run cost.

    Attributes:
        step: the component's id.
        state: "complete", "cached", "failed" or another state of ML Metadata in lower case; only a complete step has
            seconds that can be compared.
        seconds: duration.
        disk: bytes of its outputs that are still there, pushed versions included.
        memory: largest resident memory in bytes; 0 if the run did not write it down.
    """

    step: str
    state: str
    seconds: float
    disk: int
    memory: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """What a run measured of a pipeline.

    Attributes:
        measured: the steps that the run executed, and that are still the same.
        has_same_tables: whether its examples come from the pipeline's tables as they are now.
    """

    measured: Measurements
    has_same_tables: bool


def read_actual_steps(place: str) -> tuple[ActualStep, ...]:
    """Reads what the steps of a run cost.

    Args:
        place: the run, as `read_run` takes it.

    Raises:
        FileNotFoundError: if there is no run.
        ValueError: if the root has no such run, or its database cannot be read.
    """
    return tuple(
        ActualStep(
            step=step.component,
            state=step.state,
            seconds=step.seconds,
            disk=folder_bytes_of(step),
            memory=step.peak_bytes,
        )
        for step in read_run(place).steps
    )


def find_measured_runs(config: PipelineConfig) -> list[MeasuredRun]:
    """Finds the newest runs in a pipeline's root that measured steps as they are now, newest first.

    A step is still the same if the version of this library, the options and the user's code are those of the run, in
    the step itself and upstream of it. Numbers of epochs, the patience of early stopping, the learning rate and the
    seeds of training and search may differ. Runs whose steps overlapped in time measured nothing, nor do runs on Beam's
    workers, whose arguments are not recorded.

    Args:
        config: the pipeline.

    Raises:
        ValueError: if the root's database cannot be read, or an option names code that does not exist.
    """
    if not config.root or is_uri(config.root) or config.beam_args:
        return []
    if not os.path.isfile(os.path.join(config.root, METADATA_FILE)):
        return []
    try:
        newest = read_run(config.root)
    except FileNotFoundError:
        # A database without a run.
        return []
    expected = {step: _expected_options(config, step) for step in STEPS}
    numbers = range(newest.num_runs - 1, max(newest.num_runs - _MOST_RUNS, 0), -1)
    runs = [newest, *(read_run(f"{config.root}@{number}") for number in numbers)]
    found = [_measured_run(config, run, expected) for run in runs]
    return [run for run in found if run is not None]


def _measured_run(
    config: PipelineConfig, run: RecordedRun, expected: Mapping[str, Mapping[str, Any]]
) -> MeasuredRun | None:
    steps = {step.component: step for step in run.steps}
    ran = [step for step in run.steps if step.state == "complete"]
    by_start = sorted(ran, key=lambda step: step.started)
    overlap = any(before.started + before.seconds > after.started for before, after in itertools.pairwise(by_start))
    counts = _num_examples(steps)
    if overlap or not counts or ("GraphTuner" in steps) != (config.graph_tuner is not None):
        return None
    # Optional steps that no plan has are no measurements.
    names = planned_steps(config)
    same = {name for name, step in steps.items() if name in names and _is_same(step, expected[name])}
    planned = [step for step in ran if step.component in expected and _can_be_used(step)]
    # An evaluation costs more with a latest blessed model than without one.
    absent = {RESOLVER} - steps.keys() - set(names)
    usable = [step for step in planned if _decisive(step.component, steps) - absent <= same]
    training, record_bytes = None, 0.0
    if any(step.component == "GraphTrainer" for step in usable):
        training = _training(steps["GraphTrainer"], num_trained=counts[config.graph_trainer.train_split])
        if training is None:
            usable = [step for step in usable if step.component != "GraphTrainer"]
        else:
            record_bytes = mean_record_bytes(_output(steps["GraphTransform"], "transformed_examples"))
    if not usable:
        return None
    return MeasuredRun(
        measured=Measurements(
            source=f"{_short(run.root)}@{run.number}",
            num_examples=counts,
            steps=tuple(
                StepMeasurement(
                    step=step.component,
                    num_examples=examples_of_step(step.component, config, counts),
                    seconds=step.seconds,
                    peak_bytes=step.peak_bytes,
                    growth_bytes=0,
                    output_bytes=folder_bytes_of(step),
                )
                for step in usable
            ),
            training=training,
            record_bytes=record_bytes,
            tfx_bytes=0,
        ),
        has_same_tables=_has_same_tables(config, steps["SubgraphExampleGen"]),
    )


def _short(path: str) -> str:
    return min(path, os.path.relpath(path), key=len)


def _expected_options(config: PipelineConfig, step: str) -> dict[str, Any]:
    """The parameters that a run of a step would be recorded with, but for `_SAME_COST`."""
    options = getattr(config, _OPTIONS[step])
    if options is None:
        return {}
    kinds = flat_options(type(options))
    found = {
        name: parsed_value(value if kinds[name] in (int, float, str) else options_json.to_json(value))
        for name, value in flat_values(options).items()
        if name not in _SAME_COST
    }
    code = {"GraphTransform": "preprocessing_fn", "GraphTuner": "model_fn", "GraphTrainer": "model_fn"}.get(step)
    if code is not None:
        reference = getattr(options, code)
        found["code_fingerprint"] = fingerprint_function(reference) if reference else ""
    return {**found, "library_version": tfx_gnn.__version__}


def _is_same(step: RecordedStep, expected: Mapping[str, Any]) -> bool:
    return all(name in step.options and step.options[name] == value for name, value in expected.items())


def _decisive(step: str, steps: Mapping[str, RecordedStep]) -> frozenset[str]:
    """A step and those upstream of it; a search decides how large the trained model is."""
    found = with_upstream({step})
    return found | ({"GraphTuner"} & steps.keys()) if "GraphTrainer" in found else found


def _can_be_used(step: RecordedStep) -> bool:
    folders = _folders(step)
    is_whole = bool(step.peak_bytes and folders) and all(map(os.path.isdir, folders))
    # A push that was refused costs next to nothing.
    return is_whole and (step.component != "GraphPusher" or bool(_pushed(step)))


def folder_bytes_of(step: RecordedStep) -> int:
    """Adds up the bytes of a step's outputs that are still there, pushed versions included."""
    return sum(map(folder_bytes, _folders(step)))


def _folders(step: RecordedStep) -> list[str]:
    return [*(artifact.folder for artifact in step.outputs), *_pushed(step)]


def _pushed(step: RecordedStep) -> list[str]:
    places = (artifact.properties.get("pushed_destination", "") for artifact in step.outputs)
    return [place for place in places if place and not is_uri(place)]


def _output(step: RecordedStep, name: str) -> str:
    return next((artifact.folder for artifact in step.outputs if artifact.name == name), "")


def _num_examples(steps: Mapping[str, RecordedStep]) -> dict[str, int]:
    """Counts the examples of a run by split; empty if they are gone."""
    from tfx_gnn.records.example_gen_report import read_num_seeds

    step = steps.get("SubgraphExampleGen")
    folder = _output(step, "examples") if step is not None else ""
    return (read_num_seeds(folder) if folder else None) or {}


def _has_same_tables(config: PipelineConfig, step: RecordedStep) -> bool:
    from tfx_gnn.components.subgraph_example_gen.stage import list_input_files

    recorded = str(step.options.get("tables_fingerprint", ""))
    if config.tables_fingerprint:
        return recorded == config.tables_fingerprint
    files = (list_input_files(folder, config.subgraph_example_gen) for folder in config.find_tables_folders())
    # Behind what kind of fingerprint it is.
    return recorded.rpartition(":")[2] == ",".join(dict.fromkeys(map(fingerprint_files, files)))


def _training(step: RecordedStep, *, num_trained: int) -> TrainingMeasurement | None:
    """Measures a training; None for one of a single epoch, or one that was resumed, whose steps nobody can part."""
    from tfx_gnn.training.loop.summary import read_training_summary

    folder = _output(step, "model_run")
    summary = read_training_summary(folder)
    epochs = summary.epoch_inputs
    in_epochs = sum(one.num_graphs / one.graphs_per_second for one in epochs if one.graphs_per_second)
    if len(epochs) < 2 or in_epochs > step.seconds:
        return None
    return describe_training(summary, folder, num_trained=num_trained)

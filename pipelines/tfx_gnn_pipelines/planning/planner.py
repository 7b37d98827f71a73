"""Plans a pipeline: takes each step's cost from an earlier run or a sample, and extrapolates it to all examples."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import read_json
from tfx_gnn.tables.graph_tables import list_table_files, read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.planning.earlier_runs import MeasuredRun, find_measured_runs
from tfx_gnn_pipelines.planning.example_counts import count_examples
from tfx_gnn_pipelines.planning.machines import Prices, StepMachines, machines_of, this_machine
from tfx_gnn_pipelines.planning.measurements import (
    READING,
    SAMPLE,
    Measurements,
    SampleMeasurements,
    StepMeasurement,
    TrainingMeasurement,
    examples_of_step,
    planned_steps,
    steps_without_plan,
)
from tfx_gnn_pipelines.planning.pipeline_plan import START, PipelinePlan, StepPlan, TrainingPlan
from tfx_gnn_pipelines.planning.quantities import (
    NOISE,
    Point,
    Quantity,
    exactly,
    extrapolate_bytes,
    extrapolate_memory,
    extrapolate_seconds,
    with_noise,
)
from tfx_gnn_pipelines.planning.sample_run import ERROR, JOB_FILE, PROGRESS_FILE, RESULT_FILE
from tfx_gnn_pipelines.resources import Resources, check_components

_FORWARD_SHARES = (0.2, 0.5, 1.0)
"""Least, likely and largest time of evaluating a batch, as a share of a training step on it."""
_TABLES_SHARE = 4
_POLL_SECONDS = 0.2
_MOST_CHANGE = 2.0
"""Factor between the examples of a run and those of the plan, above which a sample tells more than the run."""


def plan_pipeline(
    config: PipelineConfig,
    *,
    seconds: float,
    resources: Resources | None = None,
    prices: Prices | None = None,
    uses_runs: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> PipelinePlan:
    """Measures a pipeline's steps on a sample, unless a run has, and extrapolates what the whole costs.

    Args:
        config: the pipeline.
        seconds: time to measure steps at other sizes in, after each has run once; above 0.
        resources: machines of a service; None: this machine.
        prices: what they cost; needs `resources`.
        uses_runs: whether runs in the pipeline's root count as measurements of the steps that have not changed.
        say: called with the name of each step that is measured.

    Raises:
        ValueError: if the tables are remote or too large for this machine, a price is missing, or a step fails.
    """
    if not 0 < seconds < math.inf:
        raise ValueError(f"`seconds` must be above 0 and finite; got {seconds}. 30 is the default.")
    if prices is not None and resources is None:
        raise ValueError("`--prices` must be given with --resources, which says what machines there are; got it alone.")
    started, (load, *_) = time.monotonic(), os.getloadavg()
    names = planned_steps(config)
    machines = dict.fromkeys([START, *names], this_machine())
    if resources is not None:
        check_components(resources, [*names, *steps_without_plan(config)])
        machines |= {name: machines_of(name, resources, prices) for name in names}
    _check_tables(config, machines[START].memory_bytes)
    runs = find_measured_runs(config) if uses_runs else []
    counts = next((run.measured.num_examples for run in runs if run.has_same_tables), {})
    if runs and not counts:
        counts = count_examples(config)
    measured = measured_by_runs(config, runs, counts)
    tried = [name for name in names if name not in measured]
    sample = measure_in_child(config, seconds=seconds, steps=tried, say=say) if tried else None
    if sample is not None:
        counts = sample.counted
        measured |= dict.fromkeys(tried, sample.measured)
    training = _training_plan(config, counts, measured["GraphTrainer"])
    return PipelinePlan(
        name=config.pipeline_name,
        num_examples=counts,
        sample=sample.measured.num_examples if sample is not None else {},
        steps=make_steps(
            config,
            counts,
            {name: measured[name] for name in names},
            machines,
            start_seconds=sample.start_seconds if sample is not None else None,
            is_remote=resources is not None,
        ),
        training=training,
        currency=prices.currency if prices is not None else "",
        is_remote=resources is not None,
        notes=tuple(_notes(config, sample, training.num_epochs.value, load=load, is_remote=resources is not None)),
        seconds=time.monotonic() - started,
    )


def measured_by_runs(
    config: PipelineConfig, runs: Sequence[MeasuredRun], counts: Mapping[str, int]
) -> dict[str, Measurements]:
    """Chooses the newest run that measured each step on about as many examples as are planned.

    Args:
        config: the pipeline.
        runs: the runs, newest first.
        counts: examples of the pipeline, by split.

    Returns:
        The measurements by step, without those that no run measured.
    """
    found: dict[str, Measurements] = {}
    for run in runs:
        for step in {one.step for one in run.measured.steps} - found.keys():
            then = examples_of_step(step, config, run.measured.num_examples)
            now = examples_of_step(step, config, counts)
            if max(then, now) <= _MOST_CHANGE * min(then, now):
                found[step] = run.measured
    return found


def _check_tables(config: PipelineConfig, memory_bytes: int | None) -> None:
    remedy = (
        "Give --tables a folder of this machine with a part of them: their plan tells the cost of that part, and of "
        "each example."
    )
    if is_uri(config.tables_dir):
        raise ValueError(
            f"`tables` must be on this machine, where examples are counted and a sample is measured; got "
            f"{config.tables_dir!r}. {remedy}"
        )
    access = config.subgraph_example_gen.access
    schema = read_tables_schema(config.tables_dir, access=access)
    if any(layout.bigquery for layout in layouts_of(schema, config.tables_dir, access=access).all):
        raise ValueError(
            f"`tables` must be on this machine, where examples are counted and a sample is measured; got tables in "
            f"BigQuery in {config.tables_dir!r}. {remedy}"
        )
    num_bytes = sum(os.path.getsize(file) for file in list_table_files(config.tables_dir, access=access))
    if memory_bytes is not None and num_bytes > memory_bytes / _TABLES_SHARE:
        raise ValueError(
            f"`tables` must have at most a quarter of this machine's memory, {memory_bytes / 2**30:.1f} GiB, to be "
            f"counted and sampled; got {num_bytes / 2**30:.1f} GiB in {config.tables_dir!r}. {remedy}"
        )


def measure_in_child(
    config: PipelineConfig,
    *,
    seconds: float,
    steps: Collection[str],
    say: Callable[[str], None] = lambda _: None,
) -> SampleMeasurements:
    """Measures a sample in a new process, whose memory is that of the steps alone and whose output is hidden."""
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-plan-") as folder:
        with open(os.path.join(folder, JOB_FILE), "wb") as file:
            pickle.dump((config, seconds, steps), file)
        progress = os.path.join(folder, PROGRESS_FILE)
        command = [sys.executable, "-m", "tfx_gnn_pipelines.planning.sample_run", folder]
        # The user's modules must be found there, too.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            try:
                while child.poll() is None:
                    time.sleep(_POLL_SECONDS)
                    say(_text_of(progress))
            except BaseException:
                child.terminate()
                raise
        step = _text_of(progress)
        result = os.path.join(folder, RESULT_FILE)
        if not os.path.exists(result):
            raise MemoryError(
                f"The sample's process must end by itself; it was killed (exit code {child.returncode}) in {step}, "
                "most likely for want of memory. Choose a smaller batch or fan-out, or plan on a larger machine."
            )
        found: Any = read_json(result)
        if ERROR in found:
            raise ValueError(f"{step} must run on a sample; got {found[ERROR]} See also `tfx-gnn check`.")
        with open(result, encoding="utf-8") as file:
            return options_json.from_json(file.read(), SampleMeasurements, name=RESULT_FILE)


def _text_of(path: str) -> str:
    if not os.path.exists(path):
        return START
    with open(path, encoding="utf-8") as file:
        return file.read() or START


def make_steps(
    config: PipelineConfig,
    counts: Mapping[str, int],
    measured: Mapping[str, Measurements],
    machines: Mapping[str, StepMachines],
    *,
    start_seconds: float | None,
    is_remote: bool,
) -> tuple[StepPlan, ...]:
    """Extrapolates the cost of every step.

    Args:
        config: the pipeline.
        counts: its examples, by split.
        measured: what measured each step, in the order of steps.
        machines: what runs each step, and `START`.
        start_seconds: time of imports; None if it was not measured.
        is_remote: whether each step starts a process of its own, on a service.
    """
    start = with_noise(start_seconds, "measured") if start_seconds is not None else None
    found = []
    for name, source in measured.items():
        step = _step(name, config, counts, source, machines[name])
        if is_remote and start is not None:
            step = dataclasses.replace(step, seconds=step.seconds + start)
        found.append(step)
    if is_remote or start is None:
        return tuple(found)
    first = StepPlan(
        step=START,
        num_examples=None,
        seconds=start,
        disk=None,
        memory=None,
        machines=machines[START],
        source=SAMPLE,
    )
    return (first, *found)


def _step(
    name: str, config: PipelineConfig, counts: Mapping[str, int], measured: Measurements, machines: StepMachines
) -> StepPlan:
    ran = [one for one in measured.steps if one.step == name]
    # A run measured the search as a whole; a sample measures one training.
    is_trial = name == "GraphTuner" and not ran
    if is_trial:
        ran = [one for one in measured.steps if one.step == "GraphTrainer"]
    first, *later = ran
    count = examples_of_step(name, config, counts)
    seconds = extrapolate_seconds(_seconds(first), [_seconds(one) for one in later], count)
    disk = extrapolate_bytes([Point(num_examples=one.num_examples, cost=one.output_bytes) for one in ran], count)
    growths = [Point(num_examples=one.num_examples, cost=one.growth_bytes) for one in later]
    peak = Point(num_examples=first.num_examples, cost=first.peak_bytes + measured.tfx_bytes)
    memory = extrapolate_memory(peak, growths, count)
    if name == "SubgraphExampleGen":
        for reading in (one for one in measured.steps if one.step == READING):
            seconds += with_noise(reading.seconds, "measured")
    if (name == "GraphTrainer" or is_trial) and measured.training is not None:
        seconds, disk, memory = _training_cost(
            config, counts, measured=measured, first=first, training=measured.training, memory=memory
        )
    if is_trial and config.graph_tuner is not None:
        seconds, disk = seconds.times(config.graph_tuner.num_trials), exactly(0.0, "measured")
    return StepPlan(
        step=name,
        num_examples=exactly(count) if count else None,
        seconds=seconds,
        disk=disk,
        memory=memory,
        machines=machines,
        source=measured.source,
    )


def _seconds(measurement: StepMeasurement) -> Point:
    return Point(num_examples=measurement.num_examples, cost=measurement.seconds)


def _training_cost(
    config: PipelineConfig,
    counts: Mapping[str, int],
    *,
    measured: Measurements,
    first: StepMeasurement,
    training: TrainingMeasurement,
    memory: Quantity,
) -> tuple[Quantity, Quantity, Quantity]:
    """Returns seconds, disk and memory of a training."""
    plan = _training_plan(config, counts, measured)
    options = config.graph_trainer
    watched = max(counts[options.eval_split] - measured.num_examples[options.eval_split], 0)
    more_batches = watched / max(training.graphs_per_batch, 1.0)
    # What an epoch takes beside its steps: evaluation, checkpoint and logs of the sample, and more batches to evaluate.
    beside = max(training.seconds_per_epoch - training.steps_per_epoch * training.seconds_per_step, 0.0)
    low, value, high = (beside + share * more_batches * training.seconds_per_step for share in _FORWARD_SHARES)
    once = max(first.seconds - training.num_epochs * training.seconds_per_epoch, 0.0)
    step = plan.seconds_per_step
    seconds = Quantity(
        value=once + plan.num_steps.value * step.value + plan.num_epochs.value * value,
        low=(1 - NOISE) * once + plan.num_steps.low * step.low + plan.num_epochs.low * low * (1 - NOISE),
        high=(1 + NOISE) * once + plan.num_steps.high * step.high + plan.num_epochs.high * high * (1 + NOISE),
        origin="measured"
        if measured.num_examples == counts and training.num_epochs == plan.num_epochs.value
        else "extrapolated",
    )
    disk = exactly(first.output_bytes, "measured")
    trained = counts[options.train_split]
    buffered = min(options.batching.shuffle_buffer_size, trained) - measured.num_examples[options.train_split]
    if buffered > 0:
        memory += exactly(buffered * measured.record_bytes, "extrapolated")
    return seconds, disk, memory


def _training_plan(config: PipelineConfig, counts: Mapping[str, int], measured: Measurements) -> TrainingPlan:
    training, options = measured.training, config.graph_trainer
    assert training is not None
    num_trained = counts[options.train_split] * training.trained_share
    if options.batching.examples_per_class and training.num_classes:
        most = options.batching.examples_per_class * training.num_classes
        num_trained = min(counts[options.train_split], most)
    is_whole = measured.num_examples == counts
    expected_steps = (
        training.steps_per_epoch if is_whole else math.ceil(num_trained / max(training.graphs_per_batch, 1.0))
    )
    # A budget that was learned from a sample may hold fewer graphs than that of all examples.
    batch_size = options.batching.batch_size or max(config.size_constraint_learner.batch_sizes)
    fewest_steps = math.ceil(num_trained / batch_size)
    steps = Quantity(
        value=expected_steps,
        low=expected_steps if is_whole else min(math.floor(expected_steps * 0.95), fewest_steps),
        high=expected_steps if is_whole else math.ceil(expected_steps * 1.05),
        origin="measured" if is_whole else "extrapolated",
    )
    patience = options.early_stopping_patience
    least = min(options.num_epochs, patience + 1) if patience else options.num_epochs
    expected_epochs = options.num_epochs
    if training.stopped_early and patience:
        expected_epochs = min(max(training.num_epochs, least), options.num_epochs)
    epochs = Quantity(value=expected_epochs, low=least, high=options.num_epochs, origin="counted")
    return TrainingPlan(
        num_epochs=epochs,
        steps_per_epoch=steps,
        num_steps=Quantity(
            value=steps.value * epochs.value,
            low=steps.low * epochs.low,
            high=steps.high * epochs.high,
            origin="extrapolated",
        ),
        seconds_per_step=Quantity(
            value=training.seconds_per_step,
            low=training.seconds_per_step * (1 - NOISE),
            high=training.seconds_per_step * (1 + NOISE),
            origin="measured",
        ),
        batch_bytes=training.batch_bytes,
        num_parameters=training.num_parameters,
    )


def describe_load(load: float, num_processors: int) -> str:
    """Says in a sentence that other processes make a machine slow; empty if they do not.

    Args:
        load: processes that ran or waited for a processor on average, before the measurements.
        num_processors: processors of the machine.
    """
    if load <= num_processors:
        return ""
    return (
        f"Other processes keep this machine busy (load {load:.1f} on {num_processors} processors), so measured "
        "times are longer than alone."
    )


def _notes(
    config: PipelineConfig, sample: SampleMeasurements | None, num_epochs: float, *, load: float, is_remote: bool
) -> list[str]:
    notes = []
    if sample is None:
        notes.append("Imports before the first step take some seconds, which runs do not measure and the totals lack.")
    elif not sample.is_repeated:
        notes.append("Not every step was measured at two sizes, so ranges are wide: give more --seconds.")
    busy = describe_load(load, os.cpu_count() or 1)
    if sample is not None and busy:
        notes.append(busy)
    if config.graph_trainer.early_stopping_patience:
        notes.append(
            f"Training may stop early: the times are those of {num_epochs:.0f} epochs, the ranges begin at the "
            "earliest end."
        )
    if sample is not None and (config.beam_args or config.subgraph_example_gen.execution == "beam"):
        notes.append("Beam's steps were measured in one process of this machine, not on Beam's workers.")
    if is_remote:
        notes.append(
            f"Times were measured on this machine's {os.cpu_count()} processors; waiting for a service's machines is "
            "not counted."
        )
    if config.graph_tuner is not None and sample is not None:
        notes.append("GraphTuner is planned as trainings with the default hyperparameters, none of them pruned.")
    return notes + _notes_without_plan(config)


def _notes_without_plan(config: PipelineConfig) -> list[str]:
    notes = []
    if config.graph_bulk_inferrer is not None:
        notes.append(
            "GraphBulkInferrer is not planned: an example takes about as long as in GraphEvaluator, and as in "
            "SubgraphExampleGen to be sampled."
        )
    if config.graph_layerwise_inferrer is not None:
        notes.append(
            "GraphIndexer and GraphLayerwiseInferrer are not planned: they work on the whole graph, not on examples."
        )
    elif config.graph_indexer is not None:
        notes.append("GraphIndexer is not planned: it works on the whole graph, not on examples.")
    if config.graph_skew_validator.asks_server:
        notes.append("GraphSkewValidator is planned without the server that it asks.")
    return notes

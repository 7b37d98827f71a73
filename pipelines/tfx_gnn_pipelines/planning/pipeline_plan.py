"""The plan of a pipeline: examples, bytes, training steps, memory, time, machines and money of every step."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import read_json
from tfx_gnn.tables.graph_tables import list_table_files, read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.planning.machines import Prices, StepMachines, machines_of, this_machine
from tfx_gnn_pipelines.planning.measurements import (
    READING,
    SampleMeasurements,
    StepMeasurement,
    TrainingMeasurement,
)
from tfx_gnn_pipelines.planning.quantities import (
    NOISE,
    Point,
    Quantity,
    exactly,
    extrapolate_bytes,
    extrapolate_memory,
    extrapolate_seconds,
    largest,
    total,
    with_noise,
)
from tfx_gnn_pipelines.planning.sample_run import (
    ERROR,
    JOB_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    compared_examples,
    evaluated_examples,
)
from tfx_gnn_pipelines.resources import Resources, check_components

START = "start"
STEPS = (
    "SubgraphExampleGen",
    "GraphSchemaGen",
    "GraphExampleValidator",
    "GraphTransform",
    "SizeConstraintLearner",
    "GraphTuner",
    "GraphTrainer",
    "GraphEvaluator",
    "GraphSkewValidator",
    "GraphPusher",
)
"""Ids of all components in the order in which they run; TFX, which knows them too, takes long to import."""

_FORWARD_SHARES = (0.2, 0.5, 1.0)
"""Least, likely and largest time of evaluating a batch, as a share of a training step on it."""
_TABLES_SHARE = 4
_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan:
    """What a step will cost.

    Attributes:
        step: the component's id; "start" for the imports before the first one.
        num_examples: examples that it works on; None if it works on none.
        seconds: duration; None if it was not measured.
        disk: bytes of its outputs; None if they were not measured.
        memory: largest resident memory in bytes; None if it was not measured.
        machines: what runs it.
    """

    step: str
    num_examples: Quantity | None
    seconds: Quantity | None
    disk: Quantity | None
    memory: Quantity | None
    machines: StepMachines

    @property
    def machine_hours(self) -> Quantity | None:
        """Hours of all machines of the step together."""
        return None if self.seconds is None else self.seconds.times(self.machines.count / 3600)

    @property
    def money(self) -> Quantity | None:
        """Price of these hours; None without prices."""
        if self.seconds is None or self.machines.per_hour is None:
            return None
        return self.seconds.times(self.machines.per_hour / 3600)

    @property
    def lacks_memory(self) -> bool:
        """Whether the memory of its machine does not suffice."""
        limit = self.machines.memory_bytes
        return self.memory is not None and limit is not None and self.memory.value > limit


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What the training will do.

    Attributes:
        num_epochs: most epochs; the range has those after which it can stop early.
        steps_per_epoch: steps of an epoch.
        num_steps: steps of all epochs.
        seconds_per_step: duration of a step.
        batch_bytes: size of a padded batch in memory; 0 for batching "ego".
        num_parameters: numbers in the model's variables.
    """

    num_epochs: Quantity
    steps_per_epoch: Quantity
    num_steps: Quantity
    seconds_per_step: Quantity
    batch_bytes: int
    num_parameters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelinePlan:
    """What a pipeline will cost.

    Attributes:
        name: name of the pipeline.
        num_examples: by split, counted in the tables.
        sample: by split, how many of them were tried.
        steps: the steps in their order.
        training: the training; None if it was not measured.
        currency: unit of money; empty without prices.
        is_remote: whether the steps run on machines of a file of resources.
        notes: what the plan could not know, as sentences.
        seconds: how long planning took.
    """

    name: str
    num_examples: Mapping[str, int]
    sample: Mapping[str, int]
    steps: tuple[StepPlan, ...]
    training: TrainingPlan | None
    currency: str
    is_remote: bool
    notes: tuple[str, ...]
    seconds: float

    @property
    def total_seconds(self) -> Quantity:
        """Duration of all steps that were measured, one after the other."""
        return total([step.seconds for step in self.steps if step.seconds is not None])

    @property
    def total_disk(self) -> Quantity:
        """Bytes of all outputs that were measured."""
        return total([step.disk for step in self.steps if step.disk is not None])

    @property
    def peak_memory(self) -> Quantity:
        """Memory of the step that needs most."""
        known = [step.memory for step in self.steps if step.memory is not None]
        return largest(known or [exactly(0.0)])

    @property
    def machine_hours(self) -> Quantity:
        """Hours of all machines together."""
        return total([step.machine_hours for step in self.steps if step.machine_hours is not None])

    @property
    def money(self) -> Quantity | None:
        """Price of these hours; None without prices."""
        prices = [step.money for step in self.steps if step.money is not None]
        return total(prices) if prices else None

    @property
    def objections(self) -> tuple[str, ...]:
        """Steps whose memory does not suffice, as sentences; empty if all does."""
        return tuple(
            f"{step.step} needs {step.memory.value / 2**30:.1f} GiB of memory; {step.machines.name} has "
            f"{step.machines.memory_bytes / 2**30:.1f} GiB"
            for step in self.steps
            if step.lacks_memory and step.memory is not None and step.machines.memory_bytes is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain values; seconds and bytes are not rounded."""
        return {
            **dataclasses.asdict(self),
            "steps": [
                {
                    **dataclasses.asdict(step),
                    "machine_hours": _plain(step.machine_hours),
                    "money": _plain(step.money),
                    "lacks_memory": step.lacks_memory,
                }
                for step in self.steps
            ],
            "total_seconds": _plain(self.total_seconds),
            "total_disk": _plain(self.total_disk),
            "peak_memory": _plain(self.peak_memory),
            "machine_hours": _plain(self.machine_hours),
            "money": _plain(self.money),
            "passed": not self.objections,
            "objections": list(self.objections),
        }


def _plain(quantity: Quantity | None) -> dict[str, Any] | None:
    return None if quantity is None else dataclasses.asdict(quantity)


def plan_pipeline(
    config: PipelineConfig,
    *,
    seconds: float,
    resources: Resources | None = None,
    prices: Prices | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PipelinePlan:
    """Measures a pipeline's steps on a sample, and extrapolates what the whole costs.

    Args:
        config: the pipeline.
        seconds: time to measure in; above 0. A step that has begun ends.
        resources: machines of a service; None: this machine.
        prices: what they cost; needs `resources`.
        say: called with the name of each step that is measured.

    Raises:
        ValueError: if the tables are remote or too large for this machine, a price is missing, or a step fails.
    """
    if not 0 < seconds < math.inf:
        raise ValueError(f"`seconds` must be above 0 and finite; got {seconds}. 30 is the default.")
    if prices is not None and resources is None:
        raise ValueError("`--prices` must be given with --resources, which says what machines there are; got it alone.")
    started = time.monotonic()
    names = [step for step in STEPS if step != "GraphTuner" or config.graph_tuner is not None]
    machines = dict.fromkeys([START, *names], this_machine())
    if resources is not None:
        check_components(resources, names)
        machines |= {name: machines_of(name, resources, prices) for name in names}
    _check_tables(config, machines[START].memory_bytes)
    measured = measure_in_child(config, seconds=seconds, say=say)
    steps = make_steps(config, measured, machines, is_remote=resources is not None)
    return PipelinePlan(
        name=config.pipeline_name,
        num_examples=measured.num_examples,
        sample=measured.sample,
        steps=steps,
        training=_training_plan(config, measured),
        currency=prices.currency if prices is not None else "",
        is_remote=resources is not None,
        notes=tuple(_notes(config, measured, steps, is_remote=resources is not None)),
        seconds=time.monotonic() - started,
    )


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
    config: PipelineConfig, *, seconds: float, say: Callable[[str], None] = lambda _: None
) -> SampleMeasurements:
    """Measures a sample in a new process, whose memory is that of the steps alone and whose output is hidden."""
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-plan-") as folder:
        with open(os.path.join(folder, JOB_FILE), "wb") as file:
            pickle.dump((config, seconds), file)
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
    config: PipelineConfig, measured: SampleMeasurements, machines: Mapping[str, StepMachines], *, is_remote: bool
) -> tuple[StepPlan, ...]:
    """Extrapolates the cost of every step; each step of a service starts a process of its own."""
    by_step: dict[str, list[StepMeasurement]] = {}
    for one in measured.steps:
        by_step.setdefault(one.step, []).append(one)
    start = with_noise(measured.start_seconds, "measured")
    found = []
    for name, machine in machines.items():
        if name == START:
            continue
        step = _step(name, config, measured, by_step, machine)
        if is_remote and step.seconds is not None:
            step = dataclasses.replace(step, seconds=step.seconds + start)
        found.append(step)
    if is_remote:
        return tuple(found)
    first = StepPlan(step=START, num_examples=None, seconds=start, disk=None, memory=None, machines=machines[START])
    return (first, *found)


def _step(
    name: str,
    config: PipelineConfig,
    measured: SampleMeasurements,
    by_step: Mapping[str, list[StepMeasurement]],
    machines: StepMachines,
) -> StepPlan:
    counts = measured.num_examples
    num_examples: int | None = {
        "GraphTuner": _trained_and_watched(config, counts),
        "GraphTrainer": _trained_and_watched(config, counts),
        "GraphEvaluator": evaluated_examples(config, counts),
        "GraphSkewValidator": compared_examples(config, counts),
        "GraphPusher": None,
    }.get(name, sum(counts.values()))
    examples = None if num_examples is None else exactly(num_examples)
    ran = by_step.get("GraphTrainer" if name == "GraphTuner" else name, [])
    if not ran:
        return StepPlan(step=name, num_examples=examples, seconds=None, disk=None, memory=None, machines=machines)
    first, *later = ran
    count = num_examples or 0
    seconds = extrapolate_seconds(_seconds(first), [_seconds(one) for one in later], count)
    disk = extrapolate_bytes([Point(num_examples=one.num_examples, cost=one.output_bytes) for one in ran], count)
    growths = [Point(num_examples=one.num_examples, cost=one.growth_bytes) for one in later]
    memory = extrapolate_memory(first.peak_bytes + (measured.tfx_bytes or 0), growths, count)
    if name == "SubgraphExampleGen":
        seconds += extrapolate_seconds(_seconds(by_step[READING][0]), [], 0)
    if name in ("GraphTrainer", "GraphTuner") and measured.training is not None:
        seconds, disk, memory = _training_cost(
            name, config, measured=measured, first=first, training=measured.training, memory=memory
        )
    return StepPlan(step=name, num_examples=examples, seconds=seconds, disk=disk, memory=memory, machines=machines)


def _seconds(measurement: StepMeasurement) -> Point:
    return Point(num_examples=measurement.num_examples, cost=measurement.seconds)


def _trained_and_watched(config: PipelineConfig, num_examples: Mapping[str, int]) -> int:
    options = config.graph_trainer
    return num_examples.get(options.train_split, 0) + num_examples.get(options.eval_split, 0)


def _training_cost(
    name: str,
    config: PipelineConfig,
    *,
    measured: SampleMeasurements,
    first: StepMeasurement,
    training: TrainingMeasurement,
    memory: Quantity,
) -> tuple[Quantity, Quantity, Quantity]:
    """Returns seconds, disk and memory of a training, or of all trainings of a search."""
    plan = _training_plan(config, measured)
    assert plan is not None
    options = config.graph_trainer
    watched = measured.num_examples[options.eval_split] - measured.sample[options.eval_split]
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
        origin="extrapolated",
    )
    disk = exactly(first.output_bytes, "measured")
    trained = measured.num_examples[options.train_split]
    buffered = min(options.batching.shuffle_buffer_size, trained) - measured.sample[options.train_split]
    if buffered > 0:
        memory += exactly(buffered * measured.record_bytes, "extrapolated")
    if name == "GraphTuner" and config.graph_tuner is not None:
        seconds = seconds.times(config.graph_tuner.num_trials)
        disk = exactly(0.0, "measured")
    return seconds, disk, memory


def _training_plan(config: PipelineConfig, measured: SampleMeasurements) -> TrainingPlan | None:
    training, options = measured.training, config.graph_trainer
    if training is None:
        return None
    num_trained = measured.num_examples[options.train_split] * training.trained_share
    if options.batching.examples_per_class and training.num_classes:
        most = options.batching.examples_per_class * training.num_classes
        num_trained = min(measured.num_examples[options.train_split], most)
    is_whole = measured.sample == measured.num_examples
    expected = training.steps_per_epoch if is_whole else math.ceil(num_trained / max(training.graphs_per_batch, 1.0))
    steps = Quantity(
        value=expected,
        low=expected if is_whole else math.floor(expected * 0.95),
        high=expected if is_whole else math.ceil(expected * 1.05),
        origin="measured" if is_whole else "extrapolated",
    )
    patience = options.early_stopping_patience
    least = min(options.num_epochs, patience + 1) if patience else options.num_epochs
    epochs = Quantity(value=options.num_epochs, low=least, high=options.num_epochs, origin="counted")
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


def _notes(
    config: PipelineConfig, measured: SampleMeasurements, steps: tuple[StepPlan, ...], *, is_remote: bool
) -> list[str]:
    notes = []
    unmeasured = [step.step for step in steps if step.step != START and step.seconds is None]
    if unmeasured:
        notes.append(f"No time was left for {', '.join(unmeasured)}, which the totals lack: give more --seconds.")
    elif measured.tfx_bytes is None:
        notes.append("No time was left to import TFX, whose seconds and memory are not counted: give more --seconds.")
    if measured.sample != measured.num_examples and len(measured.steps) < 2 * len(STEPS):
        notes.append("Not every step was measured at two sizes, so ranges are wide: give more --seconds.")
    if config.graph_trainer.early_stopping_patience:
        notes.append(
            "Training may stop early: the times are those of all epochs, the ranges begin at the earliest end."
        )
    if config.beam_args or config.subgraph_example_gen.execution == "beam":
        notes.append("Beam's steps were measured in one process of this machine, not on Beam's workers.")
    if is_remote:
        notes.append(
            f"Times were measured on this machine's {os.cpu_count()} processors; waiting for a service's machines is "
            "not counted."
        )
    if config.graph_tuner is not None:
        notes.append("GraphTuner is planned as trainings with the default hyperparameters, none of them pruned.")
    return notes

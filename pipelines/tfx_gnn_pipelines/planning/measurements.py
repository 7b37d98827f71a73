"""What a sample, or an earlier run, measured of each step, of the training, and in all."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tfx_gnn_pipelines.bulk_inference import INFERENCE_EXAMPLE_GEN
from tfx_gnn_pipelines.config import PipelineConfig

READING = "reading tables"
SAMPLE = "a sample"
"""What measured, if it was no run."""

RESOLVER = "LatestBlessedModelResolver"

UPSTREAM: Mapping[str, tuple[str, ...]] = {
    "SubgraphExampleGen": (),
    RESOLVER: (),
    "GraphSchemaGen": ("SubgraphExampleGen",),
    "GraphExampleValidator": ("GraphSchemaGen", RESOLVER),
    "GraphTransform": ("GraphSchemaGen",),
    "SizeConstraintLearner": ("GraphTransform",),
    "GraphTuner": ("SizeConstraintLearner",),
    "GraphTrainer": ("SizeConstraintLearner",),
    "GraphEvaluator": ("GraphTrainer", RESOLVER),
    "GraphSkewValidator": ("GraphTrainer",),
    "GraphPusher": ("GraphTrainer",),
}
"""All components in the order in which they run, and whose outputs decide what they work on.

Not every pipeline has `RESOLVER` and GraphTuner.
"""
STEPS = tuple(UPSTREAM)
"""Their ids; TFX, which knows them too, takes long to import."""


def planned_steps(config: PipelineConfig) -> tuple[str, ...]:
    """Lists the steps of a pipeline whose costs are planned."""
    optional = {RESOLVER: config.latest_blessed_model_resolver, "GraphTuner": config.graph_tuner}
    return tuple(step for step in STEPS if step not in optional or optional[step] is not None)


def steps_without_plan(config: PipelineConfig) -> tuple[str, ...]:
    """Lists the ids of the optional components of a pipeline whose costs are not planned."""
    options = {
        INFERENCE_EXAMPLE_GEN: config.inference_example_gen,
        "GraphBulkInferrer": config.graph_bulk_inferrer,
        "GraphIndexer": config.graph_indexer,
        "GraphLayerwiseInferrer": config.graph_layerwise_inferrer,
    }
    return tuple(name for name, given in options.items() if given is not None)


def examples_of_step(step: str, config: PipelineConfig, num_examples: Mapping[str, int]) -> int:
    """Counts the examples that a step works on; 0 for a step that works on models only.

    Args:
        step: its component's id.
        config: the pipeline.
        num_examples: examples of the pipeline, by split.
    """
    trainer, evaluator, skew = config.graph_trainer, config.graph_evaluator, config.graph_skew_validator
    if step in (RESOLVER, "GraphPusher"):
        return 0
    if step in ("GraphTuner", "GraphTrainer"):
        return num_examples.get(trainer.train_split, 0) + num_examples.get(trainer.eval_split, 0)
    if step == "GraphEvaluator":
        return sum(num_examples.get(split, 0) for split in {evaluator.split, evaluator.baseline_split})
    if step == "GraphSkewValidator":
        return sum(min(num_examples.get(split, 0), skew.max_examples) for split in skew.splits or num_examples)
    return sum(num_examples.values())


def with_upstream(steps: Collection[str], upstream: Mapping[str, tuple[str, ...]] = UPSTREAM) -> frozenset[str]:
    """Returns steps and all those without which they cannot run."""
    found: set[str] = set()
    waiting = list(steps)
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting += upstream[step]
    return frozenset(found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepMeasurement:
    """One execution of a step.

    Attributes:
        step: the component's id, or `READING` for the part of SubgraphExampleGen that always reads all tables.
        num_examples: examples that the step worked on.
        seconds: duration.
        peak_bytes: largest resident memory of the process, without those that it starts.
        growth_bytes: how much more that is than the memory at the start of the step.
        output_bytes: bytes of the files that it wrote.
    """

    step: str
    num_examples: int
    seconds: float
    peak_bytes: int
    growth_bytes: int
    output_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingMeasurement:
    """What was seen of a training.

    Attributes:
        num_epochs: its epochs.
        stopped_early: whether it ended before its last epoch.
        seconds_per_step: duration of a step after the first epoch.
        seconds_per_epoch: duration of an epoch after the first one, with evaluation and checkpoint.
        steps_per_epoch: steps of such an epoch.
        graphs_per_batch: graphs that a batch holds on average.
        trained_share: graphs trained on in an epoch, per example of the training split.
        batch_bytes: size of a padded batch; 0 for batching "ego".
        num_parameters: numbers in the model's variables.
        num_classes: classes of the label; 0 for other tasks.
    """

    num_epochs: int
    stopped_early: bool
    seconds_per_step: float
    seconds_per_epoch: float
    steps_per_epoch: int
    graphs_per_batch: float
    trained_share: float
    batch_bytes: int
    num_parameters: int
    num_classes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurements:
    """What a sample, or an earlier run, found.

    Attributes:
        source: `SAMPLE`, or the run, such as "runs/shop@2".
        num_examples: by split, examples of the first pass over the steps.
        steps: executions of steps in their order; the first one of each step has all that happens once.
        training: the training; None if the trainer did not run.
        record_bytes: mean size of a transformed example in memory; 0 without `training`.
        tfx_bytes: memory that TFX takes in addition to `StepMeasurement.peak_bytes`.
    """

    source: str
    num_examples: dict[str, int]
    steps: tuple[StepMeasurement, ...]
    training: TrainingMeasurement | None
    record_bytes: float
    tfx_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleMeasurements:
    """What a sample run found.

    Attributes:
        counted: by split, examples of the whole pipeline, counted in the tables.
        measured: the measurements.
        start_seconds: time before and between the steps, which is that of imports.
        is_repeated: whether time was left to measure every step at two sizes.
        seconds: duration of the run.
    """

    counted: dict[str, int]
    measured: Measurements
    start_seconds: float
    is_repeated: bool
    seconds: float

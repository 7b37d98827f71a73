"""What a sample run measures of each step, of the training, and in all."""

from __future__ import annotations

import dataclasses

READING = "reading tables"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepMeasurement:
    """One execution of a step.

    Attributes:
        step: the component's id, or `READING` for the part of SubgraphExampleGen that always reads all tables.
        num_examples: examples that the step worked on.
        seconds: duration.
        cpu_seconds: time of processors, over all threads.
        peak_bytes: largest resident memory of the process, without those that it starts.
        growth_bytes: how much more that is than the memory at the start of the step.
        output_bytes: bytes of the files that it wrote.
    """

    step: str
    num_examples: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    growth_bytes: int
    output_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingMeasurement:
    """What was seen of the training of a sample.

    Attributes:
        num_epochs: epochs of the sample's training.
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
    seconds_per_step: float
    seconds_per_epoch: float
    steps_per_epoch: int
    graphs_per_batch: float
    trained_share: float
    batch_bytes: int
    num_parameters: int
    num_classes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleMeasurements:
    """What a sample run found.

    Attributes:
        num_examples: by split, examples of the whole pipeline, counted in the tables.
        sample: by split, examples of the first pass over the steps.
        steps: executions of steps in their order; the first one of each step has all that happens once. Steps for which
            no time was left are not among them.
        training: the training; None if no time was left for it.
        record_bytes: mean size of a transformed example in memory; 0 without `training`.
        start_seconds: time before and between the steps, which is that of imports.
        tfx_bytes: memory that importing TFX takes; None if no time was left for it.
        seconds: duration of the run.
    """

    num_examples: dict[str, int]
    sample: dict[str, int]
    steps: tuple[StepMeasurement, ...]
    training: TrainingMeasurement | None
    record_bytes: float
    start_seconds: float
    tfx_bytes: int | None
    seconds: float

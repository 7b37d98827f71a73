"""The plan of a pipeline: examples, bytes, training steps, memory, time, machines and money of every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfx_gnn_pipelines.planning.machines import StepMachines
from tfx_gnn_pipelines.planning.quantities import Quantity, exactly, largest, total

START = "start"
"""The imports before the first step, which are planned as a step of their own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan:
    """What a step will cost.

    Attributes:
        step: the component's id, or `START`.
        num_examples: examples that it works on; None if it works on none.
        seconds: duration.
        disk: bytes of its outputs; None for `START`.
        memory: largest resident memory in bytes; None for `START`.
        machines: what runs it.
        source: what measured it: "a sample" or a run such as "runs/shop@2"; what it is estimated by: "3 runs" or
            "built-in rates".
    """

    step: str
    num_examples: Quantity | None
    seconds: Quantity
    disk: Quantity | None
    memory: Quantity | None
    machines: StepMachines
    source: str

    @property
    def machine_hours(self) -> Quantity:
        """Hours of all machines of the step together."""
        return self.seconds.times(self.machines.count / 3600)

    @property
    def money(self) -> Quantity | None:
        """Price of these hours; None without prices."""
        if self.machines.per_hour is None:
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
        num_parameters: numbers in the model's variables; 0 in a plan from statistics, which makes no model.
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
        sample: by split, how many of them were tried; empty if runs measured every step, or none was tried.
        steps: the steps in their order.
        training: the training.
        currency: unit of money; empty without prices.
        is_remote: whether the steps run on machines of a file of resources.
        notes: what the plan could not know, as sentences.
        seconds: how long planning took.
    """

    name: str
    num_examples: Mapping[str, int]
    sample: Mapping[str, int]
    steps: tuple[StepPlan, ...]
    training: TrainingPlan
    currency: str
    is_remote: bool
    notes: tuple[str, ...]
    seconds: float

    @property
    def total_seconds(self) -> Quantity:
        """Duration of all steps, one after the other."""
        return total([step.seconds for step in self.steps])

    @property
    def total_disk(self) -> Quantity:
        """Bytes of all outputs."""
        return total([step.disk for step in self.steps if step.disk is not None])

    @property
    def peak_memory(self) -> Quantity:
        """Memory of the step that needs most."""
        known = [step.memory for step in self.steps if step.memory is not None]
        return largest(known or [exactly(0.0)])

    @property
    def machine_hours(self) -> Quantity:
        """Hours of all machines together."""
        return total([step.machine_hours for step in self.steps])

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

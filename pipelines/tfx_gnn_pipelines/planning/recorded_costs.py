"""What the steps of an earlier run cost, to set beside a plan."""

from __future__ import annotations

import dataclasses

from tfx_gnn_pipelines.planning.sample_run import folder_bytes
from tfx_gnn_pipelines.recorded_run import read_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActualStep:
    """What a step of a run cost.

    Attributes:
        step: the component's id.
        state: "complete", "cached", "failed" or another state of ML Metadata in lower case; only a complete step has
            seconds that can be compared.
        seconds: duration.
        disk: bytes of its outputs that are still there.
    """

    step: str
    state: str
    seconds: float
    disk: int


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
            disk=sum(folder_bytes(artifact.folder) for artifact in step.outputs),
        )
        for step in read_run(place).steps
    )

"""What a pipeline's run did: its steps, their options, and the artifacts that they read and made."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

RUN_PAGE = "index.html"
"""Page of the latest run of a root; in the folder above, if that is called `runs`, the list of all runs."""


STEPS = (
    "SubgraphExampleGen",
    "LatestBlessedModelResolver",
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
"""The steps of a pipeline, in their order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedArtifact:
    """One input or output of a step.

    Attributes:
        name: name of the input or output.
        number: its id in ML Metadata; 0 if only its folder is known.
        kind: its type.
        folder: where it is now: in the root, even if the root was moved or copied.
        maker: execution that made it; 0 if unknown.
        properties: its custom properties as text.
    """

    name: str
    number: int
    kind: str
    folder: str
    maker: int
    properties: Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """What one component did in one run.

    Attributes:
        component: its id.
        execution: number of its execution.
        state: "complete", "cached", "failed", "canceled" by a stop of the run, "running" or another state of ML
            Metadata in lower case; of a trial run also "skipped" or "did not start"; "unknown" if only folders are
            known.
        started: seconds since 1970; 0 if unknown.
        seconds: from its registration to the last change of its state.
        options: its parameters; those that were written as JSON are parsed.
        inputs: artifacts that it read.
        outputs: artifacts that it made; for a cached step, those that it reused.
        error: why it failed; empty if it did not, or if nobody wrote it down.
        peak_bytes: largest resident memory of its process; 0 if nobody wrote it down.
    """

    component: str
    execution: int
    state: str
    started: float
    seconds: float
    options: Mapping[str, Any]
    inputs: tuple[RecordedArtifact, ...]
    outputs: tuple[RecordedArtifact, ...]
    error: str
    peak_bytes: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """One run of a pipeline.

    Attributes:
        root: folder of the pipeline.
        pipeline: name of the pipeline; empty if only folders are known.
        name: name of the run, which is the time at which it started.
        number: position among the runs of the root, from 1.
        num_runs: number of runs of the root.
        steps: what the components did, in the order they started.
        stop: what the check beside the run found, if that stopped it or kept it from starting; the first error first.
    """

    root: str
    pipeline: str
    name: str
    number: int
    num_runs: int
    steps: tuple[RecordedStep, ...]
    stop: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Short name of the run, which distinguishes it from others."""
        name = os.path.basename(os.path.abspath(self.root))
        return f"{name}@{self.number}" if self.num_runs > 1 else name

    @property
    def page(self) -> str:
        """Path of its page: the latest run has that of the root, besides one of its own."""
        return os.path.join(self.root, RUN_PAGE) if self.number == self.num_runs else self.own_page

    @property
    def own_page(self) -> str:
        """Path of the page that no later run replaces."""
        return os.path.join(self.root, f"run_{self.number}.html")

    def folders(self) -> dict[str, dict[str, str]]:
        """Returns the folders of outputs by component and output, without those of steps that did not succeed."""
        return {
            step.component: {artifact.name: artifact.folder for artifact in step.outputs}
            for step in self.steps
            if step.state in ("complete", "cached", "unknown")
        }

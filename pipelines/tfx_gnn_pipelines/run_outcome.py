"""What a finished run found and where it is: plain values, which are read once and can be kept."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.io.json_shapes import Shape, read_shaped_json
from tfx_gnn.reports.run_warnings import run_warnings

if TYPE_CHECKING:
    from tfx_gnn_pipelines.config import PipelineConfig
    from tfx_gnn_pipelines.lineage import ArtifactRecord, ComponentRun

CACHED = "cached"

_ANOMALIES: dict[str, Shape] = {
    "anomalies": [{"check": str, "severity": str, "split": str, "about": str, "description": str}]
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What one component did.

    Attributes:
        component: its id.
        state: "complete" or "cached".
        outputs: folders by output name.
    """

    component: str
    state: str
    outputs: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """The outcome of a run in which every component succeeded.

    Attributes:
        pipeline: name of the pipeline.
        root: its root.
        steps: the components, in the order in which they ran.
        metrics: the evaluation.
        pushed_model: folder of the version that was pushed, by this run or the one whose push is reused; empty if the
            model was not good enough.
        objections: why the model was not blessed.
        warnings: what steps found wrong and did not refuse, with what to do about it, the most severe first.
        metadata: the database of the run.
        examples_dir: folder of the examples that were evaluated.
    """

    pipeline: str
    root: str
    steps: tuple[StepOutcome, ...]
    metrics: dict[str, Any]
    pushed_model: str
    objections: tuple[str, ...]
    warnings: tuple[str, ...]
    metadata: str
    examples_dir: str

    @property
    def is_pushed(self) -> bool:
        """Whether the model was pushed and the pushed version still exists."""
        return bool(self.pushed_model) and os.path.isdir(self.pushed_model)

    def as_cached(self) -> RunOutcome:
        """Returns the outcome of the same run again, in which every component was cached."""
        return dataclasses.replace(self, steps=tuple(dataclasses.replace(step, state=CACHED) for step in self.steps))


def read_outcome(config: PipelineConfig, runs: Sequence[ComponentRun]) -> RunOutcome:
    """Reads the outcome of a run from the outputs of its components, all of which succeeded."""
    # An outcome that was kept is shown without these and TensorFlow, which takes seconds to import.
    from tfx_gnn.components.graph_evaluator.stage import METRICS_FILE
    from tfx_gnn.records.blessing import INFRA_PREFIX
    from tfx_gnn.records.examples_folder import split_dir

    outputs = {run.component: run.outputs for run in runs}
    verdicts = {"": outputs["GraphEvaluator"]["blessing"].uri}
    verdicts[INFRA_PREFIX] = outputs["GraphSkewValidator"]["infra_blessing"].uri
    pushed_model = str(outputs["GraphPusher"]["pushed_model"].properties.get("pushed_destination", ""))
    metrics = read_shaped_json(os.path.join(outputs["GraphEvaluator"]["evaluation"].uri, METRICS_FILE), {})
    return RunOutcome(
        pipeline=config.pipeline_name,
        root=config.root,
        steps=tuple(
            StepOutcome(
                component=run.component,
                state=run.state,
                outputs={name: artifact.uri for name, artifact in run.outputs.items()},
            )
            for run in runs
        ),
        metrics=metrics,
        pushed_model=pushed_model,
        objections=() if pushed_model else _objections(verdicts),
        warnings=tuple(run_warnings({"evaluation": metrics, **_warning_files(outputs)})),
        metadata=config.metadata_path,
        examples_dir=split_dir(outputs["SubgraphExampleGen"]["examples"].uri, config.graph_evaluator.split),
    )


def _warning_files(outputs: Mapping[str, Mapping[str, ArtifactRecord]]) -> dict[str, Mapping[str, Any]]:
    """The files with warnings, beside the evaluation."""
    from tfx_gnn.components.graph_example_validator.checks import READABLE_FILE
    from tfx_gnn.records.size_constraints_file import SIZE_CONSTRAINTS_FILE
    from tfx_gnn.training.loop.summary import SUMMARY_FILE

    places: dict[str, tuple[str, str, str, dict[str, Shape]]] = {
        "training": ("GraphTrainer", "model_run", SUMMARY_FILE, {"warnings?": [str]}),
        "anomalies": ("GraphExampleValidator", "anomalies", READABLE_FILE, _ANOMALIES),
        "budgets": ("SizeConstraintLearner", "size_constraints", SIZE_CONSTRAINTS_FILE, {"warnings": [str]}),
    }
    return {
        name: read_shaped_json(os.path.join(outputs[step][output].uri, file), shape)
        for name, (step, output, file, shape) in places.items()
    }


def _objections(verdicts: Mapping[str, str]) -> tuple[str, ...]:
    from tfx_gnn.records.blessing import is_blessed, read_reasons

    withheld = [folder for prefix, folder in verdicts.items() if not is_blessed(folder, prefix=prefix)]
    return tuple(reason for folder in withheld for reason in read_reasons(folder))

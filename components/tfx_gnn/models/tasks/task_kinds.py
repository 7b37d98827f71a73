"""All prediction tasks by name, and several tasks in one. Imports no TensorFlow, so that options load fast."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.io.option_kinds import register_kinds
from tfx_gnn.models.tasks.label_tasks import GraphClassification, GraphRegression, NodeClassification, NodeRegression
from tfx_gnn.models.tasks.pair_tasks import GraphMatching, LinkPrediction
from tfx_gnn.models.tasks.task import Task, Vocabulary

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.task import LabelSummary, Objective


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiTask(Task):
    """Several tasks by name; labels, outputs, losses and metrics are dicts with the same names.

    Attributes:
        tasks: two or more tasks, none of them a MultiTask. A task that reads one `_readout` node per
            example cannot be combined with a task that reads several.
        loss_weights: factors, by task name, by which losses are multiplied before they are summed; 1
            for tasks that are not named.

    Example:
        >>> task = MultiTask(
        ...     tasks={
        ...         "energy": GraphRegression(label_feature="energy"),
        ...         "toxic": GraphClassification(label_feature="toxic", num_classes=2),
        ...     },
        ...     loss_weights={"energy": 0.1},
        ... )
        >>> objective = task.objective()
        >>> sorted(objective.parts), objective.compile_arguments()["loss_weights"]
        (['energy', 'toxic'], {'energy': 0.1, 'toxic': 1.0})
    """

    tasks: dict[str, Task]
    loss_weights: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.tasks) < 2:
            raise ValueError(
                f"`tasks` must hold at least two tasks; got {sorted(self.tasks)}. Give a single one as it is."
            )
        for name, task in self.tasks.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError(
                    f"`tasks` must have names of letters, digits and underscores; got {name!r}. They become names of "
                    "outputs."
                )
            if not isinstance(task, Task) or isinstance(task, MultiTask):
                raise ValueError(
                    f"`tasks` must hold single tasks; got {task!r} under the name {name!r}. Put all tasks in one dict."
                )
        labels = [(task.reads_context, getattr(task, "label_feature", "")) for task in self.tasks.values()]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"`tasks` must have a label each; got {sorted(label for _, label in labels)}. Copy the label in "
                "`preprocessing_fn` to predict it twice."
            )
        unknown = sorted(set(self.loss_weights) - set(self.tasks))
        if unknown or not all(0.0 < weight < math.inf for weight in self.loss_weights.values()):
            raise ValueError(
                f"`loss_weights` must be positive numbers by names among {sorted(self.tasks)}; got "
                f"{self.loss_weights}. Leave out tasks that should not be learned."
            )

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of these tasks; see `Task`."""
        from tfx_gnn.models.tasks.multi_objective import MultiObjective

        summaries = summary if isinstance(summary, Mapping) else {}
        return MultiObjective(
            self,
            {name: task.objective(vocabulary, summaries.get(name)) for name, task in sorted(self.tasks.items())},
        )


TASK_KINDS: dict[str, type[Task]] = {
    "graph_classification": GraphClassification,
    "graph_matching": GraphMatching,
    "graph_regression": GraphRegression,
    "link_prediction": LinkPrediction,
    "multi_task": MultiTask,
    "node_classification": NodeClassification,
    "node_regression": NodeRegression,
}
"""Every task by the name that JSON and the command line use for it."""

register_kinds(Task, TASK_KINDS, default="node_classification")

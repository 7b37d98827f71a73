"""Multi-task learning."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.models.tasks.task import Task, Vocabulary

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.objective import Objective
    from tfx_gnn.models.tasks.task import LabelSummary

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiTask(Task):
    """Tasks by name; labels, outputs, losses and metrics are dicts by the same names.

    Attributes:
        tasks: two tasks or more, none of them a MultiTask. A task that reads one `_readout` node an
            example and one that reads several do not go together.
        loss_weights: by name, what a task's loss is multiplied by before all are added; 1 for
            those that are not named.
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
                    f"`tasks` must hold single tasks; got {task!r} by the name {name!r}. Put all tasks in one dict."
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
                f"{self.loss_weights}. Leave tasks out that shall not be learned."
            )

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes these tasks; see `Task`."""
        from tfx_gnn.models.tasks.multi_objective import MultiObjective

        summaries = summary if isinstance(summary, Mapping) else {}
        return MultiObjective(
            self,
            {name: task.objective(vocabulary, summaries.get(name)) for name, task in sorted(self.tasks.items())},
        )

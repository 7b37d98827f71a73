"""A pipeline's task: tables, examples, preprocessing function, model function and prediction."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import pkgutil
import re
from typing import Any

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.user_code import alike_module
from tfx_gnn.models import tasks
from tfx_gnn.sampling import GraphLevelExamples, SamplingPlan
from tfx_gnn.transform.feature_preparations import Features

TASKS_PACKAGE = "tfx_gnn_pipelines.tasks"
TASK_ATTRIBUTE = "TASK"
_NAME = re.compile("[a-z][a-z0-9_]{0,127}")

DEFAULT_MODEL_FN = "tfx_gnn.models.model_fns:mpnn"
"""Network of tasks that name none: it takes all features, those of edges too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineTask:
    """Everything that distinguishes one pipeline from another.

    Attributes:
        name: name of the task; pipelines and folders are named after it.
        description: one line that says what is predicted, and from what data.
        tables_dir: folder of `graph_schema.pbtxt` and its tables.
        plan: how to sample subgraphs from the tables; None if `graph_level_examples` is given.
        graph_level_examples: how to split tables of many small graphs into examples, or to make pairs of them; None
            if `plan` is given.
        preprocessing_fn: the feature transform, "package.module:function"; empty: columns become features as
            `features` declares, and the label as `prediction` says.
        features: without a `preprocessing_fn`, how columns become features, by set ("nodes/user", "edges/purchase",
            "context") and column, as in {nodes/user: {age: z_score, tags: {kind: vocabulary, top_k: 1000}}}. Other
            numbers get a z-score, other texts a vocabulary; ids, times of `temporal` and labels are no features.
        model_fn: the model, "package.module:function", of yours or one of `tfx_gnn.models.model_fns`.
        prediction: what the model predicts.
        num_epochs: number of passes over the training split.
        batch_size: graphs in a batch.
        early_stopping_patience: epochs without a lower validation loss before training stops; 0: it never stops
            early.
        step_options: options of steps by the step's name in `PipelineConfig` and the option's, as in a project file:
            {"graph_trainer": {"hyperparameters": {"units": 64}}}. They change the defaults and win over the fields
            above.
    """

    name: str
    description: str = ""
    tables_dir: str
    plan: SamplingPlan | None = None
    graph_level_examples: GraphLevelExamples | None = None
    preprocessing_fn: str = ""
    features: Features = dataclasses.field(default_factory=dict)
    model_fn: str = DEFAULT_MODEL_FN
    prediction: tasks.Task
    num_epochs: int = 10
    batch_size: int = 32
    early_stopping_patience: int = 0
    step_options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "`name` must have lower-case letters from a to z, digits and underscores only, at most 128, and begin "
                f"with a letter; got {self.name!r}. Rename it."
            )
        if not self.tables_dir:
            raise ValueError("`tables_dir` must name the folder of the tables; got ''. Write, for example, data.")
        if (self.plan is None) == (self.graph_level_examples is None):
            raise ValueError(
                "`plan` or `graph_level_examples` must be given, and only one of them; got "
                f"{'neither' if self.plan is None else 'both'}. Sample subgraphs, or take graphs as they are."
            )


def task_names() -> list[str]:
    """Lists the tasks that come with this package, in alphabetical order."""
    package = importlib.import_module(TASKS_PACKAGE)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


def load_task(reference: str) -> PipelineTask:
    """Finds a bundled task by name, or a user's task by reference.

    Args:
        reference: a name that `task_names` lists, or "package.module:ATTRIBUTE".

    Returns:
        The task.

    Raises:
        ValueError: if there is no such task, or the attribute is not a task.
        ModuleNotFoundError: if the module of a reference cannot be found.
    """
    module_name, colon, attribute = reference.partition(":")
    if not colon:
        if reference not in task_names():
            advice = did_you_mean(
                reference, task_names(), otherwise="Check the spelling, or name a task of your own by its module."
            )
            raise ValueError(
                f"`task` must be one of {task_names()} or 'package.module:ATTRIBUTE'; got {reference!r}. {advice}"
            )
        module_name, attribute = f"{TASKS_PACKAGE}.{reference}", TASK_ATTRIBUTE
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise ModuleNotFoundError(
            f"`task` must name an importable module; got {reference!r} in {os.getcwd()!r}. Start from the folder "
            f"that holds it, or put that folder on PYTHONPATH.{alike_module(error.name)}",
            name=error.name,
        ) from error
    task = getattr(module, attribute, None)
    if not isinstance(task, PipelineTask):
        of_module = [name for name, value in vars(module).items() if isinstance(value, PipelineTask)]
        otherwise = f"Define `{attribute} = PipelineTask(...)` there."
        raise ValueError(
            f"`task` must name a tfx_gnn_pipelines.task.PipelineTask; got {reference!r}, where {attribute!r} is "
            f"{type(task).__name__}. {did_you_mean(attribute, of_module, otherwise=otherwise)}"
        )
    return task

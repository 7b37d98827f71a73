"""The features of a task without a preprocessing function: what it declares, and its label."""

from __future__ import annotations

from collections.abc import Iterator

from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.models import tasks
from tfx_gnn.sampling import SamplingPlan
from tfx_gnn.transform.feature_preparations import Drop, FeaturePreparation, Features, Keep, Number, Vocabulary
from tfx_gnn_pipelines.task import PipelineTask

_READOUT = f"nodes/{READOUT_NODE_SET}"


def features_of_task(task: PipelineTask) -> Features:
    """Declares the features, the label and the times of a task.

    A class becomes its index in a vocabulary that is named as the prediction says, another label a float. Labels of
    links stay as they are. Times by which a plan hides edges, and those of the seeds of a table, are no features,
    unless they are declared.

    Args:
        task: the task.

    Returns:
        Option `features` of GraphTransform; beside a preprocessing function, what the task declares, which
        GraphTransform then refuses.

    Raises:
        ValueError: if the prediction is of graphs where a plan samples around seeds, or of nodes where there are no
            seeds, if `features` names the label, or the prediction says that the label is scaled already.
    """
    if task.preprocessing_fn:
        return task.features
    for part in _parts(task.prediction):
        _check_place(part, task.plan)
    features = {prefix: dict(of_set) for prefix, of_set in task.features.items()}
    for prefix, label, preparation in _labels(task.prediction):
        for place in (prefix, *_label_columns(task.plan, label)):
            if label in features.get(place, {}):
                raise ValueError(
                    f"`features` must not hold the label, which is prepared as `prediction` says; got {label!r} under "
                    f"{place!r}. Leave it out."
                )
        features.setdefault(prefix, {})[label] = preparation
    for prefix, column in _times(task.plan) if task.plan is not None else ():
        features.setdefault(prefix, {}).setdefault(column, Drop())
    return features


def _parts(prediction: tasks.Task) -> list[tasks.Task]:
    return list(prediction.tasks.values()) if isinstance(prediction, tasks.MultiTask) else [prediction]


def _check_place(part: tasks.Task, plan: SamplingPlan | None) -> None:
    """Checks that a label is where the examples have it: at the seeds of a plan, else in the context."""
    if part.reads_context == (plan is None):
        return
    got = next(kind for kind, of_kind in tasks.TASK_KINDS.items() if of_kind is type(part))
    if plan is None:
        raise ValueError(
            f"`prediction` must be of graphs where `graph_level_examples` says that each is an example; got {got!r}. "
            "Write graph_classification or graph_regression, or give a `plan` that samples around nodes or edges."
        )
    raise ValueError(
        f"`prediction` must be of seeds where `plan` samples a subgraph around each, which has the label; got {got!r}. "
        "Write node_classification or node_regression, with `pooling: mean` to read it from all nodes of the subgraph; "
        "or, for tables of many graphs, write `graph_level_examples` instead of `plan`."
    )


def _labels(prediction: tasks.Task) -> Iterator[tuple[str, str, FeaturePreparation]]:
    """Finds set, name and preparation of each label."""
    for part in _parts(prediction):
        prefix = "context" if part.reads_context else _READOUT
        if isinstance(part, (tasks.NodeClassification, tasks.GraphClassification)):
            # A class that the training split lacks is no class.
            is_named = bool(part.class_vocabulary)
            yield (
                prefix,
                part.label_feature,
                Vocabulary(name=part.class_vocabulary, num_oov_buckets=0) if is_named else Keep(),
            )
        elif isinstance(part, (tasks.NodeRegression, tasks.GraphRegression)):
            if part.mean:
                raise ValueError(
                    "`prediction.mean` and `prediction.std` must be left out without a `preprocessing_fn` that scales "
                    f"the label; got {list(part.mean)} and {list(part.std)}. Write `standardize: true` instead."
                )
            yield prefix, part.label_feature, Number()


def _label_columns(plan: SamplingPlan | None, label: str) -> list[str]:
    """Lists where a label is in the tables, before it moves to `_readout`."""
    if plan is None or label not in plan.label_features:
        return []
    return [f"edges/{plan.seed_edge_set}" if plan.is_link_plan else f"nodes/{plan.seed_node_set}"]


def _times(plan: SamplingPlan) -> Iterator[tuple[str, str]]:
    """Finds the columns of examples by which a plan hides edges, and the times of seeds, which later seeds exceed."""
    if plan.seed_table is not None:
        known = (plan.seed_table.now_feature, plan.splits.time_feature, plan.temporal and plan.temporal.seed_time)
        yield from (("context", name) for name in plan.seed_inputs if name in known)
    if plan.temporal is None:
        return
    times = [(f"edges/{name}", name, column) for name, column in plan.temporal.edge_times.items()]
    times = [time for time in times if time[1] in plan.edge_set_names]
    if not plan.is_link_plan and plan.temporal.seed_time not in plan.seed_table_features:
        times.append((f"nodes/{plan.seed_node_set}", plan.seed_node_set, plan.temporal.seed_time))
    for prefix, name, column in times:
        if column not in plan.excluded_features.get(name, ()) and column not in plan.label_features:
            yield prefix, column

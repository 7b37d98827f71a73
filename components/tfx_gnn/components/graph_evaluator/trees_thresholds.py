"""What a comparison with trees must show, and what is said if the graph adds nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tfx_gnn.components.graph_evaluator.evaluation_report import TaskEvaluation
from tfx_gnn.components.graph_evaluator.measures import Measure
from tfx_gnn.components.graph_evaluator.thresholds import Verdict, check_change_thresholds, metrics_of_task
from tfx_gnn.records.warning_kinds import NO_GAIN_OVER_TREES

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions


def check_task_trees(
    task: str, measure: Measure, evaluation: TaskEvaluation, options: GraphEvaluatorOptions
) -> list[Verdict]:
    """Checks one task against `trees_thresholds`: a verdict per bound, missed where there are no trees."""
    bounds = metrics_of_task(options.trees_thresholds, task, measure.metrics)
    trees = evaluation.trees
    if trees is None or not bounds:
        return []
    found = check_change_thresholds(bounds, trees.model, trees.trees, task=task, whose="the trees'", kind="trees")
    why = f": {trees.reason}" if trees.reason else ""
    return [dataclasses.replace(verdict, sentence=verdict.sentence + why) for verdict in found]


def warn_of_trees(task: str, evaluation: TaskEvaluation, *, has_edges: bool) -> list[str]:
    """Says so if the model does not beat trees that see no graph; without edges, neither does the model."""
    trees = evaluation.trees
    if trees is None or trees.reason or trees.beats_trees:
        return []
    place = f"task {task!r}: " if task else ""
    doubt = "is not better than they are" if trees.gain <= 0.0 else "may be better than they are by chance only"
    sees, remedy = (
        ("the graph too", "train longer, sample more hops or neighbors, look for edges that tell the label")
        if has_edges
        else ("the same, since no edge leads to another node", "train longer, add tables that tell more of these rows")
    )
    text = f"{place}{trees.meaning}. The network sees {sees}, and {doubt}: {remedy}, or serve trees."
    return [NO_GAIN_OVER_TREES.mark(text)]

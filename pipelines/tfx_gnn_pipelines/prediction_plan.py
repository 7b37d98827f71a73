"""The plan of a project whose file says in words, SQL or rows what is predicted: seeds, labels, splits and times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfx_gnn.io.package_paths import resolve_package_path
from tfx_gnn.prediction_tasks.task_options import PredictionTask
from tfx_gnn_pipelines.option_changes import merged

if TYPE_CHECKING:
    from tfx_gnn.prediction_tasks import SeedTableDescription
    from tfx_gnn.prediction_tasks.recommended import Recommended

_OF_THE_TASK = ("label_features", "seed_edge_set", "seed_node_set", "seed_table", "splits")
_SEED_DTYPES = {"truth": "int64", "number": "float32", "text": "string"}
_NUM_NEGATIVES = 20
_HITS_AT = (1, 3)


def seed_table_path(name: str, tables_dir: str) -> str:
    """Returns where the seed table of a project lies: beside its tables, because plans name it relative to them."""
    return os.path.join(resolve_package_path(tables_dir), f"{name}_seeds.parquet")


def with_plan_of_task(given: Mapping[str, Any], task: PredictionTask, path: str, *, file: str) -> dict[str, Any]:
    """Completes the plan of a project file, and its prediction, from the seed table of its task.

    Args:
        given: the project file without its task; the plan may have hops and the like.
        task: the task.
        path: its seed table.
        file: the project file, for errors.

    Returns:
        The completed fields. What `given` says of the prediction and of `temporal` wins.

    Raises:
        ValueError: if the seed table is not there or was made for another task, the plan repeats what the task says,
            or it is open which column is the time of sampled edges.
    """
    from tfx_gnn.prediction_tasks import read_seed_table_description

    found = read_seed_table_description(path)
    if found is None or found.task != task:
        raise ValueError(
            f"`task` must have its seed table, {path!r}; got {'none' if found is None else 'that of another task'}. "
            f"Make it: tfx-gnn task {file}"
        )
    plan = given.get("plan") or {}
    if not isinstance(plan, dict):
        return dict(given)
    both = sorted(set(plan) & set(_OF_THE_TASK))
    if both:
        raise ValueError(f"`plan` must leave to `task` what that says; got {both} in {file!r}. Leave these out.")
    of_task = plan_of_seeds(found, os.path.basename(path), _edge_sets(plan))
    completed = merged(of_task, plan)
    for name, columns in of_task.get("excluded_features", {}).items():
        # Whoever leaves out more does not show what the label is made of.
        excluded = completed["excluded_features"]
        if isinstance(excluded, dict) and isinstance(excluded.get(name), list):
            excluded[name] = [*columns, *(one for one in excluded[name] if one not in columns)]
    return {**given, "plan": completed, "prediction": given.get("prediction") or prediction_of_seeds(found)}


def plan_of_seeds(found: SeedTableDescription, filename: str, edge_sets: set[str]) -> dict[str, Any]:
    """Writes what a plan says of the seeds, as in a project file.

    Args:
        found: the seed table.
        filename: its name in the folder of the tables.
        edge_sets: the edge sets that the plan samples; those with times are hidden from earlier seeds.

    Raises:
        ValueError: if it is open which column is the time of one of these edge sets.
    """
    open_sets = sorted(edge_sets & set(found.undecided_times)) if found.time else []
    if open_sets:
        raise ValueError(
            f"`times` must say which column of {open_sets[0]} is the time of its rows, so that seeds do not see later "
            "edges; got several columns of times. Name one in `times`."
        )
    edge_times = {name: column for name, column in found.times.items() if name in edge_sets and found.time}
    recommended = found.recommended
    seed_table: dict[str, Any] = {"filename": filename, "features": {}}
    if recommended is None:
        seed_table["features"][found.label] = _SEED_DTYPES[found.label_kind]
    else:
        # The pairs are no edges of the graph: these are of the past, and every seed sees those before its time.
        seed_table |= {"splits_edges": False, "is_forecast": bool(edge_times)}
    if found.time:
        seed_table["features"][found.time] = "int64"
        # Ages are relative to it, and GraphExampleValidator tells seeds of one entity apart by it.
        seed_table |= {"input_features": [found.time], "now_feature": found.time}
    plan: dict[str, Any] = {
        **(_seeds_of_labels(found) if recommended is None else _seeds_of_pairs(found, recommended)),
        "seed_table": seed_table,
        "splits": {"time_feature": found.time, "until": dict(found.until)} if found.until else {"column": found.split},
    }
    if edge_times:
        # An anchor knows what happened until then.
        plan["temporal"] = {"seed_time": found.time, "edge_times": edge_times, "inclusive": True}
    if found.label_columns:
        plan["excluded_features"] = {found.task.for_each: list(found.label_columns)}
    return plan


def _seeds_of_labels(found: SeedTableDescription) -> dict[str, Any]:
    return {"seed_node_set": found.task.for_each, "label_features": [found.label]}


def _seeds_of_pairs(found: SeedTableDescription, recommended: Recommended) -> dict[str, Any]:
    negatives: dict[str, Any] = {
        "num_per_positive": _NUM_NEGATIVES,
        "side": recommended.end,
        # Who names what everybody takes should not be right by that.
        "distribution": "in_degree",
        # What an entity had before may be wrong now; else having had it would tell what is right.
        "excludes_neighbors": False,
    }
    if found.time and recommended.node_set in found.times:
        # What comes later cannot be wrong yet; and that it is new would tell.
        negatives["time_feature"] = found.times[recommended.node_set]
    return {"seed_edge_set": recommended.edge_set, "negatives": negatives}


def prediction_of_seeds(found: SeedTableDescription) -> dict[str, Any]:
    """Writes what the model predicts, as in a project file: pairs are links, numbers a regression, others classes."""
    if found.recommended is not None:
        return {
            "kind": "link_prediction",
            "scoring": "dot",
            "loss": "softmax",
            "hits_at": sorted({*_HITS_AT, found.recommended.top}),
        }
    if found.label_kind == "number":
        return {"kind": "node_regression", "label_feature": found.label, "standardize": True}
    return {"kind": "node_classification", "label_feature": found.label, "class_vocabulary": found.label}


def _edge_sets(plan: Mapping[str, Any]) -> set[str]:
    """Lists the edge sets of a plan that is not checked yet."""
    hops = plan.get("hops") or ()
    names = [hop.get("edge_set") for hop in hops if isinstance(hop, dict)] if isinstance(hops, list) else []
    induced = plan.get("induced_edge_sets") or ()
    return {name for name in (*names, *induced) if isinstance(name, str)}

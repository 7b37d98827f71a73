"""Reads what a run's artifacts say, as far as they are there.

TensorFlow is imported only for graph schemas and examples, and for folders of object stores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2

from tfx_gnn.io.file_contents import file_exists, read_bytes
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.io.json_shapes import Shape, read_shaped_json
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.reports.statistics_files import (
    DISTANCES_FILE,
    STATISTICS_FILE,
    SplitDistances,
    SplitStatistics,
    read_split_distances,
    read_split_statistics,
    split_files,
)

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

_T = TypeVar("_T")
_FILES = {
    "sampling": ("SubgraphExampleGen", "examples", "statistics.json"),
    "anomalies": ("GraphExampleValidator", "anomalies", "anomalies.json"),
    "examples_verdict": ("GraphExampleValidator", "blessing", "reasons.json"),
    "budgets": ("SizeConstraintLearner", "size_constraints", "size_constraints.json"),
    "training": ("GraphTrainer", "model_run", "training_summary.json"),
    "evaluation": ("GraphEvaluator", "evaluation", "metrics.json"),
    "verdict": ("GraphEvaluator", "blessing", "reasons.json"),
    "skew": ("GraphSkewValidator", "skew", "skew.json"),
    "push": ("GraphPusher", "pushed_model", "pushed_version.json"),
}
_REPORTS = {
    "SizeConstraintLearner": "size_constraints",
    "GraphTuner": "best_hyperparameters",
    "GraphTrainer": "model_run",
}

_SCHEMA_FILE = "schema.pbtxt"
_TYPES = {schema_pb2.INT: "integer", schema_pb2.FLOAT: "float", schema_pb2.BYTES: "text"}

_NUMBERS: Shape = {"*": float}
_SET_SIZES: Shape = {"*": {"mean?": float, "max?": float}}
_INTERVALS: Shape = {"*": {"lower": float, "upper": float}}
_TASK: dict[str, Shape] = {
    "kind?": str,
    "num_examples?": int,
    "num_examples_without_label?": int,
    "per_class?": {"*": {"precision": float, "recall": float, "f1": float, "support": int}},
    "confusion?": [{"true": str, "predicted": str, "count": int}],
    "calibration?": {
        "expected_calibration_error": float,
        "bins": [
            {"low": float, "high": float, "num_examples": int, "mean_confidence": float, "accuracy": float},
        ],
    },
    "confident_mistakes?": [{"id": str, "true": str, "predicted": str, "score": float}],
    "residuals?": [{"target": int, "bins": [{"low": float, "high": float, "num_examples": int}]}],
    "largest_residuals?": [{"id": str, "target": int, "label": float, "prediction": float, "residual": float}],
    "ranks?": [{"low": int, "high": int, "num_pairs": int, "num_by_chance": float}],
    "worst_ranks?": [
        {"source": str, "target": str, "rank": float, "num_candidates": int, "score": float, "best_score": float}
    ],
    "intervals?": {"confidence": float, "num_resampled?": int, "metrics?": _INTERVALS, "changes?": _INTERVALS},
    "trees_baseline?": {
        "reason?": str,
        "meaning?": str,
        "num_training_rows?": int,
        "num_examples?": int,
        "confidence?": float,
        "model?": _NUMBERS,
        "trees?": _NUMBERS,
        "intervals?": _INTERVALS,
    },
    "slices?": [
        {
            "feature": str,
            "value": str,
            "range?": str,
            "num_examples": int,
            "intervals?": {"metrics?": _INTERVALS, "changes?": _INTERVALS},
            "too_few_examples?": {"metrics": [str], "changes": [str]},
        }
    ],
    "change?": {
        "metric": str,
        "gain": (float,),
        "lower": (float,),
        "upper": (float,),
        "confidence": float,
        "num_examples": int,
        "latest_blessed": {"*": float},
    },
}
_DIFFERENCE: Shape = {"key": str, "num_values": int, "num_differing": int, "largest_difference": float}
_SHAPES: dict[str, dict[str, Shape]] = {
    "sampling": {
        "statistics": {"num_subgraphs?": _NUMBERS, "node_sets?": _SET_SIZES, "edge_sets?": _SET_SIZES},
    },
    "anomalies": {
        "anomalies": [
            {"check": str, "severity": str, "split": str, "about": str, "description": str, "places": [str]},
        ]
    },
    "examples_verdict": {"reasons": [str]},
    "budgets": {
        "budgets": {
            "*": {
                "fill?": float,
                "graphs_per_batch?": float,
                "total_num_nodes?": _NUMBERS,
                "total_num_edges?": _NUMBERS,
                "bytes_per_batch?": float,
            }
        },
        "warnings?": [str],
    },
    "training": {
        "model_fn": str,
        "num_parameters": int,
        "num_train_examples": int,
        "num_steps?": int,
        "budget?": ({"total_num_nodes?": _NUMBERS, "total_num_edges?": _NUMBERS, "bytes_per_batch?": float},),
        "epochs": [dict],
        "exported_epoch": int,
        "stopped_early": bool,
        "seconds": float,
        "warnings?": [str],
    },
    "evaluation": {
        "split": str,
        "blessed": bool,
        "reasons": [str],
        "objections": [str],
        "warnings?": [str],
        "latest_blessed_model?": {"found": bool, "description": str},
        "tasks?": {"*": _TASK},
        **_TASK,
    },
    "verdict": {"reasons": [str]},
    "skew": {
        "blessed": bool,
        "reasons": [str],
        "num_compared": int,
        "features": [_DIFFERENCE],
        "outputs": [_DIFFERENCE],
        "rounding?": (_DIFFERENCE,),
    },
    "push": {
        "pushed": bool,
        "reason": str,
        "destination": str,
        "version": (int,),
        "path": str,
        "model_fingerprint?": str,
        "verification_requests?": [str],
        "out_of_domain?": list,
        "warnings?": [str],
    },
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunContents:
    """What the artifacts of a run say. Files that are absent give empty values.

    Attributes:
        files: contents of the JSON files: "sampling", "anomalies", "examples_verdict", "budgets", "training",
            "evaluation", "verdict", "skew" and "push".
        schema: schema of the raw examples; None if there is none, or if it was not asked for.
        features: type of each feature of the raw examples, by tf.Example key, from GraphSchemaGen.
        statistics: statistics of the examples by split.
        distances: how far the splits are from the first one and from earlier data, by split.
        examples: the first examples, in the form of `subgraph_view`.
        example_notes: sentences about examples that are left out.
        reports: paths of the reports that steps wrote, by component.
        problems: sentences about files that cannot be read.
    """

    files: Mapping[str, Mapping[str, Any]]
    schema: GraphSchema | None
    features: Mapping[str, str]
    statistics: SplitStatistics
    distances: Mapping[str, SplitDistances]
    examples: Sequence[Mapping[str, Any]]
    example_notes: tuple[str, ...]
    reports: Mapping[str, str]
    problems: tuple[str, ...]

    def file(self, name: str) -> Mapping[str, Any]:
        """Returns the content of a file, empty if it is absent."""
        return self.files[name]

    def tasks(self) -> dict[str, Mapping[str, Any]]:
        """Returns the evaluations by task; a single task has the name ""."""
        evaluation = self.file("evaluation")
        if not evaluation:
            return {}
        return dict(evaluation["tasks"]) if isinstance(evaluation.get("tasks"), dict) else {"": evaluation}


def split_sizes(contents: RunContents) -> dict[str, int]:
    """Returns the number of examples of each split, largest first."""
    sizes = contents.file("sampling").get("statistics", {}).get("num_subgraphs", {})
    if not sizes:
        sizes = {split: dataset.num_examples for split, dataset in contents.statistics.items()}
    return {name: int(sizes[name]) for name in sorted(sizes, key=lambda name: (-sizes[name], name))}


def read_contents(folders: Mapping[str, Mapping[str, str]], *, with_graphs: bool = True) -> RunContents:
    """Reads the artifacts of a run.

    Args:
        folders: folders of outputs, by component and output.
        with_graphs: whether the graph schema and examples are read, too, for which TensorFlow is imported.

    Returns:
        What was found. A damaged file is one of the problems, and never an error.
    """
    problems: list[str] = []
    files = read_files(folders, problems)
    examples_dir = folders.get("SubgraphExampleGen", {}).get("examples", "")
    validator = folders.get("GraphExampleValidator", {})
    reports = {}
    for component, output in _REPORTS.items():
        path = os.path.join(folders.get(component, {}).get(output, ""), REPORT_FILE)
        if output in folders.get(component, {}) and file_exists(path):
            # Absolute, so that the page can link it wherever the page is.
            reports[component] = path if "://" in path else os.path.abspath(path)
    schema = _schema(examples_dir, problems) if with_graphs else None
    examples: list[dict[str, Any]] = []
    notes: list[str] = []
    if schema is not None:
        from tfx_gnn.reports.subgraph_view import read_viewed_examples

        with _noting(problems, examples_dir):
            examples, notes = read_viewed_examples(examples_dir, schema)
    return RunContents(
        files=files,
        schema=schema,
        features=_read_features(folders.get("GraphSchemaGen", {}).get("schema", ""), problems),
        statistics=_read_splits(validator.get("statistics", ""), STATISTICS_FILE, read_split_statistics, problems),
        distances=_read_splits(validator.get("anomalies", ""), DISTANCES_FILE, read_split_distances, problems),
        examples=examples,
        example_notes=tuple(notes),
        reports=reports,
        problems=tuple(problems),
    )


def read_files(folders: Mapping[str, Mapping[str, str]], problems: list[str]) -> dict[str, Mapping[str, Any]]:
    """Reads the JSON files of a run, as `RunContents.files`, and adds sentences about those that cannot be read."""
    files: dict[str, Mapping[str, Any]] = {name: {} for name in _FILES}
    for name, (component, output, file) in _FILES.items():
        folder = folders.get(component, {}).get(output, "")
        if not folder:
            continue
        path = os.path.join(folder, file)
        if not file_exists(path):
            problems.append(f"{component} has no {file}: {path} is missing.")
            continue
        with _noting(problems, path):
            files[name] = read_shaped_json(path, _SHAPES[name])
    return files


def _schema(examples_dir: str, problems: list[str]) -> GraphSchema | None:
    path = os.path.join(examples_dir, GRAPH_SCHEMA_FILE)
    if not examples_dir or not file_exists(path):
        return None
    from tfx_gnn.graph.schema import schema_io

    with _noting(problems, path):
        return schema_io.read_schema(path)
    return None


def _read_features(folder: str, problems: list[str]) -> dict[str, str]:
    path = os.path.join(folder, _SCHEMA_FILE)
    if not folder or not file_exists(path):
        return {}
    with _noting(problems, path):
        schema = text_format.Parse(read_bytes(path), schema_pb2.Schema())
        return {one.name: _TYPES.get(one.type, "of unknown type") for one in schema.feature}
    return {}


def _read_splits(folder: str, name: str, read: Callable[[str], _T], problems: list[str]) -> dict[str, _T]:
    """Reads a file of each split, as far as it can be read."""
    found: dict[str, _T] = {}
    with _noting(problems, folder):
        for split, path in split_files(folder, name).items():
            with _noting(problems, path):
                found[split] = read(path)
    return found


def _reading_errors() -> tuple[type[Exception], ...]:
    """Errors of files that cannot be read; those of TensorFlow exist only once it is imported."""
    tensorflow = sys.modules.get("tensorflow")
    of_stores = (tensorflow.errors.OpError,) if tensorflow is not None else ()
    return (OSError, ValueError, DecodeError, text_format.ParseError, *of_stores)


@contextlib.contextmanager
def _noting(problems: list[str], path: str) -> Any:
    """Turns an error about a file into a problem: the rest of the page can still be shown."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, _reading_errors()):
            raise
        text = " ".join(str(error).split())
        # An error of ours names the file.
        problems.append(text[:300] if path in text else f"{path} cannot be read: {text[:300]}")

"""Finds thresholds that every model would meet, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfx_gnn.components.graph_evaluator.metric_names import ERRORS
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.config import PipelineConfig

_BELOW_ZERO = frozenset({"r2"})
_FEW = 30
_STEP = "GraphEvaluator"


def check_thresholds(config: PipelineConfig, num_examples: Mapping[str, int], found: FindingsCollector) -> None:
    """Compares the bounds of the evaluator with the range of each metric and the size of the split.

    Args:
        config: the pipeline.
        num_examples: by split, how many examples there will be; empty if that is not known.
        found: takes the findings.
    """
    options = config.graph_evaluator
    num = num_examples.get(options.split, 0)
    for option, bounds in (("thresholds", _all_thresholds(options)), ("slice_thresholds", options.slice_thresholds)):
        for name, bound in bounds.items():
            for kind, value in bound.items():
                _check_bound(option, name, kind, value, found)
            if num and option == "thresholds" and "min" in bound:
                _check_resolution(name, bound["min"], num, options.split, found)
    if options.slice_thresholds and not options.slices:
        found.add(
            _STEP,
            "`slice_thresholds` must go with `slices`, without which they never apply; got none. Name the features to "
            "slice by.",
        )
    if num and options.slice_thresholds and options.min_slice_examples > num:
        found.add(
            _STEP,
            f"`min_slice_examples` must be at most the {num} examples of split {options.split!r}, or "
            f"`slice_thresholds` never apply; got {options.min_slice_examples}. Lower it.",
        )
    if 0 < num < _FEW:
        found.add(
            _STEP,
            f"`split` must have enough examples for a verdict; got {num} in {options.split!r}, where a share of 0.5 is "
            f"known to {1.96 * math.sqrt(0.25 / num):.2f} in 95 of 100 cases. Give that split more rows.",
            severity="warning",
        )


def _all_thresholds(options: GraphEvaluatorOptions) -> dict[str, dict[str, float]]:
    bounds = {name: dict(bound) for name, bound in options.thresholds.items()}
    for option, metric, kind in (
        ("min_accuracy", "accuracy", "min"),
        ("min_macro_f1", "macro_f1", "min"),
        ("min_accuracy_over_majority", "accuracy", "gain"),
    ):
        value = getattr(options, option)
        if value:
            bounds.setdefault(metric, {})[kind] = value
    return bounds


def _check_bound(option: str, name: str, kind: str, value: float, found: FindingsCollector) -> None:
    metric = name.rpartition(".")[2]
    lowest = -math.inf if metric in _BELOW_ZERO else 0.0
    highest = math.inf if metric in ERRORS else 1.0
    is_beyond = {"min": value > highest, "max": value < lowest, "gain": value >= highest}
    is_void = {"min": value <= lowest, "max": value >= highest}
    interval = f"[{lowest:g}, {highest:g}]"
    if is_beyond.get(kind):
        found.add(
            _STEP,
            f"`{option}` must be possible to meet; got {kind} {value:g} for {name!r}, which lies in {interval}. Every "
            "model would be refused: give a bound inside.",
            argument=option,
        )
    elif is_void.get(kind):
        found.add(
            _STEP,
            f"`{option}` must be possible to miss; got {kind} {value:g} for {name!r}, which lies in {interval}. Every "
            "model would pass: give a bound inside, or leave it out.",
            severity="warning",
            argument=option,
        )


def _check_resolution(name: str, value: float, num: int, split: str, found: FindingsCollector) -> None:
    """Finds an accuracy that a model with a single error misses."""
    if name.rpartition(".")[2] == "accuracy" and 1.0 - 1.0 / num < value < 1.0:
        found.add(
            _STEP,
            f"`thresholds` must be possible to tell on {num} examples; got min {value:g} for {name!r} on split "
            f"{split!r}, where one error gives {1.0 - 1.0 / num:.4f}. Give that split at least "
            f"{math.ceil(1.0 / (1.0 - value))} examples, or lower the bound.",
            argument="thresholds",
        )

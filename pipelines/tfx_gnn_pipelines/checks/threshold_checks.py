"""Finds thresholds that say nothing on the examples that there are."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.config import PipelineConfig

_FEW = 30
_STEP = "GraphEvaluator"


def check_thresholds(config: PipelineConfig, num_examples: Mapping[str, int], found: FindingsCollector) -> None:
    """Compares the bounds of the evaluator with the size of the split.

    Args:
        config: the pipeline.
        num_examples: by split, how many examples there will be; empty if that is not known.
        found: takes the findings.
    """
    options = config.graph_evaluator
    num = num_examples.get(options.split, 0)
    for name, bound in _all_thresholds(options).items():
        if num and "min" in bound:
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

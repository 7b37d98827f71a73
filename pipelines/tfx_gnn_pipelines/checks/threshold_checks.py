"""Finds thresholds that say nothing on the examples that there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.records.warning_kinds import FEW_TEST_EXAMPLES
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
    for option, name, least in _least_values(options) if num else ():
        message = _too_fine(name, least, num, options.split)
        if message:
            found.add(_STEP, f"`{option}` must be {message}")
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
            warning=FEW_TEST_EXAMPLES,
        )


def _least_values(options: GraphEvaluatorOptions) -> Iterator[tuple[str, str, float]]:
    """Finds option, metric and value of each lower bound."""
    for name, bound in options.thresholds.items():
        if "min" in bound:
            yield "thresholds", name, bound["min"]
    for option, name in (("min_accuracy", "accuracy"), ("min_macro_f1", "macro_f1")):
        if getattr(options, option):
            yield option, name, getattr(options, option)


def _too_fine(metric: str, least: float, num: int, split: str) -> str:
    """Says why a bound is one that a model with a single error misses; empty if it is not."""
    if metric.rpartition(".")[2] != "accuracy" or not 1.0 - 1.0 / num < least < 1.0:
        return ""
    return (
        f"possible to tell on {num} examples; got at least {least:g} for {metric!r} on split {split!r}, where one "
        f"error gives {1.0 - 1.0 / num:.4f}. Give that split at least {math.ceil(1.0 / (1.0 - least))} examples, or "
        "lower the bound."
    )

"""What steps cost by the sizes of a pipeline: built-in rates, corrected by what earlier runs of this machine cost.

A rate is wrong by a factor, whatever the size: errors and intervals are those of logarithms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from tfx_gnn_pipelines.planning.measurements import RESOLVER
from tfx_gnn_pipelines.planning.pipeline_plan import START
from tfx_gnn_pipelines.planning.quantities import Quantity

Cost = Literal["seconds", "disk", "memory"]
COSTS: tuple[Cost, ...] = ("seconds", "disk", "memory")

COVERAGE = 0.8
"""Share of costs that should lie in their intervals."""
_QUANTILE = 1.2816
"""Of the normal distribution, for this share."""

_DOUBT: Mapping[Cost, float] = {"seconds": 0.8, "disk": 0.8, "memory": 0.3}
"""Standard deviation of the logarithm of a built-in rate's error: of seconds, a factor of 2.8 either way."""
_RUN_DOUBT: Mapping[Cost, float] = {"seconds": 0.3, "disk": 0.2, "memory": 0.1}
"""The same between runs on one machine, before runs tell it."""

_SIZE_DOUBT = 0.5
"""What is added to it where sizes differ by a factor of e: the built-in rates part badly what happens once."""

_LOAD_DOUBT = 0.4
"""What is added where other processes make the machine slower by a factor of e."""

# Seconds that a step takes in any case, and those of an example, measured on two idle processors in November 2026 with
# the starter project (400 examples) and `debian_sections` (3,013 examples); see docs/plan.md.
_SECONDS: Mapping[str, tuple[float, float]] = {
    START: (6.0, 0.0),
    "SubgraphExampleGen": (0.2, 3e-4),
    RESOLVER: (0.3, 0.0),
    "GraphSchemaGen": (0.2, 2e-4),
    "GraphExampleValidator": (0.25, 4.5e-4),
    "GraphTransform": (1.7, 3.8e-3),
    "SizeConstraintLearner": (1.6, 4e-3),
    "GraphEvaluator": (0.3, 2.5e-3),
    "GraphSkewValidator": (2.0, 1e-3),
    "GraphPusher": (11.0, 0.0),
}
_TRAINER_SECONDS = 5.0
_STEP_SECONDS, _ITEM_SECONDS = 3e-3, 1e-6
_MODEL_BYTES, _SMALL_BYTES = 2e6, 5e4
_COMPRESSION = 0.4
_PROCESS_BYTES = 900 * 2**20
_TABLE_COPIES = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the cost of steps depends on.

    Attributes:
        num_examples: examples that each step works on, by step.
        items: nodes and edges of a subgraph, on average.
        row_bytes: bytes of a row of the tables, on average.
        table_bytes: size of the files of all tables.
        num_steps: steps of the training.
        graphs_per_batch: graphs of a batch.
    """

    num_examples: Mapping[str, int]
    items: float
    row_bytes: float
    table_bytes: float
    num_steps: float
    graphs_per_batch: float


def built_in_cost(step: str, cost: Cost, sizes: Sizes) -> float:
    """Computes seconds or bytes of a step by the built-in rates; above 0."""
    count = sizes.num_examples.get(step, 0)
    is_training = step in ("GraphTrainer", "GraphTuner")
    if cost == "seconds":
        if is_training:
            return _TRAINER_SECONDS + sizes.num_steps * (
                _STEP_SECONDS + sizes.items * sizes.graphs_per_batch * _ITEM_SECONDS
            )
        fixed, each = _SECONDS[step]
        return fixed + each * count
    if cost == "disk":
        if step in ("SubgraphExampleGen", "GraphTransform"):
            return _SMALL_BYTES + count * sizes.items * sizes.row_bytes * _COMPRESSION
        return _MODEL_BYTES if is_training or step == "GraphPusher" else _SMALL_BYTES
    return _PROCESS_BYTES + _TABLE_COPIES * sizes.table_bytes


def step_share(sizes: Sizes) -> float:
    """Computes the share of a training's seconds that its steps take, in (0, 1]."""
    return 1.0 - _TRAINER_SECONDS / built_in_cost("GraphTrainer", "seconds", sizes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """How far costs are from the built-in rate.

    Attributes:
        factor: by which the built-in cost is multiplied.
        deviation: standard deviation of the logarithm of what remains.
        num_runs: runs that tell it; 0 for the built-in rate.
    """

    factor: float
    deviation: float
    num_runs: int

    def quantity(self, cost: float) -> Quantity:
        """Returns the corrected cost with its 80 % interval."""
        spread = math.exp(_QUANTILE * self.deviation)
        value = cost * self.factor
        return Quantity(value=value, low=value / spread, high=value * spread, origin="extrapolated")


def learn_rate(cost: Cost, ratios: Sequence[float], *, distance: float = 0.0, slowness: float = 1.0) -> Rate:
    """Learns a rate from what runs cost.

    Args:
        cost: what is paid.
        ratios: what runs cost over what the built-in rate says, each above 0.
        distance: of the runs' sizes from the planned ones: the absolute logarithm of the ratio of the built-in costs.
        slowness: factor of the built-in seconds on this machine now, at least 1: used as such without runs alone; with
            runs, whose load nobody wrote down, it makes the interval wider.

    Returns:
        The rate: the geometric mean of the ratios. With one run, it is as uncertain as two runs differ.
    """
    if not ratios:
        return Rate(factor=slowness if cost == "seconds" else 1.0, deviation=_DOUBT[cost], num_runs=0)
    logs = [math.log(ratio) for ratio in ratios]
    mean, count = sum(logs) / len(logs), len(logs)
    # One observation's worth of the usual difference between runs keeps a few equal runs from seeming certain.
    variance = (_RUN_DOUBT[cost] ** 2 + sum((one - mean) ** 2 for one in logs)) / count
    variance = max(variance, (_RUN_DOUBT[cost] / 2.0) ** 2)
    variance = variance * (1.0 + 1.0 / count) + (_SIZE_DOUBT * distance) ** 2
    if cost == "seconds":
        variance += (_LOAD_DOUBT * math.log(slowness)) ** 2
    return Rate(factor=math.exp(mean), deviation=math.sqrt(variance), num_runs=count)

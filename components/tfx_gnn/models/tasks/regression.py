"""Node and graph regression."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tfx_gnn.models.tasks.task import Task, Vocabulary, check_choice, check_feature_name, check_pooling

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.objective import Objective
    from tfx_gnn.models.tasks.task import LabelSummary

REGRESSION_LOSSES = ("mse", "mae", "huber")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Regression(Task):
    """See the tasks below, which say where the label lies."""

    label_feature: str
    num_outputs: int = 1
    loss: str = "mse"
    standardize: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    missing_values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_feature_name("label_feature", self.label_feature, "Name the feature that is predicted.")
        if self.num_outputs < 1:
            raise ValueError(f"`num_outputs` must be at least 1; got {self.num_outputs}. Count the label's numbers.")
        check_choice("loss", self.loss, REGRESSION_LOSSES)
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "std", tuple(float(value) for value in self.std))
        object.__setattr__(self, "missing_values", tuple(float(value) for value in self.missing_values))
        if not all(map(math.isfinite, self.missing_values)):
            raise ValueError(
                f"`missing_values` must be finite numbers; got {self.missing_values}. NaN is a missing label anyway."
            )
        if (self.mean or self.std) and not len(self.mean) == len(self.std) == self.num_outputs:
            raise ValueError(
                f"`mean` and `std` must hold one number for each of {self.num_outputs} outputs; got {self.mean} and "
                f"{self.std}. Give those that `preprocessing_fn` scaled the label by, or none."
            )
        if not all(math.isfinite(mean) and 0.0 < std < math.inf for mean, std in zip(self.mean, self.std, strict=True)):
            raise ValueError(
                f"`mean` and `std` must be finite, and `std` positive; got {self.mean} and {self.std}. Give those that "
                "`preprocessing_fn` scaled the label by."
            )
        if self.standardize and self.mean:
            raise ValueError(
                f"`standardize` must be False where the transform has scaled the label by `mean` and `std`; got "
                f"{self.mean} and {self.std} beside it. Leave one of them out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRegression(_Regression):
    """Numbers for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is tied to the seed by edge set `_readout/seed`. A label that is NaN is missing and
    does not count; with several outputs, the others of the example do.

    Attributes:
        label_feature: float32 feature of `_readout`, one number or a vector of `num_outputs`.
        num_outputs: how many numbers are predicted.
        loss: "mse", "mae", or "huber" (quadratic up to an error of 1, linear beyond).
        standardize: whether the model learns (label - mean) / std, by mean and standard deviation of the
            training split. Metrics and the served model answer in the label's own unit.
        mean: what `preprocessing_fn` subtracted from the label, one number an output, for the
            served model to answer in the unit before it; empty if it did not scale the label.
        std: what `preprocessing_fn` divided by then.
        missing_values: numbers that stand for a missing label in tables and raw examples, which cannot hold NaN.
            Evaluation leaves them out, and so does training, unless `mean` and `std` say that the label was scaled:
            `preprocessing_fn` must then have made NaN of them.
    """

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes this task; see `Task`."""
        from tfx_gnn.models.tasks.label_places import ReadoutLabels
        from tfx_gnn.models.tasks.regression_objective import RegressionObjective

        return RegressionObjective(self, ReadoutLabels(self.label_feature), summary=summary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphRegression(_Regression):
    """Numbers for each graph.

    Attributes:
        label_feature: float32 feature of the context, one number or a vector of `num_outputs`.
        num_outputs: as for NodeRegression.
        loss: as for NodeRegression.
        standardize: as for NodeRegression.
        mean: as for NodeRegression.
        std: as for NodeRegression.
        missing_values: as for NodeRegression.
        pooling: how the states of all nodes become one of the graph: "mean", "sum", "max", or several of them
            with "|" between. A quantity that grows with the graph wants "sum".
    """

    reads_context: ClassVar[bool] = True

    pooling: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pooling(self.pooling)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes this task; see `Task`."""
        from tfx_gnn.models.tasks.label_places import ContextLabels
        from tfx_gnn.models.tasks.regression_objective import RegressionObjective

        return RegressionObjective(self, ContextLabels(self.label_feature, pooling=self.pooling), summary=summary)

"""Options of GraphBulkInferrer."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfx_gnn.io.option_groups import check_choices


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphBulkInferrerOptions:
    """What to infer, and how to write it.

    Attributes:
        splits: splits to take examples from; empty for all.
        outputs: one or more of "predictions": what the model answers to a request; "scores": for classes, also the
            probability and the logit of each; "embeddings": also what its last layer reads.
        file_format: "parquet"; "csv", where lists are JSON; or "tfrecord", gzipped tf.Examples.
        batch_size: examples per call of the model, at least 1.
        max_refused_share: fraction of the examples that the model may refuse, in [0, 1). Each of them is written to
            `dead_letters` with the reason. More is an error.
    """

    splits: tuple[str, ...] = ()
    outputs: tuple[Literal["predictions", "scores", "embeddings"], ...] = ("predictions",)
    file_format: Literal["parquet", "csv", "tfrecord"] = "parquet"
    batch_size: int = 128
    max_refused_share: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self)
        if not self.outputs:
            raise ValueError("`outputs` must name what to write; got nothing. Leave it out for predictions.")
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}. Give a larger number.")
        if not 0.0 <= self.max_refused_share < 1.0:
            raise ValueError(
                f"`max_refused_share` must be a fraction in [0, 1); got {self.max_refused_share}. Say how many of the "
                "examples may go without an answer."
            )

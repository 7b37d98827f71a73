"""Options of GraphBulkInferrer."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

from tfx_gnn.io.option_groups import check_choices

_TABLE = re.compile(r"([a-z0-9.:-]+\.)?\w+\.([\w-]|\{SPLIT\})+")


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
        bigquery_table: "project.dataset.table" or "dataset.table" that has the rows of the Parquet files, and no
            others, once all are written; `{SPLIT}` in it stands for the split. Needs `inference_dir` on Cloud Storage.
            Empty for none.
    """

    splits: tuple[str, ...] = ()
    outputs: tuple[Literal["predictions", "scores", "embeddings"], ...] = ("predictions",)
    file_format: Literal["parquet", "csv", "tfrecord"] = "parquet"
    batch_size: int = 128
    max_refused_share: float = 0.0
    bigquery_table: str = ""

    def __post_init__(self) -> None:
        check_choices(self)
        check_written(outputs=self.outputs, file_format=self.file_format, bigquery_table=self.bigquery_table)
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}. Give a larger number.")
        if not 0.0 <= self.max_refused_share < 1.0:
            raise ValueError(
                f"`max_refused_share` must be a fraction in [0, 1); got {self.max_refused_share}. Say how many of the "
                "examples may go without an answer."
            )


def check_written(*, outputs: Sequence[str], file_format: str, bigquery_table: str) -> None:
    """Refuses to write nothing, and, for BigQuery, what names no table or other files than Parquet."""
    if not outputs:
        raise ValueError("`outputs` must name what to write; got nothing. Leave it out for predictions.")
    if not bigquery_table:
        return
    if not _TABLE.fullmatch(bigquery_table):
        raise ValueError(
            f'`bigquery_table` must be "project.dataset.table" or "dataset.table"; got {bigquery_table!r}. Only the '
            "table may hold {SPLIT}."
        )
    if file_format != "parquet":
        raise ValueError(f"`file_format` must be 'parquet' for `bigquery_table`; got {file_format!r}. Leave it out.")

"""Options of GraphLayerwiseInferrer."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfx_gnn.components.graph_bulk_inferrer.options import check_written
from tfx_gnn.io.option_groups import check_choices


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLayerwiseInferrerOptions:
    """What to infer layer by layer, and how to write it.

    Attributes:
        outputs: as for `infer`: "predictions", "scores" and "embeddings", or some of them.
        file_format: as for `infer`: "parquet"; "csv", where lists are JSON; or "tfrecord", gzipped tf.Examples.
        neighborhoods: "as_trained" refuses a plan whose fan-outs leave out edges of this graph, so answers are those
            from subgraphs of the plan; "full" gives the answers from subgraphs in which all hops take all edges.
        batch_edges: edges whose messages are computed at once, at least 1; a node that has more is alone in its batch.
        num_verified: nodes, spread evenly over the table, whose answers are also computed from their subgraphs; a
            difference is an error.
        bigquery_table: as for `infer`: a table of BigQuery that has the rows, too, and no others; empty for none.
    """

    outputs: tuple[Literal["predictions", "scores", "embeddings"], ...] = ("predictions",)
    file_format: Literal["parquet", "csv", "tfrecord"] = "parquet"
    neighborhoods: Literal["as_trained", "full"] = "as_trained"
    batch_edges: int = 500_000
    num_verified: int = 16
    bigquery_table: str = ""

    def __post_init__(self) -> None:
        check_choices(self)
        check_written(outputs=self.outputs, file_format=self.file_format, bigquery_table=self.bigquery_table)
        if self.batch_edges < 1:
            raise ValueError(f"`batch_edges` must be at least 1; got {self.batch_edges}. Give a larger number.")
        if self.num_verified < 0:
            raise ValueError(f"`num_verified` must be at least 0; got {self.num_verified}. Use 0 to compare nothing.")

"""Options of GraphTransform."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfx_gnn.io.option_groups import check_choices
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.transform.analyze_modes import UNIQUE_ITEMS
from tfx_gnn.transform.feature_preparations import Features


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTransformOptions:
    """Options of the transform.

    Attributes:
        preprocessing_fn: "package.module:function" of a function from a GraphView to a GraphView; empty: features are
            prepared as `features` declares.
        features: without a `preprocessing_fn`, how columns become features, by set ("nodes/user", "edges/purchase",
            "context") and column, as in {nodes/user: {age: z_score, tags: {kind: vocabulary, top_k: 1000}}}. Other
            numbers get a z-score, other texts a vocabulary; ids are no features.
        analyze_splits: splits that statistics are computed from, at least one. The transform is applied to all splits.
        analyze: what statistics count. "unique_items": every node and edge of the examples once. "tables":
            every row of the tables that the examples were sampled from, including rows that no subgraph contains;
            for sets without a table and for the context, the examples are counted as in "unique_items".
            "as_sampled": every occurrence in an example, so a hub counts as often as it was sampled. Only with
            "as_sampled" may statistics depend on sizes and edges, or combine values of two sets.
        rules: what to do with rows of the tables that break a rule; use the rules that the examples were
            sampled with.
        access: alternative file name of the tables' schema, and which files may be read; use the same as for sampling.
        nonfinite_features: tf.Example keys of transformed features, such as "nodes/item.x", whose values may be
            NaN or infinite. Features of `_readout` and other auxiliary sets always may, because a label may be missing.
    """

    preprocessing_fn: str = ""
    features: Features = dataclasses.field(default_factory=dict)
    analyze_splits: tuple[str, ...] = ("train",)
    analyze: Literal["unique_items", "tables", "as_sampled"] = UNIQUE_ITEMS
    rules: RowRules = dataclasses.field(default_factory=RowRules)
    access: TableAccess = dataclasses.field(default_factory=TableAccess)
    nonfinite_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choices(self)
        if self.preprocessing_fn and self.features:
            raise ValueError(
                f"`features` must be left out beside a `preprocessing_fn`, which prepares all of them; got both: "
                f"{sorted(self.features)} and {self.preprocessing_fn!r}. Keep one of them."
            )
        if not self.analyze_splits:
            raise ValueError(
                "`analyze_splits` must name at least one split; got (). Name the split that the model is trained on."
            )

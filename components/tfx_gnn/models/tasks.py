"""What a model is trained to predict."""

from __future__ import annotations

import dataclasses

READOUT_NODE_SET = "_readout"
"""Node set with one node for each prediction; it carries the labels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeClassification:
    """One class for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is tied to the seed by edge set `_readout/seed`.

    Attributes:
        label_feature: feature of `_readout`. In raw examples the class itself, string or
            integer; after the transform its index, int64 in [0, number of classes).
        class_vocabulary: `vocab_filename` of the `tft.compute_and_apply_vocabulary` that
            made the index; the served model turns indices back into classes by it.
    """

    label_feature: str
    class_vocabulary: str

    def __post_init__(self) -> None:
        for name in ("label_feature", "class_vocabulary"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value or value.startswith("#"):
                raise ValueError(
                    f"`{name}` must be a name that does not begin with '#'; got {value!r}. "
                    f"Name the label of node set {READOUT_NODE_SET!r} and the vocabulary of its classes."
                )

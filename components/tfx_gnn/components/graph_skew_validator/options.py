"""Options of GraphSkewValidator."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSkewValidatorOptions:
    """What to compare, and how large differences may be.

    Attributes:
        splits: splits to take examples from; empty for all.
        max_examples: maximum number of examples to take from each split, the same number from the beginning of each of
            its files; at least 1.
        batch_size: examples per batch, at least 1; capped at the size of an evaluation batch.
        max_float_difference: largest allowed absolute difference between floating point features, at least 0,
            when the exported model gets the same blocks of examples that GraphTransform transforms at once.
            Integers, strings, sizes and the ends of edges must be equal.
        max_rounding_difference: largest allowed difference between floating point features computed from those
            blocks and from batches, at least 0; relative to the value if that is above 1. Some operations
            round differently in the middle of a tensor and at its end.
        max_output_difference: largest allowed difference between floating point outputs, at least 0; relative to the
            example's largest value if that is above 1. Padding changes the order in which sums are taken.
            Integers and strings must be equal.
        asks_server: in a pipeline, whether a server is also asked about some of these examples, by the ids of their
            seeds, with the graph index that GraphIndexer then builds before. What it samples must be the example to
            the byte, labels aside, and its answers those of the exported model.
        max_served_by_id: maximum number of examples that the server is asked about, spread over the splits; at
            least 1.
        refuses_nonfinite_answers: whether a NaN or infinite output for a finite value outside the domain, such
            as a negative count, withholds the blessing. If not, the reasons warn of it.
    """

    splits: tuple[str, ...] = ()
    max_examples: int = 512
    batch_size: int = 32
    max_float_difference: float = 1e-6
    max_rounding_difference: float = 1e-4
    max_output_difference: float = 1e-4
    asks_server: bool = False
    max_served_by_id: int = 64
    refuses_nonfinite_answers: bool = False

    def __post_init__(self) -> None:
        least_values: dict[str, float] = {"max_examples": 1, "batch_size": 1, "max_served_by_id": 1}
        least_values |= {"max_float_difference": 0.0, "max_rounding_difference": 0.0, "max_output_difference": 0.0}
        for name, least in least_values.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")

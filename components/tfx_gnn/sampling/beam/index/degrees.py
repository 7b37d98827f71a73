"""Mergeable degree counts of nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import apache_beam as beam
import numpy as np
import numpy.typing as npt

NUM_TOP_HUBS = 10
"""So many nodes of largest degree are named."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DegreeSummary:
    """Degrees of the nodes of one edge set in one direction.

    Attributes:
        histogram: number of nodes with a degree in [2**i, 2**(i + 1)), at position i. Nodes without edges
            are not counted.
        top: pairs (degree, code) of the `NUM_TOP_HUBS` nodes of largest degree, descending; of equal ones those of
            smaller code.
    """

    histogram: tuple[int, ...] = ()
    top: tuple[tuple[int, int], ...] = ()

    @property
    def num_nodes(self) -> int:
        """Number of nodes with edges."""
        return sum(self.histogram)


def summarize_degrees(codes: npt.NDArray[np.uint64], degrees: npt.NDArray[np.int64]) -> DegreeSummary:
    """Summarizes some nodes with at least one edge each."""
    top = np.lexsort((codes, -degrees))[:NUM_TOP_HUBS]
    return DegreeSummary(
        histogram=tuple(np.bincount(np.frexp(degrees)[1] - 1).tolist()),
        top=tuple(zip(degrees[top].tolist(), codes[top].tolist(), strict=True)),
    )


class MergeDegrees(beam.CombineFn):
    """Merges summaries of different nodes."""

    def create_accumulator(self) -> DegreeSummary:
        """Returns an empty summary."""
        return DegreeSummary()

    def add_input(self, mutable_accumulator: DegreeSummary, element: DegreeSummary) -> DegreeSummary:
        """Adds the summary of further nodes."""
        return self.merge_accumulators([mutable_accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[DegreeSummary]) -> DegreeSummary:
        """Merges summaries."""
        parts = list(accumulators)
        histogram = np.zeros(max((len(part.histogram) for part in parts), default=0), np.int64)
        for part in parts:
            histogram[: len(part.histogram)] += np.array(part.histogram, np.int64)
        top = sorted((pair for part in parts for pair in part.top), key=lambda pair: (-pair[0], pair[1]))
        return DegreeSummary(histogram=tuple(histogram.tolist()), top=tuple(top[:NUM_TOP_HUBS]))

    def extract_output(self, accumulator: DegreeSummary) -> DegreeSummary:
        """Returns the summary."""
        return accumulator

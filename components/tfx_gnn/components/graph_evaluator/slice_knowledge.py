"""What slices need to know of the data as a whole: quantiles of numbers, and which nodes training saw.

Both are gathered before examples are put into slices. They merge across machines in any order, and have a bounded size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.random_choice import hash_ids, mix

Hashes = npt.NDArray[np.uint64]

SAMPLE_SIZE = 1 << 16
"""Examples from which quantiles are computed; the share of a slice is then off by 0.2 % of all examples or so."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceKnowledge:
    """What slices need to know of the data.

    Attributes:
        quantiles: by the key of a feature, the ascending numbers between its slices; nothing for a feature that no
            example has.
        seen: sorted uint64 array: hashes of the nodes that training saw, of those that were asked for.
    """

    quantiles: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    seen: Hashes = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint64))

    def has_seen(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Says which nodes training saw; same shape as `hashes`."""
        return np.isin(hashes, self.seen)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberSample:
    """Numbers of the examples with the smallest hashes: all numbers, if there are not more than `SAMPLE_SIZE`.

    Attributes:
        hashes: uint64 array, shape [n], of the examples.
        numbers: float64 array, shape [n].
    """

    hashes: Hashes
    numbers: npt.NDArray[np.float64]

    @classmethod
    def of(cls, hashes: Hashes, numbers: Sequence[float]) -> NumberSample:
        """Takes the numbers of examples, except NaN."""
        values = np.asarray(numbers, np.float64)
        is_number = ~np.isnan(values)
        return _cut(hashes[is_number], values[is_number])

    @classmethod
    def merged(cls, samples: Iterable[NumberSample]) -> NumberSample:
        """Joins samples of different examples."""
        parts = list(samples)
        return _cut(np.concatenate([part.hashes for part in parts]), np.concatenate([part.numbers for part in parts]))

    def quantiles(self, num_slices: int) -> tuple[float, ...]:
        """Returns the numbers that divide the sample into slices of equal size; each occurs in the sample.

        The sample must not be empty. Some are equal if a number is very frequent.
        """
        shares = np.arange(1, num_slices) / num_slices
        return tuple(np.quantile(self.numbers, shares, method="inverted_cdf").tolist())


def _cut(hashes: Hashes, numbers: npt.NDArray[np.float64]) -> NumberSample:
    order = np.lexsort([numbers, hashes])[:SAMPLE_SIZE]
    return NumberSample(hashes=hashes[order], numbers=numbers[order])


def hash_node_ids(node_set: str, ids: Sequence[Any]) -> Hashes:
    """Hashes ids of nodes, all bytes or all integers; nodes of different sets have different hashes."""
    is_text = bool(ids) and isinstance(ids[0], bytes)
    values = pa.array(ids, pa.large_binary()).view(pa.large_string()) if is_text else pa.array(ids, pa.int64())
    return mix(hash_ids(pa.array([node_set], pa.large_string())) ^ hash_ids(values))


def union_of_hashes(parts: Iterable[Hashes]) -> Hashes:
    """Joins sets of hashes: sorted, each once."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))

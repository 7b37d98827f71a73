"""Indices of examples, drawn so that all classes are equally frequent.

This module needs NumPy only: the data that is indexed may be of any library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph.batching.dynamic_batch_sampler import check_whole_number, random_bits

UNKNOWN = -1
_BITS_OF_DOUBLE = 53
_SMALL = 2**15
_CHUNK = 1 << 14  # draws at a time, so that intermediate arrays stay in the cache


class ImbalancedSampler:
    """Draws indices of examples with replacement, each with a probability in proportion to 1 / (examples of its class).

    So all classes that occur are equally frequent, whatever their number of examples. There is no limit to the number
    of examples.

    Each iteration is the next epoch. Its indices depend on `seed` and the number of the epoch only: set the attribute
    `epoch`, from 0, to go on where another process stopped. The attribute `weights`, float64, is 1 / (examples of the
    class) for each example, or for each of `input_nodes`; and 0 for unknown classes.

    Args:
        labels: class of each example, integers or bools of shape [num_examples]. Examples of class -1 are never drawn.
        input_nodes: the examples to draw from: their indices, or a bool for each of `labels`. None: all.
        num_samples: number of indices in an epoch, at least 1; None: as many as examples of a known class.
        seed: seed of the draws, not negative.

    Raises:
        ValueError: if an argument is out of range, labels are not integers, or no class is known.

    Example:
        >>> sampler = tfx_gnn.ImbalancedSampler([0] * 10 + [1] * 30 + [2] * 60)
        >>> [round(float(sampler.weights[i]), 4) for i in (0, 10, 40)], len(sampler)
        ([0.1, 0.0333, 0.0167], 100)
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        input_nodes: npt.ArrayLike | None = None,
        num_samples: int | None = None,
        seed: int = 0,
    ) -> None:
        check_whole_number("seed", seed, least=0)
        if num_samples is not None:
            check_whole_number("num_samples", num_samples, least=1)
        classes = _checked_labels(labels)
        if input_nodes is not None:
            classes = classes[_checked_nodes(input_nodes, len(classes))]
        if not np.any(classes != UNKNOWN):
            raise ValueError(
                f"`labels` must have a class other than {UNKNOWN}; got {len(classes)} examples, all of unknown class. "
                "Give labels of the examples to draw from."
            )
        # Examples class by class, in their order; those of unknown class come first.
        order = np.argsort(classes, kind="stable")
        starts = np.flatnonzero(np.diff(classes[order], prepend=classes.min() - 1))
        counts = np.diff(starts, append=len(classes))
        has_unknown = int(classes[order[0]] == UNKNOWN)
        of_class = 1.0 / counts
        of_class[:has_unknown] = 0.0
        self.weights: npt.NDArray[np.float64] = np.empty(len(classes))
        self.weights[order] = np.repeat(of_class, counts)
        self._order, self._starts, self._counts = order, starts[has_unknown:], counts[has_unknown:]
        self._num_samples = int(self._counts.sum()) if num_samples is None else int(num_samples)
        self._seed = seed
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        """Starts the next epoch; yields `num_samples` indices.

        With `input_nodes`, an index is a position in them, as in PyG.
        """
        epoch, self.epoch = self.epoch, self.epoch + 1
        return iter(self.indices(epoch).tolist())

    def __len__(self) -> int:
        """Returns the number of indices in an epoch."""
        return self._num_samples

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_classes={len(self._counts)}, num_samples={self._num_samples})"

    def indices(self, epoch: int) -> npt.NDArray[np.int64]:
        """Returns the indices of an epoch as one array; the attribute `epoch` stays as it is.

        Args:
            epoch: number of the epoch, from 0.

        Returns:
            int64 [num_samples].
        """
        bits = random_bits(self._num_samples, self._seed, epoch)
        drawn = np.empty(self._num_samples, np.int64)
        for start in range(0, self._num_samples, _CHUNK):
            drawn[start : start + _CHUNK] = self._draw(bits[start : start + _CHUNK])
        return drawn

    def _draw(self, bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        # In [0, num_classes). The whole part chooses a class, and the rest an example of it: so the probability of an
        # example is in proportion to its weight. Rounding never reaches a limit, because a double below 1 is at most
        # 1 - 2**-53.
        uniform = (bits >> np.uint64(64 - _BITS_OF_DOUBLE)) * 2.0**-_BITS_OF_DOUBLE * len(self._counts)
        chosen = uniform.astype(np.int64)
        within = ((uniform - chosen) * self._counts[chosen]).astype(np.int64)
        return self._order[self._starts[chosen] + within]


def _checked_labels(labels: npt.ArrayLike) -> npt.NDArray[Any]:
    classes = np.asarray(labels)
    if classes.ndim == 2 and classes.shape[1] == 1:
        classes = classes[:, 0]
    if classes.ndim != 1 or classes.dtype.kind not in "biu":
        raise ValueError(
            f"`labels` must hold one integer for each example; got dtype={classes.dtype}, shape={classes.shape}. "
            "Number the classes, and use -1 for unknown ones."
        )
    if classes.size and int(classes.min()) < UNKNOWN:
        raise ValueError(
            f"`labels` must be at least {UNKNOWN}; got {classes.min()} at {int(np.argmin(classes))}. "
            "Use -1 for unknown classes."
        )
    # NumPy sorts small integers in linear time.
    return classes.astype(np.int16 if not classes.size or int(classes.max()) < _SMALL else np.int64)


def _checked_nodes(input_nodes: npt.ArrayLike, num: int) -> npt.NDArray[np.int64]:
    nodes = np.asarray(input_nodes)
    if nodes.ndim == 1 and nodes.dtype.kind == "b" and len(nodes) == num:
        return np.flatnonzero(nodes)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise ValueError(
            f"`input_nodes` must hold indices, or a bool for each of {num} labels; got dtype={nodes.dtype}, "
            f"shape={nodes.shape}. Give one of these."
        )
    if nodes.size and not (nodes.min() >= 0 and nodes.max() < num):
        wrong = nodes[(nodes < 0) | (nodes >= num)][0]
        raise ValueError(
            f"`input_nodes` must lie in [0, {num}), the number of labels; got {wrong}. Correct the indices."
        )
    return nodes.astype(np.int64)

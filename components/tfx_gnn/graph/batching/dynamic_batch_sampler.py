"""Batches of indices of examples, as many as have a given number of nodes or edges together.

This module needs NumPy only: the data that is indexed may be of any library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

NODE, EDGE = "node", "edge"
_MAX_SUM = 2**63 - 1


def check_batch_limits(max_num: int, mode: str, num_steps: int | None) -> None:
    """Refuses arguments of `batch_by_size` and `DynamicBatchSampler` that are out of range."""
    if mode not in (NODE, EDGE):
        raise ValueError(f"`mode` must be {NODE!r} or {EDGE!r}; got {mode!r}. Choose what to count.")
    for name, value in (("max_num", max_num), ("num_steps", num_steps)):
        if value is not None:
            check_whole_number(name, value, least=1)


class DynamicBatchSampler:
    """Makes batches of indices of consecutive examples whose nodes, or edges, together stay at or below a number.

    An example joins the current batch if their sum stays at or below `max_num`; otherwise it starts the next batch. An
    example that is larger by itself is a batch of its own, or is left out if `skip_too_big`. Each index is in at most
    one batch of an epoch. `batch_by_size` makes the same batches of a tf.data.Dataset of graphs.

    Each iteration is the next epoch. Its order depends on `seed` and the number of the epoch only: set the attribute
    `epoch`, from 0, to go on where another process stopped. The attribute `num_skipped` is the number of examples that
    an epoch without `num_steps` leaves out.

    Args:
        dataset_or_sizes: the size of each example, integers of shape [num_examples]; or a sequence of examples, each of
            which is a scalar GraphTensor or has the attribute `num_nodes` or `num_edges`. Each is read once, here.
        max_num: the largest sum, at least 1.
        mode: "node" or "edge": what is counted, over all sets of a GraphTensor.
        shuffle: whether each epoch has another order; otherwise examples keep theirs.
        skip_too_big: whether to leave out examples that are larger than `max_num` by themselves.
        num_steps: number of batches after which an epoch ends, at least 1; None: no limit.
        seed: seed of the order, not negative.

    Raises:
        ValueError: if an argument is out of range, or sizes are not integers from 0.
        TypeError: if an example has no size.

    Example:
        >>> sampler = tfx_gnn.DynamicBatchSampler([400, 100, 101, 102, 103], max_num=300)
        >>> [batch.tolist() for batch in sampler], len(sampler)
        ([[0], [1, 2], [3, 4]], 3)
    """

    def __init__(  # noqa: PLR0917 - the order of PyG's arguments
        self,
        dataset_or_sizes: Sequence[Any] | npt.NDArray[Any],
        max_num: int,
        mode: str = NODE,
        shuffle: bool = False,
        skip_too_big: bool = False,
        num_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        check_batch_limits(max_num, mode, num_steps)
        check_whole_number("seed", seed, least=0)
        self._sizes = _sizes_of(dataset_or_sizes, mode)
        self._max_num = int(max_num)
        self._shuffle, self._skip_too_big = shuffle, skip_too_big
        self._num_steps, self._seed = num_steps, seed
        self.epoch = 0
        self.num_skipped = int(np.count_nonzero(self._sizes > self._max_num)) if skip_too_big else 0
        self._length: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        """Starts the next epoch; yields int64 indices of shape [num_examples_in_batch]."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        order, bounds = self._batches(epoch)
        return (order[start:end] for start, end in bounds)

    def __len__(self) -> int:
        """Counts the batches of the epoch that the next iteration makes; without `shuffle`, of any."""
        epoch = self.epoch if self._shuffle else 0
        if self._length is None or self._length[0] != epoch:
            self._length = epoch, len(self._batches(epoch)[1])
        return self._length[1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_examples={len(self._sizes)}, max_num={self._max_num})"

    def _batches(self, epoch: int) -> tuple[npt.NDArray[np.int64], list[tuple[int, int]]]:
        """Returns the order of an epoch, and where each of its batches begins and ends in it."""
        num = len(self._sizes)
        order = shuffled_indices(num, self._seed, epoch) if self._shuffle else np.arange(num)
        totals = np.concatenate([[0], np.cumsum(self._sizes[order])])
        # For a batch that begins at any position, the position after its last example.
        limits = totals[:-1] + min(self._max_num, int(totals[-1]))
        ends = np.searchsorted(totals, limits, side="right") - 1
        is_alone = ends == np.arange(num)
        ends = np.maximum(ends, np.arange(1, num + 1)).tolist()
        is_skipped = (is_alone & self._skip_too_big).tolist()
        bounds: list[tuple[int, int]] = []
        start = 0
        while start < num and (self._num_steps is None or len(bounds) < self._num_steps):
            end = ends[start]
            if not is_skipped[start]:
                bounds.append((start, end))
            start = end
        return order, bounds


def shuffled_indices(num: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of [0, num) that depends on the arguments only.

    Unlike that of `Generator.permutation`, the stream of a bit generator is the same in every release of NumPy.
    """
    return np.argsort(random_bits(num, seed, epoch), kind="stable")


def random_bits(num: int, seed: int, epoch: int) -> npt.NDArray[np.uint64]:
    """Returns `num` random 64-bit numbers that depend on the arguments only."""
    return np.random.SFC64(np.random.SeedSequence([seed, epoch])).random_raw(num)


def check_whole_number(name: str, value: int, *, least: int) -> None:
    """Refuses an argument that is no integer, or too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}. Give such a number.")


def _sizes_of(dataset_or_sizes: Sequence[Any] | npt.NDArray[Any], mode: str) -> npt.NDArray[np.int64]:
    if not hasattr(dataset_or_sizes, "__array__"):
        dataset_or_sizes = [
            one if np.isscalar(one) else _size_of_example(one, mode, position)
            for position, one in enumerate(dataset_or_sizes)
        ]
    sizes = np.asarray(dataset_or_sizes)
    if sizes.ndim != 1 or (sizes.size and sizes.dtype.kind not in "iu"):
        raise ValueError(
            "`dataset_or_sizes` must hold one integer for each example; got an array of "
            f"dtype={sizes.dtype}, shape={sizes.shape}. Give the number of {mode}s of each."
        )
    if sizes.size and sizes.min() < 0:
        position = int(np.argmin(sizes))
        raise ValueError(
            f"`dataset_or_sizes` must hold sizes from 0; got {sizes[position]} at {position}. "
            f"Give the number of {mode}s of each example."
        )
    if sizes.size and int(sizes.max()) > _MAX_SUM // sizes.size:
        raise ValueError(
            f"`dataset_or_sizes` must hold sizes whose sum is below 2**63; got {sizes.max()} at "
            f"{int(np.argmax(sizes))}. Correct the size."
        )
    return sizes.astype(np.int64)


def _size_of_example(example: Any, mode: str, position: int) -> int:
    sets = getattr(example, "node_sets" if mode == NODE else "edge_sets", None)
    if sets is not None:
        if example.shape.rank != 0:
            raise TypeError(
                f"`dataset_or_sizes` must hold scalar graphs; got shape={example.shape} at {position}. "
                "Give one GraphTensor for each example."
            )
        return sum(int(piece.total_size) for piece in sets.values())
    size = getattr(example, f"num_{mode}s", None)
    if size is None:
        raise TypeError(
            f"`dataset_or_sizes` must hold numbers, scalar graphs, or examples with `num_{mode}s`; got "
            f"{type(example).__name__} at {position}. Give the number of {mode}s of each example instead."
        )
    return int(size)

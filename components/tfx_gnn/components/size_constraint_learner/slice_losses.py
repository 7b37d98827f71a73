"""Which graphs fit-or-skip would remove, by label class and by degree of the seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.size_constraint_learner.size_summary import NO_LABEL, Integers, SplitSummary
from tfx_gnn.graph.batching.size_rule import SizeRule
from tfx_gnn.records.size_constraints_file import BY_DEGREE, BY_LABEL, Budget, SliceLoss

MAX_GRAPHS = 1 << 19
"""Graphs that stand for a split, at most."""


NUM_BATCHES = 1 << 18
"""Batches that are drawn; the standard error of a share of 0.99 is below 0.02 points."""


_MAX_DRAWN = 1 << 25


_MIN_BATCHES = 1 << 14


#: Fewer batches are drawn from few graphs, whose estimates are imprecise anyway.
_DRAWS_OF_A_GRAPH = 64


_BLOCK = 1 << 15


@dataclasses.dataclass(frozen=True, eq=False)
class SampledGraphs:
    """Graphs that stand for those of a split.

    Attributes:
        sizes: int32 [num_graphs, num_sets].
        labels: int32 [num_graphs], label classes.
        degrees: int32 [num_graphs], degree buckets.
        weight: how many graphs of the split each of these stands for.
    """

    sizes: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    degrees: npt.NDArray[np.int32]
    weight: float = 1.0


def sampled_graphs(summary: SplitSummary, half: int | None = None) -> SampledGraphs:
    """Takes graphs from a summary: all while there are few, else some in proportion; there may be none.

    `half` is 0 or 1 for the graphs of one half of the split, which the hashes of records tell; None for all.
    """
    if summary.rows is not None and summary.counts is not None:
        counts = summary.counts.sum(axis=1) if half is None else summary.counts[:, half]
        total = int(counts.sum())
        num_taken = min(total, MAX_GRAPHS)
        # Every n-th graph: of each row as many as its share is, but for one.
        taken = (np.arange(num_taken) * total + total // 2) // max(num_taken, 1)
        rows = summary.rows[np.searchsorted(np.cumsum(counts), taken, side="right")]
        weight = total / max(num_taken, 1)
    else:
        rows = summary.sample_rows
        weight = summary.num_graphs / len(rows)
        if half is not None:
            rows = rows[(summary.sample_hashes & np.uint64(1)) == half]
    return SampledGraphs(
        sizes=np.ascontiguousarray(rows[:, :-2]), labels=rows[:, -2], degrees=rows[:, -1], weight=weight
    )


@dataclasses.dataclass(frozen=True, eq=False)
class BatchDraws:
    """Random batches as training makes them: the graphs are shuffled, and cut into batches, again and again.

    Each graph is thus drawn equally often, but for one time, which makes shares of batches more exact than
    independent draws do.

    Attributes:
        sizes: int32 [num_graphs, num_sets], at least one graph.
        batch_size: graphs of a batch.
        num_batches: how many to draw.
        seed: the same seed gives the same batches.
    """

    sizes: npt.NDArray[np.int32]
    batch_size: int
    num_batches: int
    seed: int

    @staticmethod
    def enough(sizes: npt.NDArray[np.int32], batch_size: int, seed: int) -> BatchDraws:
        """Draws so many batches that shares of them are exact to a few hundredths of a point."""
        num_batches = min(NUM_BATCHES, _MAX_DRAWN // batch_size, _DRAWS_OF_A_GRAPH * len(sizes))
        num_batches = max(num_batches, _MIN_BATCHES)
        return BatchDraws(sizes, batch_size, num_batches, seed)

    def members(self) -> Iterator[npt.NDArray[np.int32]]:
        """Yields the batches, int32 [some, batch_size]: positions of their graphs."""
        random = np.random.default_rng([self.seed, self.batch_size])
        num_graphs = len(self.sizes)
        orders = np.tile(np.arange(num_graphs, dtype=np.int32), (-(-_BLOCK // num_graphs), 1))
        left = np.zeros(0, np.int32)
        num_left = self.num_batches
        while num_left:
            block = min(num_left, max(_BLOCK * 32 // self.batch_size, 1))
            parts, length = [left], len(left)
            while length < block * self.batch_size:
                parts.append(random.permuted(orders, axis=1).ravel())
                length += orders.size
            drawn = np.concatenate(parts)
            left = drawn[block * self.batch_size :]
            yield drawn[: block * self.batch_size].reshape(block, self.batch_size)
            num_left -= block

    def sums(self) -> Integers:
        """Adds up the sizes of each batch: int64 [num_batches, num_sets]."""
        blocks = []
        for members in self.members():
            total = np.zeros([len(members), self.sizes.shape[1]], np.int64)
            for column in members.T:
                total += self.sizes[column]
            blocks.append(total)
        return np.concatenate(blocks)


_MAX_NAMED = 5


def slice_losses(
    graphs: SampledGraphs, draws: BatchDraws, fits: npt.NDArray[np.bool_], class_names: Sequence[str]
) -> tuple[SliceLoss, ...]:
    """Tells what share of each slice is expected to be in batches that do not fit, where `fits` is False.

    There is one loss for each class and for each degree bucket, in their order. Classes without a name are named by
    their number.
    """
    drawn, lost = np.zeros(len(graphs.sizes), np.int64), np.zeros(len(graphs.sizes), np.int64)
    start = 0
    for members in draws.members():
        is_lost = ~fits[start : start + len(members)]
        start += len(members)
        drawn += np.bincount(members.ravel(), minlength=len(drawn))
        lost += np.bincount(members[is_lost].ravel(), minlength=len(drawn))
    losses = []
    for slicing, values, name in (
        (BY_LABEL, graphs.labels, lambda label: _class_name(label, class_names)),
        (BY_DEGREE, graphs.degrees, _bucket_name),
    ):
        found, slices = np.unique(values, return_inverse=True)
        num_graphs = np.bincount(slices) * graphs.weight
        shares = np.bincount(slices, lost) / np.maximum(np.bincount(slices, drawn), 1)
        losses += [
            SliceLoss(slicing=slicing, value=name(int(value)), num_graphs=round(number), lost_share=float(share))
            for value, number, share in zip(found.tolist(), num_graphs.tolist(), shares.tolist(), strict=True)
        ]
    return tuple(losses)


def check_losses(budgets: Mapping[str, Budget], *, warn_slice_loss: float, max_slice_loss: float) -> tuple[str, ...]:
    """Warns of budgets that lose much of a slice, and refuses those that lose more than `max_slice_loss`."""
    warnings = []
    for name, budget in budgets.items():
        refused = _losses_above(budget, max_slice_loss)
        if refused:
            raise ValueError(
                f"`max_slice_loss` must not be exceeded by any slice; got {_described(refused)}, expected of budget "
                f"{name!r}, with max_slice_loss={max_slice_loss}. Train on packed batches, which lose nothing, and "
                "leave `success_ratios` empty; or ask for higher ones; or sample smaller graphs."
            )
        warned = _losses_above(budget, warn_slice_loss)
        if warned:
            warnings.append(
                f"Budget {name!r} is expected to lose more than {warn_slice_loss:.1%} of {len(warned)} slices: "
                f"{_described(warned)}. Train on packed batches, which lose nothing, or ask for a higher success ratio."
            )
    return tuple(warnings)


def _losses_above(budget: Budget, share: float) -> list[SliceLoss]:
    return sorted(
        (loss for loss in budget.losses if loss.lost_share > share), key=lambda loss: (-loss.lost_share, loss.value)
    )


def _described(losses: Sequence[SliceLoss]) -> str:
    named = [
        f"{loss.lost_share:.1%} of the {loss.num_graphs} graphs with {loss.slicing} {loss.value!r}"
        for loss in losses[:_MAX_NAMED]
    ]
    more = len(losses) - len(named)
    return ", ".join(named) + (f", and {more} more" if more > 0 else "")


def _class_name(label: int, class_names: Sequence[str]) -> str:
    if label == NO_LABEL:
        return "none"
    return class_names[label] if 0 <= label < len(class_names) else str(label)


def _bucket_name(bucket: int) -> str:
    """Of bucket i: degrees of at least 2**(i-1) and below 2**i, as in "4-7"."""
    if bucket <= 1:
        return str(bucket)
    return f"{2 ** (bucket - 1)}-{2**bucket - 1}"


def batches_that_fit(rule: SizeRule, batch_size: int, sums: Integers) -> npt.NDArray[np.bool_]:
    """Tells which batches of `batch_size` graphs, of one component each, fit a budget: bool [num_batches]."""
    fits: npt.NDArray[np.bool_] = rule.fits(np.full(len(sums), batch_size, np.int64), sums)
    return fits

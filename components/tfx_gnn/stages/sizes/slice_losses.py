"""Which graphs are lost with the batches that do not fit, by label class and by degree of the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph.size_rule import SizeRule
from tfx_gnn.stages.sizes.batch_sums import BatchDraws, SampledGraphs
from tfx_gnn.stages.sizes.size_constraints_file import BY_DEGREE, BY_LABEL, Budget, SliceLoss
from tfx_gnn.stages.sizes.size_summary import NO_LABEL, Integers

_MAX_NAMED = 5


def slice_losses(
    graphs: SampledGraphs, draws: BatchDraws, fits: npt.NDArray[np.bool_], class_names: Sequence[str]
) -> tuple[SliceLoss, ...]:
    """Tells what share of each slice is expected to be in batches that do not fit.

    Args:
        graphs: what the batches were drawn from.
        draws: the batches.
        fits: bool [num_batches], which of them fit.
        class_names: names of the label classes, by number; others are named by their number.

    Returns:
        One loss for each class and for each degree bucket that there is, in their order.
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
    """Warns of budgets that lose much of a slice.

    Args:
        budgets: budgets by name.
        warn_slice_loss: share that may be lost without a warning.
        max_slice_loss: share that may be lost at all.

    Returns:
        One warning for each budget that deserves it.

    Raises:
        ValueError: if a slice loses more than `max_slice_loss`.
    """
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
    """Tells which batches can be padded to a budget.

    Args:
        rule: the budget.
        batch_size: graphs, of one component each, of each batch.
        sums: int64 [num_batches, num_sets], their sizes.

    Returns:
        bool [num_batches].
    """
    fits: npt.NDArray[np.bool_] = rule.fits(np.full(len(sums), batch_size, np.int64), sums)
    return fits

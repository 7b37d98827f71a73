"""Options of SizeConstraintLearner."""

from __future__ import annotations

import dataclasses

from tfx_gnn.io.suggestions import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeConstraintLearnerOptions:
    """Options for learning padding budgets (TF-GNN's `SizeConstraints`).

    Attributes:
        batch_size: graphs per batch, at least 1.
        extra_batch_sizes: further batch sizes to learn budgets for.
        success_ratios: fractions of random batches that must fit, each in (0, 1). One fit-or-skip budget is learned
            for each.
        splits: splits to learn from; empty for all. Graphs of other splits may not fit the budgets.
        train_split: split used for training, one of `splits`. Fit-or-skip and packing budgets are optimized for it.
        window: look-ahead of `pack_batches` that packing budgets are chosen for, at least 1.
        label_feature: feature of `_readout` with the class, one integer, by which losses of fit-or-skip
            budgets are broken down; empty for none.
        class_vocabulary: vocabulary of the transform graph that names the classes; empty if there is none.
        warn_slice_loss: fraction in [0, 1]. A class or degree bucket that loses more causes a warning.
        max_slice_loss: fraction in [0, 1]. A class or degree bucket that loses more causes an error.
        seed: seed of the random draws, in [0, 2**31). Equal data, options and seeds give equal budgets.
    """

    batch_size: int = 32
    extra_batch_sizes: tuple[int, ...] = ()
    success_ratios: tuple[float, ...] = (0.99,)
    splits: tuple[str, ...] = ()
    train_split: str = "train"
    window: int = 128
    label_feature: str = ""
    class_vocabulary: str = ""
    warn_slice_loss: float = 0.05
    max_slice_loss: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, number in (("batch_size", self.batch_size), ("window", self.window)):
            if number < 1:
                raise ValueError(f"`{name}` must be at least 1; got {number}. Give a number of graphs.")
        if min(self.extra_batch_sizes, default=1) < 1 or len(set(self.batch_sizes)) < len(self.batch_sizes):
            raise ValueError(
                "`extra_batch_sizes` must be different numbers of graphs, at least 1, other than `batch_size`; got "
                f"{self.extra_batch_sizes} beside {self.batch_size}. Leave out what is repeated."
            )
        ratios = self.success_ratios
        if any(not 0 < ratio < 1 for ratio in ratios) or len(set(ratios)) < len(ratios):
            raise ValueError(
                f"`success_ratios` must be different fractions above 0 and below 1; got {ratios}. For batches that all "
                "fit, take the tight budget or packing."
            )
        if not self.train_split or (self.splits and self.train_split not in self.splits):
            raise ValueError(
                f"`train_split` must be one of `splits`; got {self.train_split!r}, not among {list(self.splits)}. "
                f"{did_you_mean(self.train_split, self.splits, otherwise='Name the split that is trained on in both.')}"
            )
        for name, share in (("warn_slice_loss", self.warn_slice_loss), ("max_slice_loss", self.max_slice_loss)):
            if not 0 <= share <= 1:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {share}. Give a fraction of graphs.")
        if self.class_vocabulary and not self.label_feature:
            raise ValueError(
                f"`class_vocabulary` must come with `label_feature`; got {self.class_vocabulary!r} alone. Name the "
                "feature of `_readout` that holds the class."
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"`seed` must lie in [0, 2**31); got {self.seed}. Choose another number.")

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """All batch sizes that budgets are learned for."""
        return (self.batch_size, *self.extra_batch_sizes)

"""Declares what numbers an axis of a layer's weights, so that a later training finds the same terms in it.

The rows of an embedding table and the columns of a classifier are numbered by a vocabulary, which changes with
the data.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import tf_keras

FIXED = ""
"""Instead of a vocabulary: a position means the same in every training, as that of a hash does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexBlock:
    """Consecutive positions of an axis that one vocabulary numbers.

    Attributes:
        name: name of an embedding table that shares its variable with others, the same in every training; empty for
            the only block of a weight.
        size: number of positions, at least 1.
        vocabulary: name of tf.Transform's vocabulary, whose terms have the first positions; others are for values
            that it lacks. `FIXED` if there is none, and None if it is not known.
    """

    name: str
    size: int
    vocabulary: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightIndex:
    """What numbers an axis of all weights of one layer.

    Attributes:
        axis: the axis; -1 is the last one.
        blocks: what its positions are, in order.
    """

    axis: int
    blocks: tuple[IndexBlock, ...]


_ATTRIBUTE = "weight_index"


def declare_weight_index(layer: tf_keras.layers.Layer, index: WeightIndex) -> None:
    """Records what numbers the weights of a layer; its nested layers have declarations of their own."""
    setattr(layer, _ATTRIBUTE, index)


def declared_weight_index(layer: Any) -> WeightIndex | None:
    """Returns what was declared for a layer; None if nothing was."""
    return cast("WeightIndex | None", getattr(layer, _ATTRIBUTE, None))

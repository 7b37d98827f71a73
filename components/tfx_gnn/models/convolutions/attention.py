"""Attention: sums of messages weighted by a softmax over a node's incoming edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tfx_gnn.graph.ops.gates import gated
from tfx_gnn.io.suggestions import did_you_mean

_MERGE_TYPES = ("concat", "mean")


def check_heads(num_heads: int, per_head_channels: int, edge_dropout: float, heads_merge_type: str) -> None:
    """Refuses arguments of a convolution with attention that are out of range."""
    if num_heads < 1 or per_head_channels < 1 or not 0.0 <= edge_dropout < 1.0:
        raise ValueError(
            "`num_heads` and `per_head_channels` must be at least 1 and `edge_dropout` in [0, 1); got "
            f"{num_heads}, {per_head_channels} and {edge_dropout}. The width of the result is heads times channels."
        )
    if heads_merge_type not in _MERGE_TYPES:
        advice = did_you_mean(heads_merge_type, _MERGE_TYPES, otherwise="'concat' is usual between layers.")
        raise ValueError(f"`heads_merge_type` must be one of {_MERGE_TYPES}; got {heads_merge_type!r}. {advice}")


def channels_per_head(units: int, num_heads: int, heads_merge_type: str) -> int:
    """Returns the width of each head for states of `units`."""
    if num_heads < 1 or (heads_merge_type == "concat" and units % num_heads):
        raise ValueError(
            f"`num_heads` must divide `units` for heads_merge_type='concat'; got {num_heads} and {units}. "
            "Choose a divisor, or 'mean'."
        )
    return units // num_heads if heads_merge_type == "concat" else units


class Attended(NamedTuple):
    """Messages along the edges of one relation, and the logits of their weights.

    Attributes:
        logits: float [num_edges, num_heads].
        messages: float [num_edges, num_heads, channels].
        pool: maps [num_edges, ...] to [num_receivers, ...], called with `reduce_type="sum"` or "max".
        broadcast: maps [num_receivers, ...] to [num_edges, ...].
    """

    logits: tf.Tensor
    messages: tf.Tensor
    pool: Callable[..., tf.Tensor]
    broadcast: Callable[[tf.Tensor], tf.Tensor]


def softmax_weighted_sum(
    relations: Sequence[Attended], dropout: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> tf.Tensor:
    """Weights the messages of one or more relations by a softmax at each receiver, and sums them.

    All relations must have the same receivers, number of heads and number of channels. The result is float32,
    [num_receivers, num_heads, channels]; a node without edges gets zeros. `dropout` drops some of the weights
    after the softmax.

    Numerators and denominators are summed separately and divided once per receiver, which avoids a second
    broadcast to edges and pooling back. The largest logit of each receiver is subtracted first, so that
    nothing overflows. Padding edges only reach padding nodes.
    """
    logits = [tf.cast(relation.logits, tf.float32) for relation in relations]
    highest = None
    for relation, logit in zip(relations, logits, strict=True):
        with gated(None):
            largest = tf.stop_gradient(relation.pool(tf.stop_gradient(logit), reduce_type="max"))
        highest = largest if highest is None else tf.maximum(highest, largest)
    numerators, denominators = [], []
    for relation, logit in zip(relations, logits, strict=True):
        weights = tf.exp(logit - relation.broadcast(highest))
        with gated(None):
            denominators.append(relation.pool(weights, reduce_type="sum"))
        # Dropout scales the weights that it keeps, but the denominator is that of the whole softmax.
        kept = weights if dropout is None else tf.cast(dropout(weights), tf.float32)
        messages = kept[:, :, tf.newaxis] * tf.cast(relation.messages, tf.float32)
        numerators.append(relation.pool(messages, reduce_type="sum"))
    # The largest logit alone contributes 1, so only nodes without edges have a smaller denominator.
    return tf.add_n(numerators) / tf.maximum(tf.add_n(denominators), 1.0)[:, :, tf.newaxis]

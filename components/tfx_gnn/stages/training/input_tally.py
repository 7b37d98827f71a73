"""What goes into training, counted where it goes by.

Each batch carries its own counts to the step that trains on it, so what is read ahead of the training counts
only when it is trained on, and the counts of all replicas can be added up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.stages.padded_batches import PaddedBatch

NUM_COUNTS = 6
"""Numbers in the counts of a batch: batches, graphs, removed batches, removed graphs, real items, padded items."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochInput:
    """What an epoch was trained on.

    Attributes:
        num_steps: steps; each takes a batch on each replica.
        num_batches: batches with a graph in them. Replicas that had none in the epoch's last steps got padding.
        num_graphs: graphs in them.
        num_removed_batches: batches that fit-or-skip removed.
        num_removed_graphs: graphs in these.
        graphs_per_batch: mean number of graphs of a batch.
        fill: share of the nodes and edges that are no padding, all sets and all replicas together.
        removed_share: graphs removed over all graphs.
        graphs_per_second: graphs trained on per second of the epoch, without evaluation.
        input_bound_share: share of that time in which steps waited for their input.
    """

    num_steps: int
    num_batches: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    graphs_per_batch: float
    fill: float
    removed_share: float
    graphs_per_second: float = 0.0
    input_bound_share: float = 0.0


def counts_of_batch(batch: PaddedBatch) -> tf.Tensor:
    """Counts a batch.

    Args:
        batch: the batch; one without any graph counts as padding alone.

    Returns:
        int64 [NUM_COUNTS].
    """
    pieces = [*batch.graph.node_sets.values(), *batch.graph.edge_sets.values()]
    is_real = tf.cast(batch.is_real, tf.int64)
    sizes = tf.add_n([tf.cast(piece.sizes, tf.int64) for piece in pieces])
    return tf.stack(
        [
            tf.reduce_max(is_real),
            tf.reduce_sum(is_real),
            batch.num_removed_batches,
            batch.num_removed_graphs,
            tf.reduce_sum(sizes * is_real),
            tf.reduce_sum(sizes),
        ]
    )


def epoch_input(
    counts: Sequence[int], *, num_steps: int, seconds: float = 0.0, seconds_waited: float = 0.0
) -> EpochInput:
    """Makes figures of the counts of an epoch.

    Args:
        counts: sum of `counts_of_batch` over all batches.
        num_steps: steps that they were trained on in.
        seconds: time that these took.
        seconds_waited: time of it that they waited for input, as the mean over processes or of one.

    Returns:
        The figures; shares of nothing are 0.
    """
    batches, graphs, removed_batches, removed_graphs, real, padded = (int(count) for count in counts)
    return EpochInput(
        num_steps=num_steps,
        num_batches=batches,
        num_graphs=graphs,
        num_removed_batches=removed_batches,
        num_removed_graphs=removed_graphs,
        graphs_per_batch=graphs / max(batches, 1),
        fill=real / max(padded, 1),
        removed_share=removed_graphs / max(graphs + removed_graphs, 1),
        graphs_per_second=graphs / seconds if seconds else 0.0,
        input_bound_share=min(seconds_waited / seconds, 1.0) if seconds else 0.0,
    )

"""What goes into training, counted where it goes by."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from tfx_gnn.stages.padded_batches import PaddedBatch


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochInput:
    """What an epoch was trained on.

    Attributes:
        num_steps: batches.
        num_graphs: graphs in them.
        num_removed_batches: batches that fit-or-skip removed.
        num_removed_graphs: graphs in these.
        graphs_per_batch: mean number of graphs of a batch.
        fill: share of the batches' nodes and edges that are no padding, all sets together.
        removed_share: graphs removed over all graphs.
    """

    num_steps: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    graphs_per_batch: float
    fill: float
    removed_share: float


class InputTally:
    """Counts batches inside of a data set, for whoever asks after each pass."""

    def __init__(self) -> None:
        # Where tf.data runs, whatever device the model is on.
        with tf.device("/CPU:0"):
            self._counts = tf.Variable(tf.zeros([6], tf.int64), trainable=False, name="input_tally")

    def add(self, batch: PaddedBatch) -> tf.Operation:
        """Counts a batch; part of a function of `tf.data.Dataset.map`.

        Args:
            batch: the batch.

        Returns:
            What must run.
        """
        pieces = [*batch.graph.node_sets.values(), *batch.graph.edge_sets.values()]
        is_real = tf.cast(batch.is_real, tf.int64)
        sizes = tf.add_n([tf.cast(piece.sizes, tf.int64) for piece in pieces])
        counts = [
            tf.ones([], tf.int64),
            tf.reduce_sum(is_real),
            batch.num_removed_batches,
            batch.num_removed_graphs,
            tf.reduce_sum(sizes * is_real),
            tf.reduce_sum(sizes),
        ]
        return self._counts.assign_add(tf.stack(counts), read_value=False)

    def take(self) -> EpochInput:
        """Returns what was counted since the last call.

        Returns:
            The counts; shares of nothing are 0.
        """
        counts = self._counts.numpy()
        self._counts.assign(np.zeros_like(counts))
        steps, graphs, removed_batches, removed_graphs, real, padded = counts.tolist()
        return EpochInput(
            num_steps=steps,
            num_graphs=graphs,
            num_removed_batches=removed_batches,
            num_removed_graphs=removed_graphs,
            graphs_per_batch=graphs / max(steps, 1),
            fill=real / max(padded, 1),
            removed_share=removed_graphs / max(graphs + removed_graphs, 1),
        )

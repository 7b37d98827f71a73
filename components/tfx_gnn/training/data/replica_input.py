"""Distributes the training input over the replicas of a strategy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.distributed_datasets import distribute
from tfx_gnn.distribution.sharding import Sharding, shard_files, shard_records
from tfx_gnn.records.examples_folder import RecordFile, RecordTimes
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.data.padded_batches import BatchBudget, EpochOffset, ended_batches

ReadPrecomputed = Callable[[tf.data.Dataset, Callable[[tf.Tensor], tf.Tensor] | None], tf.data.Dataset]
"""Maps `epochs` and `keep`, as for `training_batches`, to the precomputed batches of these epochs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingInput:
    """The training split, and how to read it.

    Attributes:
        files: all files of the split.
        labelled: splits the labels off every batch.
        budget: what the batch of one replica is padded to.
        batching: how graphs are batched.
        shuffle_buffer_size: examples in the shuffle buffer.
        seed: seed of the order of examples.
        sharding: which part each pipeline reads.
        read_precomputed: reads precomputed batches instead of the files; with one pipeline only.
        times: decides how many times each example comes in an epoch; None: once.
    """

    files: Sequence[RecordFile]
    labelled: LabelledGraphs
    budget: BatchBudget
    batching: str
    shuffle_buffer_size: int
    seed: int
    sharding: Sharding
    read_precomputed: ReadPrecomputed | None = None
    times: RecordTimes | None = None

    def __post_init__(self) -> None:
        if self.read_precomputed is not None and self.sharding.num_pipelines > 1:
            raise ValueError(
                "`precomputed_batches_dir` must be empty where several processes read the data; got precomputed "
                f"batches for {self.sharding.num_pipelines} of them. Let each make its own, or train in one process."
            )

    def of_pipeline(
        self,
        context: tf.distribute.InputContext,
        *,
        epochs: tf.data.Dataset,
        keep: Callable[[tf.Tensor], tf.Tensor] | None,
    ) -> tf.data.Dataset:
        """Reads one pipeline's `PaddedBatch`es of some epochs.

        Their order depends on the seed, the epoch and the pipeline's number.
        """
        if self.read_precomputed is not None:
            return self.read_precomputed(epochs, keep)
        return input_pipeline.training_batches(
            shard_files(self.files, context, self.sharding),
            self.labelled.graph_spec,
            epochs=epochs,
            keep=keep,
            budget=self.budget,
            batching=self.batching,
            shuffle_buffer_size=self.shuffle_buffer_size,
            seed=self.seed,
            pipeline=context.input_pipeline_id,
            shard=functools.partial(shard_records, context=context, sharding=self.sharding),
            times=self.times,
        )


class DistributedTrainingInput:
    """Epochs of a training for synchronous replicas.

    A single pipeline knows when its replicas have finished an epoch, and continues with the next one in the same
    iterator: making an iterator takes TensorFlow half a second, and the next epoch is read ahead during evaluation.
    With several pipelines, none knows when the others have finished, so each epoch has its own iterator.
    """

    def __init__(self, strategy: tf.distribute.Strategy, data: TrainingInput, *, num_epochs: int) -> None:
        self._start = EpochOffset()
        self._data = data
        self._num_epochs = num_epochs
        self._replicas_of_pipeline = strategy.num_replicas_in_sync // data.sharding.num_pipelines
        self._goes_on = data.sharding.num_pipelines == 1
        self._iterator: Iterator[Any] | None = None
        # `tfx_gnn.distribution.distribute` would inspect the datasets, which fails if they read variables.
        self._dataset = strategy.distribute_datasets_from_function(
            self._epoch_after_epoch if self._goes_on else self._one_epoch
        )

    def epoch(self, number: int, first_step: int = 0, *, is_next: bool = False) -> Iterator[Any]:
        """Starts to read an epoch, numbered from 0, and skips its first steps without parsing their examples.

        An epoch ends with a step of only padding; read nothing of it after that step. `is_next` says that the previous
        epoch was read to its end and that no step of this one is skipped.
        """
        if self._iterator is None or not (is_next and self._goes_on):
            self._start.set(number, first_step * self._replicas_of_pipeline)
            self._iterator = iter(self._dataset)
        return self._iterator

    def _one_epoch(self, context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = self._data.of_pipeline(context, epochs=self._start.epochs(), keep=self._start.keep)
        return input_pipeline.training_dataset(batches, self._data.labelled, self._data.budget)

    def _epoch_after_epoch(self, context: tf.distribute.InputContext) -> tf.data.Dataset:
        data = self._data

        def ended_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            batches = data.of_pipeline(
                context,
                epochs=tf.data.Dataset.from_tensors(epoch),
                keep=functools.partial(self._start.keep_in_epoch, epoch),
            )
            return ended_batches(
                batches, data.labelled.graph_spec, data.budget, num_replicas=self._replicas_of_pipeline
            )

        epochs = self._start.epochs_until(self._num_epochs)
        # Nothing here needs AutoGraph, which would take seconds to rewrite all of it.
        batches = epochs.flat_map(tf.autograph.experimental.do_not_convert(ended_epoch))
        return input_pipeline.weighted_training_batches(batches, data.labelled)


def distributed_evaluation_input(
    strategy: tf.distribute.Strategy,
    files: Sequence[RecordFile],
    labelled: LabelledGraphs,
    *,
    budget: BatchBudget,
    num_steps: int,
    num_counted: Mapping[str, int],
    num_pipelines: int,
) -> Any:
    """Makes the endless evaluation input for synchronous replicas; every `num_steps` steps are one evaluation."""

    def of_pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return input_pipeline.evaluation_dataset(
            files,
            labelled,
            budget=budget,
            num_batches=num_steps * strategy.num_replicas_in_sync,
            num_counted=num_counted,
            pipeline=context.input_pipeline_id,
            num_pipelines=num_pipelines,
        )

    return distribute(strategy, of_pipeline)

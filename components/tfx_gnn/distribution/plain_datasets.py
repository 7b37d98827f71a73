"""One dataset for all workers, sharded by TensorFlow.

`Strategy.experimental_distribute_dataset` takes a dataset of batches for one step of all replicas together. It
cuts each batch into pieces of its number of rows over that of replicas, rounded up, so the last replicas may get
few rows or none. Between the workers of MultiWorkerMirroredStrategy it divides by file or by data,
and it prefetches one batch for each replica of a worker. What it refuses only when the first
element is asked for, or on one of several machines, is refused here at once.

By file, batches at the end of a worker's files may be small, and how small depends on the order of
operations: with `batch` last, six records in batches of four for two workers make 2, 2, 2; with `map` behind
`batch` each batch is cut as it is, which makes 2, 2, 1, 1. Without sharding, pieces have the size of those of a full
batch, so a last batch of two over two replicas is 2 and 0, not 1 and 1; a single worker never sets this policy.

Merged graphs cannot be parted: for them there is `per_replica.distribute`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.dataset_checks import check_dataset, dataset_contents
from tfx_gnn.distribution.sharding import AUTO, DATA, FILE, OFF, Sharding, choose_sharding, num_input_pipelines

_POLICIES = {
    FILE: tf.data.experimental.AutoShardPolicy.FILE,
    DATA: tf.data.experimental.AutoShardPolicy.DATA,
    OFF: tf.data.experimental.AutoShardPolicy.OFF,
}


def choose_dataset_sharding(dataset: tf.data.Dataset, *, num_pipelines: int, asked: str = AUTO) -> Sharding:
    """Decides how TensorFlow shall divide a dataset among workers, and makes sure that it can.

    Args:
        dataset: any dataset.
        num_pipelines: as `num_input_pipelines` tells.
        asked: "auto": by file if the dataset reads a list of at least as many files, else by data; or "file",
            "data" or "off".

    Returns:
        The decision, with a message.

    Raises:
        ValueError: if `asked` is "file" and the dataset reads no files, or too few, or TensorFlow cannot
            divide the dataset at all.
    """
    contents = dataset_contents(dataset)
    if num_pipelines > 1 and not contents.is_known:
        raise ValueError(
            "`dataset` must be one that TensorFlow can shard, and so can be written down as a graph; got one that is "
            "none, as that of `pack_batches`. Use `per_replica.distribute`, with a function that shards the records."
        )
    if contents.num_files is not None:
        return choose_sharding(num_files=contents.num_files, num_pipelines=num_pipelines, asked=asked)
    if asked == FILE and not contents.reads_files:
        raise ValueError(
            "`sharding` must be 'data' or 'auto' for a dataset that reads no files; got 'file'. TensorFlow finds "
            "records, lines and bytes of fixed length, not what is in memory or comes from a generator."
        )
    # Files of an unknown number: each worker reading all of them is always right.
    decided = DATA if asked == AUTO else asked
    if num_pipelines == 1:
        return Sharding(policy=OFF, num_pipelines=1, message="No sharding: one input pipeline reads the dataset.")
    source = "files whose number is not known" if contents.reads_files else "no files"
    text = f"Sharding by {decided}: the dataset reads {source}; {num_pipelines} input pipelines."
    return Sharding(policy=decided, num_pipelines=num_pipelines, message=text)


def distribute_batches(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset, sharding: Sharding | None = None
) -> Any:
    """Lets TensorFlow part the batches of a dataset among replicas, and the dataset among workers.

    Args:
        strategy: any but ParameterServerStrategy.
        dataset: batches for one step of all replicas.
        sharding: the decision of `choose_dataset_sharding`; None to decide by the files.

    Returns:
        DistributedDataset: it can be iterated over, and has an `element_spec` that is good for
        `tf.function(input_signature=...)`; it is no tf.data.Dataset.

    Raises:
        ValueError: if the elements are no batches, the dataset is not made for several processes, or the
            strategy's workers are not in step.
    """
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise ValueError(
            "`strategy` must have workers in step to part batches among them; got ParameterServerStrategy. Use "
            "`per_replica.distribute`, with a function that makes the dataset of one worker."
        )
    _check_batched(dataset)
    check_dataset(dataset, strategy)
    sharding = sharding or choose_dataset_sharding(dataset, num_pipelines=num_input_pipelines(strategy))
    if sharding.num_pipelines == 1:
        return strategy.experimental_distribute_dataset(dataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = _POLICIES[sharding.policy]
    return strategy.experimental_distribute_dataset(dataset.with_options(options))


def _check_batched(dataset: tf.data.Dataset) -> None:
    for spec in tf.nest.flatten(dataset.element_spec):
        if spec.shape.rank == 0:
            raise ValueError(
                f"`dataset` must consist of batches, which are parted among replicas; got scalars, {spec}. Call "
                "`batch` with the batch size of a whole step, or, for graphs that are merged already, use "
                "`per_replica.distribute`."
            )

"""What one of two workers sees of a dataset, by the dataset's sharding policy and its source."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.distributed_datasets import distribute, distribute_batches

GLOBAL_BATCH = 4
HINT = tf.data.experimental.SHARD_HINT
_PLAIN = ("range", "generator", "1 file", "2 files", "3 files")
CASES = {
    "unset": (*_PLAIN, "range, shard hint"),
    "AUTO": ("range", "1 file", "2 files", "2 files, shard hint"),
    "FILE": (*_PLAIN, "2 files, shard hint"),
    "DATA": (*_PLAIN, "range, shuffled", "range, shard hint"),
    "OFF": (*_PLAIN, "range, sharded by hand", "range, shard hint"),
    "HINT": (*_PLAIN, "range, shard hint", "2 files, shard hint"),
}


def _numbers() -> Any:
    yield from range(12)


def sources(folder: Path, worker: int) -> dict[str, Callable[[], tf.data.Dataset]]:
    """Datasets of the numbers 0 to 11, not in batches: from memory, Python, and one, two or three record files."""

    def files(*names: str) -> Callable[[], tf.data.Dataset]:
        paths = [str(folder / name) for name in names]
        return lambda: tf.data.TFRecordDataset(paths).map(lambda text: tf.strings.to_number(text, tf.int64))

    generator = tf.TensorSpec([], tf.int64)
    return {
        "range": lambda: tf.data.Dataset.range(12),
        "generator": lambda: tf.data.Dataset.from_generator(_numbers, output_signature=generator),
        "1 file": files("all"),
        "2 files": files("first", "second"),
        "3 files": files("a", "b", "c"),
        "range, sharded by hand": lambda: tf.data.Dataset.range(12).shard(2, worker),
        "range, shard hint": lambda: tf.data.Dataset.range(12).shard(HINT, HINT),
        "range, shuffled": lambda: tf.data.Dataset.range(12).shuffle(12),
        "2 files, shard hint": lambda: files("first", "second")().shard(HINT, HINT),
    }


def with_policy(dataset: tf.data.Dataset, name: str) -> tf.data.Dataset:
    """Sets a policy; "unset" sets another option only."""
    options = tf.data.Options()
    options.deterministic = True
    if name != "unset":
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[name]
    return dataset.with_options(options)


def seen(
    strategy: tf.distribute.Strategy, distribute: Callable[[tf.data.Dataset], Any], dataset: tf.data.Dataset
) -> Any:
    """The batches of this worker's replica, or the name of the error."""
    try:
        batches = [strategy.experimental_local_results(batch)[0].numpy().tolist() for batch in distribute(dataset)]
    except (ValueError, tf.errors.OpError) as error:
        return type(error).__name__ + ": " + str(error)
    return batches


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname}: {record.getMessage()}")


def results(strategy: tf.distribute.Strategy, folder: Path, worker: int) -> dict[str, Any]:
    """Maps "policy / source" to what this worker sees, and "logged" to the messages of each."""
    logger, found, logged = logging.getLogger("tfx_gnn.distribution"), {}, {}
    level, messages = logger.level, _Messages()
    logger.setLevel(logging.INFO)
    logger.addHandler(messages)
    made = sources(folder, worker)
    for policy, names in CASES.items():
        for name in names:
            messages.texts = []
            dataset = with_policy(made[name]().batch(GLOBAL_BATCH), policy)
            found[f"{policy} / {name}"] = seen(strategy, lambda data: distribute_batches(strategy, data), dataset)
            logged[f"{policy} / {name}"] = messages.texts
    messages.texts = logged["function"] = []
    one_worker = with_policy(tf.data.Dataset.range(12).batch(GLOBAL_BATCH), "DATA")
    found["function"] = seen(strategy, lambda data: distribute(strategy, lambda _: data), one_worker)
    logger.setLevel(level)
    logger.removeHandler(messages)
    return found | {"logged": logged}

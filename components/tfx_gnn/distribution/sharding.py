"""Decides which part of the data each input pipeline reads.

Each worker process (on TPUs, each host) has one input pipeline, which feeds all its replicas. When sharding
by file, a pipeline opens only its own files; when sharding by data, each pipeline reads everything and keeps
every n-th record. TensorFlow detects too few files only during training; this module detects it before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import tensorflow as tf

from tfx_gnn.distribution.cluster import cluster_role
from tfx_gnn.distribution.options import AUTO, DATA, FILE, OFF, SHARDINGS
from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy, is_tpu_strategy
from tfx_gnn.io.suggestions import did_you_mean

_File = TypeVar("_File")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sharding:
    """How data is divided among input pipelines.

    Attributes:
        policy: "file": each pipeline reads its own files; "data": each reads all and keeps its own
            records; "off": each reads and keeps all; "hint", of datasets only: each reads its own part from where
            the dataset has placeholders.
        num_pipelines: number of input pipelines, at least 1.
        message: the decision and the reason for it, in one line for the user.
    """

    policy: str
    num_pipelines: int
    message: str


def num_input_pipelines(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of input pipelines that feed the replicas of a strategy.

    Args:
        strategy: any strategy.

    Returns:
        Number of workers under MultiWorkerMirroredStrategy, number of hosts under TPUStrategy, otherwise 1.
        It is also 1 under ParameterServerStrategy, which is asynchronous: TensorFlow gives all its workers
        the same input context.
    """
    if is_multi_worker_strategy(strategy):
        return cluster_role().num_workers
    if is_tpu_strategy(strategy):
        return int(strategy.extended.num_hosts)
    return 1


def choose_sharding(*, num_files: int, num_pipelines: int, asked: str = AUTO) -> Sharding:
    """Decides how files are divided among pipelines.

    Args:
        num_files: files of the split, at least 1.
        num_pipelines: result of `num_input_pipelines`, at least 1.
        asked: "auto" (by file if there are enough files, else by data), or the required policy.

    Returns:
        The decision, with a message.

    Raises:
        ValueError: if `asked` is unknown, or is "file" with fewer files than pipelines.

    Example:
        >>> choose_sharding(num_files=8, num_pipelines=2).policy
        'file'
        >>> choose_sharding(num_files=1, num_pipelines=2).message
        'Sharding by data: 1 file for 2 input pipelines; each reads it all and keeps every 2nd record.'
    """
    if asked not in SHARDINGS:
        advice = did_you_mean(asked, SHARDINGS, otherwise="'auto' decides by the files.")
        raise ValueError(f"`sharding` must be one of {list(SHARDINGS)}; got {asked!r}. {advice}")
    if num_files < 1 or num_pipelines < 1:
        raise ValueError(
            f"`num_files` and `num_pipelines` must be at least 1; got {num_files} and {num_pipelines}. Give files."
        )
    if asked == FILE and num_files < num_pipelines:
        raise ValueError(
            f"`sharding` must be 'data' or 'auto' for fewer files than input pipelines; got 'file' with {num_files} "
            f"files for {num_pipelines}. Or write the split in at least {num_pipelines} files, preferably several "
            "times more."
        )
    files = "1 file" if num_files == 1 else f"{num_files} files"
    if num_pipelines == 1:
        return Sharding(policy=OFF, num_pipelines=1, message=f"No sharding: one input pipeline reads {files}.")
    pipelines = f"{num_pipelines} input pipelines"
    if asked == OFF:
        text = f"No sharding, as asked: each of {pipelines} reads {files}, so examples count {num_pipelines} times."
        return Sharding(policy=OFF, num_pipelines=num_pipelines, message=text)
    if asked == FILE or (asked == AUTO and num_files >= num_pipelines):
        rest = num_files % num_pipelines
        uneven = f"; {rest} of them read one more than the others" if rest else ""
        text = f"Sharding by file: {files} for {pipelines}{uneven}."
        return Sharding(policy=FILE, num_pipelines=num_pipelines, message=text)
    text = (
        f"Sharding by data: {files} for {pipelines}; each reads {'it' if num_files == 1 else 'them'} all and keeps "
        f"every {_ordinal(num_pipelines)} record."
    )
    return Sharding(policy=DATA, num_pipelines=num_pipelines, message=text)


def shard_files(files: Sequence[_File], context: tf.distribute.InputContext, sharding: Sharding) -> list[_File]:
    """Selects the files of one pipeline; call it before files are shuffled and read.

    Args:
        files: all files, in the same order in each process.
        context: the input context that tf.distribute passes to the dataset function.
        sharding: the decision.

    Returns:
        Every n-th file under "file", and otherwise all.

    Raises:
        ValueError: if the decision was made for another number of pipelines.
    """
    check_pipelines(sharding, context.num_input_pipelines)
    if sharding.policy != FILE:
        return list(files)
    return list(files[context.input_pipeline_id :: context.num_input_pipelines])


def shard_records(dataset: tf.data.Dataset, context: tf.distribute.InputContext, sharding: Sharding) -> tf.data.Dataset:
    """Keeps the records of one pipeline; call it before records are shuffled and parsed.

    Args:
        dataset: records in the same order in each process, not in batches.
        context: the input context that tf.distribute passes to the dataset function.
        sharding: the decision.

    Returns:
        Every n-th record under "data", and otherwise all.

    Raises:
        ValueError: if the decision was made for another number of pipelines.
    """
    check_pipelines(sharding, context.num_input_pipelines)
    if sharding.policy != DATA:
        return dataset
    return dataset.shard(context.num_input_pipelines, context.input_pipeline_id)


def check_pipelines(sharding: Sharding, num_pipelines: int) -> None:
    """Refuses a decision that was made for another number of input pipelines."""
    if num_pipelines != sharding.num_pipelines:
        raise ValueError(
            f"`sharding` must be decided for the {num_pipelines} input pipelines of the strategy; got "
            f"num_pipelines={sharding.num_pipelines}. Take their number from `num_input_pipelines(strategy)`."
        )


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

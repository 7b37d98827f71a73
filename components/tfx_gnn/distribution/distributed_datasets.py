"""Distributes datasets among workers and replicas.

`distribute` makes one dataset per worker, by calling a function with the worker's input context. TensorFlow uses such
a dataset as it is, so the function must return batches for one replica, read only its own part of the data, and
prefetch. It is called once for each worker, on that worker's CPU.

`distribute_batches` takes one dataset for all workers, with batches for one step of all replicas together, and passes
it to `Strategy.experimental_distribute_dataset`. That splits the rows of each batch evenly among replicas, rounded up,
so the last replicas may get few rows or none. It shards among the workers of MultiWorkerMirroredStrategy, and
prefetches one batch for each replica of a worker. Merged graphs cannot be split; use `distribute` for them.

An `auto_shard_policy` of OFF, FILE, DATA or HINT in the dataset's options is kept. AUTO is also the policy of a dataset
without any, and the options of a dataset do not tell one from the other; for both, this module chooses.

When sharding by file, the batches at the end of a worker's files may be small, depending on the order of operations.
With `batch` last, six records in batches of four for two workers make batches of 2, 2, 2; with `map` after `batch`,
each batch is split as it is, which makes 2, 2, 1, 1. Without sharding, all batches are split like a full batch, so a
last batch of two over two replicas becomes 2 and 0, not 1 and 1; a single worker never sets this policy.

Some datasets fail in TensorFlow only when the first element is read, or only on one of several machines; this module
refuses them immediately. To check a dataset, it is serialized as a graph, as TensorFlow does to shard it. The graph is
large only if elements are held in memory. Some datasets cannot be serialized, among them the result of `pack_batches`
for serialized examples, which are stored in variants. TensorFlow cannot shard these either, and reports so.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from tfx_gnn.distribution.options import AUTO, DATA, FILE, HINT, OFF, SHARDINGS
from tfx_gnn.distribution.sharding import Sharding, check_pipelines, choose_sharding, num_input_pipelines
from tfx_gnn.distribution.strategy_predicates import (
    is_multi_worker_strategy,
    is_parameter_server_strategy,
    is_tpu_strategy,
)
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean

DatasetFunction = Callable[[tf.distribute.InputContext], tf.data.Dataset]

PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
"""Operations of TensorFlow that call back into Python, by their types in a graph."""

_READERS = frozenset(
    {
        "ArrayRecordDataset",
        "FixedLengthRecordDataset",
        "FixedLengthRecordDatasetV2",
        "TFRecordDataset",
        "TFRecordDatasetV2",
        "TextLineDataset",
    }
)
# Operations that draw from a generator local to the process; Stateless* operations take a seed as input instead.
_STATEFUL_RANDOM_OPS = frozenset(
    {
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "RngReadAndSkip",
        "RngSkip",
        "StatefulRandomBinomial",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulUniform",
        "StatefulUniformInt",
        "TruncatedNormal",
    }
)
_POLICIES = {
    AUTO: tf.data.experimental.AutoShardPolicy.AUTO,
    FILE: tf.data.experimental.AutoShardPolicy.FILE,
    DATA: tf.data.experimental.AutoShardPolicy.DATA,
    OFF: tf.data.experimental.AutoShardPolicy.OFF,
    HINT: tf.data.experimental.AutoShardPolicy.HINT,
}
_NAMES = {policy: name for name, policy in _POLICIES.items()}
# Where the two numbers are among the inputs: the number of shards and the index; the seeds.
_FIRST_NUMBER = {"ShardDataset": 1, "ShuffleDatasetV3": 2}
_LOG = logging.getLogger(__name__)


def per_replica_batch_size(global_batch_size: int, num_replicas: int) -> int:
    """Divides a global batch among replicas.

    Args:
        global_batch_size: examples of one step, on all replicas of all workers together; at least 1.
        num_replicas: `strategy.num_replicas_in_sync`.

    Returns:
        Examples of one replica.

    Raises:
        ValueError: if the batch cannot be divided evenly.

    Example:
        >>> per_replica_batch_size(6, 2)
        3
    """
    if global_batch_size < 1 or global_batch_size % num_replicas:
        lower = global_batch_size - global_batch_size % num_replicas
        nearest = " or ".join(str(size) for size in (lower, lower + num_replicas) if size > 0)
        raise ValueError(
            f"`batch_size` must be a multiple of the number of replicas; got {global_batch_size}, which is not "
            f"divisible by {num_replicas}. Take {nearest}."
        )
    return global_batch_size // num_replicas


def values_per_replica(strategy: tf.distribute.Strategy, value_fn: Callable[[int], Any]) -> Any:
    """Gives each replica a value of its own, for `strategy.run`.

    Args:
        strategy: any but ParameterServerStrategy.
        value_fn: takes the number of a replica among the replicas of all workers, from 0; returns a tensor
            or a nest of tensors. Each process calls it for its own replicas only.

    Returns:
        `tf.distribute.DistributedValues`.
    """
    return strategy.experimental_distribute_values_from_function(
        lambda context: value_fn(context.replica_id_in_sync_group)
    )


def distribute(strategy: tf.distribute.Strategy, dataset_fn: DatasetFunction) -> Any:
    """Makes distributed training input by calling a function once per worker.

    Datasets that cannot work, or would silently not work as expected, are refused here rather than at a later step.

    Args:
        strategy: any strategy.
        dataset_fn: takes a `tf.distribute.InputContext`, returns batches for one replica, sharded by
            `input_pipeline_id` and prefetched. Under ParameterServerStrategy it is traced and sent to the
            workers, which all get the same context and have no common end of data. Elements must then be
            plain tensors: see `flatten_elements`.

    Returns:
        DistributedDataset to iterate over; under ParameterServerStrategy a per-worker dataset, whose
        iterator is an argument of functions passed to `ClusterCoordinator.schedule`.

    Raises:
        ValueError: if the dataset depends on the state of random generators; is made by Python code
            under TPUStrategy, or outside of the function under ParameterServerStrategy; or consists of
            padded graphs and has an end, which several workers do not reach at the same step.
    """

    def checked_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        dataset = dataset_fn(context)
        check_dataset(dataset, strategy)
        if context.num_input_pipelines > 1 and is_multi_worker_strategy(strategy):
            _check_can_be_empty(dataset)
            policy = dataset_policy(dataset)
            if policy in (FILE, DATA, HINT):
                _LOG.warning(
                    "`auto_shard_policy` %s has no effect on what a function returns for one worker: the dataset is "
                    "used as it is. Shard it in the function, or use `distribute_batches`.",
                    policy.upper(),
                )
        return dataset

    if not is_parameter_server_strategy(strategy):
        return strategy.distribute_datasets_from_function(checked_fn)

    @tf.function(autograph=False)
    def per_worker_dataset_fn() -> Any:
        return strategy.distribute_datasets_from_function(dataset_fn)

    # A dataset cannot be inspected inside of a traced function, so check a second copy of it here.
    check_dataset(dataset_fn(tf.distribute.InputContext()), strategy)
    traced = per_worker_dataset_fn.get_concrete_function()
    if any(captured.dtype == tf.variant for captured in traced.captured_inputs):
        raise ValueError(
            "`dataset_fn` must make its dataset from the start under ParameterServerStrategy; got one that was made "
            "before and cannot be sent to a worker. Call `tf.data` inside the function."
        )
    return tf.distribute.coordinator.ClusterCoordinator(strategy).create_per_worker_dataset(traced)


def choose_dataset_sharding(dataset: tf.data.Dataset, *, num_pipelines: int, asked: str = AUTO) -> Sharding:
    """Decides how TensorFlow divides a dataset among workers; refuses a dataset that it cannot divide.

    Args:
        dataset: the dataset for all workers. If the `auto_shard_policy` of its options is OFF, FILE, DATA or HINT, that
            is the decision. AUTO decides nothing: TensorFlow does not tell it from a policy that was never set.
        num_pipelines: result of `num_input_pipelines`, at least 1.
        asked: "file", "data", "off" or "hint" for a dataset without a policy; "auto": by the placeholders of
            `Dataset.shard(SHARD_HINT, SHARD_HINT)` if there are any; else by file if the dataset reads a list of at
            least as many files as there are pipelines; else by data. So with fewer files each worker reads all of them
            and keeps its own batches, where TensorFlow's AUTO raises InvalidArgumentError.

    Returns:
        The decision, with a message. The policy is "off" for a single pipeline, whatever the dataset asks for.

    Raises:
        ValueError: if `asked` is unknown or contradicts the policy of the dataset; or if the dataset cannot be divided
            as required: by file with fewer files than pipelines or none, by placeholders without "hint", or, unless
            "off", if TensorFlow cannot serialize it.

    Example:
        >>> choose_dataset_sharding(tf.data.Dataset.range(6).batch(2), num_pipelines=2).policy
        'data'
        >>> options = tf.data.Options()
        >>> options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        >>> sharded_before = tf.data.Dataset.range(6).shard(2, 0).batch(2).with_options(options)
        >>> choose_dataset_sharding(sharded_before, num_pipelines=2).policy
        'off'
    """
    known = (*SHARDINGS, HINT)
    if asked not in known:
        advice = did_you_mean(asked, known, otherwise="'auto' decides by the files.")
        raise ValueError(f"`asked` must be one of {list(known)}; got {asked!r}. {advice}")
    policy = dataset_policy(dataset)
    return _sharding_of(dataset_contents(dataset), num_pipelines, asked=asked, policy=policy)


def distribute_batches(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset, sharding: Sharding | None = None
) -> Any:
    """Lets TensorFlow split batches among replicas, and shard the dataset among workers.

    The `auto_shard_policy` of the dataset's options is kept: FILE: each worker reads its own files; DATA: each reads
    everything and keeps its own part of every batch; OFF: each keeps everything it reads, so the dataset must have been
    sharded before, or every row counts once per worker; HINT: TensorFlow puts the worker into
    `Dataset.shard(SHARD_HINT, SHARD_HINT)`. If the policy is AUTO, or was never set, `choose_dataset_sharding` chooses,
    and the choice is logged.

    Args:
        strategy: any but ParameterServerStrategy.
        dataset: batches for one step of all replicas.
        sharding: the decision of `choose_dataset_sharding`; None to let it decide.

    Returns:
        DistributedDataset: it can be iterated over, and its `element_spec` can be used in
        `tf.function(input_signature=...)`; it is not a tf.data.Dataset.

    Raises:
        ValueError: if the elements are not batches, the dataset is not suitable for several processes, the strategy is
            asynchronous, or the dataset cannot be sharded as its policy or `sharding` requires.
    """
    if is_parameter_server_strategy(strategy):
        raise ValueError(
            "`strategy` must be synchronous to split batches among its workers; got ParameterServerStrategy. Use "
            "`tfx_gnn.distribution.distribute`, with a function that makes the dataset of one worker."
        )
    _check_batched(dataset)
    contents = check_dataset(dataset, strategy)
    policy, num_pipelines = dataset_policy(dataset), num_input_pipelines(strategy)
    if sharding is not None:
        check_pipelines(sharding, num_pipelines)
    if num_pipelines == 1:
        return strategy.experimental_distribute_dataset(dataset)
    asked = AUTO if sharding is None else sharding.policy
    decided = _sharding_of(contents, num_pipelines, asked=asked, policy=policy)
    if decided.policy == DATA and contents.shuffles_unseeded:
        _LOG.warning(
            "Each worker shuffles the dataset in another order before it is sharded by data, so some rows are used "
            "several times and others never. Give `shuffle` a seed, or shard by file."
        )
    if policy != AUTO:
        return strategy.experimental_distribute_dataset(dataset)
    if sharding is None:
        _LOG.info("%s The dataset's options have no other `auto_shard_policy` than AUTO.", decided.message)
    return strategy.experimental_distribute_dataset(with_policy(dataset, decided.policy))


def dataset_policy(dataset: tf.data.Dataset) -> str:
    """Returns the sharding policy in the options of a dataset: "auto" also if none was ever set."""
    return _NAMES[dataset.options().experimental_distribute.auto_shard_policy]


def with_policy(dataset: tf.data.Dataset, policy: str) -> tf.data.Dataset:
    """Sets the sharding policy in the options of a dataset; the other options stay."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = _POLICIES[policy]
    return dataset.with_options(options)


def _sharding_of(contents: DatasetContents, num_pipelines: int, *, asked: str, policy: str) -> Sharding:
    """Decides by what the caller asked for, the policy of the dataset, and its contents."""
    if AUTO not in (asked, policy) and asked != policy:
        raise ValueError(
            f"`asked` must be 'auto' or the policy of the dataset's options, {policy!r}; got {asked!r}. Change the "
            "`auto_shard_policy` of the options, or set none."
        )
    if num_pipelines > 1:
        asked = asked if policy == AUTO else policy
        _check_can_be_sharded(contents, asked)
    pipelines = f"{num_pipelines} input pipelines"
    if num_pipelines > 1 and (asked == HINT or contents.has_shard_hint):
        text = (
            f"Sharding by hint: {pipelines} read the shards at the placeholders of the dataset."
            if contents.has_shard_hint
            else f"No sharding: without `shard(SHARD_HINT, SHARD_HINT)`, each of {pipelines} reads the whole dataset."
        )
        return Sharding(policy=HINT, num_pipelines=num_pipelines, message=text)
    if contents.num_files is not None:
        asked = AUTO if asked == HINT else asked
        return choose_sharding(num_files=contents.num_files, num_pipelines=num_pipelines, asked=asked)
    if asked == FILE and not contents.reads_files:
        raise ValueError(
            "`sharding` must be 'data' or 'auto' for a dataset that reads no files; got 'file'. TensorFlow finds "
            "records, lines and bytes of fixed length, not what is in memory or comes from a generator."
        )
    if num_pipelines == 1:
        return Sharding(policy=OFF, num_pipelines=1, message="No sharding: one input pipeline reads the dataset.")
    # If the number of files is unknown, it is always correct that each worker reads all of them.
    decided = DATA if asked == AUTO else asked
    source = "files whose number is not known" if contents.reads_files else "no files"
    text = f"Sharding by {decided}: the dataset reads {source}; {pipelines}."
    if decided == OFF:
        text = f"No sharding, as asked: each of {pipelines} keeps all that it reads."
    return Sharding(policy=decided, num_pipelines=num_pipelines, message=text)


def _check_can_be_sharded(contents: DatasetContents, asked: str) -> None:
    """Refuses what TensorFlow would refuse for several workers, at the first element or with less to go on."""
    if not contents.is_known and asked != OFF:
        raise ValueError(
            "`dataset` must be one that TensorFlow can shard, and so can serialize as a graph; got one that it cannot, "
            "such as the result of `pack_batches`. Use `tfx_gnn.distribution.distribute`, with a function that shards "
            "the records."
        )
    if contents.has_shard_hint and asked not in (AUTO, HINT):
        raise ValueError(
            "`auto_shard_policy` must be HINT or AUTO for a dataset with `shard(SHARD_HINT, SHARD_HINT)`; got "
            f"{asked!r}. Set HINT, or shard by numbers."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetContents:
    """What a dataset is made of.

    Attributes:
        reads_files: whether it reads record, text or binary files, so that it can be sharded by file.
        num_files: number of files, if the dataset itself lists them; None if not, or if it reads none.
        random_ops: stateful random operations in its functions, such as "RandomUniform", sorted.
        python_ops: operations that call back into Python, such as those of `from_generator`, sorted.
        has_shard_hint: whether it has placeholders for a worker, `shard(SHARD_HINT, SHARD_HINT)`.
        shuffles_unseeded: whether it shuffles in an order that differs from process to process.
        is_known: whether the dataset could be inspected; if not, the other attributes mean nothing.
    """

    reads_files: bool
    num_files: int | None
    random_ops: tuple[str, ...]
    python_ops: tuple[str, ...]
    has_shard_hint: bool = False
    shuffles_unseeded: bool = False
    is_known: bool = True


def dataset_contents(dataset: tf.data.Dataset) -> DatasetContents:
    """Finds out what a dataset is made of, mapped functions included; call it outside of a tf.function."""
    variant = tf.data.experimental.to_variant(dataset)
    try:
        # 1 means IGNORE state, such as variables.
        serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1).numpy()
    except tf.errors.FailedPreconditionError:
        return DatasetContents(reads_files=False, num_files=None, random_ops=(), python_ops=(), is_known=False)
    graph = graph_pb2.GraphDef.FromString(serialized)
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    ops = {node.op for node in nodes}
    reads_files = not ops.isdisjoint(_READERS)
    return DatasetContents(
        reads_files=reads_files,
        num_files=_num_files(graph) if reads_files else None,
        random_ops=tuple(sorted(ops & _STATEFUL_RANDOM_OPS)),
        python_ops=tuple(sorted(ops & PYTHON_OPS)),
        has_shard_hint=any(_inputs_are(graph, "ShardDataset", tf.data.experimental.SHARD_HINT)),
        shuffles_unseeded=any(_inputs_are(graph, "ShuffleDatasetV3", 0)),
    )


def check_dataset(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> DatasetContents:
    """Refuses a dataset that tf.distribute accepts but does not treat as its author expects.

    Its functions must not draw random numbers from the state of a process, which tf.distribute neither shares between
    workers nor saves. Under TPUStrategy they must not call Python, because TPU hosts do not run the user's Python code.
    """
    contents = dataset_contents(dataset)
    if contents.random_ops:
        raise ValueError(
            "`dataset` must draw random numbers from seeds that are part of its elements; got the stateful operations "
            f"{list(contents.random_ops)}, which differ from worker to worker and from run to run. Use "
            "`tf.random.stateless_*` with a seed made from `Dataset.enumerate()`."
        )
    if contents.python_ops and is_tpu_strategy(strategy):
        raise ValueError(
            "`dataset` must not call Python under TPUStrategy, as `from_generator` and `py_function` do; got "
            f"{list(contents.python_ops)}. Write the examples to TFRecord files and read these."
        )
    return contents


def _check_can_be_empty(dataset: tf.data.Dataset) -> None:
    """Refuses finite datasets of static graphs: a worker without data cannot make an empty element for them."""
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        return
    for spec in tf.nest.flatten(dataset.element_spec):
        tensors = tf.nest.flatten(spec, expand_composites=True)
        if isinstance(spec, GraphTensorSpec) and all(tensor.shape.is_fully_defined() for tensor in tensors):
            raise ValueError(
                "`dataset` must have no end where several workers read padded graphs; got one that ends, or may end. "
                "Some workers would have no graph left to take part with: append padding with "
                "`tfx_gnn.distribution.endless`."
            )


def _check_batched(dataset: tf.data.Dataset) -> None:
    for spec in tf.nest.flatten(dataset.element_spec):
        if spec.shape.rank == 0:
            raise ValueError(
                f"`dataset` must consist of batches, which are split among replicas; got scalars, {spec}. Call "
                "`batch` with the batch size of a whole step, or, for graphs that are merged already, use "
                "`tfx_gnn.distribution.distribute`."
            )


def _num_files(graph: graph_pb2.GraphDef) -> int | None:
    """Counts the paths in the list of files of a dataset; None if there is not exactly one list."""
    constants = {node.name: node for node in graph.node if node.op == "Const"}
    counts = [
        _num_strings(constants[source])
        for node in graph.node
        if node.op in _READERS or node.op == "TensorSliceDataset"
        for source in node.input[:1]
        if source in constants and constants[source].attr["dtype"].type == tf.string.as_datatype_enum
    ]
    return counts[0] if len(counts) == 1 else None


def _inputs_are(graph: graph_pb2.GraphDef, op: str, value: int) -> Iterator[bool]:
    """Tells of each operation of a type whether the two numbers that say how to do it are constants of this value.

    Only of the dataset itself: TensorFlow does not replace placeholders in its functions either.
    """
    constants = {node.name: node for node in graph.node if node.op == "Const"}
    first = _FIRST_NUMBER[op]
    for node in graph.node:
        if node.op == op:
            inputs = [constants.get(name) for name in node.input[first : first + 2]]
            yield all(
                found is not None and int(tf.make_ndarray(found.attr["value"].tensor)) == value for found in inputs
            )


def _num_strings(constant: node_def_pb2.NodeDef) -> int:
    return int(tf.TensorShape(constant.attr["value"].tensor.tensor_shape).num_elements())

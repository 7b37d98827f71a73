"""Checks a dataset for what tf.distribute does not support.

A dataset is looked into as TensorFlow does it when it shards one: as a graph. Only elements that are
held in memory make that graph large. Some datasets have no such graph, among them that of
`pack_batches` for serialized examples, which it puts in variants: TensorFlow cannot shard these either, and says so.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from tfx_gnn.distribution.strategies import is_tpu_strategy

_READERS = frozenset({"TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset", "FixedLengthRecordDatasetV2"})
_PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
# Operations that draw from a generator which each process has for itself; the Stateless* ones are told their seed.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetContents:
    """What a dataset is made of.

    Attributes:
        reads_files: whether it reads record, text or binary files, so that it can be sharded by file.
        num_files: how many, if they are listed in the dataset itself; None if not, or if it reads none.
        random_ops: stateful random operations in its functions, such as "RandomUniform", sorted.
        python_ops: operations that call back into Python, such as those of `from_generator`, sorted.
        is_known: whether it could be looked into; if not, nothing else here says anything.
    """

    reads_files: bool
    num_files: int | None
    random_ops: tuple[str, ...]
    python_ops: tuple[str, ...]
    is_known: bool = True


def dataset_contents(dataset: tf.data.Dataset) -> DatasetContents:
    """Looks into a dataset.

    Args:
        dataset: any dataset, outside of a tf.function.

    Returns:
        What it is made of, in all functions that it maps.
    """
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
        python_ops=tuple(sorted(ops & _PYTHON_OPS)),
    )


def check_dataset(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> DatasetContents:
    """Refuses a dataset that tf.distribute takes, but does not treat as its author expects.

    Args:
        dataset: what a strategy shall distribute.
        strategy: that strategy.

    Returns:
        What the dataset is made of.

    Raises:
        ValueError: if its functions draw random numbers from the state of a process, which tf.distribute
            neither shares between workers nor keeps, or it calls Python under TPUStrategy, whose hosts
            run no Python of the user.
    """
    contents = dataset_contents(dataset)
    if contents.random_ops:
        raise ValueError(
            "`dataset` must draw random numbers from seeds that are part of its elements; got the stateful operations "
            f"{list(contents.random_ops)}, which differ from worker to worker and from run to run. Use "
            "`tf.random.stateless_*` with a seed made of `Dataset.enumerate()`."
        )
    if contents.python_ops and is_tpu_strategy(strategy):
        raise ValueError(
            "`dataset` must not call Python under TPUStrategy, as `from_generator` and `py_function` do; got "
            f"{list(contents.python_ops)}. Write the examples to TFRecord files and read these."
        )
    return contents


def _num_files(graph: graph_pb2.GraphDef) -> int | None:
    """Counts the paths that a list of files in the dataset has."""
    constants = {node.name: node for node in graph.node if node.op == "Const"}
    counts = [
        _num_strings(constants[source])
        for node in graph.node
        if node.op in _READERS or node.op == "TensorSliceDataset"
        for source in node.input[:1]
        if source in constants and constants[source].attr["dtype"].type == tf.string.as_datatype_enum
    ]
    return counts[0] if len(counts) == 1 else None


def _num_strings(constant: node_def_pb2.NodeDef) -> int:
    return int(tf.TensorShape(constant.attr["value"].tensor.tensor_shape).num_elements())

"""Makes tf.distribute strategies from options."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfx_gnn.distribution.cluster import CHIEF, TF_CONFIG, cluster_role
from tfx_gnn.distribution.options import (
    DEFAULT,
    MIRRORED,
    MULTI_WORKER_MIRRORED,
    ONE_DEVICE,
    PARAMETER_SERVER,
    STRATEGIES,
    STRATEGIES_OF_ONE_PROCESS,
    TPU,
    StrategyOptions,
)
from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy, is_parameter_server_strategy

MIN_PARTITION_ELEMENTS = 128 * 1024
"""Minimum number of elements in each part of a table that is divided among parameter servers."""


def make_strategy(options: StrategyOptions) -> tf.distribute.Strategy:
    """Makes a strategy.

    Call it before any TensorFlow operation runs: strategies for several machines, and TPUs, are set up when
    TensorFlow starts.

    Args:
        options: kind and settings of the strategy.

    Returns:
        The strategy. For "multi_worker_mirrored", calls with the same `TF_CONFIG` return the same strategy. For
        "parameter_server", this process must be the chief; workers and parameter servers call `serve` instead.

    Raises:
        ValueError: if a device, `TF_CONFIG`, or a task in it is missing, `TF_CONFIG` names processes that the
            strategy would not use, or TensorFlow has already started.
    """
    if options.kind in STRATEGIES_OF_ONE_PROCESS:
        _check_alone(options.kind)
    if options.kind == ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy(_known_devices(options.devices or (_first_device(),))[0])
    if options.kind == MIRRORED:
        return tf.distribute.MirroredStrategy(_known_devices(options.devices) if options.devices else None)
    if options.kind == MULTI_WORKER_MIRRORED:
        return _multi_worker_mirrored()
    if options.kind == PARAMETER_SERVER:
        return _parameter_server(options.num_parameter_partitions)
    if options.kind == TPU:
        return _tpu(options.tpu)
    if options.kind == DEFAULT:
        return tf.distribute.get_strategy()
    raise NotImplementedError(
        f"`make_strategy` must make each of {list(STRATEGIES)}; got {options.kind!r}. Add a branch for it."
    )


@dataclasses.dataclass(frozen=True)
class LargeTablePartitioner:
    """Divides large variables among parameter servers by rows; small variables stay whole.

    Attributes:
        max_partitions: maximum number of parts of one variable.

    Example:
        >>> LargeTablePartitioner(2)(tf.TensorShape([1024, 256]), tf.float32)
        [2, 1]
        >>> LargeTablePartitioner(2)(tf.TensorShape([1023, 256]), tf.float32)
        [1, 1]
    """

    max_partitions: int

    def __call__(self, shape: tf.TensorShape, dtype: tf.DType, axis: int = 0) -> list[int]:
        """Returns the number of parts along each dimension: 1 for all dimensions except `axis`."""
        num_partitions = [1] * len(shape)
        if len(shape):
            most = int(shape.num_elements()) // MIN_PARTITION_ELEMENTS
            num_partitions[axis] = max(1, min(self.max_partitions, shape[axis], most))
        return num_partitions


def _first_device() -> str:
    return "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


def _known_devices(names: Sequence[str]) -> list[str]:
    """Checks that devices exist; an unknown device would otherwise fail at the first variable."""
    there = [device.name for device in tf.config.list_logical_devices()]
    short = [name.removeprefix("/device:") for name in there]
    unknown = [name for name in names if name.removeprefix("/").removeprefix("device:").upper() not in short]
    if unknown or len(set(names)) < len(names):
        raise ValueError(
            f"`devices` must name devices of this machine, each once; got {list(names)}, of which {unknown} are not "
            f"among {short}. Name some of these."
        )
    return list(names)


def _check_alone(kind: str) -> None:
    """Refuses several unconnected processes: each would train on its own, and only one would write outputs."""
    role = cluster_role()
    scope = tf.distribute.get_strategy()
    if not (role.is_alone or is_multi_worker_strategy(scope) or is_parameter_server_strategy(scope)):
        sizes = {name: len(tasks) for name, tasks in role.cluster.items()}
        raise ValueError(
            f"`{TF_CONFIG}` must not name other processes for strategy {kind!r}, which trains in one; got {sizes}. "
            f"Choose {MULTI_WORKER_MIRRORED!r} or {PARAMETER_SERVER!r}, or unset it."
        )


def _multi_worker_mirrored() -> tf.distribute.Strategy:
    role = cluster_role()
    if role.num_ps:
        raise ValueError(
            f"`{TF_CONFIG}` must have no tasks of type 'ps' for strategy {MULTI_WORKER_MIRRORED!r}; got {role.num_ps}. "
            f"Leave them out, or choose {PARAMETER_SERVER!r}."
        )
    with _before_tensorflow_starts(MULTI_WORKER_MIRRORED):
        tf_config = os.environ.get(TF_CONFIG)
        return _multi_worker_strategy(tf_config) if tf_config else tf.distribute.MultiWorkerMirroredStrategy()


@functools.cache
def _multi_worker_strategy(_tf_config: str) -> tf.distribute.Strategy:
    # One strategy per cluster: another one would reset the collectives of this process, and lose data that a faster
    # worker has already sent ("Delete called on non-empty BufRendezvous").
    return tf.distribute.MultiWorkerMirroredStrategy()


def _parameter_server(num_partitions: int) -> tf.distribute.Strategy:
    role = cluster_role()
    if not role.num_ps:
        raise ValueError(
            f"`{TF_CONFIG}` must have a chief, workers and tasks of type 'ps' for strategy {PARAMETER_SERVER!r}; got "
            f"{ {name: len(tasks) for name, tasks in role.cluster.items()} or 'none' }. Set it in each process; on one "
            f"machine {MIRRORED!r} needs none."
        )
    if role.task_type != CHIEF:
        raise ValueError(
            f"`{TF_CONFIG}` must name the chief where a strategy is made; got task {role.task_type!r} {role.task_id}. "
            "Call `tfx_gnn.distribution.serve(cluster_role())` in this process instead."
        )
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    partitioner = LargeTablePartitioner(num_partitions or role.num_ps)
    with _before_tensorflow_starts(PARAMETER_SERVER):
        return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


def _tpu(name: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name or None)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(
            f"`tpu` must name a TPU that this process reaches, with a TensorFlow that was built for TPUs; got "
            f"{name!r}: {reason}. Run this on a TPU VM with tpu='local', or give the TPU's name; `tfx-gnn check-tpu` "
            "needs no TPU."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


@contextlib.contextmanager
def _before_tensorflow_starts(kind: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ValueError(
            f"`strategy` {kind!r} must be made before TensorFlow runs its first operation; got: {error} Make it first."
        ) from error

"""The role of this process in a cluster, from the environment variable `TF_CONFIG`, and collective operations.

In parameter server training, processes serve the coordinator. Synchronous workers call collective operations: sums,
"any" and barriers over all replicas.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy

TF_CONFIG = "TF_CONFIG"
CHIEF, WORKER, PS = "chief", "worker", "ps"
_TASK_TYPES = (CHIEF, WORKER, PS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterRole:
    """The role of one process in training that may run on several machines.

    Attributes:
        task_type: "chief", "worker" or "ps".
        task_id: position among the tasks of this type, from 0.
        num_workers: number of processes that compute training steps. This includes the chief, unless
            there are parameter servers: then the chief coordinates the workers and computes no steps.
        num_ps: number of parameter servers, which hold variables for the other processes; 0 if each
            worker has its own copies.
        is_chief: whether this is the one process that writes checkpoints and other outputs.
        cluster: task types to the addresses ("host:port") of their tasks; empty for a single process.
    """

    task_type: str = CHIEF
    task_id: int = 0
    num_workers: int = 1
    num_ps: int = 0
    is_chief: bool = True
    cluster: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Whether no other process takes part."""
        return self.num_workers + self.num_ps == 1

    @property
    def serves(self) -> bool:
        """Whether this process only executes requests of a coordinator; it must call `serve`."""
        return self.num_ps > 0 and self.task_type != CHIEF


def cluster_role(environ: Mapping[str, str] = os.environ) -> ClusterRole:
    """Reads the role of this process.

    Args:
        environ: environment variables. `TF_CONFIG` is JSON such as
            `{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}`. If it
            is missing, empty or without a cluster, the process is alone and is the chief.

    Returns:
        The role. If the cluster has no chief, worker 0 is the chief.

    Raises:
        ValueError: if `TF_CONFIG` is not such JSON, names task types other than "chief", "worker" and "ps",
            or names a task that is not in its cluster.

    Example:
        >>> role = cluster_role({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, '
        ...                                   '"task": {"type": "worker", "index": 1}}'})
        >>> role.num_workers, role.is_chief
        (2, False)
    """
    config = _parsed(environ.get(TF_CONFIG, ""))
    cluster = {task_type: tuple(addresses) for task_type, addresses in config.get("cluster", {}).items()}
    if not cluster:
        return ClusterRole()
    unknown = sorted(cluster.keys() - set(_TASK_TYPES))
    if unknown:
        raise ValueError(
            f"`{TF_CONFIG}` must have tasks of the types {list(_TASK_TYPES)} only; got {unknown}. Leave these out of "
            "its cluster: evaluation is part of the training loop."
        )
    task = config.get("task", {})
    task_type, task_id = task.get("type"), task.get("index")
    if not isinstance(task_id, int) and str(task_id).isdecimal():
        # TensorFlow also accepts a number written as text.
        task_id = int(task_id)
    if not isinstance(task_id, int) or not 0 <= task_id < len(cluster.get(task_type, ())):
        sizes = {name: len(addresses) for name, addresses in cluster.items()}
        raise ValueError(
            f"`{TF_CONFIG}` must name a task of its cluster; got type={task_type!r}, index={task_id!r} for numbers of "
            f"tasks {sizes}. Give each process its own `task`."
        )
    num_chiefs, num_workers, num_ps = (len(cluster.get(name, ())) for name in _TASK_TYPES)
    if num_chiefs > 1:
        raise ValueError(f"`{TF_CONFIG}` must have one chief; got {num_chiefs}. Make the others workers.")
    if num_ps and not (num_chiefs and num_workers):
        raise ValueError(
            f"`{TF_CONFIG}` must have a chief, the coordinator, and a worker if it has parameter servers; got "
            f"{num_chiefs} chiefs and {num_workers} workers for {num_ps} of type 'ps'. Add them, or leave 'ps' out."
        )
    return ClusterRole(
        task_type=task_type,
        task_id=task_id,
        num_workers=num_workers if num_ps else num_chiefs + num_workers,
        num_ps=num_ps,
        is_chief=task_type == CHIEF or (not num_chiefs and task_type == WORKER and task_id == 0),
        cluster=cluster,
    )


def serve(role: ClusterRole) -> None:
    """Serves the coordinator in parameter server training; never returns and runs until killed."""
    if not role.serves:
        raise ValueError(
            "`role` must be that of a worker or a parameter server that a coordinator uses; got "
            f"task_type={role.task_type!r}, num_ps={role.num_ps}. Only these processes serve; others train."
        )
    # A call to a lost machine must fail instead of waiting, so that the coordinator continues with the others.
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    config = tf.compat.v1.ConfigProto()
    if role.task_type == WORKER and (os.cpu_count() or 1) < role.num_workers + 1:
        # Several functions of a worker may wait for variables at once; with fewer threads they block each other.
        config.inter_op_parallelism_threads = role.num_workers + 1
    server = tf.distribute.Server(
        tf.train.ClusterSpec({name: list(addresses) for name, addresses in role.cluster.items()}),
        job_name=role.task_type,
        task_index=role.task_id,
        protocol="grpc",
        config=config,
        start=True,
    )
    server.join()


def sum_over_replicas(strategy: tf.distribute.Strategy) -> Callable[[float], float]:
    """Makes a function that sums a number over all replicas; each replica contributes its worker's number.

    All workers must call the function together.
    """

    # Nothing here needs AutoGraph.
    @tf.function(autograph=False)
    def total(value: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(value,)), axis=None)

    return lambda value: float(total(tf.constant(value, tf.float32)))


def is_true_on_any_worker(strategy: tf.distribute.Strategy, *, is_true_here: bool) -> bool:
    """Returns on all synchronous workers whether `is_true_here` is True on any; all must call it together.

    Under a single-process strategy it returns `is_true_here`.
    """
    if not is_multi_worker_strategy(strategy):
        return is_true_here
    return sum_over_replicas(strategy)(float(is_true_here)) > 0.0


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until all synchronous workers have called it; under a single-process strategy it does not wait.

    Raises `tf.errors.OpError` if another worker has exited.
    """
    if is_multi_worker_strategy(strategy):
        sum_over_replicas(strategy)(0.0)


def barrier_before_exit(strategy: tf.distribute.Strategy) -> None:
    """Waits until every worker of a synchronous strategy has received the last collective result.

    Call it before a process exits successfully. Workers fetch sums from each other: a worker that exits too early can
    make a peer fail although all work is done. After its restart, the peer would wait for a cluster that has exited.
    """
    # Peers may already have exited; nothing more is exchanged.
    with contextlib.suppress(tf.errors.OpError):
        barrier(strategy)


def _parsed(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(
            f"`{TF_CONFIG}` must be JSON with 'cluster' and 'task'; got {text!r}. Fix it, or unset it to train alone."
        ) from error
    if not isinstance(config, dict) or not all(isinstance(config.get(name, {}), dict) for name in ("cluster", "task")):
        raise ValueError(
            f"`{TF_CONFIG}` must be a JSON object with the objects 'cluster' and 'task'; got {text!r}. Fix it, or "
            "unset it to train alone."
        )
    for task_type, addresses in config.get("cluster", {}).items():
        if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
            raise ValueError(
                f"`{TF_CONFIG}` must have a list of addresses, 'host:port', for each type of task; got {addresses!r} "
                f"for {task_type!r}. Write a list, also for a single task."
            )
    return config

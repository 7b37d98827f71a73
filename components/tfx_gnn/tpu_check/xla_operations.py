"""Which operations XLA can compile for a TPU, by data type.

TensorFlow's packages have no compiler for TPUs. They have XLA's for CPUs, which registers the same
kernels but for one filter, and a TPU lacks some of its data types. This is the one file that reads
TensorFlow's table of kernels, a private module; its form is the same in TensorFlow 2.16 and 2.21.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.python.framework import kernels

from tfx_gnn.io.quiet_libraries import hidden_stderr

_DEVICE = "XLA_CPU_JIT"

REFUSED_DTYPES = (tf.float64, tf.complex128, tf.string)
"""Data types that operations on a TPU may not make. 64-bit integers are slow, and fine."""

_KEEP_STRINGS = frozenset({"Const", "Assert"})
"""Operations that the compiler for TPUs lets have strings: it drops assertions, messages and all."""


def has_kernel(op: tf.Operation) -> bool:
    """Tells whether XLA can compile an operation of this type, with its data types.

    Args:
        op: operation of a graph; one that stands for an argument of a function counts as compilable.
    """
    if op.type == "Placeholder":
        return True
    return any(_allows(constraints, op) for constraints in _kernels().get(op.type, ()))


def is_known(op_type: str) -> bool:
    """Tells whether XLA can compile operations of this type, with some data types."""
    return op_type in _kernels()


def refused_dtype(op: tf.Operation) -> tf.DType | None:
    """Finds the data type of an operation's results that TPUs do not have.

    Args:
        op: operation of a graph.

    Returns:
        The first refused data type; None if there is none.
    """
    for output in op.outputs:
        if output.dtype in REFUSED_DTYPES and not (output.dtype == tf.string and op.type in _KEEP_STRINGS):
            return output.dtype
    return None


def _allows(constraints: Mapping[str, frozenset[int]], op: tf.Operation) -> bool:
    for name, allowed in constraints.items():
        value = op.get_attr(name)
        dtypes = value if isinstance(value, list) else [value]
        if any(dtype.as_datatype_enum not in allowed for dtype in dtypes):
            return False
    return True


@functools.lru_cache(maxsize=1)
def _kernels() -> dict[str, list[dict[str, frozenset[int]]]]:
    """Allowed data types by attribute, of each kernel of each type of operation."""
    with hidden_stderr(show_on_error=False), tf.device("CPU"):
        # XLA registers its kernels when it compiles for the first time, and says so natively.
        tf.function(lambda: tf.zeros([]), jit_compile=True, autograph=False)()
    table: dict[str, list[dict[str, frozenset[int]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == _DEVICE:
            allowed = {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
            table.setdefault(kernel.op, []).append(allowed)
    return table

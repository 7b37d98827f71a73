"""What XLA compiles for a TPU: the supported operations by data type, and the HLO of a traced step.

TensorFlow's packages do not include the compiler for TPUs. They include XLA for CPUs, which registers the same
kernels except for one filter; in addition, a TPU lacks some of its data types. This is the only file that reads
TensorFlow's table of kernels, a private module; its format is the same in TensorFlow 2.16 and 2.21.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels

from tfx_gnn.io.quiet_libraries import hidden_stderr

_DEVICE = "XLA_CPU_JIT"

REFUSED_DTYPES = (tf.float64, tf.complex128, tf.string)
"""Data types that operations on a TPU must not produce. 64-bit integers are slow, but allowed."""

_KEEP_STRINGS = frozenset({"Const", "Assert"})
"""Operations for which the TPU compiler accepts strings: it drops assertions together with their messages."""

_METADATA = re.compile(r'metadata=\{op_type="([^"]*)" op_name="([^"]*)"')
_BOUNDED = re.compile(r"\[([^\]]*<=[^\]]*)\]")
_NEEDS_CONSTANT = re.compile(r"Input (\d+) to node `([^`]+)` with op (\w+) must be a compile-time constant")
_LOOP = re.compile(r"loop body do not match: \((.*?)\) vs\. \((.*?)\)")
_SHAPE = re.compile(r"\w+\[[^\]]*\]")
_NODES = re.compile(r"(?:\{\{(?:function_)?node |\[\[)([^\s\]{}]+)")


def has_kernel(op: tf.Operation) -> bool:
    """Tells whether XLA can compile an operation with its type and data types.

    Placeholders, which represent function arguments, count as compilable.
    """
    if op.type == "Placeholder":
        return True
    return any(_allows(constraints, op) for constraints in _kernels().get(op.type, ()))


def is_known(op_type: str) -> bool:
    """Tells whether XLA can compile operations of this type, at least with some data types."""
    return op_type in _kernels()


def refused_dtype(op: tf.Operation) -> tf.DType | None:
    """Finds the first data type among an operation's results that TPUs lack."""
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
    """Allowed data types by attribute, for each kernel of each operation type."""
    with hidden_stderr(show_on_error=False), tf.device("CPU"):
        # XLA registers its kernels when it first compiles, and logs this natively.
        tf.function(lambda: tf.zeros([]), jit_compile=True, autograph=False)()
    table: dict[str, list[dict[str, frozenset[int]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == _DEVICE:
            allowed = {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
            table.setdefault(kernel.op, []).append(allowed)
    return table


class LoweringError(Exception):
    """XLA could not lower a step."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        constant = _NEEDS_CONSTANT.search(message)
        self.input_index: int | None = int(constant[1]) if constant else None
        """Input of the named operation that must be known at compile time; None if that is not the problem."""
        self.op_names: tuple[str, ...] = (constant[2],) if constant else tuple(_NODES.findall(message))
        """Names of the operation at which XLA stopped, and of those that call it; some may be internal to XLA."""
        self.is_unbounded_loop: bool = "requires a fixed tensor list size" in message
        """Whether a list keeps a value of each iteration of a loop whose number of iterations is unbounded."""
        self.change: str = _changed_shape(message)
        """How a shape changes in an iteration, such as "f32[6,4] -> f32[12,4]"; "" if that is not the problem."""

    @property
    def summary(self) -> str:
        """The first line of XLA's message."""
        text = str(self).removeprefix("Failed getting HLO text: ").strip("'\" ")
        return text.partition("\n")[0].strip()


@dataclasses.dataclass(frozen=True)
class BoundedResult:
    """A value for whose size XLA knows only an upper bound.

    Attributes:
        op_type: type of the operation that produces it.
        op_name: name of that operation.
        shape: dimensions as XLA writes them, such as "<=24, 2".
    """

    op_type: str
    op_name: str
    shape: str


def _changed_shape(message: str) -> str:
    loop = _LOOP.search(message)
    if loop is None:
        return ""
    before, after = (_SHAPE.findall(part) for part in loop.groups())
    return next((f"{old} -> {new}" for old, new in zip(before, after, strict=False) if old != new), "")


def lower(function: Any, specs: Sequence[tf.TensorSpec]) -> str:
    """Lowers a function to unoptimized HLO text, from the specs of its arguments alone.

    Values are withheld on purpose: XLA would read shapes from them that hold for no other batch. Variables
    that the function uses must be on the CPU.
    """
    generate = function.experimental_get_compiler_ir(*specs)
    # The device is named: otherwise TensorFlow finds it by drawing a random number, which advances the generator.
    device = tf.config.list_logical_devices("CPU")[0].name
    with warnings.catch_warnings(), hidden_stderr(show_on_error=False):
        warnings.filterwarnings("ignore", message="device_name is being deprecated")
        try:
            text: str = generate(stage="hlo", device_name=device)
        except (ValueError, tf.errors.OpError) as error:
            raise LoweringError(str(error)) from error
    return text


def bounded_results(hlo: str) -> Iterator[BoundedResult]:
    """Yields the first value of each operation whose size is not known at compile time, in the order of the HLO."""
    seen = set()
    for line in hlo.splitlines():
        if "<=" not in line:
            continue
        metadata = _METADATA.search(line)
        result = _BOUNDED.search(line.partition(" = ")[2].partition("(")[0])
        if metadata and result and metadata[2] not in seen:
            seen.add(metadata[2])
            yield BoundedResult(metadata[1], metadata[2], result[1].replace(",", ", "))

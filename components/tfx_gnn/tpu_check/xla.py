"""What XLA compiles for a TPU: its operations by data type, and the HLO that it lowers a traced step to.

TensorFlow's packages have no compiler for TPUs. They have XLA's for CPUs, which registers the same
kernels but for one filter, and a TPU lacks some of its data types. This is the one file that reads
TensorFlow's table of kernels, a private module; its form is the same in TensorFlow 2.16 and 2.21.
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
"""Data types that operations on a TPU may not make. 64-bit integers are slow, and fine."""

_KEEP_STRINGS = frozenset({"Const", "Assert"})
"""Operations that the compiler for TPUs lets have strings: it drops assertions, messages and all."""

_METADATA = re.compile(r'metadata=\{op_type="([^"]*)" op_name="([^"]*)"')
_BOUNDED = re.compile(r"\[([^\]]*<=[^\]]*)\]")
_NEEDS_CONSTANT = re.compile(r"Input (\d+) to node `([^`]+)` with op (\w+) must be a compile-time constant")
_LOOP = re.compile(r"loop body do not match: \((.*?)\) vs\. \((.*?)\)")
_SHAPE = re.compile(r"\w+\[[^\]]*\]")
_NODES = re.compile(r"(?:\{\{(?:function_)?node |\[\[)([^\s\]{}]+)")


def has_kernel(op: tf.Operation) -> bool:
    """Tells whether XLA can compile an operation of this type, with its data types.

    One that stands for an argument of a function counts as compilable.
    """
    if op.type == "Placeholder":
        return True
    return any(_allows(constraints, op) for constraints in _kernels().get(op.type, ()))


def is_known(op_type: str) -> bool:
    """Tells whether XLA can compile operations of this type, with some data types."""
    return op_type in _kernels()


def refused_dtype(op: tf.Operation) -> tf.DType | None:
    """Finds the first data type of an operation's results that TPUs do not have."""
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


class LoweringError(Exception):
    """XLA could not lower a step."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        constant = _NEEDS_CONSTANT.search(message)
        self.input_index: int | None = int(constant[1]) if constant else None
        """Input that must be known at compile time, of the operation named; None if that is not what is wrong."""
        self.op_names: tuple[str, ...] = (constant[2],) if constant else tuple(_NODES.findall(message))
        """Names of the operation that XLA stopped at, and of those that call it; some may be XLA's own."""
        self.is_unbounded_loop: bool = "requires a fixed tensor list size" in message
        """Whether a list keeps something of each round of a loop whose number of rounds has no bound."""
        self.change: str = _changed_shape(message)
        """What becomes of which shape in a round of a loop, such as "f32[6,4] -> f32[12,4]"; "" if that is not it."""

    @property
    def summary(self) -> str:
        """The first line of what XLA said."""
        text = str(self).removeprefix("Failed getting HLO text: ").strip("'\" ")
        return text.partition("\n")[0].strip()


@dataclasses.dataclass(frozen=True)
class BoundedResult:
    """A value of which XLA knows only how large it is at most.

    Attributes:
        op_type: type of the operation that makes it.
        op_name: its name.
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
    """Lowers a function to HLO as text, not optimized, from the specs of its arguments alone.

    Values are left out with intent: XLA would take shapes from them that no other batch has. Variables
    that the function uses must be on the CPU.
    """
    generate = function.experimental_get_compiler_ir(*specs)
    # Named: without a name TensorFlow finds the device by drawing a random number, which moves the generator on.
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

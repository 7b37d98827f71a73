"""Lowers a traced step to XLA's HLO, as a TPU's compiler does first."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.io.quiet_libraries import hidden_stderr

_METADATA = re.compile(r'metadata=\{op_type="([^"]*)" op_name="([^"]*)"')
_BOUNDED = re.compile(r"\[([^\]]*<=[^\]]*)\]")
_NEEDS_CONSTANT = re.compile(r"Input (\d+) to node `([^`]+)` with op (\w+) must be a compile-time constant")
_LOOP = re.compile(r"loop body do not match: \((.*?)\) vs\. \((.*?)\)")
_SHAPE = re.compile(r"\w+\[[^\]]*\]")
_NODES = re.compile(r"(?:\{\{(?:function_)?node |\[\[)([^\s\]{}]+)")


class LoweringError(Exception):
    """XLA could not lower a step.

    Args:
        message: what XLA said.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        constant = _NEEDS_CONSTANT.search(message)
        self.input_index: int | None = int(constant[1]) if constant else None
        """Input that must be known at compile time, of the operation named; None if that is not what is wrong."""
        self.op_names: tuple[str, ...] = (constant[2],) if constant else tuple(_NODES.findall(message))
        """Names of the operation that XLA stopped at, and of those that call it; some may be XLA's own."""
        self.is_unbounded_loop: bool = "requires a fixed tensor list size" in message
        """Whether it is a list of the rounds of a loop of which nobody says how many there are."""
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
    """Lowers a function to HLO, from the specs of its arguments alone.

    Values are left out with intent: XLA would take shapes from them that no other batch has. Variables
    that the function uses must be on the CPU.

    Args:
        function: tf.function with `jit_compile=True` that takes flat tensors.
        specs: static specs of its arguments.

    Returns:
        The HLO as text, not optimized.

    Raises:
        LoweringError: if XLA cannot.
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
    """Finds the values whose size is not known at compile time, the first of each operation.

    Args:
        hlo: text that `lower` returned.

    Yields:
        What operations of TensorFlow make them, in the order of the text.
    """
    seen = set()
    for line in hlo.splitlines():
        if "<=" not in line:
            continue
        metadata = _METADATA.search(line)
        result = _BOUNDED.search(line.partition(" = ")[2].partition("(")[0])
        if metadata and result and metadata[2] not in seen:
            seen.add(metadata[2])
            yield BoundedResult(metadata[1], metadata[2], result[1].replace(",", ", "))

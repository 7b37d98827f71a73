"""State of Python objects, kept in a checkpoint beside the variables of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

State = dict[str, Any]
"""Names to arrays, or to what JSON can say; arrays keep their dtype, bfloat16 included."""


class ResumableState(Protocol):
    """An object that a training cannot go on without: the best weights so far, figures of earlier epochs."""

    def state(self) -> State:
        """Returns what `restore` needs, a copy of it."""
        ...

    def restore(self, state: State) -> None:
        """Takes up where `state` was called.

        Args:
            state: what `state` returned, in this process or another one.
        """
        ...


class PackedStates(tf.train.experimental.PythonState):
    """Saves the states of named objects as one string of a `tf.train.Checkpoint`.

    Args:
        states: names to objects; a checkpoint is restored into objects of the same names.
    """

    def __init__(self, states: Mapping[str, ResumableState]) -> None:
        self._states = dict(states)

    def serialize(self) -> bytes:
        """Returns the states as bytes, for TensorFlow."""
        return pack_state({name: owner.state() for name, owner in self._states.items()})

    def deserialize(self, string_value: bytes) -> None:
        """Restores the states, for TensorFlow.

        Args:
            string_value: what `serialize` returned.

        Raises:
            ValueError: if the objects have other names.
        """
        found = unpack_state(string_value)
        if found.keys() != self._states.keys():
            raise ValueError(
                f"`states` must be {sorted(found)}, as in the checkpoint; got {sorted(self._states)}. Go on with the "
                "options that the checkpoint was made with."
            )
        for name, owner in self._states.items():
            owner.restore(found[name])


def pack_state(state: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Writes states as a line of JSON, followed by the bytes of all arrays.

    Args:
        state: names to states.

    Returns:
        The bytes.

    Raises:
        TypeError: if a state holds what is neither an array of numbers nor JSON.
    """
    blocks: list[bytes] = []

    def described(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return {"json": value}
        if value.dtype.hasobject:
            raise TypeError(f"`state` must hold arrays of numbers; got dtype={value.dtype}. Keep texts as lists.")
        blocks.append(value.tobytes())
        return {"dtype": tf.as_dtype(value.dtype).name, "shape": list(value.shape)}

    header = {owner: {name: described(value) for name, value in content.items()} for owner, content in state.items()}
    return b"".join([json.dumps(header).encode(), b"\n", *blocks])


def unpack_state(packed: bytes) -> dict[str, State]:
    """Reads what `pack_state` wrote.

    Args:
        packed: the bytes.

    Returns:
        Names to states.
    """
    line, _, content = packed.partition(b"\n")
    place = 0

    def read(description: Mapping[str, Any]) -> Any:
        nonlocal place
        if "json" in description:
            return description["json"]
        dtype = tf.as_dtype(description["dtype"]).as_numpy_dtype
        count = int(np.prod(description["shape"], dtype=np.int64))
        array: npt.NDArray[Any] = np.frombuffer(content, dtype, count, offset=place).reshape(description["shape"])
        place += array.nbytes
        return array.copy()

    header = json.loads(line)
    return {
        owner: {name: read(description) for name, description in values.items()} for owner, values in header.items()
    }

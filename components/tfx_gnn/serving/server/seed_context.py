"""What a request says of a seed beside its id, because no row of the graph does, such as as of when it asks.

    {"id": "u1", "context": {"time": 1769904000}}
    {"id": "u1", "context": {"time": "2026-02-01T00:00:00Z"}}

A time in seconds may be left out where the plan names it: it is then the time of the request.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import pyarrow as pa

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving.server.graph_json import bytes_of
from tfx_gnn.serving.server.refusals import malformed, shown

CONTEXT_PART = "context"
"""Key of a seed's context in a request."""

Value = Union[int, float, str]
_LARGEST_FLOAT = 3.4028234663852886e38


class SeedContext:
    """Reads the context of seeds from requests to one model."""

    def __init__(self, types: Mapping[str, pa.DataType], now: str, *, clock: Callable[[], float] = time.time) -> None:
        """Starts with the types of the values: int64, float32 or large_string.

        `now` is the one that is seconds since 1970, of which `clock` tells the present; empty if there is none.
        """
        self._types, self._now, self._clock = dict(types), now, clock

    def read(self, given: Any, place: str) -> dict[str, Value]:
        """Reads the values of one seed.

        Args:
            given: what the request has as the context; {} if it has none.
            place: where it is in the request, for messages.

        Returns:
            A value of each name.

        Raises:
            Refusal: if a value is missing, unknown or of another type.
        """
        if not isinstance(given, Mapping):
            raise malformed(f'`{place}` must be an object; got {shown(given)}. Write {{"time": ...}} or so.')
        for name in given:
            if name not in self._types:
                raise malformed(
                    f"`{place}` must have keys among {sorted(self._types)}, which the model reads beside the graph; "
                    f"got {shown(name)}. {did_you_mean(str(name), self._types)}"
                )
        found: dict[str, Value] = {}
        for name, dtype in self._types.items():
            if name in given:
                found[name] = self._value(given[name], name, dtype, f"{place}.{name}")
            elif name == self._now:
                found[name] = int(self._clock())
            else:
                raise malformed(
                    f"`{place}.{name}` must be given, because the model reads it and the graph lacks it; got a context "
                    f'with {sorted(given)}. Write {{"id": ..., "{CONTEXT_PART}": {{"{name}": ...}}}}.'
                )
        return found

    def columns(self, contexts: Sequence[Mapping[str, Value]]) -> dict[str, pa.Array]:
        """Returns the values of several seeds, in their order, by name."""
        return {name: pa.array([one[name] for one in contexts], dtype) for name, dtype in self._types.items()}

    def any_values(self) -> dict[str, Value]:
        """Returns values with which a model must answer, whatever its answer is."""
        values: dict[str, Value] = {
            name: "" if pa.types.is_large_string(dtype) else 0 for name, dtype in self._types.items()
        }
        return values | ({self._now: int(self._clock())} if self._now else {})

    def _value(self, value: Any, name: str, dtype: pa.DataType, place: str) -> Value:
        if pa.types.is_large_string(dtype):
            return _text(value, place)
        if name == self._now and isinstance(value, str):
            return _seconds(value, place)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if pa.types.is_integer(dtype):
            if not is_number or not isinstance(value, int) or not -(2**63) <= value < 2**63:
                raise malformed(
                    f"`{place}` must be an integer of 64 bits{' or a time in ISO 8601' if name == self._now else ''}; "
                    f"got {shown(value)}. Write it so."
                )
            return value
        if not is_number or not math.isfinite(value) or abs(value) > _LARGEST_FLOAT:
            raise malformed(f"`{place}` must be a number of 32 bits; got {shown(value)}. Write a finite one.")
        return float(value)


def _text(value: Any, place: str) -> str:
    try:
        return bytes_of(value, place).decode()
    except UnicodeDecodeError as error:
        raise malformed(f"`{place}` must be text in UTF-8; got {shown(value)}. Encode it so.") from error


def _seconds(text: str, place: str) -> int:
    """Reads a time; without a zone it is UTC, as in tables."""
    try:
        found = dt.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return math.floor((found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)).timestamp())
    except (ValueError, OverflowError) as error:
        raise malformed(
            f"`{place}` must be seconds since 1970 or a time in ISO 8601, such as 2026-02-01T00:00:00Z; got "
            f"{shown(text)}. Write it so."
        ) from error

"""The values that a hyperparameter may take."""

from __future__ import annotations

import abc
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from tfx_gnn.io.option_kinds import register_kinds


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchRange(abc.ABC):
    """The values that one hyperparameter may take. In JSON, it is an object whose `kind` names its class."""

    @abc.abstractmethod
    def grid(self) -> Sequence[Any]:
        """Lists all values.

        Returns:
            The values, in order.

        Raises:
            ValueError: if there are too many to list.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatRange(SearchRange):
    """Floats between two inclusive bounds.

    Attributes:
        low: smallest value, finite.
        high: largest value, above `low`.
        log: whether to sample on a logarithmic scale, as for learning rates; `low` must then be above 0.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"`high` must be a finite number above `low`; got low={self.low}, high={self.high}. Name a fixed value "
                "among the trainer's `hyperparameters`."
            )
        _check_log(self.low, log=self.log, least=0.0, rule="above 0")

    def grid(self) -> Sequence[float]:
        """Raises ValueError: a range of floats cannot be listed."""
        raise ValueError(
            f"`search_space` must hold only Choice and IntRange for sampler 'grid'; got {self}. List the values in a "
            "Choice."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class IntRange(SearchRange):
    """Integers between two inclusive bounds.

    Attributes:
        low: smallest value.
        high: largest value, above `low`.
        step: distance between values, at least 1; must be 1 if `log`.
        log: whether to sample on a logarithmic scale; `low` must then be at least 1.
    """

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(
                f"`high` must be above `low`; got low={self.low}, high={self.high}. Name a fixed value among the "
                "trainer's `hyperparameters`."
            )
        if self.step < 1 or (self.high - self.low) % self.step or (self.log and self.step > 1):
            raise ValueError(
                f"`step` must divide high - low, and be 1 on a logarithmic scale; got step={self.step}, "
                f"low={self.low}, high={self.high}, log={self.log}. Choose another step or bound."
            )
        _check_log(self.low, log=self.log, least=1, rule="at least 1")

    def grid(self) -> Sequence[int]:
        """Lists all values, in ascending order, as a range; raises ValueError for more values than a range counts."""
        if (self.high - self.low) // self.step >= sys.maxsize:
            raise ValueError(
                f"`search_space` must hold at most {sys.maxsize} integers per name for sampler 'grid'; got {self}. "
                "Narrow the bounds, or choose another sampler."
            )
        return range(self.low, self.high + 1, self.step)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice(SearchRange):
    """One of several unordered values.

    Attributes:
        values: at least two distinct values that JSON can hold: strings, finite numbers, booleans, null, lists or
            objects.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_is_json(self.values, name="values")
        if len(set(self.texts)) < max(2, len(self.values)):
            raise ValueError(
                f"`values` must be two or more different values; got {self.values}. Name a fixed value among the "
                "trainer's `hyperparameters`."
            )

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as JSON, which distinguishes 1 from 1.0 and from true."""
        return tuple(json.dumps(value, sort_keys=True) for value in self.values)

    def grid(self) -> Sequence[Any]:
        """Lists all values."""
        return self.values


def check_is_json(values: object, *, name: str) -> None:
    """Refuses hyperparameters that JSON cannot hold, such as NaN."""
    try:
        json.dumps(values, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be what JSON can hold, without NaN and infinity; got {values}. Write other values as "
            "strings, which `model_fn` converts."
        ) from error


SEARCH_RANGES: dict[str, type[SearchRange]] = {"float": FloatRange, "int": IntRange, "choice": Choice}
"""Range classes by their `kind` in JSON."""

register_kinds(SearchRange, SEARCH_RANGES)


def _check_log(low: float, *, log: bool, least: float, rule: str) -> None:
    if log and (low < least or low == 0):
        raise ValueError(f"`low` must be {rule} on a logarithmic scale; got {low}. Choose another bound, or log=False.")

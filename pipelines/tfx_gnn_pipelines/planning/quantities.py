"""Quantities of a plan: a value with a range and an origin, and how they are extrapolated from a sample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

Origin = Literal["counted", "measured", "extrapolated"]

NOISE = 0.15
"""Share by which the seconds of the same work differ between runs."""
MEMORY_NOISE = 16 * 2**20
"""Bytes by which the peak memory of the same work differs between runs."""

_CERTAINTY: tuple[Origin, ...] = ("counted", "measured", "extrapolated")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number with a range.

    Attributes:
        value: the best estimate.
        low: lower end of the range; at most `value`.
        high: upper end of the range; at least `value`.
        origin: "counted" in the tables, "measured" on this machine, or "extrapolated" from a sample.
    """

    value: float
    low: float
    high: float
    origin: Origin

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise ValueError(
                f"`value` must lie in its range, from 0 on; got {self.value} in [{self.low}, {self.high}]. Give the "
                "ends in order."
            )

    def __add__(self, other: Quantity) -> Quantity:
        """Adds both values and both ends; the sum is as uncertain as the less certain of the two."""
        return Quantity(
            value=self.value + other.value,
            low=self.low + other.low,
            high=self.high + other.high,
            origin=_CERTAINTY[max(map(_CERTAINTY.index, (self.origin, other.origin)))],
        )

    def times(self, factor: float) -> Quantity:
        """Multiplies value and range by a number that is at least 0."""
        return Quantity(value=self.value * factor, low=self.low * factor, high=self.high * factor, origin=self.origin)


def exactly(value: float, origin: Origin = "counted") -> Quantity:
    """Returns a quantity whose range is its value."""
    return Quantity(value=value, low=value, high=value, origin=origin)


def with_noise(value: float, origin: Origin) -> Quantity:
    """Returns seconds that differ by `NOISE` between runs."""
    return Quantity(value=value, low=value * (1 - NOISE), high=value * (1 + NOISE), origin=origin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """What a number of examples cost.

    Attributes:
        num_examples: the number.
        cost: seconds or bytes.
    """

    num_examples: int
    cost: float


def extrapolate_seconds(first: Point, later: Sequence[Point], num_examples: int) -> Quantity:
    """Extrapolates the seconds of a step.

    The first measurement has all that happens once, such as imports and tracing. The later ones do not: with two sizes
    among them, their difference is the cost of an example, up to `NOISE` of the larger one. With fewer, an example
    costs between nothing and its share of the whole measurement.
    """
    if num_examples <= first.num_examples:
        return with_noise(first.cost, "measured")
    value, low, high = _seconds_per_example(first, later)
    more = num_examples - first.num_examples
    return Quantity(
        value=first.cost + value * more,
        low=first.cost * (1 - NOISE) + low * more,
        high=first.cost * (1 + NOISE) + high * more,
        origin="extrapolated",
    )


def _seconds_per_example(first: Point, later: Sequence[Point]) -> tuple[float, float, float]:
    large = max([first, *later], key=lambda point: point.num_examples)
    small = min(later, key=lambda point: point.num_examples, default=large)
    most = large.cost / max(large.num_examples, 1)
    more = large.num_examples - small.num_examples
    if not more:
        return most / 2, 0.0, most
    slope = max(large.cost - small.cost, 0.0) / more
    doubt = NOISE * large.cost / more
    high = max(min(slope + doubt, most), slope)
    return slope, max(slope - doubt, 0.0), high


def extrapolate_bytes(points: Sequence[Point], num_examples: int) -> Quantity:
    """Extrapolates bytes on disk from one or two numbers of examples.

    Vocabularies and the like grow more slowly than the examples, so the upper end of the range is a line through the
    points; with one point, through 0.
    """
    small, large = min(points, key=_num_examples), max(points, key=_num_examples)
    if num_examples <= small.num_examples:
        return exactly(small.cost, "measured")
    more = num_examples - large.num_examples
    if small.num_examples == large.num_examples:
        return _grown(large.cost, large.cost / max(large.num_examples, 1) * more)
    slope = max(large.cost - small.cost, 0.0) / (large.num_examples - small.num_examples)
    return _grown(large.cost, slope * max(more, 0))


def _num_examples(point: Point) -> int:
    return point.num_examples


def _grown(start: float, growth: float) -> Quantity:
    return Quantity(value=start + growth, low=start + growth * (1 - NOISE), high=start + growth, origin="extrapolated")


def extrapolate_memory(peak: float, growths: Sequence[Point], num_examples: int) -> Quantity:
    """Extrapolates the peak memory of a step.

    Args:
        peak: bytes of the process at the first measurement.
        growths: by number of examples, how many bytes the process grew at later measurements.
        num_examples: examples of the step.

    Returns:
        The peak. A difference between two sizes that is below `MEMORY_NOISE` counts in the upper end only.
    """
    small = min(growths, key=_num_examples, default=None)
    large = max(growths, key=_num_examples, default=None)
    if small is None or large is None or small.num_examples == large.num_examples:
        return exactly(peak, "measured")
    difference = max(large.cost - small.cost, 0.0)
    slope = difference / (large.num_examples - small.num_examples)
    growth = slope * max(num_examples - small.num_examples, 0)
    value = peak + (growth if difference > MEMORY_NOISE else 0.0)
    return Quantity(value=value, low=peak, high=peak + growth, origin="extrapolated")


def total(quantities: Sequence[Quantity]) -> Quantity:
    """Adds quantities; 0 if there are none."""
    result = exactly(0.0)
    for quantity in quantities:
        result += quantity
    return result


def largest(quantities: Sequence[Quantity]) -> Quantity:
    """Returns the largest value with the largest ends, of at least one quantity."""
    chosen = max(quantities, key=lambda quantity: quantity.value)
    low = min(max(quantity.low for quantity in quantities), chosen.value)
    return dataclasses.replace(chosen, low=low, high=max(quantity.high for quantity in quantities))

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

_EXAMPLES_OF_START = 5000
"""Examples that take a step as long as its imports and tracing, by a comparison of samples with runs."""
_MOST_GROWTH = 2.0
"""By what factor memory may grow where nothing was measured: most of it is libraries and the model."""

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
    costs between nothing and its share of the whole measurement, most likely what `_EXAMPLES_OF_START` implies.
    """
    more = num_examples - first.num_examples
    if not more:
        return with_noise(first.cost, "measured")
    if len({point.num_examples for point in later}) < 2:
        # Later measurements lack what happens once, so they are closer to what an example costs.
        large = max(later or [first], key=_num_examples)
        scaled = max(first.cost + large.cost / max(large.num_examples, 1) * more, 0.0)
        return Quantity(
            value=first.cost + large.cost / (_EXAMPLES_OF_START + large.num_examples) * more,
            low=min(first.cost, scaled) * (1 - NOISE),
            high=max(first.cost, scaled) * (1 + NOISE),
            origin="extrapolated",
        )
    value, low, high = _seconds_per_example(later)
    return Quantity(
        value=first.cost + value * more,
        low=first.cost * (1 - NOISE) + low * more,
        high=first.cost * (1 + NOISE) + high * more,
        origin="extrapolated",
    )


def _seconds_per_example(points: Sequence[Point]) -> tuple[float, float, float]:
    small, large = min(points, key=_num_examples), max(points, key=_num_examples)
    most = large.cost / max(large.num_examples, 1)
    more = large.num_examples - small.num_examples
    slope = max(large.cost - small.cost, 0.0) / more
    doubt = NOISE * large.cost / more
    high = max(min(slope + doubt, most), slope)
    return slope, max(slope - doubt, 0.0), high


def extrapolate_bytes(points: Sequence[Point], num_examples: int) -> Quantity:
    """Extrapolates bytes on disk from one or two numbers of examples.

    Vocabularies and the like grow more slowly than the examples, so the upper end of the range is a line through the
    points; with one point, through 0. Then bytes may as well not grow at all, as those of schemas do not.
    """
    small, large = min(points, key=_num_examples), max(points, key=_num_examples)
    if num_examples == small.num_examples:
        return exactly(small.cost, "measured")
    if small.num_examples == large.num_examples:
        return _between(large.cost, large.cost * num_examples / max(large.num_examples, 1))
    more = num_examples - large.num_examples
    slope = max(large.cost - small.cost, 0.0) / (large.num_examples - small.num_examples)
    growth = slope * max(more, 0)
    return Quantity(
        value=large.cost + growth,
        low=large.cost + growth * (1 - NOISE),
        high=large.cost + growth,
        origin="extrapolated",
    )


def _between(one: float, other: float) -> Quantity:
    """Estimates what lies between two ends: their geometric mean is wrong by the same factor, whichever is true."""
    return Quantity(value=math.sqrt(one * other), low=min(one, other), high=max(one, other), origin="extrapolated")


def _num_examples(point: Point) -> int:
    return point.num_examples


def extrapolate_memory(first: Point, growths: Sequence[Point], num_examples: int) -> Quantity:
    """Extrapolates the peak memory of a step.

    Args:
        first: bytes of the process at the first measurement.
        growths: by number of examples, how many bytes the process grew at later measurements.
        num_examples: examples of the step.

    Returns:
        The peak. A difference between two sizes that is below `MEMORY_NOISE` counts in the upper end only. With one
        size, that end grows with the examples, up to `_MOST_GROWTH`.
    """
    peak = first.cost
    small = min(growths, key=_num_examples, default=None)
    large = max(growths, key=_num_examples, default=None)
    if num_examples <= first.num_examples:
        return exactly(peak, "measured")
    if small is None or large is None or small.num_examples == large.num_examples:
        growth = min(num_examples / max(first.num_examples, 1), _MOST_GROWTH)
        return Quantity(value=peak, low=peak, high=peak * growth, origin="extrapolated")
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

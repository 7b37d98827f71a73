"""How much better a model is than the baseline on the same examples, with an interval by bootstrap.

The Poisson bootstrap gives each example a weight in each of many replicas of the data. A weight follows from a hash of
the example and the number of the replica only, so the sums of a replica merge by addition, and the interval depends
neither on the order of examples nor on the number of workers. Copies of an example have equal weights: they are no
further evidence. Otherwise examples count as independent of each other.

Few examples make percentiles of replicas too narrow. They are taken further out, as for Student's t distribution: the
expanded percentile interval of Hesterberg, arXiv:1411.5279, section 5.3. A replica without examples shows no
difference.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.uint64]

_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
_LARGEST_WEIGHT = 17
"""A Poisson variable of mean 1 is larger less than once in 10**16 draws."""
_NORMAL_FROM = 200
"""Degrees of freedom from which Student's t distribution is taken for the normal one."""
_LEGENDRE: tuple[_Floats, _Floats] = np.polynomial.legendre.leggauss(64)  # type: ignore[no-untyped-call]
_SEED = 0x6772_6170_68


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedTerms:
    """What each example adds to the model's metric, and to the baseline's.

    Both metrics are quotients of sums over examples: of hits or squared errors, by a count.

    Attributes:
        hashes: uint64 array, shape [n], a hash of each example.
        terms: float64 array, shape [n, 3, num_targets]: counts, the model's terms and the baseline's.
    """

    hashes: Hashes
    terms: _Floats


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplicaSums:
    """Sums of `PairedTerms` in each replica.

    Attributes:
        num_examples: examples that count.
        sums: float64 array, shape [num_replicas, 3, num_targets].
    """

    num_examples: int
    sums: _Floats

    @classmethod
    def of(cls, paired: PairedTerms, num_replicas: int) -> ReplicaSums:
        """Weights examples and sums them up; those of count 0 have no influence."""
        counts = paired.terms[:, 0].any(axis=1)
        terms = paired.terms[counts]
        weights = poisson_weights(paired.hashes[counts], num_replicas)
        return cls(num_examples=len(terms), sums=np.tensordot(weights, terms, axes=(0, 0)))

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ReplicaSums:
        """Restores what `to_json` wrote."""
        num_examples, sums = plain
        return cls(num_examples=num_examples, sums=np.asarray(sums, np.float64))

    def to_json(self) -> list[Any]:
        """Converts the sums to lists of numbers."""
        return [self.num_examples, self.sums.tolist()]

    def merged_with(self, other: ReplicaSums) -> ReplicaSums:
        """Adds the sums of other examples."""
        return ReplicaSums(num_examples=self.num_examples + other.num_examples, sums=self.sums + other.sums)

    def gains(self, *, is_error: bool) -> _Floats:
        """Computes how much better the model is than the baseline in each replica, float64 [num_replicas].

        `is_error` is for root mean squares of errors, which are better when smaller. The result is a mean over the
        targets that occur in a replica, and 0 if there is none.
        """
        counts, model, baseline = (self.sums[:, row] for row in range(3))
        occurs = counts > 0.0
        divisors = np.where(occurs, counts, 1.0)
        means = [of_one / divisors for of_one in (model, baseline)]
        better = np.sqrt(means[1]) - np.sqrt(means[0]) if is_error else means[0] - means[1]
        gains: _Floats = np.where(occurs, better, 0.0).sum(axis=1) / np.maximum(occurs.sum(axis=1), 1)
        return gains


def hash_examples(records: Sequence[bytes]) -> Hashes:
    """Hashes serialized examples, or other bytes, to 64 bits each."""
    digests = b"".join(hashlib.blake2b(record, digest_size=8).digest() for record in records)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def poisson_weights(hashes: Hashes, num_replicas: int, *, first: int = 0) -> _Floats:
    """Draws the weights of examples in replicas from `first` on, Poisson variables of mean 1.

    Returns:
        Array of dtype float64 and shape [n, num_replicas].
    """
    replicas = np.arange(first + 1, first + num_replicas + 1, dtype=np.uint64) * _GOLDEN_RATIO
    mixed = _mixed(_mixed(hashes)[:, np.newaxis] + replicas)
    uniform = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    cumulative = np.cumsum([math.exp(-1.0) / math.factorial(weight) for weight in range(_LARGEST_WEIGHT)])
    return np.searchsorted(cumulative, uniform, side="right").astype(np.float64)


def replicas_of_counts(counts: npt.NDArray[np.int64], num_replicas: int) -> Iterator[npt.NDArray[np.int64]]:
    """Draws how often each of several kinds of examples occurs in each replica, int64 [num_kinds].

    The weights of n examples that are alike sum up to a Poisson variable of mean n.
    """
    generator = np.random.default_rng(_SEED)
    for _ in range(num_replicas):
        yield generator.poisson(counts)


def interval_of(gains: _Floats, num_examples: int, confidence: float) -> tuple[float, float] | None:
    """Returns the interval of a difference from its values in all replicas; None for less than two examples."""
    if num_examples < 2:
        return None
    quantile = math.sqrt(num_examples / (num_examples - 1)) * student_quantile(num_examples - 1, confidence)
    tail = statistics.NormalDist().cdf(-quantile)
    lower, upper = np.quantile(gains, [tail, 1.0 - tail])
    return float(lower), float(upper)


def bootstrap_p_value(gains: _Floats, num_examples: int) -> float:
    """Returns the two-sided p value of a difference: 1 minus the confidence at which `interval_of` begins to hold 0.

    With n replicas it is at least what 1 / (n + 1) of them beyond 0 give; 1 for less than two examples.
    """
    if num_examples < 2:
        return 1.0
    num_beyond = min(int(np.sum(gains <= 0.0)), int(np.sum(gains >= 0.0)))
    tail = (num_beyond + 1) / (len(gains) + 1)
    if tail >= 0.5:
        return 1.0
    quantile = -statistics.NormalDist().inv_cdf(tail) * math.sqrt((num_examples - 1) / num_examples)
    return 1.0 - student_confidence(num_examples - 1, quantile)


@functools.cache
def student_quantile(degrees_of_freedom: int, confidence: float) -> float:
    """Returns the t within whose distance of 0 Student's distribution has `confidence` of its mass."""
    if degrees_of_freedom >= _NORMAL_FROM:
        return statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)
    whole = _student_mass(degrees_of_freedom, math.pi / 2.0)
    low, high = 0.0, math.pi / 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        is_within = _student_mass(degrees_of_freedom, middle) < confidence * whole
        low, high = (middle, high) if is_within else (low, middle)
    return math.sqrt(degrees_of_freedom) * math.tan(low)


def student_confidence(degrees_of_freedom: int, quantile: float) -> float:
    """Returns the mass that Student's distribution has within a distance of 0, which is at least 0."""
    if degrees_of_freedom >= _NORMAL_FROM:
        return math.erf(quantile / math.sqrt(2.0))
    angle = math.atan(quantile / math.sqrt(degrees_of_freedom))
    return _student_mass(degrees_of_freedom, angle) / _student_mass(degrees_of_freedom, math.pi / 2.0)


def _student_mass(degrees_of_freedom: int, angle: float) -> float:
    """Integrates Student's density, but for a constant, from t = 0 on; t = sqrt(df) * tan(angle)."""
    points, weights = _LEGENDRE
    angles = angle * (points + 1.0) / 2.0
    return float(np.sum(weights * np.cos(angles) ** (degrees_of_freedom - 1)) * angle / 2.0)


def _mixed(values: Hashes) -> Hashes:
    """Scrambles 64 bits by the output function of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

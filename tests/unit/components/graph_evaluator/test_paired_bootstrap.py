from __future__ import annotations

import math

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator.paired_bootstrap import (
    PairedTerms,
    ReplicaSums,
    hash_examples,
    interval_of,
    poisson_weights,
    student_quantile,
)

TWENTY = "abcdefghijklmnopqrst"


def _paired(differences: list[float], names: str) -> PairedTerms:
    terms = np.zeros([len(differences), 3, 1])
    terms[:, 0, 0], terms[:, 1, 0] = 1.0, differences
    return PairedTerms(hashes=hash_examples([name.encode() for name in names]), terms=terms)


def _interval(paired: PairedTerms) -> tuple[float, float]:
    found = interval_of(ReplicaSums.of(paired, 1000).gains(is_error=False), len(paired.terms), 0.95)
    assert found is not None
    return found


def test_weights_are_poisson_variables_of_mean_one() -> None:
    weights = poisson_weights(np.arange(500, dtype=np.uint64), 1000)

    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)
    assert [np.mean(weights == k) for k in (0, 1, 2)] == pytest.approx(
        [math.exp(-1.0), math.exp(-1.0), math.exp(-1.0) / 2.0], abs=0.005
    )


def test_weights_never_change() -> None:
    """Else an evaluation that is repeated with a newer version might bless another model."""
    weights = poisson_weights(hash_examples([b"a", b"b"]), 12)

    assert weights.astype(int).tolist() == [[3, 0, 1, 1, 0, 2, 1, 2, 1, 1, 2, 2], [4, 2, 0, 1, 0, 1, 1, 0, 2, 1, 1, 0]]


def test_sums_merge_in_any_order() -> None:
    parts = [_paired([1.0, 0.0, -1.0], "abc"), _paired([1.0, 1.0], "de"), _paired([0.0], "f")]
    whole = ReplicaSums.of(_paired([1.0, 0.0, -1.0, 1.0, 1.0, 0.0], "abcdef"), 200)

    first, second, third = (ReplicaSums.of(part, 200) for part in parts)
    merged = third.merged_with(first).merged_with(ReplicaSums.from_json(second.to_json()))

    np.testing.assert_array_equal(merged.sums, whole.sums)
    assert merged.num_examples == whole.num_examples == 6


def test_gain_in_root_mean_square_error_is_a_mean_over_targets_that_occur() -> None:
    # By target: counts 2, 0 and 1; squared errors 2 and 9 of the model, 8 and 4 of the baseline.
    sums = np.array([[[2.0, 0.0, 1.0], [2.0, 0.0, 9.0], [8.0, 0.0, 4.0]], np.zeros([3, 3])])

    gains = ReplicaSums(num_examples=3, sums=sums).gains(is_error=True)

    assert gains.tolist() == [((2.0 - 1.0) + (2.0 - 3.0)) / 2.0, 0.0]


def test_copies_of_an_example_are_no_evidence() -> None:
    lower_of_copies, _ = _interval(_paired([1.0] * 20, "a" * 20))
    lower_of_different, _ = _interval(_paired([1.0] * 20, TWENTY))

    assert (lower_of_copies, lower_of_different) == (0.0, 1.0)


def test_two_wins_in_twenty_are_no_evidence_but_ten_are() -> None:
    lower_of_two, _ = _interval(_paired([1.0] * 2 + [0.0] * 18, TWENTY))
    lower_of_ten, upper_of_ten = _interval(_paired([1.0] * 10 + [0.0] * 10, TWENTY))

    assert lower_of_two == 0.0
    assert 0.15 < lower_of_ten < 0.5 < upper_of_ten < 0.85


def test_examples_without_label_have_no_influence() -> None:
    paired = _paired([1.0, 5.0], "ab")
    paired.terms[1, 0] = 0.0

    sums = ReplicaSums.of(paired, 200)

    assert sums.num_examples == 1
    assert set(sums.gains(is_error=False)) == {0.0, 1.0}
    assert interval_of(sums.gains(is_error=False), sums.num_examples, 0.95) is None


def test_quantiles_are_those_of_students_tables() -> None:
    found = [student_quantile(df, 0.95) for df in (1, 5, 30, 120, 10**6)]

    assert found == pytest.approx([12.706, 2.571, 2.042, 1.980, 1.960], abs=5e-4)

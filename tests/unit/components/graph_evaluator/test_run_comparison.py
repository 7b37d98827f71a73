from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import kept_predictions
from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.kept_predictions import (
    KeptPredictions,
    predictions_file,
    read_predictions,
    write_predictions,
)
from tfx_gnn.components.graph_evaluator.run_comparison import (
    compare_evaluations,
    compare_predictions,
    mcnemar_p_value,
)

NO_LIMIT = 1 << 64


def _kept(kind: str = "classification", lengths: Any = None, hashes: Any = None, **values: Any) -> KeptPredictions:
    arrays = {name: np.asarray(value, object if isinstance(value[0], str) else None) for name, value in values.items()}
    num_values = len(next(iter(arrays.values())))
    lengths = np.ones(num_values, np.int64) if lengths is None else np.asarray(lengths)
    hashes = np.arange(1, len(lengths) + 1) if hashes is None else hashes
    setting = {"regression": (1,), "link_prediction": (1, 3)}.get(kind, ())
    return KeptPredictions(
        kind=kind,
        split="test",
        identified_by="seed",
        num_examples=len(lengths),
        setting=setting,
        sample=BootstrapSample(
            limit=NO_LIMIT,
            hashes=np.asarray(hashes, np.uint64),
            slices={},
            lengths=lengths,
            model=arrays,
            blessed={},
        ),
    )


def _right(num_right: int, num_wrong: int = 0) -> list[str]:
    return ["a"] * num_right + ["b"] * num_wrong


def _verdicts(first: KeptPredictions, other: KeptPredictions) -> dict[str, str]:
    return {one.metric: one.verdict for one in compare_predictions(first, other).metrics}


@pytest.mark.parametrize(
    ("better", "worse", "p_value"),
    [
        # By hand: 2 * (C(10, 0) + C(10, 1)) / 2**10; and from R's `binom.test(5, 20)`.
        (9, 1, 22 / 1024),
        (15, 5, 0.04138947),
        (5, 15, 0.04138947),
        (3, 0, 0.25),
        (0, 0, 1.0),
        (4, 4, 1.0),
        # 40 / 1600 squared differences: (|900 - 700| - 1)**2 / 1600 = 24.75; chi-squared of one degree of freedom.
        (900, 700, math.erfc(math.sqrt(199**2 / 1600 / 2))),
        (800, 800, 1.0),
    ],
)
def test_mcnemar_has_the_known_p_values(better: int, worse: int, p_value: float) -> None:
    assert mcnemar_p_value(better, worse) == pytest.approx(p_value, rel=1e-6)


def test_the_approximation_continues_the_exact_test() -> None:
    exact = mcnemar_p_value(540, 460)
    statistic = (80 - 1) ** 2 / 1000

    assert exact == pytest.approx(math.erfc(math.sqrt(statistic / 2)), rel=0.02)


def test_a_gain_on_many_examples_is_a_gain_and_its_reverse_a_loss() -> None:
    truth = _right(200)
    weak, strong = (_kept(truth=truth, predicted=_right(num, 200 - num)) for num in (120, 160))

    forth, back = compare_predictions(weak, strong), compare_predictions(strong, weak)

    accuracy, reverse = forth.metrics[0], back.metrics[0]
    assert (accuracy.metric, accuracy.verdict, reverse.verdict) == ("accuracy", "gain", "loss")
    assert accuracy.difference == pytest.approx(0.2)
    assert accuracy.lower is not None
    assert 0.1 < accuracy.lower < 0.2 < (accuracy.upper or 0.0) < 0.3
    # 40 examples differ, all in favour of the other run.
    assert accuracy.test == "exact McNemar"
    assert accuracy.p_value == pytest.approx(2 / 2**40)
    assert (reverse.lower, reverse.upper) == pytest.approx((-(accuracy.upper or 0.0), -accuracy.lower))
    assert (forth.num_common, forth.first, forth.other) == (200, (200, 200), (200, 200))


def test_a_difference_that_chance_explains_is_not_clear() -> None:
    # 9 examples are right in the other run only, 6 in the first only.
    truth, first = _right(100), _right(80, 20)
    other = ["b"] * 6 + ["a"] * 74 + ["a"] * 9 + ["b"] * 11

    accuracy = compare_predictions(_kept(truth=truth, predicted=first), _kept(truth=truth, predicted=other)).metrics[0]

    assert accuracy.difference == pytest.approx(0.03)
    assert accuracy.p_value == pytest.approx(mcnemar_p_value(9, 6))
    assert accuracy.verdict == "no clear difference"
    assert (accuracy.lower or 0.0) < 0.0 < (accuracy.upper or 0.0)


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    kept = _kept(truth=_right(20, 20), predicted=_right(30, 10), probability=np.linspace(0.5, 1.0, 40))

    found = compare_predictions(kept, kept)

    assert {(one.difference, one.lower, one.upper, one.p_value) for one in found.metrics} == {(0.0, 0.0, 0.0, 1.0)}


@pytest.mark.parametrize("num_examples", [1, 2, 3])
def test_few_examples_show_no_gain_however_large(num_examples: int) -> None:
    truth = _right(num_examples)
    kinds = {
        "classification": ({"predicted": _right(0, num_examples)}, {"predicted": truth}),
        "regression": ({"predicted": np.full(num_examples, 9.0)}, {"predicted": np.zeros(num_examples)}),
    }

    for kind, answers in kinds.items():
        label = truth if kind == "classification" else np.zeros(num_examples)
        first, other = (_kept(kind, truth=label, **one) for one in answers)
        assert set(_verdicts(first, other).values()) == {"no clear difference"}, kind


def test_an_error_that_falls_is_a_gain() -> None:
    generator = np.random.default_rng(1)
    truth = generator.normal(size=300)
    noisy, good = (truth + generator.normal(scale=scale, size=300) for scale in (1.0, 0.5))

    found = compare_predictions(*(_kept("regression", truth=truth, predicted=one) for one in (noisy, good)))

    assert {one.metric: one.verdict for one in found.metrics} == {"rmse": "gain", "mae": "gain", "r2": "gain"}
    assert {one.test for one in found.metrics} == {"bootstrap"}
    assert found.metrics[0].difference < 0.0
    assert found.num_replicas == 2000


def test_ranks_are_compared_by_row() -> None:
    # 60 rows of one true pair and two false ones; the other run ranks the true pair first in all but 6 of them.
    labels = np.tile([1.0, 0.0, 0.0], 60)
    scores = np.tile([0.5, 0.9, 0.1], 60)
    better = np.where(np.arange(180) < 162, np.tile([0.95, 0.9, 0.1], 60), scores)
    first_ranks, other_ranks = np.tile([2.0, 0.0, 0.0], 60), np.zeros(180)
    other_ranks[::3] = np.where(np.arange(60) < 54, 1.0, 2.0)
    lengths = np.full(60, 3)

    found = compare_predictions(
        _kept("link_prediction", lengths, score=scores, label=labels, rank=first_ranks),
        _kept("link_prediction", lengths, score=better, label=labels, rank=other_ranks),
    )

    by_metric = {one.metric: one for one in found.metrics}
    assert by_metric["mrr"].difference == pytest.approx(0.95 - 0.5)
    assert by_metric["mrr"].verdict == by_metric["hits_at_1"].verdict == "gain"
    assert by_metric["hits_at_3"].verdict == "no clear difference"
    assert found.num_common == 60


def test_examples_are_paired_by_identity_in_any_order_and_only_common_ones_count() -> None:
    truth = _right(30, 30)
    first = _kept(truth=truth, predicted=truth, hashes=np.arange(60))
    order = np.arange(60)[::-1]
    other = _kept(
        truth=[truth[i] for i in order[:50]],
        predicted=[truth[i] for i in order[:50]],
        hashes=order[:50],
    )

    found = compare_predictions(first, other)

    assert (found.num_common, found.num_other_labels) == (50, 0)
    assert found.first == (60, 60)
    assert found.other == (50, 50)
    assert {one.difference for one in found.metrics} == {0.0}


def test_examples_whose_labels_differ_are_left_out_and_counted() -> None:
    first = _kept(truth=["a", "a", "b"], predicted=["a", "a", "b"])
    other = _kept(truth=["a", "b", "b"], predicted=["a", "b", "b"])

    found = compare_predictions(first, other)

    assert (found.num_common, found.num_other_labels) == (2, 1)


def test_unknown_targets_are_equal_labels() -> None:
    kept = _kept("regression", truth=[math.nan, 1.0], predicted=[0.0, 1.0])

    assert compare_predictions(kept, kept).num_common == 2


def test_rows_about_one_seed_are_paired_by_label_and_count_as_one_example() -> None:
    first = _kept(truth=["a", "b"] * 10, predicted=["a", "a"] * 10, hashes=np.repeat(np.arange(10), 2))
    other = _kept(truth=["b", "a"] * 10, predicted=["b", "a"] * 10, hashes=np.repeat(np.arange(10), 2))

    found = compare_predictions(first, other)

    accuracy = found.metrics[0]
    assert found.num_common == 20
    assert accuracy.difference == 0.5
    # McNemar's test would take rows about one seed for independent.
    assert accuracy.test == "bootstrap"


def test_samples_of_different_limits_are_compared_below_both() -> None:
    first = _kept(truth=_right(6), predicted=_right(6))
    cut = dataclasses.replace(first.sample.rows(np.arange(4)), limit=5)
    other = dataclasses.replace(first, sample=cut)

    found = compare_predictions(first, other)

    assert found.num_common == 4
    assert found.other == (4, 6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"split": "val"}, "the split is 'val' instead of 'test'"),
        ({"kind": "regression"}, "the task is 'regression' instead of 'classification'"),
        ({"identified_by": "bytes"}, "the identity of examples is 'bytes' instead of 'seed'"),
    ],
)
def test_what_cannot_be_paired_says_why_and_tests_nothing(change: dict[str, Any], reason: str) -> None:
    kept = _kept(truth=_right(4), predicted=_right(4))

    found = compare_predictions(kept, dataclasses.replace(kept, **change))

    assert found.reason == reason
    assert found.metrics == ()


def test_runs_on_other_data_have_no_common_example() -> None:
    first, other = (_kept(truth=_right(4), predicted=_right(4), hashes=np.arange(4) + i) for i in (0, 10))

    assert compare_predictions(first, other).reason.startswith("no example is common")


def test_the_bootstrap_gives_the_same_figures_each_time_and_for_each_order() -> None:
    generator = np.random.default_rng(2)
    truth = generator.normal(size=50)
    answers = [truth + generator.normal(size=50) for _ in range(2)]
    shuffled = generator.permutation(50)

    once = compare_predictions(*(_kept("regression", truth=truth, predicted=one) for one in answers))
    again = compare_predictions(
        *(_kept("regression", truth=truth[shuffled], predicted=one[shuffled], hashes=shuffled + 1) for one in answers)
    )

    assert [(one.lower, one.upper, one.p_value) for one in once.metrics] == [
        (one.lower, one.upper, one.p_value) for one in again.metrics
    ]


def test_under_no_difference_intervals_and_p_values_agree_and_rarely_find_one() -> None:
    num_found = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        truth = generator.normal(size=40)
        hashes = generator.permutation(1000)[:40]
        first, other = (
            _kept("regression", truth=truth, predicted=truth + generator.normal(size=40), hashes=hashes)
            for _ in range(2)
        )
        rmse = compare_predictions(first, other).metrics[0]
        outside = not (rmse.lower or 0.0) <= 0.0 <= (rmse.upper or 0.0)
        assert outside == (rmse.p_value < 0.05) or 0.03 < rmse.p_value < 0.07
        num_found += rmse.verdict != "no clear difference"

    # Two are expected of 40.
    assert num_found <= 6


def test_runs_without_predictions_or_with_damaged_ones_are_reasons(tmp_path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / predictions_file("")).write_bytes(b"PAR1 is not enough")

    old = compare_evaluations(("a", str(tmp_path / "old")), ("b", str(tmp_path / "old")), [""])
    damaged = compare_evaluations(("a", str(tmp_path / "old")), ("b", str(tmp_path / "damaged")), [""])

    assert old[""].reason.startswith("a and b kept no predictions")
    assert "predictions.parquet` must hold the kept predictions of an evaluation; got a damaged file" in (
        damaged[""].reason
    )
    assert "a kept no predictions" in damaged[""].reason


@pytest.mark.parametrize(
    "kept",
    [
        _kept(truth=["a", "é"], predicted=["a", "a"], probability=[0.5, 0.75], log_odds=[0.0, 1.0]),
        _kept("regression", [2, 2], truth=[1.0, math.nan, 3.0, 4.0], predicted=[1.0, 2.0, 3.0, 4.5]),
        _kept("link_prediction", [2, 1], score=[0.5, 0.25, 0.0], label=[1.0, 0.0, 1.0], rank=[1.0, 0.0, 0.0]),
    ],
    ids=lambda kept: kept.kind,
)
def test_files_hold_what_was_kept(tmp_path, kept: KeptPredictions) -> None:
    (tmp_path / predictions_file("a/b")).write_bytes(write_predictions(kept))

    found = read_predictions(str(tmp_path), "a/b")

    assert found is not None
    assert dataclasses.replace(found, sample=kept.sample) == kept
    assert found.sample.limit == NO_LIMIT
    for name in ("hashes", "lengths"):
        np.testing.assert_array_equal(getattr(found.sample, name), getattr(kept.sample, name))
    for name, values in kept.sample.model.items():
        np.testing.assert_array_equal(found.sample.model[name], values)


def test_files_of_other_versions_are_refused(tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(kept_predictions, "_FORMAT_VERSION", 9)
        content = write_predictions(_kept(truth=["a"], predicted=["a"]))
    (tmp_path / predictions_file("")).write_bytes(content)

    with pytest.raises(ValueError, match="got version 9"):
        read_predictions(str(tmp_path), "")

from __future__ import annotations

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.number_bins import number_shares


def _feature(*buckets, kind="INT"):
    feature = statistics_pb2.FeatureNameStatistics(type=kind)
    histogram = feature.num_stats.histograms.add(type="STANDARD")
    for low, high, count in buckets:
        histogram.buckets.add(low_value=low, high_value=high, sample_count=count)
    return feature


def test_few_integers_get_a_row_each_and_those_that_no_split_has_none():
    labels = _feature((0, 0.1, 5), (0.1, 0.9, 0), (0.9, 1, 1))

    shares = number_shares({"train": labels, "test": _feature((0, 0, 2)), "val": _feature()})

    assert shares == {"train": {"0": 5 / 6, "1": 1 / 6}, "test": {"0": 1.0, "1": 0.0}, "val": {"0": 0.0, "1": 0.0}}


def test_splits_with_other_ends_get_the_same_ranges():
    # Integers 0 to 19, and 10 to 19: the first two have one of two buckets' ten each, the last bucket its upper end.
    shares = number_shares({"train": _feature((0, 10, 10), (10, 19, 10)), "test": _feature((10, 19, 4))})

    assert list(shares["train"]) == [f"{low} to {low + 1}" for low in range(0, 20, 2)] == list(shares["test"])
    assert list(shares["train"].values()) == pytest.approx([0.1] * 10)
    assert list(shares["test"].values()) == pytest.approx([0.0] * 5 + [0.2] * 5)


def test_floats_are_spread_evenly_over_ten_ranges():
    shares = number_shares(
        {"train": _feature((0, 1, 1), (1, 2, 3), kind="FLOAT"), "test": _feature((2, 2, 1), kind="FLOAT")}
    )

    assert list(shares["train"])[:2] == ["0 to 0.2", "0.2 to 0.4"]
    assert list(shares["train"].values()) == pytest.approx([0.05] * 5 + [0.15] * 5)
    assert list(shares["test"].values()) == [0.0] * 9 + [1.0]


def test_one_value_and_no_value_are_shown_as_they_are():
    assert number_shares({"train": _feature((2.5, 2.5, 3), kind="FLOAT")}) == {"train": {"2.5": 1.0}}
    assert number_shares({"train": _feature()}) == {"train": {}}

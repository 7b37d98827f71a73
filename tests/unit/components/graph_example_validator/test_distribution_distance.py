import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.components.graph_example_validator.distribution_shifts import (
    JENSEN_SHANNON,
    L_INFINITY,
    distance,
    measure_degree_drift,
)
from tfx_gnn.records.split_statistics import NumberSummary, read_statistics, write_statistics


def numbers(values):
    feature = statistics_pb2.FeatureNameStatistics()
    summary = NumberSummary()
    summary.add(np.array(values, float))
    feature.num_stats.histograms.extend(summary.histograms())
    return feature


def strings(**counts):
    feature = statistics_pb2.FeatureNameStatistics()
    feature.string_stats.SetInParent()
    for name, count in counts.items():
        feature.string_stats.rank_histogram.buckets.add(label=name, sample_count=count)
    return feature


def test_strings_are_as_far_apart_as_the_share_that_differs_most():
    assert distance(strings(a=6, b=3, c=1), strings(a=30, b=20)) == (L_INFINITY, pytest.approx(0.1))
    assert distance(strings(a=1), strings(b=1)) == (L_INFINITY, 1.0)


@pytest.mark.parametrize(
    ("one", "other", "expected", "error"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0, 1e-6),
        ([5] * 10, [5] * 99, 0.0, 1e-6),
        ([5] * 10, [6] * 10, 1.0, 1e-6),
        # Shares (1/2, 1/2) and (1, 0): (log2(4/3) + log2(2/3) / 2 + log2(2) / 2) / 2 = 0.3113.
        ([0.5, float("nan")], [0.5, 0.5], 0.3113, 1e-4),
        # Values of two places fill one bucket in ten from end to end.
        ([0] * 10, [0] * 5 + [9] * 5, 0.3113, 0.1),
        ([0] * 5 + [1] * 95, [0] * 12 + [1] * 88, 0.01, 0.1),
        ([0] * 900 + [50] * 100, [0] * 900 + [1] * 100, 0.1, 0.1),
    ],
)
def test_numbers_are_compared_where_their_values_are(one, other, expected, error):
    measure, value = distance(numbers(one), numbers(other))

    assert measure == JENSEN_SHANNON
    assert value == pytest.approx(expected, abs=error)
    assert distance(numbers(other), numbers(one))[1] == pytest.approx(value)


def test_buckets_of_infinite_values_are_buckets_like_others():
    feature = numbers([1, 2, 3])
    feature.num_stats.histograms[1].buckets.add(low_value=float("inf"), high_value=float("inf"), sample_count=3)

    assert distance(feature, feature)[1] == 0.0
    assert distance(feature, numbers([1, 2, 3]))[1] == pytest.approx(0.3113, abs=1e-4)


def test_what_cannot_be_compared_has_no_distance():
    assert distance(strings(a=1), numbers([1.0])) is None
    assert distance(numbers([]), numbers([1.0])) is None
    assert distance(strings(), strings(a=1)) is None


def test_summaries_of_parts_add_up_to_that_of_the_whole():
    values = np.random.default_rng(0).normal(size=3000)
    values[::100] = np.nan
    whole, merged = NumberSummary(), NumberSummary()
    whole.add(values)
    for part in np.array_split(values, 7):
        one = NumberSummary()
        one.add(part)
        merged.merge(one)

    assert (merged.count, merged.num_nan, merged.num_zeros) == (2970, 30, 0)
    assert (merged.minimum, merged.maximum) == (whole.minimum, whole.maximum)
    assert merged.mean == pytest.approx(np.nanmean(values))
    assert merged.deviation == pytest.approx(np.nanstd(values))
    assert merged.median() == pytest.approx(np.nanmedian(values), abs=0.05)
    assert sum(bucket.sample_count for bucket in merged.histograms()[0].buckets) == 2970


def test_infinite_numbers_do_not_spoil_the_others():
    summary = NumberSummary()
    summary.add(np.array([1.0, np.inf, 3.0, -np.inf]))

    assert (summary.count, summary.mean, summary.minimum, summary.maximum) == (2, 2.0, 1.0, 3.0)


def test_statistics_of_a_split_are_read_back(tmp_path):
    dataset = text_format.Parse('name: "train" num_examples: 3', statistics_pb2.DatasetFeatureStatistics())

    write_statistics(str(tmp_path), dataset, "train")

    assert read_statistics(str(tmp_path), "train") == dataset
    assert read_statistics(str(tmp_path), "val") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x0agarbage", "must hold serialized DatasetFeatureStatisticsList messages; got 8 other bytes"),
        (b"", "must hold statistics of one data set per split; got 0"),
    ],
)
def test_other_files_are_no_statistics(tmp_path, content, message):
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(content)

    with pytest.raises(ValueError, match=message):
        read_statistics(str(tmp_path), "train")


def degrees_of(key, name, low, high):
    """Statistics of one split with ten degrees between two numbers."""
    dataset = statistics_pb2.DatasetFeatureStatistics()
    feature = dataset.features.add(path={"step": [key]})
    histogram = feature.custom_stats.add(name=name).histogram
    histogram.buckets.add(low_value=low, high_value=high, sample_count=10)
    return dataset


def test_degrees_are_compared_by_edge_set_and_direction():
    now = {"train": degrees_of("edges/e.#source", "out_degree_quantiles", 0, 2)}
    before = {"train": degrees_of("edges/e.#source", "out_degree_quantiles", 4, 6), "val": now["train"]}

    (shift,) = measure_degree_drift(now, before, ["edges/e.#source"], 0.3)

    assert (shift.split, shift.key, shift.value, shift.is_high) == ("train", "edges/e.#source", 1.0, True)
    assert shift.words == "degrees, Jensen-Shannon divergence 1.0000, allowed 0.3"
    assert measure_degree_drift(now, now, ["edges/e.#source"], 0.3)[0].value == 0.0
    assert measure_degree_drift(now, before, ["edges/e.#target"], 0.3) == []
    other_end = {"train": degrees_of("edges/e.#target", "in_degree_quantiles", 0, 2)}
    assert measure_degree_drift(other_end, before, ["edges/e.#source", "edges/e.#target"], 0.3) == []

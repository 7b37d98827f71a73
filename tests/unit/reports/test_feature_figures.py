from __future__ import annotations

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.feature_figures import feature_figures
from tfx_gnn.reports.statistics_files import Distance, SplitDistances

_AGES = """
features {
  path { step: "nodes/user.age" }
  type: INT
  num_stats {
    common_stats { num_non_missing: 3 num_missing: 1 tot_num_values: 4 }
    mean: 2.5
    std_dev: 1.5
    histograms { type: STANDARD buckets { low_value: 1 high_value: 4 sample_count: 4 } }
    histograms {
      type: QUANTILES
%s
    }
  }
}
features { path { step: "edges/buys.#source" } num_stats {} }
"""
_DECILES = "".join(f"buckets {{ low_value: {low} high_value: {low + 1} sample_count: 0.4 }}" for low in range(10))
_TOWN = """
features {
  path { step: "nodes/user.town.part" }
  type: STRING
  string_stats {
    common_stats { num_non_missing: 4 tot_num_values: 4 }
    unique: %d
    top_values { value: "a" frequency: 3 }
    rank_histogram { buckets { label: "a" sample_count: 3 } %s }
  }
}
"""


def _dataset(text: str) -> statistics_pb2.DatasetFeatureStatistics:
    return text_format.Parse(f"num_examples: 4 {text}", statistics_pb2.DatasetFeatureStatistics())


def test_numbers_have_moments_quantiles_and_distances_but_no_distinct_values():
    skew = Distance(measure="Jensen-Shannon", value=0.5, threshold=0.3)

    (age,) = feature_figures(
        {"train": _dataset(_AGES % _DECILES), "val": _dataset(_AGES % "buckets { high_value: 10 sample_count: 4 }")},
        {"val": SplitDistances(skew={"nodes/user.age": skew})},
        {"train": 4, "val": 4},
    )["nodes/user"]

    assert (age.name, age.kind, list(age.splits)) == ("age", "integers", ["train", "val"])
    train = age.splits["train"]
    assert (train.num_missing, train.mean, train.deviation, train.quantiles) == (1, 2.5, 1.5, tuple(range(11)))
    assert (train.num_distinct, train.skew, age.splits["val"].skew) == (None, None, skew)
    assert (age.splits["val"].mean, age.splits["val"].quantiles) == (2.5, ())
    assert [name for name, _ in age.bars] == ["1", "2", "3", "4"]


def test_the_share_of_a_string_is_zero_only_if_the_split_keeps_all_its_strings():
    first = _TOWN % (2, 'buckets { label: "b" sample_count: 1 }')
    whole, cut_off = _TOWN % (1, ""), _TOWN % (2, "")

    (town,) = feature_figures(
        {"train": _dataset(first), "val": _dataset(whole), "test": _dataset(cut_off)},
        {},
        {"train": 4, "val": 4, "test": 4},
    )["nodes/user"]

    assert town.name == "town.part"
    assert town.bars == (("a", (0.75, 0.75, 0.75)), ("b", (0.25, 0.0, None)))
    assert town.splits["train"].num_distinct == 2
    assert town.splits["train"].top_values == (("a", 0.75),)


def test_a_split_whose_examples_all_lack_a_feature_counts_them():
    first = _TOWN % (2, 'buckets { label: "b" sample_count: 1 }')

    (town,) = feature_figures({"train": _dataset(first), "val": _dataset("")}, {}, {"train": 4, "val": 4})["nodes/user"]

    assert (town.splits["val"].num_missing, town.splits["val"].num_distinct) == (4, 0)
    assert town.bars == (("a", (0.75, 0.0)), ("b", (0.25, 0.0)))

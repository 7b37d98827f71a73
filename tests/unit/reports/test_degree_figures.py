from __future__ import annotations

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.degree_figures import degree_histograms, degree_rows, isolated_rows
from tfx_gnn.reports.statistics_files import Distance, SplitDistances

_STATISTICS = """
num_examples: 4
features {
  path { step: "edges/cites.#source" }
  num_stats {}
  custom_stats { name: "out_degree_mean" num: 1.5 }
  custom_stats { name: "out_degree_max" num: 3 }
  custom_stats { name: "out_degree_zero_share" num: 0.25 }
  custom_stats {
    name: "out_degree"
    histogram { buckets { high_value: 1 sample_count: 3 } buckets { low_value: 1 high_value: 3 sample_count: 1 } }
  }
  custom_stats {
    name: "out_degree_quantiles"
    histogram { type: QUANTILES DECILES }
  }
  custom_stats { name: "dangling_edges" num: 2 }
}
features {
  path { step: "nodes/paper.#size" }
  num_stats {}
  custom_stats { name: "isolated_nodes" num: 3 }
  custom_stats { name: "isolated_share" num: 0.375 }
}
""".replace("DECILES", "".join(f"buckets {{ low_value: {low} high_value: {low + 1} }}" for low in range(10)))


def _statistics(text=_STATISTICS):
    return text_format.Parse(text, statistics_pb2.DatasetFeatureStatistics())


def test_degrees_are_those_of_the_largest_split_that_has_some():
    (degrees,) = degree_histograms(
        {"train": _statistics(), "test": _statistics("num_examples: 9")}, {"test": 9, "train": 4}
    )

    assert (degrees.edge_set, degrees.end, degrees.split) == ("cites", "out-degree", "train")
    assert (degrees.mean, degrees.largest, degrees.zero_share) == (1.5, 3.0, 0.25)
    assert degrees.bars == ((0.0, 1.0, 0.75, 1.0), (1.0, 3.0, 0.25, 1 / 3))


def test_degrees_have_quantiles_dangling_edges_and_drift_by_split():
    drift = Distance(measure="Jensen-Shannon", value=0.5, threshold=0.3)

    train, val = degree_rows(
        {"val": _statistics(), "train": _statistics()},
        {"val": SplitDistances(drift={"edges/cites.#source": drift})},
        {"train": 4, "val": 4},
    )

    assert (train.split, train.mean, train.quantiles, train.num_dangling) == ("train", 1.5, tuple(range(11)), 2)
    assert (train.drift, val.drift) == (None, drift)
    assert drift.is_high


def test_isolated_nodes_are_counted_by_split():
    (row,) = isolated_rows({"train": _statistics(), "val": _statistics("num_examples: 1")}, {"train": 4, "val": 1})

    assert (row.node_set, row.split, row.num_isolated, row.share) == ("paper", "train", 3, 0.375)

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.reports.data_figures import degree_histograms, label_tables, set_rows

_STATISTICS = """
num_examples: 4
features {
  path { step: "nodes/_readout.kind" }
  string_stats {
    common_stats { tot_num_values: 4 }
    rank_histogram { buckets { label: "a" sample_count: 3 } buckets { label: "b" sample_count: 1 } }
  }
}
features {
  path { step: "context/year" }
  type: FLOAT
  num_stats { histograms { type: STANDARD buckets { low_value: 1 high_value: 2 sample_count: 4 } } }
}
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
}
"""


def _statistics(text=_STATISTICS):
    return text_format.Parse(text, statistics_pb2.DatasetFeatureStatistics())


def test_labels_are_shares_of_each_split():
    other = _statistics(
        'features { path { step: "nodes/_readout.kind" } string_stats { common_stats { tot_num_values: 2 } '
        'rank_histogram { buckets { label: "c" sample_count: 2 } } } }'
    )

    year, kind = label_tables({"train": _statistics(), "test": other}, {"train": 4, "test": 2})

    assert (kind.feature, kind.splits) == ("nodes/_readout.kind", ("train", "test"))
    assert kind.rows == (("a", (0.75, 0.0)), ("b", (0.25, 0.0)), ("c", (0.0, 1.0)))
    assert kind.largest == 1.0
    assert len(year.rows) == 10
    assert year.rows[0] == ("1 to 1.1", (pytest.approx(0.1), 0.0))


def test_degrees_are_those_of_the_largest_split_that_has_some():
    (degrees,) = degree_histograms(
        {"train": _statistics(), "test": _statistics("num_examples: 9")}, {"test": 9, "train": 4}
    )

    assert (degrees.edge_set, degrees.end, degrees.split) == ("cites", "out-degree", "train")
    assert (degrees.mean, degrees.largest, degrees.zero_share) == (1.5, 3.0, 0.25)
    assert degrees.bars == ((0.0, 1.0, 0.75, 1.0), (1.0, 3.0, 0.25, 1 / 3))


def test_sets_have_their_sizes_and_features():
    schema = text_format.Parse(
        'node_sets { key: "p" value { features { key: "x" value { '
        "dtype: DT_FLOAT shape { dim { size: -1 } dim { size: 2 } } } } } } "
        'edge_sets { key: "e" value { source: "p" target: "p" } }',
        GraphSchema(),
    )

    node_set, edge_set = set_rows(schema, {"statistics": {"node_sets": {"p": {"mean": 2.5, "max": 7}}}})

    assert (node_set.mean, node_set.largest) == (2.5, 7)
    assert node_set.features == (("x", "float32 [?, 2]", ""),)
    assert (edge_set.ends, edge_set.mean) == ("p to p", None)

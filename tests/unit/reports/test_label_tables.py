from __future__ import annotations

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.label_tables import label_tables

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

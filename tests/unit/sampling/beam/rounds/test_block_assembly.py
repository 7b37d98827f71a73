from __future__ import annotations

import numpy as np
import pyarrow as pa

from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.rounds.block_assembly import KnownRows, edge_features


def test_features_of_edges_are_found_in_any_part_and_the_rest_hold_a_filler():
    weights = KnownRows(pa.table({files.ROW: [7, 3, 3], "weight": [0.7, 0.3, 0.3]}))
    names = KnownRows(pa.table({files.ROW: [5], "name": ["five"], "weight": [0.5]}))

    found = edge_features(np.array([3, 5, 7, 9]), [weights, names], {"weight": pa.float64(), "name": pa.string()})

    assert found["weight"].to_pylist()[:3] == [0.3, 0.5, 0.7]
    assert found["name"].to_pylist()[1] == "five"
    assert [(len(column), column.null_count) for column in found.values()] == [(4, 0)] * 2

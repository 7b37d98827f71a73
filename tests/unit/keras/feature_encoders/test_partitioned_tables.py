"""Large tables on parameter servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfx_gnn.keras import feature_encoders


@pytest.fixture(scope="module")
def results(clusters):
    """What partitioned_tables.py tells."""
    output = clusters.run_cluster([str(Path(__file__).with_name("partitioned_tables.py"))], {})["alone"]
    assert output.returncode == 0, output.stderr[-4000:]
    return output.result


def test_a_large_table_is_in_two_parts_and_a_small_one_whole(results):
    """1024 x 256 with 2 partitions -> two parts of 131072 elements."""
    assert feature_encoders.PartitionableColumn("a", 1024, 256).rows == 1024
    assert results["parts"] == [[[512, 256], 131072], [[512, 256], 131072]]
    assert results["small"] == [[16, 4]]


def test_parts_are_trained_as_a_whole_table_is(results):
    assert results["trained"] == [3, 1020]
    assert results["trained_as_alone"]
    np.testing.assert_allclose(*results["losses"], rtol=1e-5)


def test_parts_are_read_back_whole(results):
    assert results["shape"] == [1024, 256]
    assert results["read_back_whole"]
    assert results["trained_read_back_whole"]


def test_parts_start_from_the_weights_of_a_whole_table(results):
    """Two tables, and the matrix and bias of the last layer."""
    assert results["started"] == [4, 4]
    assert results["started_as_alone"]

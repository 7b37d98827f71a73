"""Input under ParameterServerStrategy, with a chief, a worker and a parameter server as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfx_gnn.distribution  # noqa: F401 - what is tested runs in the processes


@pytest.fixture(scope="module")
def told(clusters):
    """What parameter_servers.py tells."""
    program = Path(__file__).with_name("parameter_servers.py")
    outputs = clusters.run_forked_cluster(program, [], {"chief": 1, "worker": 1, "ps": 1})
    assert outputs["chief0"].returncode == 0, outputs["chief0"].stderr[-4000:]
    # The others serve until they are killed.
    assert outputs["worker0"].returncode < 0
    assert outputs["ps0"].returncode < 0
    return outputs["chief0"].result


def test_the_chief_coordinates(told):
    assert told["role"] == ["chief", 1, 1, True]
    assert told["num_pipelines"] == 1


def test_large_tables_are_divided_and_small_ones_are_not(told):
    assert told["parts"] == [131072, 131072]
    assert told["small"] != "ShardedVariable"


def test_workers_get_graphs_as_flat_tensors_from_a_dataset_of_their_own(told):
    """Three graphs of two nodes with x = 1, 2, 3, in order, again and again."""
    assert told["sums"] == [2.0, 4.0, 6.0, 2.0]
    assert told["words"] == "ab"


def test_keras_fits_by_a_dataset_creator(told):
    assert told["loss"][1] < told["loss"][0]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("batches", "must be synchronous to split batches among its workers"),
        ("made before", "must make its dataset from the start under ParameterServerStrategy"),
        ("random", r"got the stateful operations ['RandomUniform']"),
    ],
)
def test_what_cannot_be_sent_to_a_worker_is_refused(told, case, message):
    assert message in told[f"refusal: {case}"]

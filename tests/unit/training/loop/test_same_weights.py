"""The same weights after 20 steps on the same global batches, whatever the strategy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("same_weights.py")
#: What differs is the order of sums in float32, which 20 steps of Adam magnify. Found: 6e-8, of weights up to 1.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("same_weights", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(program, write_examples, tmp_path_factory):
    """38 graphs to train on, in three files read in turns, and 11 to watch."""
    examples = [program.example(number) for number in range(program.NUM_TRAIN)]
    watched = [program.example(1000 + number) for number in range(program.NUM_EVAL)]
    splits = {"train": [examples[i::3] for i in range(3)], "val": [watched]}
    return write_examples(str(tmp_path_factory.mktemp("same_weights")), splits, None)


def _run(clusters, folder, name, roles):
    if roles:
        outputs = clusters.run_forked_cluster(PROGRAM, [folder, name], roles)
    else:
        outputs = clusters.run_cluster([str(PROGRAM), folder, name], roles)
    done = [output for role, output in outputs.items() if not (roles.get("ps") and role != "chief0")]
    for output in done:
        assert output.returncode == 0, output.stderr[-4000:]
    return [output.result for output in done]


@pytest.fixture(scope="module")
def alone(clusters, folder):
    """What trainings of one process gave, by name."""
    return _run(clusters, folder, "alone", {})[0]


def _assert_same(found, expected):
    assert found["num_steps"] == expected["num_steps"] == 20
    for weights, wanted in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=0, atol=TOLERANCE)
    for logs, wanted in zip(found["history"], expected["history"], strict=True):
        assert logs == pytest.approx(wanted, abs=TOLERANCE)
    assert found["num_graphs"] == expected["num_graphs"]


@pytest.mark.parametrize(
    "name", ["one device, several steps at once, compiled", "mirrored, 2", "mirrored, 4", "patched tpu"]
)
def test_strategies_of_one_process_give_the_same_weights(alone, name):
    _assert_same(alone[name], alone["default"])


def test_replicas_without_data_at_the_end_of_an_epoch_get_padding(alone):
    assert alone["default"]["num_batches"] == [5] * 4
    assert alone["mirrored, 2"]["num_batches"] == [10] * 4
    assert alone["mirrored, 4"]["num_batches"] == [19] * 4
    assert alone["mirrored, 4"]["iterations"] == 20


def test_training_goes_on_at_any_step_of_an_epoch(alone):
    found = alone["from the third step"]

    # Three steps are left of the last epoch: two of 8 graphs, and one of 6.
    assert (found["num_steps"], found["num_graphs"], found["iterations"]) == (20, [22], 3)


def test_two_workers_in_step_give_the_same_weights(alone, clusters, folder):
    workers = _run(clusters, folder, "multi_worker_mirrored", {"worker": 2})

    for worker in workers:
        _assert_same(worker, alone["default"])
        assert worker["num_batches"] == [10] * 4
    assert workers[0]["weights"] == workers[1]["weights"]


def test_two_workers_of_a_parameter_server_give_the_same_weights_one_after_another(alone, clusters, folder):
    # Each batch holds the whole split, so that it does not matter which worker takes a step.
    (chief,) = _run(clusters, folder, "parameter_server", {"chief": 1, "worker": 2, "ps": 1})

    _assert_same(chief, alone["all in one batch"])

"""Input on one machine with several devices, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import tfx_gnn.distribution  # noqa: F401 - what is tested runs in the process


@pytest.fixture(scope="module")
def told(clusters, tmp_path_factory):
    """What logical_devices.py tells."""
    folder = tmp_path_factory.mktemp("records")
    with tf.io.TFRecordWriter(str(folder / "all")) as writer:
        for number in range(12):
            writer.write(str(number).encode())
    program = [str(Path(__file__).with_name("logical_devices.py")), str(folder)]
    output = clusters.run_cluster(program, {})["alone"]
    assert output.returncode == 0, output.stderr[-4000:]
    return output.result


def test_what_is_distributed_is_iterated_over_and_is_no_dataset(told):
    assert told["is a dataset"] is False
    assert told["class"] == "DistributedDataset"


def test_batches_are_parted_among_replicas(told):
    """In pieces of the batch's rows over the replicas, rounded up."""
    assert told["6 in 4 over 2"] == [[[0, 1], [2, 3]], [[4], [5]]]
    assert told["4 in 4 over 5"] == [[[0], [1], [2], [3], []]]
    assert told["8 in 4 over 3"] == [[[0, 1], [2, 3], []], [[4, 5], [6, 7], []]]


def test_parted_batches_are_prefetched_one_for_each_replica_and_those_of_functions_are_not(told):
    assert told["prefetched"] == [2]
    assert told["prefetched, from function"] == []


def test_tensorflow_says_what_it_cannot_shard_at_the_first_element(told):
    """What our own messages spare the user."""
    kind, message = told["tensorflow: too few files"]
    assert kind == "InvalidArgumentError"
    assert "only has 1 file(s), which is not enough for the required 2 shards/workers" in message
    kind, message = told["tensorflow: no files"]
    assert kind == "NotFoundError"
    assert "unshardable source dataset" in message


def test_a_function_is_called_once_for_each_worker_and_its_batches_are_left_alone(told):
    assert told["calls"] == [[1, 0, 2]]
    assert told["function"] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_iterators_give_elements_and_end_by_an_error_or_an_optional_without_value(told):
    assert told["next"] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert told["optional at the end"] is False
    assert told["past the end"] == "OutOfRangeError"
    assert told["break"] == "NotImplementedError"


def test_five_steps_in_one_call_end_after_the_third_without_an_error(told):
    assert told["optional"] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], []]]
    assert told["steps in loops"] == [3, 0]
    assert told["seen"] == [[], [0, 1], [2, 3], [4, 5], [6, 7], [8]]


def test_the_element_spec_is_an_input_signature(told):
    """Two parts, two replicas each."""
    assert told["element spec"] == [["(None, 1)", "float32"]] * 4
    assert told["signature"] == [[8, 1], [8, 1]]


def test_batches_of_fixed_size_are_dropped_at_the_end_unless_the_step_is_filled_up(told):
    """TensorFlow drops the third of three batches for two replicas."""
    assert told["dropped"] == [[[0, 1], [2, 3]]]
    assert told["filled"] == [[[[0, 1], [2, 3]], [1, 1]], [[[4, 5], [-1, -1]], [1, 0]]]


def test_empty_replicas_change_no_loss(told):
    """Graphs of two nodes with x = 1, 2 and 3. The mean of sums is (2 + 4) / 2, then 6 alone; no NaN."""
    assert told["loss"] == [[3.0, 3.0], [6.0, 6.0]]
    # Batches of graphs in TensorFlow's own way: 1 and 2, 3, then 4, and a batch of no graphs.
    assert told["batched graphs"] == [[6.0, 6.0], [8.0, 0.0]]


def test_lookup_layers_are_made_in_scope_and_used_in_the_dataset(told):
    """A vocabulary may be a file that all workers can read. "e" is unknown."""
    assert told["looked up"] == [[[1, 3, 0], [1, 3, 0]]] * 2


def test_predictions_are_in_order(told):
    assert told["in order"] == list(range(0, 48, 2))
    assert told["in order, uneven"] == [0, 2, 4, 6, 8, 10, 12]


def test_tensors_and_generators_are_input_too(told):
    """A generated element that is no batch is parted like one."""
    assert told["values"] == [0, 1]
    assert told["generator"] == [[[0, 1], [2, 3]]]


def test_a_tpu_is_resolved_connected_to_and_fed_static_shapes(told):
    """TPU classes are replaced by a MirroredStrategy of four devices: three graphs, one empty batch."""
    assert told["tpu"] == [4, ["resolved my-tpu", "resolved my-tpu"]]
    assert all(told["tpu, static"])
    assert told["tpu, steps"] == [[1, 1, 1, 0]]

"""Input under MultiWorkerMirroredStrategy, in two real processes. Numbers are lines of seed 004."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.distribution.cluster import cluster_role


@pytest.fixture(scope="module")
def workers(clusters, tmp_path_factory):
    """What two_workers.py tells, for worker 0 and worker 1."""
    folder = tmp_path_factory.mktemp("records")
    for name, numbers in {"first": range(6), "second": range(6, 12), "all": range(12)}.items():
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for number in numbers:
                writer.write(str(number).encode())
    program = [str(Path(__file__).with_name("two_workers.py")), str(folder)]
    outputs = clusters.run_cluster(program, {"worker": 2})
    for output in outputs.values():
        assert output.returncode == 0, output.stderr[-4000:]
    return [output.result for output in outputs.values()]


@pytest.fixture
def both(workers):
    """The results of both workers for one case."""
    return lambda case: [worker[case] for worker in workers]


def test_each_process_knows_its_role(both):
    assert both("role") == [["worker", 0, 2, True, False], ["worker", 1, 2, False, False]]
    assert both("num_replicas") == both("num_pipelines") == [2, 2]
    assert cluster_role({}).is_alone


def test_by_file_each_worker_reads_one_of_two_files_and_batches_depend_on_the_order_of_operations(both):
    """Steps may be smaller than the global batch."""
    assert both("file, batch first") == [[[[0, 1], [2, 3], [4], [5]], "file"], [[[6, 7], [8, 9], [10], [11]], "file"]]
    assert both("file, batch last") == [[[[0, 1], [2, 3], [4, 5]], "file"], [[[6, 7], [8, 9], [10, 11]], "file"]]


def test_by_data_each_worker_reads_all_and_keeps_every_second_batch(both):
    assert both("data, one file") == [[[[0, 1], [4, 5], [8, 9]], "data"], [[[2, 3], [6, 7], [10, 11]], "data"]]


def test_without_sharding_each_worker_sees_all(both):
    everything = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]

    assert both("off, one file") == [[everything, "off"]] * 2


def test_auto_takes_files_where_there_are_enough_and_else_data(both):
    """One file for two workers, which TensorFlow refuses, is divided by data here."""
    assert both("auto, two files") == both("file, batch last")
    assert both("auto, one file") == both("auto, no file") == both("data, one file")


def test_what_tensorflow_refuses_at_the_first_step_is_refused_before(both):
    for message in both("refusal: too few files"):
        assert "got 'file' with 1 files for 2" in message
    for message in both("refusal: no files"):
        assert "for a dataset that reads no files; got 'file'" in message


def test_a_function_of_the_place_shards_before_anything_is_read(both):
    """Batches for one replica; by file, and, for a single file, by record."""
    assert both("function, by file") == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    assert both("function, by data") == [[[0, 2], [4, 6], [8, 10]], [[1, 3], [5, 7], [9, 11]]]


def test_workers_end_together_and_who_has_no_more_gets_batches_without_rows(both):
    """TensorFlow's own way, for batches whose rows may be fewer."""
    assert both("uneven") == [[[0], [1], [2], [3]], [[0], [1], [], []]]


def test_graphs_of_static_shapes_get_padding_where_a_worker_has_no_more(both):
    """Worker 0 has graphs of 1, 2, 3, worker 1 one of 11, with two nodes each; then both stop.

    The mean is over real graphs: (2 + 22) / 2, then 4 and 6 alone. It is no NaN, and nobody counts padding.
    """
    assert both("graphs") == [[[2, 12.0], [1, 4.0], [1, 6.0], [0, 0.0]]] * 2
    assert both("static shapes") == [[[3], [2]]] * 2
    for message in both("refusal: padded graphs that end"):
        assert "got one that ends, or may end" in message


def test_predictions_are_in_order_on_all_workers(both):
    """The last batch is uneven."""
    assert both("in order") == [[0, 2, 4, 6, 8, 10, 12, 14, 16]] * 2

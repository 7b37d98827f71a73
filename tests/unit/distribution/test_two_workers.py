"""Input under MultiWorkerMirroredStrategy, in two real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.distribution.cluster import cluster_role


@pytest.fixture(scope="module")
def workers(clusters, tmp_path_factory):
    """What two_workers.py tells, for worker 0 and worker 1."""
    folder = tmp_path_factory.mktemp("records")
    parts = {"first": range(6), "second": range(6, 12), "a": range(4), "b": range(4, 8), "c": range(8, 12)}
    for name, numbers in {**parts, "all": range(12)}.items():
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


TWICE = [[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]] * 2
BY_DATA = [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]
EVERY_SECOND = [[[0, 2], [4, 6], [8, 10]], [[1, 3], [5, 7], [9, 11]]]
TWO_FILES = [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
THREE_FILES = [[[0, 1], [2, 3], [8, 9], [10, 11]], [[4, 5], [6, 7]]]
NO_FILES = "for a dataset that reads no files; got 'file'"
PLACEHOLDERS = "`auto_shard_policy` must be HINT or AUTO for a dataset with `shard(SHARD_HINT, SHARD_HINT)`"


@pytest.mark.parametrize(
    ("policy", "by_source"),
    [
        (
            "unset",
            {
                **dict.fromkeys(["range", "generator", "1 file"], BY_DATA),
                "2 files": TWO_FILES,
                "3 files": THREE_FILES,
                "range, shard hint": EVERY_SECOND,
            },
        ),
        ("AUTO", {"range": BY_DATA, "1 file": BY_DATA, "2 files": TWO_FILES, "2 files, shard hint": EVERY_SECOND}),
        (
            "FILE",
            {
                "range": NO_FILES,
                "generator": NO_FILES,
                "1 file": "got 'file' with 1 files for 2",
                "2 files": TWO_FILES,
                "3 files": THREE_FILES,
                "2 files, shard hint": PLACEHOLDERS,
            },
        ),
        (
            "DATA",
            {
                **dict.fromkeys(["range", "generator", "1 file", "2 files", "3 files"], BY_DATA),
                "range, shard hint": PLACEHOLDERS,
            },
        ),
        (
            "OFF",
            {
                **dict.fromkeys(["range", "generator", "1 file", "2 files", "3 files"], TWICE),
                "range, sharded by hand": EVERY_SECOND,
                "range, shard hint": PLACEHOLDERS,
            },
        ),
        (
            "HINT",
            {
                **dict.fromkeys(["range", "generator", "1 file", "2 files", "3 files"], TWICE),
                **dict.fromkeys(["range, shard hint", "2 files, shard hint"], EVERY_SECOND),
            },
        ),
    ],
)
def test_each_policy_gives_the_workers_what_the_guide_says(workers, policy, by_source):
    """And each worker each row once, or, where the policy leaves the dataset as it is, each row that it reads."""
    for source, expected in by_source.items():
        seen = [worker["policies"][f"{policy} / {source}"] for worker in workers]

        if isinstance(expected, str):
            assert all(expected in message for message in seen), (source, seen)
            continue
        # A worker that ends first gets batches without rows.
        assert [[batch for batch in batches if batch] for batches in seen] == expected, source
        times = 2 if expected == TWICE else 1
        rows = sorted(row for batches in seen for batch in batches for row in batch)
        assert rows == sorted(list(range(12)) * times), source


def test_a_choice_is_logged_with_its_reason_and_a_policy_of_the_user_is_not(workers):
    for worker in workers:
        logged = worker["policies"]["logged"]

        assert len(logged["unset / 1 file"]) == 1
        assert logged["unset / 1 file"][0] == (
            "INFO: Sharding by data: 1 file for 2 input pipelines; each reads it all and keeps every 2nd record. The "
            "dataset's options have no other `auto_shard_policy` than AUTO."
        )
        assert logged["DATA / 1 file"] == logged["OFF / range"] == logged["HINT / range, shard hint"] == []
        assert "WARNING: Each worker shuffles the dataset in another order" in logged["DATA / range, shuffled"][0]


def test_a_policy_without_effect_on_what_a_function_returns_is_mentioned(workers):
    for worker in workers:
        assert worker["policies"]["function"] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert len(worker["policies"]["logged"]["function"]) == 1
        assert "WARNING: `auto_shard_policy` DATA has no effect" in worker["policies"]["logged"]["function"][0]


def test_what_does_not_fit_the_workers_is_refused(both):
    for message in both("refusal: own rows in order"):
        assert "got `auto_shard_policy` OFF, which lets each of 2 workers have its own rows" in message
    for message in both("refusal: decided for one"):
        assert "must be decided for the 2 input pipelines of the strategy; got num_pipelines=1" in message


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
    """The last batch is uneven; and of files that would be sharded before they are numbered."""
    assert both("files in order") == [list(range(0, 24, 2))] * 2
    assert both("in order") == [[0, 2, 4, 6, 8, 10, 12, 14, 16]] * 2

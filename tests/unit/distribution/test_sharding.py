"""Who reads what, decided before a training starts."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.distribution.sharding import choose_sharding, num_input_pipelines, shard_files, shard_records


@pytest.mark.parametrize(
    ("num_files", "num_pipelines", "asked", "policy", "message"),
    [
        (3, 1, "auto", "off", "No sharding: one input pipeline reads 3 files."),
        (1, 1, "file", "off", "No sharding: one input pipeline reads 1 file."),
        (4, 2, "auto", "file", "Sharding by file: 4 files for 2 input pipelines."),
        (2, 2, "file", "file", "Sharding by file: 2 files for 2 input pipelines."),
        (5, 3, "auto", "file", "for 3 input pipelines; 2 of them read one more than the others."),
        (1, 2, "auto", "data", "1 file for 2 input pipelines; each reads it all and keeps every 2nd record."),
        (2, 3, "auto", "data", "each reads them all and keeps every 3rd record."),
        (8, 2, "data", "data", "Sharding by data: 8 files for 2 input pipelines"),
        (8, 2, "off", "off", "No sharding, as asked: each of 2 input pipelines reads 8 files, so examples count 2"),
    ],
)
def test_files_are_divided_where_there_are_enough_and_the_message_says_so(
    num_files, num_pipelines, asked, policy, message
):
    sharding = choose_sharding(num_files=num_files, num_pipelines=num_pipelines, asked=asked)

    assert sharding.policy == policy
    assert message in sharding.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_files": 1, "num_pipelines": 2, "asked": "file"}, "got 'file' with 1 files for 2"),
        ({"num_files": 2, "num_pipelines": 2, "asked": "files"}, "must be one of .* got 'files'"),
        ({"num_files": 0, "num_pipelines": 2}, "must be at least 1; got 0 and 2"),
    ],
)
def test_what_cannot_be_divided_so_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_sharding(**arguments)


@pytest.mark.parametrize(
    ("asked", "files", "records"),
    [
        ("file", [["a", "d"], ["b", "e"], ["c"]], [[0, 1, 2, 3, 4]] * 3),
        ("data", [["a", "b", "c", "d", "e"]] * 3, [[0, 3], [1, 4], [2]]),
        ("off", [["a", "b", "c", "d", "e"]] * 3, [[0, 1, 2, 3, 4]] * 3),
    ],
)
def test_each_pipeline_takes_its_part_and_all_parts_are_the_whole(asked, files, records):
    sharding = choose_sharding(num_files=5, num_pipelines=3, asked=asked)
    contexts = [tf.distribute.InputContext(3, place, 3) for place in range(3)]

    assert [shard_files("abcde", context, sharding) for context in contexts] == files
    numbers = tf.data.Dataset.range(5)
    assert [[int(x) for x in shard_records(numbers, context, sharding)] for context in contexts] == records


def test_a_decision_for_other_pipelines_is_refused():
    sharding = choose_sharding(num_files=5, num_pipelines=2)

    with pytest.raises(ValueError, match="for the 3 input pipelines of the strategy; got num_pipelines=2"):
        shard_files("abcde", tf.distribute.InputContext(3, 0, 3), sharding)


def test_one_machine_has_one_pipeline():
    assert num_input_pipelines(tf.distribute.get_strategy()) == 1
    assert num_input_pipelines(tf.distribute.OneDeviceStrategy("CPU:0")) == 1

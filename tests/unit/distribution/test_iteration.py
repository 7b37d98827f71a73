"""Empty elements at the ends of datasets, and steps to the end of the data."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.distribution.iteration import endless, fill_last_step, make_steps, num_replicas_with_data

EMPTY = tf.constant(-1, tf.int64)


@pytest.mark.parametrize(
    ("num_elements", "num_replicas", "expected"),
    [
        (0, 2, []),
        (1, 1, [0]),
        (3, 1, [0, 1, 2]),
        (3, 3, [0, 1, 2]),
        (4, 3, [0, 1, 2, 3, -1, -1]),
        (1, 4, [0, -1, -1, -1]),
    ],
)
def test_the_last_step_is_filled_up_and_no_step_is_added(num_elements, num_replicas, expected):
    filled = list(fill_last_step(tf.data.Dataset.range(num_elements), num_replicas, EMPTY))

    assert [int(element) for element, _ in filled] == expected
    assert [int(has_data) for _, has_data in filled] == [int(number >= 0) for number in expected]


def test_elements_of_several_parts_stay_together():
    dataset = tf.data.Dataset.range(1).map(lambda x: (x, {"y": x + 1}))

    filled = list(fill_last_step(dataset, 2, (EMPTY, {"y": EMPTY})))

    assert [(int(x), int(rest["y"]), int(has_data)) for (x, rest), has_data in filled] == [(0, 1, 1), (-1, -1, 0)]


def test_without_end_an_iterator_needs_to_be_told_when_to_stop():
    strategy = tf.distribute.get_strategy()
    dataset = endless(tf.data.Dataset.range(2), EMPTY)

    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert [int(num_replicas_with_data(strategy, has_data)) for _, has_data in dataset.take(4)] == [1, 1, 0, 0]


@pytest.mark.parametrize("empty", [tf.constant(0.0), tf.constant([1, 2], tf.int64)])
def test_an_empty_element_of_another_type_is_refused(empty):
    with pytest.raises(ValueError, match="must be of the type of the dataset's elements; got TensorSpec"):
        fill_last_step(tf.data.Dataset.range(2), 2, empty)


def test_no_replicas_and_no_steps_are_refused():
    with pytest.raises(ValueError, match="`num_replicas` must be at least 1; got 0"):
        fill_last_step(tf.data.Dataset.range(2), 0, EMPTY)
    with pytest.raises(ValueError, match="`steps_per_loop` must be at least 1; got 0"):
        make_steps(tf.distribute.get_strategy(), lambda x: x, steps_per_loop=0)

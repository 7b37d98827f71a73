from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfx_gnn.training.data.class_subset import choose_class_subset

# Nine examples of class 0, four of class 1, one of class 2, none of class 3.
RECORDS = [f"{of_class}{i}".encode() for of_class, count in enumerate((9, 4, 1)) for i in range(count)]


def first_byte(records: tf.Tensor) -> tf.Tensor:
    """The class of a record: in these tests, the digit that it begins with."""
    return tf.strings.to_number(tf.strings.substr(records, 0, 1), tf.int64)


def _chosen(order: list[bytes], batch_size: int, per_class: int = 3) -> tuple[list[bytes], int]:
    batches = [tf.constant(order[start : start + batch_size]) for start in range(0, len(order), batch_size)]
    subset = choose_class_subset(batches, first_byte, num_classes=4, per_class=per_class)
    times = [
        subset(tf.constant(order), tf.zeros(len(order)), tf.range(len(order)), tf.constant(epoch)) for epoch in (0, 5)
    ]
    np.testing.assert_array_equal(*times)
    return sorted(record for record, times in zip(order, times[0].numpy(), strict=True) if times), subset.num_examples


def test_each_class_has_the_same_number_of_examples_or_all_it_has() -> None:
    chosen, num_examples = _chosen(RECORDS, batch_size=5)

    assert [sum(record[:1] == name for record in chosen) for name in (b"0", b"1", b"2", b"3")] == [3, 3, 1, 0]
    assert num_examples == len(chosen) == 7


def test_choice_does_not_depend_on_order_and_files() -> None:
    shuffled = [RECORDS[i] for i in np.random.default_rng(1).permutation(len(RECORDS))]

    assert _chosen(shuffled, batch_size=3) == _chosen(RECORDS, batch_size=14)


def test_more_labels_include_the_fewer() -> None:
    few, many = (set(_chosen(RECORDS, batch_size=4, per_class=n)[0]) for n in (2, 4))

    assert few < many


def test_copies_are_counted() -> None:
    chosen, num_examples = _chosen([*RECORDS, *RECORDS], batch_size=4)

    assert num_examples == len(chosen) == 14

"""Examples that come several times an epoch, or not at all, by their class."""

from __future__ import annotations

import collections
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.distribution.options import DATA, FILE
from tfx_gnn.distribution.sharding import Sharding, shard_files, shard_records
from tfx_gnn.models.tasks import LabelSummary
from tfx_gnn.records.examples_folder import record_files, shuffled_records, write_split_shard
from tfx_gnn.training.data.class_sampling import ClassSampler, expected_examples, sampling_rates

NAMES = (b"fraud", b"loan", b"sale")
COUNTS = (10, 30, 60)
LABELS = LabelSummary(num_labels=100, num_counted=100, class_counts=COUNTS)


def first_byte(records: tf.Tensor) -> tf.Tensor:
    """The class of a record: in these tests, the digit that it begins with."""
    return tf.strings.to_number(tf.strings.substr(records, 0, 1), tf.int64)


def sampler(rates, seed=7):
    return ClassSampler(rates=rates, classes=first_byte, seed=seed)


@pytest.mark.parametrize(
    ("class_sampling", "counts", "rates", "expected"),
    [
        ("balanced", COUNTS, (100 / 30, 100 / 90, 100 / 180), 100),
        # Only two classes occur.
        ("balanced", (20, 0, 60), (2.0, 1.0, 80 / 120), 80),
        ({"fraud": 3.0, "sale": 0.5}, COUNTS, (3.0, 1.0, 0.5), 90),
        ({}, COUNTS, (1.0, 1.0, 1.0), 100),
    ],
)
def test_rates_follow_from_the_option(class_sampling, counts, rates, expected):
    labels = LabelSummary(num_labels=sum(counts), num_counted=sum(counts), class_counts=counts)

    found = sampling_rates(class_sampling, NAMES, labels)

    assert found == pytest.approx(rates)
    assert expected_examples(found, labels) == expected


@pytest.mark.parametrize(
    ("class_sampling", "message"),
    [
        ({"farud": 2.0}, r"`class_sampling` must name classes among \['fraud', 'loan', 'sale'\]; got \['farud'\]"),
        (dict.fromkeys(["fraud", "loan", "sale"], 0.001), "must leave at least one example in an epoch; got 0.1 on"),
    ],
)
def test_unsuitable_rates_are_refused(class_sampling, message):
    with pytest.raises(ValueError, match=message):
        sampling_rates(class_sampling, NAMES, LABELS)


def times(rates, *, num=4000, shard=0, epoch=0, seed=7):
    positions = tf.range(num, dtype=tf.int64)
    places = tf.fill([num], tf.constant(shard, tf.int64)), positions, tf.constant(epoch, tf.int64)
    return sampler(rates, seed)(tf.fill([num], "0"), *places).numpy()


def test_a_whole_rate_is_exact():
    assert times((3.0,)).tolist() == [3] * 4000


def test_the_rest_of_a_rate_is_a_probability():
    found = times((2.25,))

    assert set(found) == {2, 3}
    # 1000 of 4000 and 5 standard deviations: sqrt(4000 * 1/4 * 3/4) = 27.4.
    assert abs(np.count_nonzero(found == 3) - 1000) < 5 * 27.4


@pytest.mark.parametrize("change", [{"shard": 1}, {"epoch": 1}, {"seed": 8}])
def test_seed_epoch_and_place_decide_independently(change):
    one, other = times((0.5,)), times((0.5,), **change)

    # Half of them agree by chance: 2000 and 5 standard deviations of 31.6.
    assert abs(np.count_nonzero(one == other) - 2000) < 5 * 31.6


def test_decisions_are_the_same_in_every_release():
    assert times((0.5,), num=12).tolist() == [1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("sampled"))
    classes = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], COUNTS))
    records = [f"{label}:{number}".encode() for number, label in enumerate(classes)]
    for shard in range(4):
        write_split_shard(folder, "train", shard, 4, records[shard::4])
    return record_files(folder, ("train",))


BALANCED_RATES = sampling_rates("balanced", NAMES, LABELS)


def epochs_of(files, *numbers, context=None, sharding=None, buffer=100):
    shard = None
    if sharding is not None:
        files = shard_files(files, context, sharding)
        shard = functools.partial(shard_records, context=context, sharding=sharding)
    records = shuffled_records(
        files,
        epochs=tf.data.Dataset.from_tensor_slices(tf.constant(numbers, tf.int64)),
        shuffle_buffer_size=buffer,
        seed=7,
        pipeline=0 if context is None else context.input_pipeline_id,
        shard=shard,
        times=sampler(BALANCED_RATES),
    )
    return [record.decode() for record in records.as_numpy_iterator()]


def test_classes_of_10_30_and_60_examples_come_about_33_times_each(files):
    by_epoch = [collections.Counter(record[0] for record in epochs_of(files, epoch)) for epoch in range(4)]

    # A class of 10 examples comes 30 times and up to 10 more, and so on. Written down: a checkpoint must find the same
    # epochs in every release.
    assert [(drawn["0"], drawn["1"], drawn["2"]) for drawn in by_epoch] == [
        (34, 34, 36),
        (32, 32, 36),
        (33, 33, 36),
        (33, 33, 36),
    ]


def test_the_mean_over_epochs_is_the_rate():
    drawn = [times((0.5556,), num=60, epoch=epoch).sum() for epoch in range(200)]

    # One standard deviation of an epoch is sqrt(60 * 0.5556 * 0.4444) = 3.85, so 0.27 of the mean.
    assert abs(np.mean(drawn) - 33.3) < 5 * 0.27
    assert abs(np.std(drawn) - 3.85) < 0.8


def test_every_example_comes_as_many_times_as_its_place_says(files):
    drawn = collections.Counter(epochs_of(files, 3))

    expected = {}
    for file in files:
        records = list(tf.data.TFRecordDataset(file.path, compression_type="GZIP").as_numpy_iterator())
        places = tf.fill([len(records)], tf.constant(file.shard, tf.int64)), tf.range(len(records), dtype=tf.int64)
        counts = sampler(BALANCED_RATES)(tf.constant(records), *places, tf.constant(3, tf.int64))
        expected |= {record.decode(): int(count) for record, count in zip(records, counts, strict=True) if count}
    assert drawn == expected


def test_an_epoch_is_the_same_whatever_was_read_before(files):
    assert epochs_of(files, 2, 3) == epochs_of(files, 2) + epochs_of(files, 3)


def test_copies_follow_each_other_where_nothing_is_shuffled(files):
    records = epochs_of(files, 0, buffer=1)

    changes = sum(one != other for one, other in itertools.pairwise(records))
    assert changes == len(set(records)) - 1


@pytest.mark.parametrize("policy", [FILE, DATA])
def test_two_workers_read_together_what_one_reads(files, policy):
    sharding = Sharding(policy=policy, num_pipelines=2, message="")
    parts = [
        epochs_of(
            files,
            1,
            context=tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=worker),
            sharding=sharding,
        )
        for worker in range(2)
    ]

    assert all(parts)
    assert sorted(parts[0] + parts[1]) == sorted(epochs_of(files, 1))
    assert not set(parts[0]) & set(parts[1])

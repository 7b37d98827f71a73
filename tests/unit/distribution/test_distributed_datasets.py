"""What a dataset is made of, what of it is refused, and how it is divided."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.distribution.distributed_datasets import (
    check_dataset,
    choose_dataset_sharding,
    dataset_contents,
    distribute,
    distribute_batches,
    per_replica_batch_size,
    with_policy,
)

Dataset = tf.data.Dataset
SHARD_HINT = tf.data.experimental.SHARD_HINT
GENERATOR = tf.random.Generator.from_seed(1)
PATHS = ["first", "second"]
# A TPUStrategy cannot be made without a TPU; its type is all that is asked for.
ON_TPU = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)


@pytest.mark.parametrize(
    ("make", "num_files"),
    [
        (lambda: tf.data.TFRecordDataset(PATHS), 2),
        (lambda: tf.data.TFRecordDataset("first").batch(2).map(tf.strings.length).prefetch(1), 1),
        (lambda: tf.data.TextLineDataset(PATHS), 2),
        (lambda: tf.data.FixedLengthRecordDataset(PATHS, 4), 2),
        (lambda: Dataset.from_tensor_slices(PATHS).shuffle(2, seed=1).interleave(tf.data.TFRecordDataset), 2),
        (lambda: Dataset.from_tensor_slices(PATHS).map(lambda x: x).flat_map(tf.data.TFRecordDataset).shuffle(9), 2),
        (lambda: tf.data.TFRecordDataset("a").concatenate(tf.data.TFRecordDataset(["b", "c"])), None),
    ],
)
def test_files_are_found_wherever_they_are_read(make, num_files):
    contents = dataset_contents(make())

    assert contents.reads_files
    assert contents.num_files == num_files
    assert contents.random_ops == contents.python_ops == ()


def test_what_is_in_memory_reads_no_files():
    for dataset in (Dataset.range(3), Dataset.from_tensor_slices(PATHS)):
        contents = dataset_contents(dataset)

        assert not contents.reads_files
        assert contents.num_files is None


@pytest.mark.parametrize(
    ("draw", "op"),
    [
        (lambda _: tf.random.uniform([]), "RandomUniform"),
        (lambda x: tf.cond(x > 0, lambda: tf.random.normal([]), lambda: 0.0), "RandomStandardNormal"),
        (lambda x: tf.random.shuffle([x, x]), "RandomShuffle"),
        (lambda _: GENERATOR.uniform([]), "RngReadAndSkip"),
    ],
)
def test_random_state_of_a_process_is_refused(draw, op):
    with pytest.raises(ValueError, match=rf"got the stateful operations \['{op}'\].*`tf.random.stateless_\*`"):
        distribute(tf.distribute.get_strategy(), lambda _: Dataset.range(3).map(draw).batch(1))


def test_seeds_in_the_elements_and_shuffling_are_fine():
    dataset = Dataset.range(3).shuffle(3).map(lambda i: tf.random.stateless_uniform([], seed=[i, 1]))

    assert check_dataset(dataset, tf.distribute.get_strategy()).random_ops == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64)),
        lambda: Dataset.range(3).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64)),
        lambda: Dataset.range(3).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64)),
    ],
)
def test_python_in_a_dataset_is_refused_on_tpu_only(make):
    assert check_dataset(make(), tf.distribute.get_strategy()).python_ops
    with pytest.raises(ValueError, match="must not call Python under TPUStrategy"):
        check_dataset(make(), ON_TPU)


@pytest.mark.parametrize(("global_batch_size", "num_replicas", "nearest"), [(5, 2, "4 or 6"), (1, 2, "2"), (0, 3, "3")])
def test_a_batch_that_cannot_be_divided_is_refused(global_batch_size, num_replicas, nearest):
    with pytest.raises(ValueError, match=rf"not divisible by {num_replicas}. Take {nearest}\."):
        per_replica_batch_size(global_batch_size, num_replicas)


@pytest.mark.parametrize(
    ("make", "asked", "policy", "message"),
    [
        (lambda: tf.data.TFRecordDataset(PATHS), "auto", "file", "2 files for 2 input pipelines"),
        (lambda: tf.data.TFRecordDataset("first"), "auto", "data", "1 file for 2"),
        (lambda: Dataset.range(12), "auto", "data", "the dataset reads no files; 2 input pipelines"),
        (lambda: Dataset.range(12), "off", "off", "No sharding, as asked"),
        (lambda: Dataset.range(12), "hint", "hint", "each of 2 input pipelines reads the whole dataset"),
        (
            lambda: tf.data.TFRecordDataset("a").concatenate(tf.data.TFRecordDataset("b")),
            "auto",
            "data",
            "files whose number is not known",
        ),
    ],
)
def test_a_plain_dataset_is_divided_by_what_it_reads(make, asked, policy, message):
    sharding = choose_dataset_sharding(make(), num_pipelines=2, asked=asked)

    assert sharding.policy == policy
    assert message in sharding.message


def test_the_policy_of_the_dataset_decides_unless_it_is_auto():
    data, auto = with_policy(Dataset.range(12), "data"), with_policy(Dataset.range(12), "auto")
    by_file = with_policy(tf.data.TFRecordDataset("first"), "file")

    assert choose_dataset_sharding(data.batch(2).map(abs), num_pipelines=2).policy == "data"
    assert choose_dataset_sharding(data, num_pipelines=2, asked="data").policy == "data"
    assert choose_dataset_sharding(auto, num_pipelines=2, asked="off").policy == "off"
    assert choose_dataset_sharding(by_file, num_pipelines=1).policy == "off"
    with pytest.raises(ValueError, match="or the policy of the dataset's options, 'data'; got 'off'"):
        choose_dataset_sharding(data, num_pipelines=2, asked="off")
    with pytest.raises(ValueError, match="got 'file' with 1 files for 2"):
        choose_dataset_sharding(by_file, num_pipelines=2)
    with pytest.raises(ValueError, match=r"`asked` must be one of .*; got 'files'"):
        choose_dataset_sharding(data, num_pipelines=2, asked="files")


@pytest.mark.parametrize(
    ("make", "has_shard_hint"),
    [
        (lambda data: data.shard(SHARD_HINT, SHARD_HINT).batch(2), True),
        (lambda data: data.shard(2, 1), False),
        (lambda data: data.shuffle(3, seed=0), False),
    ],
)
def test_placeholders_for_the_worker_are_found_and_seeded_shuffling_is_no_fault(make, has_shard_hint):
    contents = dataset_contents(make(Dataset.range(3)))

    assert (contents.has_shard_hint, contents.shuffles_unseeded) == (has_shard_hint, False)


def test_packed_examples_cannot_be_looked_into_and_are_not_for_tensorflow_to_divide():
    nodes = tfx_gnn.NodeSet.from_fields(sizes=tf.constant([2]), features={"x": tf.constant([1.0, 2.0])})
    graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes})
    records = Dataset.from_tensors(tfx_gnn.write_example(graph).SerializeToString()).repeat(3)
    packed = tfx_gnn.pack_batches(records, tfx_gnn.SizeConstraints(5, {"a": 9}, {}, {"a": 0}), spec=graph.spec)

    assert not dataset_contents(packed).is_known
    assert len(list(distribute(tf.distribute.get_strategy(), lambda _: packed))) == 1
    assert choose_dataset_sharding(packed, num_pipelines=1).policy == "off"
    assert choose_dataset_sharding(with_policy(packed, "off"), num_pipelines=2).policy == "off"
    with pytest.raises(ValueError, match=r"as the result of `pack_batches`\. Use `tfx_gnn.distribution.distribute`"):
        choose_dataset_sharding(packed, num_pipelines=2)


def test_scalars_and_merged_graphs_cannot_be_parted():
    graph = tfx_gnn.GraphTensor.from_pieces(tfx_gnn.Context.from_fields(features={"x": [1.0]}))

    for dataset in (Dataset.range(3), Dataset.from_tensors(graph)):
        with pytest.raises(ValueError, match="must consist of batches, which are split among replicas"):
            distribute_batches(tf.distribute.get_strategy(), dataset)


def test_the_library_avoids_what_makes_workers_differ():
    """Files are listed once and in order, and optimizations stay as TensorFlow has them."""
    sources = "".join(path.read_text() for path in Path(tfx_gnn.__file__).parent.rglob("*.py"))

    for name in ("list_files(", "experimental_optimization"):
        assert name not in sources

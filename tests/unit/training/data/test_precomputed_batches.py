"""Shuffled epochs of padded batches, stored and read again."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import shutil

import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.records.examples_folder import record_files, shuffled_records
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SizeConstraintsFile,
    fingerprint_examples,
    fingerprint_graph_schema,
    write_size_constraints,
)
from tfx_gnn.training.data.padded_batches import EpochOffset, padded_batches
from tfx_gnn.training.data.precomputed_batches import (
    MANIFEST_FILE,
    PrecomputedBatchesManifest,
    PrecomputedBatchesOptions,
    precomputed_batches_dataset,
    read_manifest,
    write_precomputed_batches,
)

SCHEMA = """
context { features { key: "number" value { dtype: DT_INT64 } } }
node_sets { key: "item" value {
    features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "name" value { dtype: DT_STRING } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "counts" value { dtype: DT_INT64 shape { dim { size: -1 } } } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
"""
NUM_GRAPHS = 25
SEED = 5


def _example(number):
    size = 1 + number * number % 5
    lengths = [i % 3 for i in range(size)]
    return {
        "context/number": [number],
        "nodes/item.#size": [size],
        "nodes/item.x": [float(number)] * (2 * size),
        "nodes/item.name": [b"%d" % number] * size,
        "nodes/item.words": [b"w%d" % i for i in range(sum(lengths))],
        "nodes/item.words.d1": lengths,
        "nodes/item.counts": list(range(size - 1)),
        "nodes/item.counts.d1": [size - 1] + [0] * (size - 1),
        "edges/link.#size": [size - 1],
        "edges/link.#source": list(range(1, size)),
        "edges/link.#target": [0] * (size - 1),
    }


def _budget(kind, items, components):
    return Budget(
        kind=kind,
        batch_size=4,
        total_num_components=components,
        total_num_nodes={"item": items},
        total_num_edges={"link": items},
        success_ratio=0.7 if kind == "fit_or_skip" else 1.0,
        window=8 if kind == "packing" else 0,
        graphs_per_batch=4.0,
        fill=0.5,
        fill_by_set={},
        bytes_per_batch=0,
    )


@dataclasses.dataclass(frozen=True)
class Data:
    """Arguments of the functions under test."""

    transformed_examples_dir: str
    transformed_graph_schema_dir: str
    size_constraints_dir: str

    @property
    def of_reading(self):
        folders = dataclasses.asdict(self)
        del folders["size_constraints_dir"]
        return folders


@pytest.fixture(scope="module")
def data(write_examples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    shards = [[_example(number) for number in range(shard, NUM_GRAPHS, 3)] for shard in range(3)]
    write_examples(str(folder), {"train": shards, "val": [[_example(0)]]}, SCHEMA)
    budgets = [_budget("tight", 21, 5), _budget("fit_or_skip", 13, 5), _budget("packing", 13, 8)]
    constraints_dir = str(tmp_path_factory.mktemp("sizes"))
    content = SizeConstraintsFile(
        data_fingerprint=fingerprint_examples(str(folder), ("train",)),
        graph_schema_fingerprint=fingerprint_graph_schema(str(folder)),
        options={"splits": ["train"], "batch_size": 4, "success_ratios": [0.7]},
        splits={},
        budgets={budget.name: budget for budget in budgets},
    )
    write_size_constraints(content, constraints_dir)
    return Data(str(folder), str(folder), constraints_dir)


@pytest.fixture(scope="module")
def write(data, tmp_path_factory):
    def write_batches(folder=None, **options):
        ready_dir = folder or str(tmp_path_factory.mktemp("ready") / "batches")
        given = {"num_epochs": 2, "success_ratio": 0.7, "seed": SEED, "shuffle_buffer_size": 100, **options}
        manifest = write_precomputed_batches(
            **dataclasses.asdict(data), precomputed_batches_dir=ready_dir, options=PrecomputedBatchesOptions(**given)
        )
        return ready_dir, manifest

    return write_batches


@pytest.fixture(scope="module")
def written(write):
    """Gives folder and manifest of two epochs in batches of a kind."""
    return functools.cache(lambda batching: write(batching=batching))


@pytest.fixture(scope="module")
def packed(written):
    """Folder and manifest of two epochs of packed batches."""
    return written("packed")


def _epochs(*numbers):
    return tf.data.Dataset.from_tensor_slices(tf.constant(numbers, tf.int64))


def _batches_of_training(data, manifest, epochs):
    """What a training of the same seed makes in some epochs."""
    files = record_files(data.transformed_examples_dir, ("train",))
    spec = create_graph_spec_from_schema_pb(parse_schema(SCHEMA))
    records = shuffled_records(files, epochs=epochs, shuffle_buffer_size=100, seed=SEED)
    return padded_batches(records, spec, manifest.budget, manifest.options.batching)


def _values(dataset):
    """All tensors of all batches."""
    return [[part.numpy().tolist() for part in tf.nest.flatten(batch, expand_composites=True)] for batch in dataset]


def _numbers(batch):
    return tf.boolean_mask(batch.graph.context["number"], batch.is_real).numpy().tolist()


@pytest.mark.parametrize("batching", ["packed", "fit_or_skip", "tight"])
def test_batches_are_those_of_a_training_of_the_same_seed(data, written, batching):
    folder, manifest = written(batching)
    start = EpochOffset()
    training = _batches_of_training(data, manifest, start.epochs())

    stored = precomputed_batches_dataset(folder, **data.of_reading, budget=manifest.budget, epochs=start.epochs())

    assert stored.element_spec == training.element_spec
    first = _values(stored)
    assert first == _values(training)
    start.set(1)
    second = _values(stored)
    assert second == _values(training)
    assert first != second


def test_the_manifest_counts_what_is_stored(data, written):
    folder, manifest = written("fit_or_skip")
    start = EpochOffset()
    dataset = precomputed_batches_dataset(folder, **data.of_reading, budget=manifest.budget, epochs=start.epochs())

    assert read_manifest(folder) == manifest
    for epoch, stored in enumerate(manifest.epochs):
        start.set(epoch)
        batches = list(dataset)
        assert stored.num_batches == len(batches)
        assert stored.num_graphs == sum(len(_numbers(batch)) for batch in batches)
        assert stored.num_removed_batches == sum(int(batch.num_removed_batches) for batch in batches) > 0
        assert stored.num_removed_graphs == sum(int(batch.num_removed_graphs) for batch in batches)
        assert stored.num_graphs + stored.num_removed_graphs == NUM_GRAPHS
        files = [name for name in os.listdir(folder) if name.startswith(f"epoch-{epoch:05d}.")]
        assert stored.num_bytes == sum(os.path.getsize(os.path.join(folder, name)) for name in files)
    assert manifest.num_bytes == sum(epoch.num_bytes for epoch in manifest.epochs)


def test_each_iteration_reads_the_next_epoch_if_none_is_named(data, packed):
    folder, manifest = packed
    dataset = precomputed_batches_dataset(folder, **data.of_reading, budget=manifest.budget)

    passes = [_values(dataset) for _ in range(3)]

    # Epochs of 25 graphs each, all packed.
    named = precomputed_batches_dataset(folder, **data.of_reading, budget=manifest.budget, epochs=_epochs(0, 1, 0))
    assert list(itertools.chain(*passes)) == _values(named)
    assert passes[0] != passes[1]


def test_after_the_last_epoch_comes_the_first_again(data, packed):
    folder, manifest = packed
    start = EpochOffset()
    dataset = precomputed_batches_dataset(
        folder, **data.of_reading, budget=manifest.budget, epochs=start.epochs(), keep=start.keep
    )

    first = _values(dataset)
    start.set(1)
    second = _values(dataset)
    start.set(2)
    third = _values(dataset)
    start.set(3, first_batch=2)

    assert third == first != second
    assert _values(dataset) == second[2:]


def test_no_graph_is_lost_in_a_packed_epoch(data, packed):
    folder, manifest = packed

    dataset = precomputed_batches_dataset(folder, **data.of_reading, budget=manifest.budget, epochs=_epochs(0))

    assert sorted(itertools.chain(*map(_numbers, dataset))) == list(range(NUM_GRAPHS))
    assert [epoch.num_graphs for epoch in manifest.epochs] == [NUM_GRAPHS] * 2


def test_other_data_are_refused(data, packed, write_examples, tmp_path):
    folder, manifest = packed
    write_examples(str(tmp_path), {"train": [[_example(3)]]}, SCHEMA.replace("number", "other"))

    with pytest.raises(ValueError, match="must hold batches of the same examples; got those of fingerprint"):
        precomputed_batches_dataset(
            folder,
            transformed_examples_dir=str(tmp_path),
            transformed_graph_schema_dir=data.transformed_graph_schema_dir,
            budget=manifest.budget,
            epochs=_epochs(0),
        )
    with pytest.raises(ValueError, match="must hold batches of the same graph schema; got those of fingerprint"):
        precomputed_batches_dataset(
            folder,
            transformed_examples_dir=data.transformed_examples_dir,
            transformed_graph_schema_dir=str(tmp_path),
            budget=manifest.budget,
            epochs=_epochs(0),
        )


def test_a_split_that_the_budgets_were_not_learned_from_is_refused(write):
    with pytest.raises(ValueError, match=r"learned from every split that is read; got \['train'\], not \['val'\]"):
        write(split="val")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_num_nodes": {"item": 14}}, r"got \{'total_num_nodes': \{'item': 13\}\}, the budget at hand has"),
        ({"window": 128}, r"got \{'window': 8\}, the budget at hand has \{'window': 128\}"),
        ({"kind": "tight"}, r"got \{'kind': 'packing'\}, the budget at hand has \{'kind': 'tight'\}"),
    ],
)
def test_another_budget_is_refused(data, packed, change, message):
    folder, manifest = packed

    with pytest.raises(ValueError, match=message):
        precomputed_batches_dataset(
            folder, **data.of_reading, budget=dataclasses.replace(manifest.budget, **change), epochs=_epochs(0)
        )


def test_what_is_only_known_of_a_budget_does_not_matter(data, packed):
    folder, manifest = packed

    known = dataclasses.replace(manifest.budget, fill=0.9, graphs_per_batch=5.0)

    assert list(precomputed_batches_dataset(folder, **data.of_reading, budget=known, epochs=_epochs(0)))


def _change_manifest(folder, **changes):
    path = os.path.join(folder, MANIFEST_FILE)
    with open(path) as file:
        content = json.load(file)
    with open(path, "w") as file:
        json.dump({**content, **changes}, file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: os.remove(os.path.join(folder, MANIFEST_FILE)), "must hold precomputed_batches.json; got"),
        (lambda folder: os.truncate(os.path.join(folder, MANIFEST_FILE), 50), "got text that is not its JSON"),
        (lambda folder: _change_manifest(folder, format_version=2), "`format_version` must be 1; got 2"),
        (lambda folder: _change_manifest(folder, tensors=["is_real bool [8]"]), "must hold batches of the tensors"),
        (lambda folder: os.truncate(os.path.join(folder, "epoch-00001.batches"), 64), "must hold whole files; got"),
        (lambda folder: os.remove(os.path.join(folder, "epoch-00001.tfrecord")), "without one of epoch 1"),
    ],
)
def test_damaged_folders_are_refused(data, packed, tmp_path, damage, message):
    folder = str(tmp_path / "damaged")
    shutil.copytree(packed[0], folder)
    damage(folder)

    with pytest.raises(ValueError, match=message):
        precomputed_batches_dataset(folder, **data.of_reading, budget=packed[1].budget, epochs=_epochs(0))


def test_writing_leaves_nothing_behind_that_is_not_whole(data, write, tmp_path, write_examples):
    with pytest.raises(FileExistsError, match="must be absent or an empty folder"):
        write(data.size_constraints_dir)
    with pytest.raises(ValueError, match="`size_constraints_dir` must hold the budget that is asked for"):
        write(str(tmp_path / "ready"), batch_size=7)
    with pytest.raises(ValueError, match="`split` must be one of"):
        write(str(tmp_path / "ready"), split="other")
    other = str(tmp_path / "examples")
    write_examples(other, {"train": [[_example(3)]]}, SCHEMA)
    with pytest.raises(ValueError, match="must hold budgets learned from the same examples"):
        write_precomputed_batches(
            **{**dataclasses.asdict(data), "transformed_examples_dir": other},
            precomputed_batches_dir=str(tmp_path / "ready"),
            options=PrecomputedBatchesOptions(),
        )

    assert os.listdir(tmp_path) == ["examples"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_epochs": 0}, "`num_epochs` must be at least 1; got 0"),
        ({"shuffle_buffer_size": 0}, "`shuffle_buffer_size` must be at least 1; got 0"),
        ({"batch_size": -1}, "`batch_size` must be at least 0; got -1"),
        ({"batching": "packing"}, "`batching` must be one of .*; got 'packing'"),
        ({"seed": -1}, r"`seed` must lie in \[0, 2\*\*31\); got -1"),
        ({"split": ""}, "`split` must name a split; got ''"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PrecomputedBatchesOptions(**options)


def test_a_manifest_knows_its_bytes(packed):
    manifest = dataclasses.replace(packed[1], epochs=packed[1].epochs[:1])

    assert isinstance(manifest, PrecomputedBatchesManifest)
    assert manifest.num_bytes == packed[1].epochs[0].num_bytes > 0

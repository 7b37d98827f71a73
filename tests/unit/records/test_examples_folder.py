from __future__ import annotations

import gzip
import io
import itertools
import pathlib
import shutil

import pytest
import tensorflow as tf
from rich.console import Console

from tfx_gnn.io.progress import show_progress
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import (
    RecordFile,
    fingerprint_examples_folder,
    ordered_records,
    place_of,
    read_records,
    read_split,
    record_files,
    shuffled_records,
    write_split_shard,
)


def test_records_are_read_back_in_shard_order(tmp_path):
    folder = str(tmp_path)
    for shard, records in enumerate([[b"a", b"b"], [], [b"c"]]):
        assert examples_folder.write_split_shard(folder, "train", shard, 3, records) == len(records)
    examples_folder.write_split_shard(folder, "test", 0, 1, [b"z"])

    assert examples_folder.split_names(folder) == ["test", "train"]
    assert list(examples_folder.read_split(folder, "train").as_numpy_iterator()) == [b"a", b"b", b"c"]


def test_a_missing_split_is_refused_with_those_that_exist(tmp_path):
    examples_folder.write_split_shard(str(tmp_path), "train", 0, 1, [b"a"])

    with pytest.raises(ValueError, match=r"must be one of \['train'\]; got 'eval'"):
        examples_folder.split_files(str(tmp_path), "eval")


def test_a_split_without_files_is_refused(tmp_path):
    (tmp_path / "Split-train").mkdir()

    with pytest.raises(ValueError, match="must hold record files"):
        examples_folder.split_files(str(tmp_path), "train")


@pytest.mark.parametrize("hidden", [".ipynb_checkpoints", "_SUCCESS_logs"])
def test_hidden_names_are_no_records(tmp_path, hidden):
    examples_folder.write_split_shard(str(tmp_path), "train", 0, 1, [b"a"])
    (tmp_path / "Split-train" / hidden).mkdir()
    (tmp_path / "Split-train" / f"{hidden}.txt").touch()

    assert list(examples_folder.read_split(str(tmp_path), "train").as_numpy_iterator()) == [b"a"]


def test_a_folder_in_a_split_is_named(tmp_path):
    examples_folder.write_split_shard(str(tmp_path), "train", 0, 1, [b"a"])
    (tmp_path / "Split-train" / "model").mkdir()

    with pytest.raises(ValueError, match=r"Split-train` must hold record files only; got the folder 'model'\. Move"):
        examples_folder.split_files(str(tmp_path), "train")


@pytest.mark.parametrize("name", ["", "absent"], ids=["without splits", "missing"])
def test_a_folder_that_holds_no_examples_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="must hold `Split-<name>` folders"):
        examples_folder.split_names(str(tmp_path / name))


def test_a_schema_file_of_any_name_stands_for_its_folder():
    assert examples_folder.graph_schema_path("folder") == "folder/graph_schema.pbtxt"
    assert examples_folder.graph_schema_path("folder/mine.pbtxt") == "folder/mine.pbtxt"


def test_a_folder_may_be_called_as_a_schema_file_is(tmp_path):
    folder = tmp_path / "s.pbtxt"
    folder.mkdir()

    assert examples_folder.graph_schema_path(str(folder)) == str(folder / "graph_schema.pbtxt")


@pytest.fixture
def examples_dir(tmp_path):
    folder = str(tmp_path / "examples")
    for split in ("train", "val"):
        for shard in range(2):
            examples_folder.write_split_shard(
                folder, split, shard, 2, [f"{split}{shard}{n}".encode() for n in range(3)]
            )
    return folder


def test_files_are_listed_by_split_and_position(examples_dir):
    files = record_files(examples_dir)

    assert [(file.split, file.shard, file.num_shards) for file in files] == [
        ("train", 0, 2), ("train", 1, 2), ("val", 0, 2), ("val", 1, 2),
    ]  # fmt: skip
    assert record_files(examples_dir, ["val"]) == files[2:]


def test_records_come_in_order(examples_dir):
    file = record_files(examples_dir)[3]

    assert list(read_records(file)) == [b"val10", b"val11", b"val12"]
    assert place_of(file, 2) == "record 2 of graphs-00001-of-00002.gz (split 'val')"


def test_a_damaged_file_is_named(examples_dir, tmp_path):
    file = record_files(examples_dir)[0]
    with open(file.path, "rb") as whole:
        content = whole.read()
    with open(file.path, "wb") as half:
        half.write(content[: len(content) // 2])

    with pytest.raises(ValueError, match=r"a damaged record in graphs-00000-of-00002.gz \(split 'train'\)"):
        list(read_records(file))


def test_records_before_the_damage_are_read(tmp_path):
    folder = str(tmp_path / "examples")
    records = [bytes([number]) * 10 for number in range(100)]
    examples_folder.write_split_shard(folder, "train", 0, 1, records)
    (file,) = record_files(folder)
    content = bytearray(gzip.decompress(pathlib.Path(file.path).read_bytes()))
    content[-10] ^= 1  # of the last record
    pathlib.Path(file.path).write_bytes(gzip.compress(bytes(content)))

    reader = read_records(file)
    found = list(itertools.islice(reader, 99))

    assert found == records[:-1]
    with pytest.raises(ValueError, match=r"a damaged record in graphs-00000-of-00001\.gz"):
        next(reader)


def test_a_file_that_is_not_gzipped_is_named(tmp_path):
    path = tmp_path / "plain.gz"
    path.write_bytes(b"neither gzip nor records")

    with pytest.raises(ValueError, match=r"must hold gzipped TFRecord files; got a damaged record in plain\.gz"):
        list(read_records(RecordFile(split="train", shard=0, num_shards=1, path=str(path))))


def test_a_folder_with_the_name_of_a_file_is_named(tmp_path):
    (tmp_path / "Split-train" / "model.gz").mkdir(parents=True)

    with pytest.raises(ValueError, match=r"got a folder in place of model\.gz \(split 'train'\)\. Move it out"):
        list(read_records(record_files(str(tmp_path))[0]))


def test_a_split_named_twice_is_refused(examples_dir):
    with pytest.raises(ValueError, match="must name each split once"):
        record_files(examples_dir, ["val", "val"])


def test_an_absent_split_is_refused(examples_dir):
    with pytest.raises(ValueError, match=r"must be one of \['train', 'val'\]; got 'test'"):
        record_files(examples_dir, ["test"])


def test_folders_of_other_examples_are_told_apart_wherever_they_lie(examples_dir, tmp_path):
    same = str(shutil.copytree(examples_dir, tmp_path / "same"))
    other = str(shutil.copytree(examples_dir, tmp_path / "other"))
    examples_folder.write_split_shard(other, "val", 1, 2, [b"val10", b"val12", b"val11"])

    found, again, changed = map(fingerprint_examples_folder, (examples_dir, same, other))

    assert found == again != changed


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """24 records in three files, of which record i is in file i % 3."""
    folder = str(tmp_path_factory.mktemp("records"))
    for shard in range(3):
        write_split_shard(folder, "train", shard, 3, [b"%d" % number for number in range(shard, 24, 3)])
    return record_files(folder, ("train",))


def _numbers(dataset):
    return [int(record) for record in dataset.as_numpy_iterator()]


def test_records_are_read_file_by_file_in_turns(files):
    dataset = ordered_records(files)

    assert _numbers(dataset) == _numbers(dataset) == list(range(24))


def _epochs(files, *epochs, seed=1, shuffle_buffer_size=100, **part):
    numbers = tf.data.Dataset.from_tensor_slices(tf.constant(epochs, tf.int64))
    return _numbers(shuffled_records(files, epochs=numbers, shuffle_buffer_size=shuffle_buffer_size, seed=seed, **part))


def test_order_differs_by_epoch_and_hangs_on_nothing_but_seed_and_epoch(files):
    tf.random.set_seed(1)
    first, second = _epochs(files, 0), _epochs(files, 1)

    tf.random.set_seed(2)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(24))
    assert _epochs(files, 1, 0) == second + first
    assert _epochs(files, 0, seed=2) != first


def test_nothing_is_mixed_with_a_buffer_of_one(files):
    assert _epochs(files, 0, 1, shuffle_buffer_size=1) == 2 * list(range(24))


@pytest.mark.parametrize("epoch", range(4))
def test_pipelines_share_the_records_of_an_epoch_before_they_mix_them(files, epoch):
    """Each of them sees the same order of several files, or some records would be read twice and others never."""
    parts = [_epochs(files, epoch, pipeline=i, shard=lambda records, i=i: records.shard(2, i)) for i in range(2)]

    assert sorted(parts[0] + parts[1]) == list(range(24))
    assert len(parts[0]) == len(parts[1]) == 12


def test_pipelines_mix_in_orders_of_their_own(files):
    assert sorted(_epochs(files, 0, pipeline=1)) == sorted(_epochs(files, 0))
    assert _epochs(files, 0, pipeline=1) != _epochs(files, 0)


@pytest.fixture
def two_shards(tmp_path):
    for shard in range(2):
        examples_folder.write_split_shard(str(tmp_path), "train", shard, 2, [b"a record", b"another"])
    return tmp_path


_LISTINGS = pytest.mark.parametrize("read", [record_files, lambda folder: read_split(folder, "train")])


@_LISTINGS
@pytest.mark.parametrize("num_bytes", [0, 12, 19, 30])
def test_a_file_that_was_cut_off_is_named(two_shards, num_bytes, read):
    file = two_shards / "Split-train" / "graphs-00001-of-00002.gz"
    file.write_bytes(file.read_bytes()[:num_bytes])

    with pytest.raises(
        ValueError, match=r"whole gzipped TFRecord files; got 'graphs-00001-of-00002.gz', which ends early"
    ):
        read(str(two_shards))


@_LISTINGS
def test_a_shard_that_is_lost_is_named(two_shards, read):
    (two_shards / "Split-train" / "graphs-00001-of-00002.gz").unlink()

    with pytest.raises(ValueError, match=r"must hold all 2 shards; got 1, without 'graphs-00001-of-00002.gz'"):
        read(str(two_shards))


def test_a_shard_without_records_and_files_of_other_names_are_no_loss(tmp_path):
    examples_folder.write_split_shard(str(tmp_path), "train", 0, 1, [])
    shutil.copy(tmp_path / "Split-train" / "graphs-00000-of-00001.gz", tmp_path / "Split-train" / "more.gz")

    assert [len(list(read_records(file))) for file in record_files(str(tmp_path))] == [0, 0]


def test_reading_counts_all_bytes_of_the_files(tmp_path):
    records = [bytes([number]) * 1000 for number in range(70)]
    write_split_shard(str(tmp_path), "train", 0, 2, records)
    write_split_shard(str(tmp_path), "train", 1, 2, [])
    files = record_files(str(tmp_path))

    with show_progress(Console(file=io.StringIO())) as display, examples_folder.reading_progress("validation", files):
        for file in files:
            assert len(list(read_records(file))) == (70 if file.shard == 0 else 0)
        (stage,) = display.stages

    # A TFRecord frames each record with 16 bytes.
    assert (stage.done, stage.total) == (70 * 1016, 70 * 1016)


def test_length_of_a_file_of_more_than_four_gibibytes_is_completed(tmp_path):
    # Sparse: only its size and the last four bytes, the length modulo 2**32, are read.
    path = tmp_path / "Split-train" / "graphs-00000-of-00001.gz"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.seek(5_000_000_000)
        file.write((1_000_000_000).to_bytes(4, "little"))
    files = record_files(str(tmp_path), takes_cut_off=True)

    with show_progress(Console(file=io.StringIO())) as display, examples_folder.reading_progress("validation", files):
        assert display.stages[0].total == 1_000_000_000 + 2**32

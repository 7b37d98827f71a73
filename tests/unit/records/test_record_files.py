import gzip
import itertools
import pathlib
import shutil

import pytest

from tfx_gnn.records import examples_folder
from tfx_gnn.records.record_files import (
    RecordFile,
    fingerprint_examples_folder,
    place_of,
    read_records,
    record_files,
)


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

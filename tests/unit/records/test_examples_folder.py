import pytest

from tfx_gnn.records import examples_folder


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

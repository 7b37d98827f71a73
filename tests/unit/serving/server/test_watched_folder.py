"""Which of several folders is the one to serve."""

import os

import pytest

from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.watched_folder import WatchedFolder, folders_newest_first


def make(folder):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return os.path.realpath(folder)


def test_largest_number_is_the_newest(tmp_path):
    ninth = make(tmp_path / "9")
    tenth = make(tmp_path / "10")
    (tmp_path / "11").mkdir()  # Its manifest is not there yet.
    (tmp_path / "12").write_text("")
    make(tmp_path / ".13.writing")

    found = folders_newest_first(str(tmp_path), "manifest.json")

    assert [folder for folder, _ in found] == [tenth, ninth]
    assert folders_newest_first(str(tmp_path), "manifest.json") == found


def test_replaced_folder_and_link_have_another_identity(tmp_path):
    place, link = tmp_path / "place", tmp_path / "link"
    make(place)
    link.symlink_to(place)
    (first,) = folders_newest_first(str(link), "manifest.json")
    place.rename(tmp_path / "old")
    make(place)
    (second,) = folders_newest_first(str(link), "manifest.json")
    link.unlink()
    link.symlink_to(tmp_path / "old")
    (third,) = folders_newest_first(str(link), "manifest.json")

    assert first[0] == second[0] == os.path.realpath(place)
    assert first[1] != second[1]
    assert third[0] == os.path.realpath(tmp_path / "old")


@pytest.mark.parametrize("name", ["", "absent"])
def test_folder_without_any_is_refused(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"must hold manifest.json, or numbered folders that do; got none"):
        folders_newest_first(str(tmp_path / name), "manifest.json")


def test_newest_folder_that_can_be_served_is_taken_once_and_the_log_says_once_what_is_passed_over(tmp_path, caplog):
    metrics, tried, damaged = ServerMetrics(), [], set()
    folder = WatchedFolder(str(tmp_path), "manifest.json", what="thing", metrics=metrics)

    def take(path):
        tried.append(os.path.basename(path))
        if tried[-1] in damaged:
            raise KeyError("damaged")

    def state(*of_damaged):
        damaged.clear()
        damaged.update(of_damaged)
        tried.clear()
        return folder.take_newest(take), "".join(tried)

    none = state()
    make(tmp_path / "1")
    make(tmp_path / "2")
    states = [state("2"), state("2"), state(), state(), state("1")]
    make(tmp_path / "3")
    states.append(state("3"))

    assert none == (1, "")
    # Number 1 is taken for want of a better one, then 2 when it is whole, which stays.
    assert states == [(1, "21"), (1, "2"), (0, "2"), (0, ""), (0, ""), (1, "3")]
    assert caplog.text.count("/2` holds no thing that can be served, and is passed over: 'damaged'") == 1
    assert metrics.registry.get_sample_value("tfx_gnn_model_watch_failures_total") == 4

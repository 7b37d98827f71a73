from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfx_gnn.serving.versions import (
    PushOrigin,
    incoming_version,
    leave_unrecorded,
    list_versions,
    publish_version,
    remove_leftovers,
    resolve_saved_model,
    unrecorded_version,
)


def _save_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"")


def test_versions_are_listed_as_numbers_in_ascending_order(tmp_path: Path) -> None:
    for name in ("9", "10", "007", ".incoming-1", "latest", "-3", str(2**63), "9" * 250, "٣"):
        (tmp_path / name).mkdir()

    # As TensorFlow Serving reads them: 7, but nothing above int64.
    assert list_versions(str(tmp_path)) == [7, 9, 10]


def test_absent_destination_has_no_version(tmp_path: Path) -> None:
    assert list_versions(str(tmp_path / "absent")) == []


def test_newest_version_of_a_destination_is_taken(tmp_path: Path) -> None:
    for name in ("2", "10"):
        _save_model(tmp_path / name)

    assert resolve_saved_model(str(tmp_path)) == str(tmp_path / "10")
    _save_model(tmp_path / "0011")
    assert resolve_saved_model(str(tmp_path)) == str(tmp_path / "0011")


def test_folder_of_a_trained_model_leads_to_its_saved_model(tmp_path: Path) -> None:
    _save_model(tmp_path / "Format-Serving")

    assert resolve_saved_model(str(tmp_path)) == str(tmp_path / "Format-Serving")


def test_saved_model_is_itself(tmp_path: Path) -> None:
    _save_model(tmp_path / "model")

    assert resolve_saved_model(str(tmp_path / "model")) == str(tmp_path / "model")


def test_folder_without_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "3").mkdir()

    with pytest.raises(FileNotFoundError, match=r"`path` must be a SavedModel.*got .*saved_model\.pb"):
        resolve_saved_model(str(tmp_path))


def _push(destination: Path, content: str) -> int:
    with incoming_version(str(destination)) as incoming:
        Path(incoming, "saved_model.pb").write_text(content)
        Path(incoming, "variables").mkdir()
        Path(incoming, "variables", "data").write_text(content)
        return publish_version(incoming, str(destination))


def test_first_version_is_one_and_the_next_is_one_more_than_the_highest(tmp_path: Path) -> None:
    destination = tmp_path / "serving"
    first = _push(destination, "a")
    (destination / "41").mkdir()

    second = _push(destination, "b")

    assert (first, second) == (1, 42)
    assert (destination / "1" / "variables" / "data").read_text() == "a"
    assert (destination / "42" / "saved_model.pb").read_text() == "b"
    assert sorted(os.listdir(destination)) == ["1", "41", "42"]


def test_versions_that_no_server_would_load_are_not_made(tmp_path: Path) -> None:
    (tmp_path / "20261125024851123456").mkdir()
    assert _push(tmp_path, "a") == 1
    (tmp_path / str(2**63 - 1)).mkdir()

    with pytest.raises(ValueError, match="must have versions below 9223372036854775807"):
        _push(tmp_path, "b")

    assert sorted(os.listdir(tmp_path)) == ["1", "20261125024851123456", "9223372036854775807"]


@pytest.mark.parametrize("place", ["file", "file/serving", "link"])
def test_destination_that_is_no_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")

    with pytest.raises(ValueError, match="`destination` must be a folder or absent; got "):
        _push(tmp_path / place, "a")


def test_version_is_hidden_until_it_is_published(tmp_path: Path) -> None:
    with incoming_version(str(tmp_path)) as incoming:
        Path(incoming, "saved_model.pb").write_text("a")

        visible = [name for name in os.listdir(tmp_path) if not name.startswith(".incoming-")]

        assert visible == []


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail_while_writing():
        with incoming_version(str(tmp_path)) as incoming:
            Path(incoming, "saved_model.pb").write_text("a")
            raise RuntimeError("bad model")

    with pytest.raises(RuntimeError, match="bad model"):
        fail_while_writing()

    assert os.listdir(tmp_path) == []


def test_version_that_arrived_in_between_is_not_overwritten(tmp_path: Path) -> None:
    with incoming_version(str(tmp_path)) as slow:
        Path(slow, "saved_model.pb").write_text("slow")
        _push(tmp_path, "fast")

        version = publish_version(slow, str(tmp_path))

    assert version == 2
    assert (tmp_path / "1" / "saved_model.pb").read_text() == "fast"
    assert (tmp_path / "2" / "saved_model.pb").read_text() == "slow"


def test_rename_race_takes_the_next_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _push(tmp_path, "first")
    # A pusher that listed the folder before version 1 appeared.
    monkeypatch.setattr("tfx_gnn.serving.versions.list_versions", lambda _: [])

    version = _push(tmp_path, "second")

    assert version == 2
    assert (tmp_path / "1" / "saved_model.pb").read_text() == "first"


def test_concurrent_pushes_all_arrive_under_different_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda i: _push(tmp_path, str(i)), range(40)))

    assert sorted(versions) == list(range(1, 41))
    contents = {(tmp_path / str(version) / "saved_model.pb").read_text() for version in versions}
    assert contents == {str(i) for i in range(40)}
    assert sorted(os.listdir(tmp_path), key=int) == [str(version) for version in range(1, 41)]


def test_leftover_of_a_dead_push_is_removed_and_a_living_one_kept(tmp_path: Path) -> None:
    (tmp_path / ".incoming-dead").mkdir()
    (tmp_path / ".incoming-dead" / "saved_model.pb").write_text("half")
    (tmp_path / ".incoming-dead.lock").write_text("")
    with incoming_version(str(tmp_path)) as living:
        # `incoming_version` itself has cleaned; put the dead one back.
        assert not (tmp_path / ".incoming-dead").exists()
        (tmp_path / ".incoming-dead").mkdir()
        (tmp_path / ".incoming-dead.lock").write_text("")

        removed = remove_leftovers(str(tmp_path))

        assert removed == [".incoming-dead"]
        assert Path(living).is_dir()


def test_object_store_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(
            ValueError, match=r"`destination` must be a folder of a local or mounted disk.*got 'gs://bucket/serving'"
        ),
        incoming_version("gs://bucket/serving"),
    ):
        pass


ORIGIN = PushOrigin(model="a", record="/runs/pushed/7")


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """A destination as a process leaves it that is killed after it published version 1, and before it recorded that."""
    with incoming_version(str(tmp_path / "living")) as incoming:
        Path(incoming, "saved_model.pb").write_text("a")
        publish_version(incoming, str(tmp_path / "living"), ORIGIN)
        # A copy of a lock file is locked by nobody.
        shutil.copytree(tmp_path / "living", tmp_path / "killed")
    assert os.listdir(tmp_path / "living") == ["1"]
    return str(tmp_path / "killed")


def _version_of(destination: str, origin: PushOrigin, *, recorded: bool = False) -> int | None:
    with unrecorded_version(destination, origin, lambda _: recorded) as version:
        return version


@pytest.mark.parametrize("record", ["/runs/pushed/7", "/runs/pushed/8"])
def test_killed_push_finds_its_version_once(killed: str, record: str) -> None:
    again = PushOrigin(model="a", record=record)

    assert remove_leftovers(killed) == []
    assert _version_of(killed, again) == 1
    assert os.listdir(killed) == ["1"]
    assert _version_of(killed, again) is None


@pytest.mark.parametrize("other", [("b", "/runs/pushed/7"), ("a", "/other/pushed/7")])
def test_version_of_another_push_is_not_taken(killed: str, other: tuple[str, str]) -> None:
    assert _version_of(killed, PushOrigin(model=other[0], record=other[1])) is None
    assert _version_of(killed, ORIGIN) == 1


def test_version_whose_record_is_there_is_not_taken_and_its_note_removed(killed: str) -> None:
    assert _version_of(killed, ORIGIN, recorded=True) is None
    assert os.listdir(killed) == ["1"]


def test_version_that_is_gone_is_not_taken(killed: str) -> None:
    shutil.rmtree(os.path.join(killed, "1"))

    assert _version_of(killed, ORIGIN) is None
    remove_leftovers(killed)
    assert os.listdir(killed) == []


def test_version_behind_a_newer_one_is_not_taken_and_its_note_removed(killed: str) -> None:
    _push(Path(killed), "b")

    assert _version_of(killed, ORIGIN) is None
    assert sorted(os.listdir(killed)) == ["1", "2"]


def test_version_that_two_notes_tell_of_is_found_once(killed: str) -> None:
    beside = PushOrigin(model="a", record="/runs/pushed/8")
    # The killed push's own note is there: as if it were killed after it was recorded, and then forgotten.
    leave_unrecorded(killed, 1, ORIGIN)
    num_entries = len(os.listdir(killed))
    leave_unrecorded(killed, 1, beside)

    assert (num_entries, len(os.listdir(killed))) == (2, 3)
    assert _version_of(killed, ORIGIN) == 1
    assert os.listdir(killed) == ["1"]
    assert _version_of(killed, ORIGIN) is None


def test_version_whose_push_goes_on_is_not_taken(tmp_path: Path) -> None:
    with incoming_version(str(tmp_path)) as incoming:
        Path(incoming, "saved_model.pb").write_text("a")
        publish_version(incoming, str(tmp_path), ORIGIN)

        assert _version_of(str(tmp_path), ORIGIN) is None


def test_error_while_recording_leaves_the_version_to_the_next_try(killed: str) -> None:
    with contextlib.suppress(OSError), unrecorded_version(killed, ORIGIN, lambda _: False):
        raise OSError("disk full")

    assert _version_of(killed, ORIGIN) == 1


def test_error_after_publishing_leaves_the_version_to_the_next_try(tmp_path: Path) -> None:
    with contextlib.suppress(OSError), incoming_version(str(tmp_path)) as incoming:
        Path(incoming, "saved_model.pb").write_text("a")
        publish_version(incoming, str(tmp_path), ORIGIN)
        raise OSError("disk full")

    assert _version_of(str(tmp_path), ORIGIN) == 1
    assert os.listdir(tmp_path) == ["1"]


@pytest.mark.parametrize("kind", ["link", "hard link", "named pipe", "folder"])
def test_what_is_no_lock_of_a_push_is_left_alone_and_never_waited_for(tmp_path: Path, kind: str) -> None:
    path, destination = tmp_path / "served" / ".incoming-planted.lock", str(tmp_path / "served")
    os.mkdir(destination)
    (tmp_path / "thesis").write_text("mine")
    {
        "link": lambda: path.symlink_to(tmp_path / "thesis"),
        "hard link": lambda: os.link(tmp_path / "thesis", path),
        "named pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()

    assert _version_of(destination, ORIGIN) is None
    with incoming_version(destination) as incoming:
        publish_version(incoming, destination, ORIGIN)

    assert sorted(os.listdir(destination)) == [path.name, "1"]
    assert (tmp_path / "thesis").read_text() == "mine"


def test_note_and_leftover_of_another_user_are_not_taken_and_stay(
    killed: str, of_another_user: Callable[[Path], None]
) -> None:
    [note] = Path(killed).glob(".incoming-*.lock")
    (Path(killed) / ".incoming-dead").mkdir()
    (Path(killed) / ".incoming-dead.lock").write_text("")
    for path in (note, Path(killed) / ".incoming-dead.lock"):
        of_another_user(path)
    before = sorted(os.listdir(killed))

    assert _version_of(killed, ORIGIN) is None
    assert remove_leftovers(killed) == []
    assert sorted(os.listdir(killed)) == before


def test_planted_link_beside_a_free_lock_is_not_removed_as_a_leftover(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / ".incoming-dead.lock").write_text("")
    (tmp_path / ".incoming-dead").symlink_to("1")

    assert remove_leftovers(str(tmp_path)) == []
    assert sorted(os.listdir(tmp_path)) == [".incoming-dead", "1"]


@pytest.mark.parametrize(
    "text", ["no note", "[" * 100_000, "[]", "{}", '{"version": "1", "model": "a", "record": "/runs/pushed/7"}']
)
def test_note_with_other_text_counts_as_none(killed: str, text: str) -> None:
    [note] = Path(killed).glob(".incoming-*.lock")
    note.write_text(text + "\n")

    assert _version_of(killed, ORIGIN) is None
    remove_leftovers(killed)
    assert os.listdir(killed) == ["1"]


def test_destination_that_takes_no_files_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_EXCL:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags, *mode)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(PermissionError, match=r"\.incoming-"), incoming_version(str(tmp_path)):
        pass

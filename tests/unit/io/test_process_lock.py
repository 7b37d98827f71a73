import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_gnn.io.process_lock import has_locks, left_by_this_machine, process_lock

RULE = "`folder` must be used by one process at a time; got 'here'"

HOLD_UNTIL_KILLED = (
    "import sys, time\n"
    "from tfx_gnn.io.process_lock import process_lock\n"
    "with process_lock(sys.argv[1], rule=''):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "made" / ".lock")


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_UNTIL_KILLED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_lock_file_is_there_while_it_is_held(path):
    with process_lock(path, rule=RULE):
        assert os.listdir(os.path.dirname(path)) == [".lock"]

    assert os.listdir(os.path.dirname(path)) == []


def test_other_process_is_kept_out_and_told_by_whom(path, holder):
    message = f"{RULE}, which process {holder.pid} on {socket.gethostname()} since "

    with pytest.raises(BlockingIOError, match=re.escape(message) + r"\S+ \S+ holds\. Wait for its end, or end it"):
        process_lock(path, rule=RULE).__enter__()

    assert holder.poll() is None


def test_lock_dies_with_its_process(path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    with process_lock(path, rule=RULE):
        assert f"process {os.getpid()} on" in Path(path).read_text()


def test_two_in_one_process_are_kept_apart(path):
    with process_lock(path, rule=RULE), pytest.raises(BlockingIOError, match=f"process {os.getpid()} on"):
        process_lock(path, rule=RULE).__enter__()

    assert not os.path.exists(path)


def test_folder_may_be_removed_under_the_lock(path):
    with process_lock(path, rule=RULE):
        os.remove(path)
        os.rmdir(os.path.dirname(path))

    assert not os.path.exists(os.path.dirname(path))


def test_lock_of_who_came_after_a_removal_stays(path):
    with process_lock(path, rule=RULE):
        os.remove(path)
        with process_lock(path, rule=RULE):
            pass
        Path(path).write_text("of another one")

    assert Path(path).read_text() == "of another one"


def test_folder_that_takes_no_files_is_an_error():
    with pytest.raises(OSError, match=re.escape("/proc/self/.lock")):
        process_lock("/proc/self/.lock", rule=RULE).__enter__()


def test_file_system_without_locks_is_named(path, monkeypatch):
    # As the system answers on such a file system.
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(OSError, match=r"be on a file system with locks; '.*made' has none: No locks available\. Mount"):
        process_lock(path, rule=RULE).__enter__()


@pytest.mark.parametrize(("place", "expected"), [("a/b", True), ("/a", True), ("gs://bucket/a", False)])
def test_object_stores_have_no_locks(place, expected):
    assert has_locks(place) is expected


@pytest.mark.parametrize("note", ["", "with work that can be taken up"])
def test_lock_of_this_machine_is_known_with_its_note(path, note):
    with process_lock(path, rule=RULE, note=note):
        assert left_by_this_machine(path) == note


def test_what_is_no_lock_of_this_machine_and_user_is_not_known(tmp_path, path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "of another machine").write_text("process 1 on nowhere.example since 2026-01-02 03:04:05")

    assert {left_by_this_machine(str(tmp_path / name)) for name in ("", "fifo", "of another machine", "absent")} == {
        None
    }
    with process_lock(path, rule=RULE):
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert left_by_this_machine(path) is None


def test_lock_that_is_held_for_a_moment_only_is_waited_for(path):
    def release_when_tried(descriptor, operation):
        monkeypatch.undo()
        holder.__exit__(None, None, None)
        raise BlockingIOError

    holder = process_lock(path, rule=RULE)
    holder.__enter__()
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(fcntl, "flock", release_when_tried)

    with process_lock(path, rule=RULE, patience_seconds=60.0):
        assert os.path.exists(path)


def _entries(folder):
    return {name: Path(folder, name).read_text() for name in os.listdir(folder)}


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_link_in_the_place_of_a_lock_is_refused_and_not_written_through(tmp_path, link):
    (tmp_path / "thesis").write_text("years of work")
    link(tmp_path / "thesis", tmp_path / ".lock")

    with pytest.raises(
        ValueError, match=r"/\.lock` must be a regular file; got .* Find out who put it there, remove it"
    ):
        process_lock(str(tmp_path / ".lock"), rule=RULE).__enter__()

    assert _entries(tmp_path) == {".lock": "years of work", "thesis": "years of work"}


def test_link_to_nothing_in_the_place_of_a_lock_makes_no_file(tmp_path):
    (tmp_path / ".lock").symlink_to("absent")

    with pytest.raises(ValueError, match="must be a regular file; got a link"):
        process_lock(str(tmp_path / ".lock"), rule=RULE).__enter__()

    assert os.listdir(tmp_path) == [".lock"]


def test_named_pipe_in_the_place_of_a_lock_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / ".lock")

    with pytest.raises(ValueError, match="must be a regular file; got a named pipe"):
        process_lock(str(tmp_path / ".lock"), rule=RULE).__enter__()


def test_lock_that_another_user_left_is_locked_but_not_written_or_removed(tmp_path, of_another_user):
    path = tmp_path / ".lock"
    path.write_text("process 1 on here")
    of_another_user(path)

    with process_lock(str(path), rule=RULE), pytest.raises(BlockingIOError, match="process 1 on here holds"):
        process_lock(str(path), rule=RULE).__enter__()

    assert _entries(tmp_path) == {".lock": "process 1 on here"}


def test_lock_of_another_user_that_cannot_be_written_is_honoured(path, holder, monkeypatch):
    def refuse_to_write(name, flags, *mode):
        if flags & os.O_RDWR and not flags & os.O_EXCL:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return opened(name, flags, *mode)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse_to_write)

    with pytest.raises(BlockingIOError, match=f"process {holder.pid} on"):
        process_lock(path, rule=RULE).__enter__()


def test_full_disk_leaves_no_lock_and_is_named(path, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fill)
        with pytest.raises(OSError, match=re.escape(f"No space left on device: '{path}'")):
            process_lock(path, rule=RULE).__enter__()

    assert os.listdir(os.path.dirname(path)) == []


def test_empty_lock_is_taken(tmp_path):
    (tmp_path / ".lock").write_text("")

    with process_lock(str(tmp_path / ".lock"), rule=RULE):
        assert left_by_this_machine(str(tmp_path / ".lock")) == ""

    assert os.listdir(tmp_path) == []

"""Commits are killed at every call that changes names, by processes that load nothing heavy and fork quickly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.commit_journal import COMMIT_MARK, _state, commit_folders, has_unfinished_commit, roll_back_unfinished

TESTS = Path(__file__).parents[2]

# Each command writes its name into three outputs in two folders. `run` forks: the process must have no other threads.
PROGRAM = """
import json, os, sys
folder, tests = sys.argv[1], sys.argv[2]
sys.path.insert(0, tests)
import kill_points
from tfx_gnn.io.atomic_folder import atomic_folders

# What it does is of no account for a kill, and disks are slow.
os.fsync = lambda _: None
ALL = kill_points.RENAMES + kill_points.REMOVALS + kill_points.WRITES


def command(place, text):
    paths = {"a": f"{place}/a", "b": f"{place}/b", "c": f"{place}/elsewhere/c"}
    with atomic_folders(paths) as partials:
        for partial in partials:
            os.mkdir(f"{partial}/deep")
            with open(f"{partial}/deep/file", "w") as file:
                file.write(text)


def run(place, text, number, when, names):
    '''Returns what the process ended with: "killed", "done" or the name of an error; and its number of calls.'''
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        points = kill_points.KillPoints(number, when, names=names)
        try:
            command(place, text)
            ended = "done"
        except BaseException as error:
            ended = type(error).__name__
        os.write(send, json.dumps([ended, len(points.calls)]).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else ["killed", None]


def found(place):
    files = {}
    for parent, folders, names in os.walk(place):
        for name in folders + names:
            path = os.path.join(parent, name)
            files[os.path.relpath(path, place)] = open(path).read() if name in names else ""
    return files


def rounds(kind, names, again):
    _, number = run(f"{folder}/{kind}", "first", 0, "", names)
    # After one call is before the next.
    kills = [(kill, "before") for kill in range(1, number + 1)] + [(number, "after")]
    for kill, when in kills:
        for second in range(0, again * 2 * number + 1):
            place = f"{folder}/{kind}-{kill}-{when}-{second}"
            first = run(place, "first", kill, when, names)[0]
            visible = [name for name in ("a", "b", "elsewhere/c") if os.path.exists(f"{place}/{name}")]
            ended = [first]
            if second:
                ended.append(run(place, "second", second, "before", names)[0])
                if ended[-1] != "killed":
                    break
            ended.append(run(place, "last", 0, "", names)[0])
            yield {"ended": ended, "visible": visible, "found": found(place)}


print(json.dumps([list(rounds("once", ALL, 0)), list(rounds("twice", kill_points.RENAMES + ("remove",), 1))]))
"""


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    """What became of commands that were killed once at each call, and twice at renames and removals of files."""
    folder = tmp_path_factory.mktemp("kills")
    command = [sys.executable, "-c", PROGRAM, str(folder), str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _whole(text):
    parts = ("a", "b", "elsewhere/c")
    folders = {name: "" for part in parts for name in (part, f"{part}/deep")}
    return {"elsewhere": "", **folders, **{f"{part}/deep/file": text for part in parts}}


def test_same_command_completes_after_a_kill_at_every_call(rounds):
    once, twice = rounds

    # Fewer would mean that the calls are no longer seen.
    assert (len(once) > 30, len(twice) > 60) == (True, True)
    for outcome in (*once, *twice):
        assert outcome["ended"][0] == "killed"
        texts = {text for name, text in outcome["found"].items() if name.endswith("file")}
        assert outcome["found"] == _whole(texts.pop()), outcome
        # A command that was killed after its commit has done its work: the next one finds all of it there.
        assert outcome["ended"][-1] in ("done", "FileExistsError")


def test_only_whole_outputs_are_kept_from_a_killed_command(rounds):
    once, _ = rounds
    refused = [outcome for outcome in once if outcome["ended"][-1] == "FileExistsError"]

    assert 0 < len(refused) < len(once) / 2
    assert all(len(outcome["visible"]) == 3 and outcome["found"] == _whole("first") for outcome in refused)
    redone = [outcome for outcome in once if outcome not in refused]
    assert all(outcome["found"] == _whole("last") for outcome in redone)
    assert {len(outcome["visible"]) for outcome in redone} == {0, 1, 2, 3}


def _write(path, text="mine"):
    path.mkdir(parents=True)
    (path / "file").write_text(text)


@pytest.fixture
def cut_short(tmp_path, monkeypatch):
    """Two outputs whose commit was cut short after the first rename, as by a kill."""
    _write(tmp_path / ".a.partial-0123456789ab", "a")
    _write(tmp_path / ".b.partial-0123456789ab", "b")
    rename, removed = os.rename, []

    def once(source, target):
        if removed:
            raise KeyboardInterrupt
        removed.append(source)
        rename(source, target)

    with monkeypatch.context() as patched:
        # Neither may what comes after the kill run.
        patched.setattr(os, "rename", once)
        patched.setattr(os, "remove", once)
        with pytest.raises(KeyboardInterrupt):
            commit_folders([(f"{tmp_path}/.{name}.partial-0123456789ab", f"{tmp_path}/{name}") for name in ("a", "b")])
    assert sorted(name for name in os.listdir(tmp_path) if COMMIT_MARK not in name) == [".b.partial-0123456789ab", "a"]
    return tmp_path


def test_commit_that_was_cut_short_does_not_count(cut_short):
    assert has_unfinished_commit(str(cut_short / "a"))
    assert has_unfinished_commit(str(cut_short / "b"))
    assert not has_unfinished_commit(str(cut_short / "c"))


def test_other_command_with_one_of_the_outputs_takes_back_both(cut_short):
    with atomic_folders({"b": f"{cut_short}/b", "c": f"{cut_short}/c"}) as partials:
        for partial in partials:
            Path(partial, "file").write_text("new")

    assert sorted(os.listdir(cut_short)) == ["b", "c"]
    assert (cut_short / "b" / "file").read_text() == "new"


def test_what_the_user_put_there_since_is_not_taken_back(cut_short):
    (cut_short / "a" / "mine").write_text("mine")

    with (
        pytest.raises(FileExistsError, match=r"`first` must be absent or an empty folder; got .*'file', 'mine'"),
        atomic_folders({"first": f"{cut_short}/a", "second": f"{cut_short}/b"}),
    ):
        pass

    assert (cut_short / "a" / "mine").read_text() == "mine"


def test_folder_of_the_user_in_the_place_of_a_removed_output_is_not_taken_back(cut_short):
    (cut_short / "a" / "file").unlink()
    (cut_short / "a").rmdir()
    _write(cut_short / "a", "a")

    roll_back_unfinished(str(cut_short / "a"), lambda _: None)

    assert (cut_short / "a" / "file").read_text() == "a"


def test_project_may_be_moved_between_the_kill_and_the_next_run(cut_short, tmp_path_factory):
    moved = tmp_path_factory.mktemp("moved") / "project"
    os.rename(cut_short, moved)

    with atomic_folders({"a": f"{moved}/a"}):
        pass

    assert os.listdir(moved) == ["a"]
    assert os.listdir(moved / "a") == []


@pytest.mark.parametrize("number", range(1, 4))
def test_interrupt_at_each_rename_takes_back_all(tmp_path, monkeypatch, number):
    rename, calls = os.rename, []

    def rename_and_interrupt(source, target):
        rename(source, target)
        calls.append(target)
        if len(calls) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", rename_and_interrupt)

    def write():
        with atomic_folders({name: f"{tmp_path}/{name}" for name in ("a", "b", "c")}) as partials:
            for partial in partials:
                Path(partial, "file").write_text("a")

    with pytest.raises(KeyboardInterrupt):
        write()

    assert os.listdir(tmp_path) == []


def test_end_of_the_deciding_journal_is_on_the_disk_before_the_others_go(tmp_path, monkeypatch):
    calls, remove = [], os.remove

    def note_removal(path):
        calls.append(os.path.relpath(path, tmp_path).partition(COMMIT_MARK)[0])
        remove(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "remove", note_removal)
        patched.setattr(os, "fsync", lambda file: calls.append(os.readlink(f"/proc/self/fd/{file}")))
        with atomic_folders({"a": f"{tmp_path}/here/a", "b": f"{tmp_path}/there/b"}):
            pass

    end = calls.index("here/.a")
    assert calls[end : end + 3] == ["here/.a", f"{tmp_path}/here", "there/.b"]


def test_journal_that_was_half_written_is_removed(tmp_path):
    (tmp_path / f".a{COMMIT_MARK}0123456789ab").write_text('{"outputs": ["a"')

    with atomic_folders({"a": f"{tmp_path}/a"}):
        pass

    assert os.listdir(tmp_path) == ["a"]


def test_files_that_only_look_alike_stay(tmp_path):
    names = [f".a{COMMIT_MARK}notes", f".a{COMMIT_MARK}0123456789ab.txt", f".ab{COMMIT_MARK}0123456789ab"]
    for name in names:
        (tmp_path / name).write_text("mine")

    with atomic_folders({"a": f"{tmp_path}/a"}):
        pass

    assert sorted(os.listdir(tmp_path)) == sorted([*names, "a"])


TOKEN = "0123456789ab"


def _plant(folder, outputs, states):
    (folder / f".out{COMMIT_MARK}{TOKEN}").write_text(json.dumps({"outputs": outputs, "states": states}) + "\n")


def _run(folder):
    with atomic_folders({"a": f"{folder}/out"}):
        pass


@pytest.fixture
def shared(tmp_path):
    """A folder that others write, in which a journal names a folder elsewhere as an output to be taken back."""
    _write(tmp_path / "private" / "thesis")
    (tmp_path / "shared").mkdir()
    _plant(tmp_path / "shared", ["out", "../private/thesis"], ["", _state(str(tmp_path / "private" / "thesis"))])
    return tmp_path / "shared"


def test_folder_without_a_journal_beside_it_is_not_taken_back(shared):
    _run(shared)

    assert (shared.parent / "private" / "thesis" / "file").read_text() == "mine"
    assert os.listdir(shared.parent / "private") == ["thesis"]
    assert os.listdir(shared) == ["out"]


def _write_twin(shared, **changes):
    content = json.loads((shared / f".out{COMMIT_MARK}{TOKEN}").read_text())
    content = {"outputs": ["../shared/out", "thesis"], "states": content["states"], **changes}
    (shared.parent / "private" / f".thesis{COMMIT_MARK}{TOKEN}").write_text(json.dumps(content) + "\n")


def test_folder_whose_journal_is_of_another_commit_is_not_taken_back(shared):
    _write_twin(shared, states=["", "another"])

    _run(shared)

    assert (shared.parent / "private" / "thesis" / "file").read_text() == "mine"


def test_folder_whose_journal_agrees_is_taken_back(shared):
    _write_twin(shared)

    _run(shared)

    assert os.listdir(shared.parent / "private") == []


def _refused(folder, found, name="out"):
    message = re.escape(f"{folder}/.{name}{COMMIT_MARK}{TOKEN}` must be ") + f".*; got {found}"
    return pytest.raises(ValueError, match=message)


def test_journal_of_another_user_is_refused(shared, of_another_user):
    _write_twin(shared)
    of_another_user(shared / f".out{COMMIT_MARK}{TOKEN}")

    with _refused(shared, "one that another user wrote, or could. Have whoever wrote it run the same"):
        _run(shared)

    assert (shared.parent / "private" / "thesis" / "file").read_text() == "mine"
    assert has_unfinished_commit(str(shared / "out"))


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_journal_that_others_may_write_is_refused(shared, mode):
    _write_twin(shared)
    (shared / f".out{COMMIT_MARK}{TOKEN}").chmod(mode)

    with _refused(shared, "one that another user wrote, or could"):
        _run(shared)

    assert (shared.parent / "private" / "thesis" / "file").read_text() == "mine"


def test_commit_that_counts_is_not_opened_by_the_deciding_journal_of_another(shared):
    _write_twin(shared)
    (shared / f".out{COMMIT_MARK}{TOKEN}").write_text('{"outputs": ["out"], "states": [""]}\n')
    before = sorted(os.listdir(shared.parent / "private"))

    with _refused(shared, "one of another commit"), atomic_folders({"a": f"{shared.parent}/private/thesis"}):
        pass

    assert sorted(os.listdir(shared.parent / "private")) == before


@pytest.mark.parametrize(
    "text",
    [
        *("no journal", "[" * 100_000, "[]", "{}"),
        '{"outputs": [7], "states": [""]}',
        '{"outputs": ["out"], "states": []}',
        '{"outputs": ["out"], "states": [7]}',
        '{"outputs": ["out", "\\u0000"], "states": ["", ""]}',
        "\udcff",
    ],
    ids=["words", "nested", "list", "empty", "number", "lengths", "state", "zero", "binary"],
)
def test_journal_with_other_text_is_refused(tmp_path, text):
    path = tmp_path / f".out{COMMIT_MARK}{TOKEN}"
    path.write_bytes(text.encode(errors="surrogateescape") + b"\n")

    with _refused(tmp_path, "other text"):
        _run(tmp_path)

    assert os.listdir(tmp_path) == [path.name]


def test_journal_of_other_outputs_is_refused(tmp_path):
    _plant(tmp_path, ["other"], [""])

    with _refused(tmp_path, "one of other outputs"):
        _run(tmp_path)


@pytest.mark.parametrize("kind", ["a link", "a named pipe", "a folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / f".out{COMMIT_MARK}{TOKEN}"
    {"a link": lambda: path.symlink_to("x"), "a named pipe": lambda: os.mkfifo(path), "a folder": path.mkdir}[kind]()

    with _refused(tmp_path, kind):
        _run(tmp_path)


def test_commit_is_taken_back_whatever_the_umask_was(request):
    umask = os.umask(0)
    try:
        folder = request.getfixturevalue("cut_short")
    finally:
        os.umask(umask)

    with atomic_folders({"a": f"{folder}/a"}):
        pass

    assert os.listdir(folder) == ["a"]
    assert os.listdir(folder / "a") == []

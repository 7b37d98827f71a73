from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import uuid
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer import output_folders
from tfx_gnn.components.graph_trainer.output_folders import (
    FINISHED_FILE,
    LOGS_BYTES,
    FinishedTraining,
    OutputFolders,
    OutputSizes,
    check_outputs,
    check_places,
    checkpoint_folder,
    finished_outputs,
)
from tfx_gnn.io.atomic_folder import make_partial_folder
from tfx_gnn.io.commit_journal import PARTIAL_MARK
from tfx_gnn.io.fingerprint import fingerprint_folders

FINGERPRINT = {"code": "1", "options.num_epochs": "3"}

TESTS = Path(__file__).parents[3]

WRITE_AND_DIE = """
import json
import os
import sys
from pathlib import Path
folder, points, tests = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
sys.path.insert(0, tests)
import tensorflow as tf
import kill_points
from tfx_gnn.components.graph_trainer.output_folders import OutputFolders

def write(place, fatal, when):
    points = kill_points.KillPoints(fatal, when)
    with OutputFolders(f"{place}/model", f"{place}/run", is_chief=True) as outputs:
        with outputs.written({"code": "1", "options.num_epochs": "3"}) as (model, run):
            Path(model, "saved_model.pb").write_text("a model")
            Path(run, "summary").write_text("a run")
    return len(points.calls)

# All processes import TensorFlow once.
codes = []
for fatal, when in points:
    place = f"{folder}/{fatal}-{when}"
    os.mkdir(place)
    child = os.fork()
    if not child:
        os._exit(write(place, fatal, when))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
# Three renamings: of the note, of the model, of the run; and none that is fatal.
KILL_POINTS = [(1, "before"), (2, "before"), (3, "before"), (3, "after"), (0, "before")]


def _outputs(folder, **options):
    return OutputFolders(f"{folder}/model", f"{folder}/run", is_chief=True, **options)


def _write(folder, fingerprint=FINGERPRINT, model="a model"):
    """What a training does with its outputs; tells whether it had to write them."""
    with _outputs(folder) as outputs:
        if outputs.complete(fingerprint):
            return False
        with outputs.written(fingerprint) as (model_partial, run_partial):
            Path(model_partial, "saved_model.pb").write_text(model)
            Path(run_partial, "summary").write_text("a run")
    return True


def _assert_whole(folder):
    assert sorted(os.listdir(folder)) == ["model", "run"]
    assert {path.name: path.read_text() for path in Path(folder, "model").iterdir()} == {"saved_model.pb": "a model"}
    assert sorted(os.listdir(f"{folder}/run")) == [FINISHED_FILE, "summary"]


@pytest.mark.parametrize(("model", "run"), [("out", "out/"), ("out", "out/run"), ("out/../run/model", "run")])
def test_outputs_that_would_lie_in_each_other_are_refused_before_anything_is_made(tmp_path, model, run):
    with pytest.raises(
        ValueError, match="`model_dir` and `model_run_dir` must be two folders, neither inside the other"
    ):
        OutputFolders(f"{tmp_path}/{model}", f"{tmp_path}/{run}", is_chief=True)

    assert not list(tmp_path.iterdir())


def test_folders_of_alike_names_are_two(tmp_path):
    with (
        OutputFolders(f"{tmp_path}/model", f"{tmp_path}/model_run", is_chief=True) as outputs,
        outputs.written(FINGERPRINT),
    ):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model_run"]


def test_outputs_appear_whole_and_are_not_written_again(tmp_path):
    assert _write(tmp_path)
    _assert_whole(tmp_path)
    assert not _write(tmp_path, model="another model")
    _assert_whole(tmp_path)


def test_empty_folders_made_ahead_are_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "run").mkdir()

    assert _write(f"{tmp_path}/")

    _assert_whole(tmp_path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folder and exit code of a process that was killed, by the renaming, and "before" or "after" it."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-W", "ignore", "-c", WRITE_AND_DIE, str(folder), json.dumps(KILL_POINTS), str(TESTS)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    return {
        (fatal, when): (folder / f"{fatal}-{when}", code)
        for (fatal, when), code in zip(KILL_POINTS, codes, strict=True)
    }


# From the note on, nothing is written again.
@pytest.mark.parametrize(
    ("fatal", "when", "visible", "is_written_again"),
    [
        (1, "before", [], True),
        (2, "before", [], False),
        (3, "before", ["model"], False),
        (3, "after", ["model", "run"], False),
    ],
)
def test_kill_at_each_renaming_is_made_good_by_a_restart(killed, fatal, when, visible, is_written_again):
    folder, code = killed[fatal, when]

    assert code == -signal.SIGKILL
    assert sorted(name for name in os.listdir(folder) if not name.startswith(".")) == visible
    assert _write(folder) is is_written_again
    _assert_whole(folder)


def test_there_are_three_renamings_to_die_at(killed):
    folder, num_renamings = killed[0, "before"]

    assert num_renamings == 3
    _assert_whole(folder)


@pytest.mark.parametrize("fatal", [1, 2, 3])
def test_interrupt_at_each_renaming_is_made_good_by_a_restart(tmp_path, monkeypatch, fatal):
    calls = []

    def rename_or_raise(rename):
        def call(source, target, **options):
            calls.append(target)
            if len(calls) == fatal:
                raise KeyboardInterrupt
            rename(source, target, **options)

        return call

    with monkeypatch.context() as patched:
        # The note is renamed by the one, folders by the other.
        for module in (tf.io.gfile, os):
            patched.setattr(module, "rename", rename_or_raise(module.rename))
        with pytest.raises(KeyboardInterrupt):
            _write(tmp_path)

    assert (tmp_path / "run").exists() is False
    assert _write(tmp_path) is (fatal == 1)
    _assert_whole(tmp_path)


def test_everything_is_on_the_disk_before_and_after_the_renamings(tmp_path, monkeypatch):
    events = []
    for module in (tf.io.gfile, os):

        def note(source, target, rename=module.rename, **options):
            events.append(f"rename {os.path.basename(target)}")
            rename(source, target, **options)

        monkeypatch.setattr(module, "rename", note)
    monkeypatch.setattr(os, "fsync", lambda file: events.append(f"sync {os.readlink(f'/proc/self/fd/{file}')}"))

    _write(tmp_path)

    first = events.index("rename finished.json")
    assert events[first - 1].endswith("/.finished.json.writing")
    [run_is_synced, *others] = events[first + 1 :]
    assert run_is_synced.startswith(f"sync {tmp_path}/.run{PARTIAL_MARK}")
    assert others == ["rename model", f"sync {tmp_path}", "rename run", f"sync {tmp_path}"]


def test_error_before_the_end_leaves_nothing(tmp_path):
    def fail():
        with _outputs(tmp_path) as outputs, outputs.written(FINGERPRINT) as (model, _):
            Path(model, "half").write_text("a")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()

    assert os.listdir(tmp_path) == []


def test_what_dead_processes_left_is_removed_and_what_is_not_theirs_stays(tmp_path):
    for name in (f".model{PARTIAL_MARK}1", f".run{PARTIAL_MARK}2", f".model_2{PARTIAL_MARK}3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("a")

    assert _write(tmp_path)

    assert sorted(os.listdir(tmp_path)) == [f".model_2{PARTIAL_MARK}3", "model", "run"]


def test_living_process_keeps_its_folders_and_others_out(tmp_path):
    with _outputs(tmp_path) as outputs, outputs.written(FINGERPRINT) as (model, run):
        with pytest.raises(BlockingIOError, match=rf"`model_dir` must be written by one .* process {os.getpid()} on"):
            _write(tmp_path)
        with pytest.raises(BlockingIOError, match=r"`model_run_dir` must be written by one process at a time"):
            OutputFolders(f"{tmp_path}/other", f"{tmp_path}/run", is_chief=True).__enter__()
        # Who was kept out of one folder holds no other.
        with OutputFolders(f"{tmp_path}/other", f"{tmp_path}/other_run", is_chief=True):
            pass
        Path(model, "saved_model.pb").write_text("a model")
        Path(run, "summary").write_text("a run")

    _assert_whole(tmp_path)


def test_output_of_another_training_is_named_with_what_differs(tmp_path):
    _write(tmp_path)

    with pytest.raises(
        FileExistsError,
        match=r"`model_run_dir` must be .*; got '.*run', an output of a training since which there changed: "
        r"options\.num_epochs '3' -> '4'\. Name other folders",
    ):
        _write(tmp_path, {**FINGERPRINT, "options.num_epochs": "4"})

    _assert_whole(tmp_path)


def test_model_that_is_not_that_of_the_run_is_not_taken_for_it(tmp_path):
    _write(tmp_path)
    (tmp_path / "model" / "saved_model.pb").write_text("another model")

    with pytest.raises(FileExistsError, match="an output without its own model"):
        _write(tmp_path)


def test_outputs_are_finished_once_both_are_there_and_belong_together(tmp_path):
    places = str(tmp_path / "model"), str(tmp_path / "run")
    assert finished_outputs(*places) is None
    _write(tmp_path)
    assert finished_outputs(*places).fingerprint == FINGERPRINT

    (tmp_path / "model" / "saved_model.pb").write_text("another model")
    assert finished_outputs(*places) is None
    shutil.rmtree(places[0])
    assert finished_outputs(*places) is None


@pytest.mark.parametrize("name", ["../private/thesis", "thesis", ".thesis"])
def test_note_of_an_end_cannot_turn_another_folder_into_an_output(tmp_path, name):
    (tmp_path / "private" / "thesis").mkdir(parents=True)
    for folder in ("thesis", ".thesis", "run"):
        (tmp_path / "shared" / folder).mkdir(parents=True)
    model = fingerprint_folders([str(tmp_path / "shared" / name)])
    hidden = (name, ".run.partial-0123456789ab")
    FinishedTraining(fingerprint=FINGERPRINT, model=model, hidden_folders=hidden).write(
        str(tmp_path / "shared" / "run")
    )

    with _outputs(tmp_path / "shared") as outputs:
        assert not outputs.complete(FINGERPRINT)

    assert (tmp_path / "shared" / name).is_dir()


def test_checkpoints_are_in_a_folder_of_this_user_unless_it_is_named(tmp_path, of_another_user):
    hidden = Path(checkpoint_folder("", str(tmp_path / "run"), "f" * 64))
    named = tmp_path / "named"
    named.symlink_to(tmp_path)
    hidden.mkdir()
    assert checkpoint_folder("", str(tmp_path / "run"), "f" * 64) == str(hidden)
    of_another_user(hidden)

    with pytest.raises(ValueError, match=r"/\.checkpoints-f{16}` must be a folder that a run of this user has made"):
        checkpoint_folder("", str(tmp_path / "run"), "f" * 64)
    assert checkpoint_folder(str(named), str(tmp_path / "run"), "f" * 64) == str(named)


def test_foreign_files_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("a")

    with pytest.raises(FileExistsError, match=r"`model_dir` must be absent or an empty folder; .*'mine'"):
        _write(tmp_path)

    assert os.listdir(tmp_path) == ["model"]


def test_other_processes_than_the_chief_write_nothing_that_stays(tmp_path):
    with OutputFolders(f"{tmp_path}/model", f"{tmp_path}/run", is_chief=False) as outputs:
        assert not outputs.complete(FINGERPRINT)
        with outputs.written(FINGERPRINT) as (model, run):
            assert os.path.isdir(model)
            assert os.path.isdir(run)

    assert not os.path.exists(model)
    assert os.listdir(tmp_path) == []


def test_renaming_that_an_object_store_began_is_completed():
    bucket = f"ram://{uuid.uuid4().hex}"
    model, run = make_partial_folder(f"{bucket}/model"), make_partial_folder(f"{bucket}/run")
    for path in (f"{model}/a", f"{model}/deep/b", f"{run}/summary"):
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(path[-1])
    FinishedTraining(
        fingerprint=FINGERPRINT,
        model=fingerprint_folders([model]),
        hidden_folders=(os.path.basename(model), os.path.basename(run)),
    ).write(run)
    # One file has been moved when the process dies.
    tf.io.gfile.makedirs(f"{bucket}/model")
    tf.io.gfile.rename(f"{model}/a", f"{bucket}/model/a", overwrite=True)

    with _outputs(bucket) as outputs:
        assert outputs.complete(FINGERPRINT)

    assert not tf.io.gfile.exists(model)
    assert not tf.io.gfile.exists(run)
    read = [tf.io.gfile.GFile(f"{bucket}/{path}").read() for path in ("model/a", "model/deep/b", "run/summary")]
    assert read == ["a", "b", "y"]


MIB = 1 << 20


def test_folders_to_be_made_pass_and_nothing_is_left(tmp_path):
    check_outputs({"model_dir": (str(tmp_path / "a" / "b" / "model"), MIB), "model_run_dir": (str(tmp_path), MIB)})

    assert list(tmp_path.iterdir()) == []


def test_a_kill_during_the_check_leaves_nothing(tmp_path, monkeypatch):
    listed = []

    def write(**options):
        file = tempfile.TemporaryFile(**options)  # noqa: SIM115
        listed.append(os.listdir(tmp_path))
        return file

    monkeypatch.setattr(output_folders, "tempfile", types.SimpleNamespace(TemporaryFile=write))

    check_outputs({"model_dir": (str(tmp_path / "model"), MIB)})

    assert listed == [[]]


def test_relative_folder_is_looked_for_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    check_outputs({"model_dir": ("model", MIB)})


def test_file_in_the_way_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    folder = str(tmp_path / "taken" / "model")

    message = f"`model_dir` must be a folder that can be made and written; got '{folder}' in '{tmp_path}/taken', which"
    with pytest.raises(ValueError, match=re.escape(message)):
        check_outputs({"model_dir": (folder, MIB)})


def test_folder_without_permission_is_named_with_its_parent(tmp_path, monkeypatch):
    # Root may write everywhere, so the system's answer is given for it.
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(ValueError, match=rf"`model_dir` .* in '{tmp_path}', where nothing can be written: Permission"):
        check_outputs({"model_dir": (str(tmp_path / "model"), MIB)})


def test_unknown_object_store_is_named():
    with pytest.raises(ValueError, match=r"`checkpoint_dir` must be a folder that can be written; got 'nowhere://b/c'"):
        check_outputs({"checkpoint_dir": ("nowhere://b/c", MIB)})


def test_needs_of_folders_on_one_disk_add_up(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    half = free // 2
    check_outputs({"model_dir": (str(tmp_path), half)})

    message = rf"must have room for {half + free:,} bytes \(`model_dir` {half:,}, `model_run_dir` {free:,}\); got \d"
    with pytest.raises(ValueError, match=message):
        check_outputs({"model_dir": (str(tmp_path), half), "model_run_dir": (str(tmp_path / "run"), free)})


def test_small_disk_is_not_confused_with_a_large_one(tmp_path, small_disk):
    check_outputs({"model_dir": (str(tmp_path), 2 * MIB), "checkpoint_dir": (str(small_disk), MIB // 2)})

    with pytest.raises(ValueError, match=r"`checkpoint_dir` must have room for 2,097,152 bytes"):
        check_outputs({"model_dir": (str(tmp_path), 2 * MIB), "checkpoint_dir": (str(small_disk), 2 * MIB)})


def test_full_disk_is_told_before_there_is_a_model(tmp_path, small_disk):
    (small_disk / "fills").write_bytes(b"x" * (MIB - 8192))

    with pytest.raises(ValueError, match=r"must have room for 16,777,216 bytes \(`model_run_dir` 16,777,216\); got \d"):
        check_places(model_dir=str(tmp_path / "model"), model_run_dir=str(small_disk / "run"), checkpoint_dir="")


def test_read_only_file_system_is_told(tmp_path, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    folder = str(small_disk / "deep" / "checkpoints")

    message = f"`checkpoint_dir` .* got '{folder}' in '{small_disk}', where nothing can be written: Read-only"
    with pytest.raises(ValueError, match=message):
        check_places(model_dir=str(tmp_path / "a"), model_run_dir=str(tmp_path / "b"), checkpoint_dir=folder)


def test_training_that_has_ended_needs_no_room(small_disk):
    (small_disk / "run").mkdir()
    (small_disk / "run" / FINISHED_FILE).write_text("{}")

    check_places(model_dir=str(small_disk / "model"), model_run_dir=str(small_disk / "run"), checkpoint_dir="")


def test_sizes_follow_from_weights_and_slots():
    model = tf_keras.Sequential([tf_keras.layers.Dense(8)])
    model.build([None, 4])
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)

    weights = 4 * (4 * 8 + 8)
    assert OutputSizes.of_model(model) == OutputSizes(
        checkpoints=3 * (3 * weights + 8) + LOGS_BYTES, model=weights + LOGS_BYTES, run=2 * weights + LOGS_BYTES
    )

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.training.checkpoints.checkpoints import (
    CheckpointFiles,
    TrainingCheckpoints,
    create_training_variables,
    locked_checkpoints,
    num_checkpoint_bytes,
    num_state_bytes,
)
from tfx_gnn.training.loop.determinism import find_generators, generators_in_layers
from tfx_gnn.training.loop.training_loop import TrainingPosition

X = np.random.default_rng(0).random([24, 4], np.float32)
Y = (X.sum(axis=1) > 2.0).astype(np.int64)
STEPS = 4


class _Seen:
    """What else the training knows: the steps that it has done."""

    def __init__(self):
        self.steps = []

    def state(self):
        return {"steps": list(self.steps)}

    def restore(self, state):
        self.steps = state["steps"]


def _model(units=8):
    tf_keras.utils.set_random_seed(3)
    with generators_in_layers():
        inputs = tf_keras.Input([4])
        hidden = tf_keras.layers.BatchNormalization()(tf_keras.layers.Dense(units, "relu")(inputs))
        model = tf_keras.Model(inputs, tf_keras.layers.Dense(2)(tf_keras.layers.Dropout(0.5)(hidden)))
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, weighted_metrics=[tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")])
    return model


class _Training:
    """Two epochs of four steps; `run` may be cut off after a step, as by a killed process."""

    def __init__(self, folder, *, model=None, every_steps=3, writes=True, **arguments):
        self.model = model or _model()
        self.seen = _Seen()
        self.said = []
        strategy = tf.distribute.get_strategy()
        create_training_variables(self.model, strategy, X[:6], Y[:6])
        self.checkpoints = TrainingCheckpoints(
            folder=str(folder),
            model=self.model,
            strategy=strategy,
            fingerprint={"seed": "3"},
            states={"seen": self.seen},
            every_steps=every_steps,
            writes=writes,
            say=self.said.append,
            **arguments,
        )
        self.figures = []

    def run(self, num_steps=2 * STEPS):
        position = self.checkpoints.resume()
        step = tf.function(self.model.train_step)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(6)
        while position.epoch < 2:
            if not position.step_in_epoch:
                self.model.reset_metrics()
            for batch in data.skip(position.step_in_epoch):
                if position.global_step == num_steps:
                    return self
                step(batch)
                position = position.after_steps(1)
                self.seen.steps.append(position.global_step)
                self.checkpoints.on_step_end(position, {})
            self.figures.append({name: float(value) for name, value in self.model.get_metrics_result().items()})
            position = position.after_epoch()
            self.checkpoints.on_epoch_end(position, self.figures[-1])
        return self


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return _Training(tmp_path_factory.mktemp("whole")).run()


@pytest.mark.parametrize(("num_steps", "goes_on_after"), [(1, 0), (3, 3), (5, 4), (7, 6)])
def test_training_goes_on_bit_for_bit(uninterrupted, tmp_path, num_steps, goes_on_after):
    _Training(tmp_path).run(num_steps)

    second = _Training(tmp_path)
    assert second.checkpoints.resume().global_step == goes_on_after
    second.run()

    for ours, expected in zip(second.model.get_weights(), uninterrupted.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert second.model.optimizer.iterations.numpy() == 2 * STEPS
    assert second.seen.steps == [1, 2, 3, 4, 5, 6, 7, 8]
    # An epoch's figures are those of all its steps, also of those before the interruption.
    assert second.figures == uninterrupted.figures[-len(second.figures) :]
    assert second.said == []


def test_dropout_is_in_the_checkpoint(uninterrupted):
    assert len(find_generators(uninterrupted.model)) == 1
    assert not tf_keras.backend.experimental.is_tf_random_generator_enabled()


def test_one_is_saved_every_so_many_steps_even_if_several_run_at_a_time(tmp_path):
    training = _Training(tmp_path, every_steps=5)
    position = training.checkpoints.resume()

    saved = []
    for _ in range(5):
        position = position.after_steps(3)
        training.checkpoints.on_step_end(position, {})
        saved.append(training.checkpoints.saved_position)

    assert [position.global_step for position in saved] == [0, 6, 6, 12, 15]


def test_stop_saves_once(tmp_path):
    training = _Training(tmp_path, every_steps=2)
    position = training.checkpoints.resume().after_steps(2)
    training.checkpoints.on_step_end(position, {})
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    training.checkpoints.on_stop(position)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written

    training.checkpoints.on_stop(position.after_steps(1))
    assert training.checkpoints.saved_position == position.after_steps(1)


def test_process_that_is_not_the_chief_keeps_nothing(tmp_path):
    training = _Training(tmp_path / "shared", writes=False)

    training.checkpoints.save(TrainingPosition())

    assert not (tmp_path / "shared").exists()


def test_another_model_is_refused(tmp_path):
    _Training(tmp_path).checkpoints.resume()

    with pytest.raises(ValueError, match=r"`model_fn` must give the model that the checkpoint .* was saved from"):
        _Training(tmp_path, model=_model(units=5)).checkpoints.resume()


def test_what_is_worth_nothing_is_not_saved(tmp_path):
    def refuse(position):
        raise ValueError(f"weights are NaN after step {position.global_step}")

    with pytest.raises(ValueError, match="weights are NaN after step 0"):
        _Training(tmp_path, check=refuse).checkpoints.resume()
    assert list(tmp_path.iterdir()) == []


def test_size_is_known_before(uninterrupted):
    weights = 4 * 8 + 8 + 4 * 8 + 8 * 2 + 2  # Dense, batch normalization (two of its four are not trained), Dense
    slots = 2 * (weights - 2 * 8)

    assert num_state_bytes(uninterrupted.model) == 4 * (weights + slots) + 8  # and the count of iterations


def test_full_disk_keeps_the_checkpoint_before_and_says_so(small_disk):
    training = _Training(small_disk / "checkpoints")
    position = training.checkpoints.resume().after_steps(3)
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 4096))

    with pytest.raises(
        OSError, match=r"must have room for a checkpoint of 960 bytes; got [\d,]+ bytes free in"
    ) as error:
        training.checkpoints.save(position)

    assert "after step 3. The newest whole checkpoint is that after step 0" in str(error.value)
    (small_disk / "filler").unlink()
    assert _Training(small_disk / "checkpoints").checkpoints.resume() == TrainingPosition()
    assert {path.name.partition(".")[0] for path in (small_disk / "checkpoints").iterdir()} == {
        "step-0000000000-epoch-000000"
    }


FINGERPRINT = {"options.training_seed": "0", "transformed_examples": "8" * 64}


def _at(step, epoch=0):
    return TrainingPosition(epoch=epoch, step_in_epoch=0, global_step=step)


class _Files(CheckpointFiles):
    """Keeps what it says."""

    def __init__(self, folder, fingerprint):
        self.said = []
        super().__init__(folder, fingerprint=fingerprint, say=self.said.append)


@pytest.fixture
def files(tmp_path):
    return _Files(str(tmp_path / "checkpoints"), FINGERPRINT)


def _write(files, position, max_to_keep=2):
    tf.io.gfile.makedirs(files.folder)
    tf.train.Checkpoint(weight=tf.Variable(tf.range(100.0))).write(files.path(position))
    files.finish(position, max_to_keep=max_to_keep)


def _manifests(tmp_path):
    return sorted(path.stem for path in (tmp_path / "checkpoints").glob("*.json"))


def test_no_folder_holds_no_checkpoint(files):
    assert files.newest_whole() is None


def test_last_ones_are_kept_and_the_newest_is_taken(files, tmp_path):
    for position in (_at(0), _at(8), _at(10), _at(10, epoch=1)):
        _write(files, position)

    assert files.newest_whole() == _at(10, epoch=1)
    assert _manifests(tmp_path) == ["step-0000000010-epoch-000000", "step-0000000010-epoch-000001"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2 * 3
    assert files.said == []


def _cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def _spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "harm", "defect"),
    [
        (".data-00000-of-00001", lambda path: path.unlink(), "were written"),
        (".data-00000-of-00001", _cut, "were written"),
        (".data-00000-of-00001", _spoil, "[Cc]hecksum"),
        (".index", _spoil, "."),
        (".json", _cut, "its manifest cannot be read"),
    ],
    ids=["no data", "cut data", "spoilt data", "spoilt index", "cut manifest"],
)
def test_damaged_newest_is_passed_over(files, tmp_path, suffix, harm, defect):
    _write(files, _at(5))
    _write(files, _at(7))

    harm(tmp_path / "checkpoints" / f"step-0000000007-epoch-000000{suffix}")

    assert files.newest_whole() == _at(5)
    (line,) = files.said
    assert re.search(f"step-0000000007-epoch-000000' is skipped: .*{defect}", line)


def test_what_lacks_a_manifest_was_not_finished_and_goes_with_the_next_save(files, tmp_path):
    _write(files, _at(5))
    tf.train.Checkpoint(weight=tf.Variable(0.0)).write(files.path(_at(7)))
    half_written = tmp_path / "checkpoints" / "step-0000000009-epoch-000000_temp"
    half_written.mkdir()
    (half_written / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")

    assert files.newest_whole() == _at(5)

    _write(files, _at(6))
    assert {path.name.partition(".")[0] for path in (tmp_path / "checkpoints").iterdir()} == {
        "step-0000000005-epoch-000000",
        "step-0000000006-epoch-000000",
    }


def test_other_files_in_the_folder_stay(files, tmp_path):
    _write(files, _at(5))
    (tmp_path / "checkpoints" / "exported.index").write_text("")

    _write(files, _at(6), max_to_keep=1)

    assert (tmp_path / "checkpoints" / "exported.index").exists()
    assert _manifests(tmp_path) == ["step-0000000006-epoch-000000"]


def test_checkpoints_of_another_training_are_refused_by_name(files):
    _write(files, _at(5))
    other = {"options.training_seed": "1", "transformed_examples": "8" * 64, "code": "c" * 64}

    message = r"what differs: code absent -> 'cccccccccccc...', options.training_seed '0' -> '1'\. Remove the folder"
    with pytest.raises(ValueError, match=message):
        _Files(files.folder, other).newest_whole()


def test_manifest_tells_what_the_checkpoint_is_of(files, tmp_path):
    position = TrainingPosition(epoch=1, step_in_epoch=3, global_step=11)

    _write(files, position)

    manifest = json.loads((tmp_path / "checkpoints" / "step-0000000011-epoch-000001.json").read_text())
    assert manifest["position"] == {"epoch": 1, "step_in_epoch": 3, "global_step": 11}
    assert manifest["fingerprint"] == FINGERPRINT
    assert files.newest_whole() == position


def test_locked_folder_is_made_and_goes_if_nothing_is_in_it(tmp_path):
    folder = str(tmp_path / "checkpoints")

    with locked_checkpoints(folder):
        assert os.listdir(folder) == [".lock"]
        with (
            pytest.raises(BlockingIOError, match=r"`checkpoint_dir` must be used by one training at a time; got '.*'"),
            locked_checkpoints(folder),
        ):
            pass

    assert os.listdir(tmp_path) == []


def test_locked_folder_stays_if_it_was_there_or_holds_something(tmp_path):
    (tmp_path / "mine").mkdir()

    with locked_checkpoints(str(tmp_path / "mine")), locked_checkpoints(str(tmp_path / "made")):
        (tmp_path / "made" / "checkpoint").write_text("")

    assert os.listdir(tmp_path / "mine") == []
    assert os.listdir(tmp_path / "made") == ["checkpoint"]


def test_bytes_of_checkpoints_are_counted_without_other_files(files, tmp_path):
    assert num_checkpoint_bytes(files.folder) == 0
    _write(files, _at(5))
    expected = sum(path.stat().st_size for path in (tmp_path / "checkpoints").iterdir())
    (tmp_path / "checkpoints" / "other").write_text("other")

    assert num_checkpoint_bytes(files.folder) == expected

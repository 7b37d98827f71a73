from __future__ import annotations

import io
import logging
import re

import numpy as np
import pytest
import tf_keras
from rich.console import Console

from tfx_gnn.components.graph_trainer.progress import TrainingProgress
from tfx_gnn.io.progress import show_progress
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture
def model():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer="sgd", loss="mse")
    return model


def _train(model, epochs=2, steps_per_epoch=3, **options):
    x = np.zeros([6, 1], np.float32)
    y = np.ones([6, 1], np.float32)
    progress = TrainingProgress(num_epochs=epochs, steps_per_epoch=steps_per_epoch, **options)
    with libraries_traced_as_written():
        model.fit(x, y, batch_size=2, epochs=epochs, verbose=0, validation_data=(x, y), callbacks=[progress])
    return progress


class LastText(tf_keras.callbacks.Callback):
    """Keeps what the display would show after the last step."""

    def __init__(self, display):
        super().__init__()
        self._display = display
        self.text = ""

    def on_epoch_end(self, epoch, logs=None):
        self.text = self._display.stages[-1].text()


def test_each_epoch_is_one_plain_line_where_there_is_no_terminal(model, capfd):
    _train(model)

    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    # Biases start at 0 and the target is 1: the first step's loss is 1, the mean is below.
    assert lines[0].startswith("epoch 1/2 loss 0.9")
    assert "val_loss 0.8" in lines[0]
    assert lines[1].startswith("epoch 2/2 loss ")


@pytest.mark.parametrize("options", [{"is_quiet": True}, {"says_epochs": False}])
def test_epochs_are_not_said_where_another_says_them(model, capfd, options):
    _train(model, **options)

    assert not capfd.readouterr().err


@pytest.mark.parametrize("expected", [1, 2, 5])
def test_steps_are_counted_by_the_batches_there_were_not_by_those_expected(model, expected):
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, force_interactive=True, width=200)

    with show_progress(console) as display:
        progress = TrainingProgress(num_epochs=3, steps_per_epoch=expected)
        last = LastText(display)
        with libraries_traced_as_written():
            data = np.zeros([6, 1], np.float32), np.ones([6, 1], np.float32)
            model.fit(*data, batch_size=2, epochs=3, verbose=0, callbacks=[progress, last])

    # Time left, rate and a new note are there if the display was drawn meanwhile.
    assert re.match(r"training 100 %, (0:00 left, )?9/9 steps, (\S+/s, )?epoch [1-3]/3 loss ", last.text), last.text
    # Above the display, and not erased with it.
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    said = [line.partition(" loss")[0] for line in re.split(r"[\r\n]", printed) if line.startswith("epoch")]
    assert said == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]


def test_a_training_that_resumes_counts_from_there():
    progress = TrainingProgress(num_epochs=4, steps_per_epoch=10)

    with show_progress(Console(file=io.StringIO())) as display:
        progress.on_epoch_begin(2)
        progress.on_train_batch_begin(5)
        progress.on_train_batch_end(7)
        (stage,) = display.stages
        assert (stage.done, stage.total) == (28, 40)
        progress.close()
        progress.close()
        assert display.stages == ()


def test_complaints_about_fast_steps_are_held_back_and_others_are_not(model, caplog):
    logger = logging.getLogger("tensorflow")
    progress = TrainingProgress(num_epochs=1, steps_per_epoch=1)
    progress.on_train_begin()

    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        logger.propagate, before = True, logger.propagate
        logger.warning("Callback method `%s` is slow compared to the batch time", "on_train_batch_end")
        logger.warning("Gradients do not exist for variables")
        progress.close()
        logger.warning("Callback method `%s` is slow", "on_train_batch_end")
        logger.propagate = before

    assert [record.getMessage() for record in caplog.records] == [
        "Gradients do not exist for variables",
        "Callback method `on_train_batch_end` is slow",
    ]

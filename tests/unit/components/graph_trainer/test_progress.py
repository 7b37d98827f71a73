from __future__ import annotations

import io
import logging
import re

import numpy as np
import pytest
import tf_keras
from rich.console import Console

from tfx_gnn.components.graph_trainer.progress import TrainingProgress
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture
def model():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer="sgd", loss="mse")
    return model


def _train(model, console, epochs=2, steps_per_epoch=3):
    x = np.zeros([6, 1], np.float32)
    y = np.ones([6, 1], np.float32)
    progress = TrainingProgress(num_epochs=epochs, steps_per_epoch=steps_per_epoch, console=console)
    with libraries_traced_as_written():
        model.fit(x, y, batch_size=2, epochs=epochs, verbose=0, validation_data=(x, y), callbacks=[progress])
    return progress


def test_each_epoch_is_one_plain_line_where_there_is_no_terminal(model):
    text = io.StringIO()

    _train(model, Console(file=text, force_terminal=False, width=40))

    lines = text.getvalue().splitlines()
    assert len(lines) == 2
    # Biases start at 0 and the target is 1: the first step's loss is 1, the mean is below.
    assert lines[0].startswith("epoch 1/2 loss 0.9")
    assert "val_loss 0.8" in lines[0]
    assert lines[1].startswith("epoch 2/2 loss ")


def test_terminal_shows_one_bar_over_all_epochs(model):
    text = io.StringIO()

    _train(model, Console(file=text, force_terminal=True, width=200))

    assert "Epoch 2/2" in text.getvalue()
    assert "6/6" in text.getvalue()
    assert "epoch 1/2 loss" not in text.getvalue()


@pytest.mark.parametrize("expected", [1, 2, 5])
def test_bar_goes_by_the_batches_there_were_not_by_those_expected(model, expected):
    text = io.StringIO()

    _train(model, Console(file=text, force_terminal=True, width=200), epochs=3, steps_per_epoch=expected)

    without_colors = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())
    assert re.findall(r"\d+/\d+", without_colors)[-1] == "9/9"


def test_bar_can_be_closed_twice(model):
    progress = _train(model, Console(file=io.StringIO(), force_terminal=True))

    progress.close()


def test_complaints_about_fast_steps_are_held_back_and_others_are_not(model, caplog):
    logger = logging.getLogger("tensorflow")
    progress = TrainingProgress(num_epochs=1, steps_per_epoch=1, console=Console(file=io.StringIO()))
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

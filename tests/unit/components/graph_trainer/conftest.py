"""Fixtures of the trainer's tests."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf


@pytest.fixture
def logged():
    """Function from a folder to the steps of its TensorBoard events, by run and tag."""

    def read(folder):
        steps = {}
        for path in sorted(folder.rglob("events.out.tfevents.*")):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    # Keras numbers the layers of a process, so a resumed model in this one has other names.
                    steps.setdefault((path.parent.name, re.sub(r"_[0-9]+/", "/", value.tag)), []).append(event.step)
                if event.graph_def:
                    steps.setdefault((path.parent.name, "graph"), []).append(event.step)
        return steps

    return read

"""Reads the true labels that examples of training and evaluation hold beside what requests have."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfx_gnn.serving.example_edges import list_of
from tfx_gnn.serving.model_interface import ServedTask
from tfx_gnn.serving.prediction import as_text
from tfx_gnn.serving.raw_columns import split_key


class LabelReader:
    """Reads the labels of one task.

    Args:
        served: what the model predicts; None if it does not say so.
        task: name of the task in a model of several, else "".

    Attributes:
        name: name of the label, "" if the model does not say it.
    """

    def __init__(self, served: ServedTask | None, task: str) -> None:
        options: dict[str, Any] = {} if served is None else served.task
        options = options.get("tasks", {}).get(task, options)
        self._keys = () if served is None else served.label_keys
        named = tuple(key for key in self._keys if split_key(key)[1] == options.get("label_feature"))
        # The preprocessing of a single task may give its label another name.
        self._keys = named or (self._keys if len(self._keys) == 1 and not task else ())
        self.name = str(options.get("label_feature") or (split_key(self._keys[0])[1] if self._keys else ""))

    def label(self, example: tf.train.Example, *, is_class: bool, position: int) -> str | int | float | None:
        """Returns the label of an example.

        Args:
            example: raw graph tf.Example.
            is_class: whether the label is a class, of which a negative number, or an empty text, is none.
            position: the output or the candidate that it is of, where the example has several numbers.

        Returns:
            The name of a class, or a number; None if the example has no label.
        """
        features = example.features.feature
        values = [value for key in self._keys[:1] if key in features for value in list_of(features[key])]
        if len(values) > 1:
            values = values[position : position + 1]
        if not values:
            return None
        value = as_text(values[0])
        if is_class:
            return None if value == "" or (isinstance(value, int) and value < 0) else str(value)
        return None if isinstance(value, float) and math.isnan(value) else value

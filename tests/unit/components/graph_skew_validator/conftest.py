"""Weights of an exported model, edited in its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf


def _edit_weights(saved_model_dir: Path, shape: Sequence[int], edit: Callable[[Any], Any]) -> None:
    """Changes the only variable of this shape."""
    prefix = str(saved_model_dir / "variables" / "variables")
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    (edited,) = (name for name, found in reader.get_variable_to_shape_map().items() if found == list(shape))
    tensors[edited] = edit(tensors[edited]).astype(tensors[edited].dtype)
    values = [tf.constant(value) for value in tensors.values()]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors), tensors=values)


@pytest.fixture(scope="session")
def edit_weights() -> Callable[..., None]:
    """Changes the only variable of a shape in an exported model."""
    return _edit_weights

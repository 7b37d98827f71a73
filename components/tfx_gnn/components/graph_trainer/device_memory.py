"""Explains that a device ran out of memory, in terms of the trainer's options."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

#: TensorFlow's message, and XLA's. A full disk is the same class of error, with other words.
_OUT_OF_MEMORY = re.compile(
    r"OOM when allocating tensor with shape\[.*?\] and type \w+ on \S+"
    r"|Out of memory while trying to allocate [\d.]+ ?\w+"
)


@contextlib.contextmanager
def memory_errors_explained() -> Iterator[None]:
    """Adds to an out-of-memory error which options need less memory; its class stays the same."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        # Keras puts the call of a layer in front, for which it makes an error without `message`.
        found = _OUT_OF_MEMORY.search(str(error))
        if found is None:
            raise
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            f"`batch_size` must be small enough for the memory of each device; got: {found[0]}. Choose a smaller "
            "`batch_size` that budgets were learned for, `precision` 'mixed_bfloat16' or smaller layers, and end other "
            "processes that use the device.",
        ) from error

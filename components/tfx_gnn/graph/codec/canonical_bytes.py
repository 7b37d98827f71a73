"""Rewrites serialized tf.Examples into the one encoding that TensorFlow's parser reads correctly.

`tf.io.parse_example` has a protobuf reader of its own. Of the encodings that protobuf allows it
silently drops what follows the first piece of a list. With a wrong length, or with
unpacked floats that are more than a fixed-size feature takes, it writes outside of its buffers.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MESSAGE = "tensorflow.Example"
#: No example needs to have it: looking for any key makes the parser walk all features.
_ANY_KEY = "#any"


def canonical_examples(serialized: tf.Tensor) -> tf.Tensor:
    """Decodes and encodes tf.Examples, so that any parser reads them alike.

    What comes out holds the same values, each list packed and in one piece. Only operations of
    TensorFlow itself are used, so it can be part of an exported model.

    Two things that no encoder is known to write are not read as protobuf reads them, as that would take half as
    long again. Entries of the map of features that lack the key or the value, or hold unknown fields, which
    protobuf's own libraries treat differently, are refused. Of a key with several entries the last one with a list
    counts, even if one without a list follows.

    What is refused raises InvalidArgumentError; in a tf.function also DataLossError, if only values are damaged, or
    UnicodeDecodeError, if TensorFlow quotes bytes that are no text.

    Example:
        >>> twice = tf.train.Example().SerializeToString() * 2
        >>> canonical_examples(tf.constant([twice])).numpy().tolist()
        [b'']
    """
    try:
        return _canonical(serialized)
    except (UnicodeDecodeError, tf.errors.DataLossError) as error:
        # TensorFlow quotes the bytes in its message, which then may be no text for Python.
        raise tf.errors.InvalidArgumentError(
            None, None, "`serialized` must hold tf.Example protos; got bytes that are none."
        ) from error


def _canonical(serialized: tf.Tensor) -> tf.Tensor:
    def encode_anew() -> Any:
        sizes, (features,) = tf.io.decode_proto(
            serialized, _MESSAGE, ["features"], [tf.string], "local://", sanitize=True
        )
        return tf.io.encode_proto(sizes, [features], ["features"], _MESSAGE)

    # First, as it refuses most bytes that are no tf.Example, with the right error. Integers are read safely.
    walked = tf.io.parse_example(serialized, {_ANY_KEY: tf.io.FixedLenFeature([], tf.int64, 0)})[_ANY_KEY]
    # True unless there are no examples, which the decoder does not take. A mere control dependency on the walk would be
    # optimized away.
    is_any = tf.reduce_any(walked >= tf.int64.min)
    return tf.ensure_shape(tf.cond(is_any, encode_anew, lambda: serialized), serialized.shape)

"""Rewrites serialized tf.Examples into the one encoding that TensorFlow's parser reads correctly.

`tf.io.parse_example` has its own protobuf reader. Protobuf allows a list to be encoded in several
pieces, but this reader silently drops all pieces after the first. Given a wrong length, or more
unpacked floats than a fixed-size feature takes, it writes outside of its buffers.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MESSAGE = "tensorflow.Example"
#: Need not exist in any example: looking for any key makes the parser walk all features.
_ANY_KEY = "#any"


def canonical_examples(serialized: tf.Tensor) -> tf.Tensor:
    """Decodes and re-encodes tf.Examples, so that all parsers read them the same way.

    The result holds the same values, with each list packed and in one piece. Only TensorFlow's own
    operations are used, so this function can be part of an exported model.

    Two cases, which no known encoder writes, are not read as protobuf defines, because that would take 50% longer:

    - Entries of the map of features that lack the key or the value, or hold unknown fields, are refused. Protobuf's
      own libraries differ in how they treat them.
    - If a key has several entries, the last entry with a list counts, even if an entry without a list follows.

    Refused bytes raise InvalidArgumentError. In a tf.function, they may also raise DataLossError, if only values are
    damaged, or UnicodeDecodeError, if TensorFlow quotes bytes that are not text.

    Example:
        >>> twice = tf.train.Example().SerializeToString() * 2
        >>> canonical_examples(tf.constant([twice])).numpy().tolist()
        [b'']
    """
    try:
        return _canonical(serialized)
    except (UnicodeDecodeError, tf.errors.DataLossError) as error:
        # TensorFlow's message quotes the bytes, which Python may be unable to decode as text.
        raise tf.errors.InvalidArgumentError(
            None, None, "`serialized` must hold tf.Example protos; got other bytes."
        ) from error


def _canonical(serialized: tf.Tensor) -> tf.Tensor:
    def encode_anew() -> Any:
        sizes, (features,) = tf.io.decode_proto(
            serialized, _MESSAGE, ["features"], [tf.string], "local://", sanitize=True
        )
        return tf.io.encode_proto(sizes, [features], ["features"], _MESSAGE)

    # Runs first: it refuses most bytes that are not tf.Examples, with the right error, and reads integers safely.
    walked = tf.io.parse_example(serialized, {_ANY_KEY: tf.io.FixedLenFeature([], tf.int64, 0)})[_ANY_KEY]
    # True unless there are no examples, which the decoder does not accept. A mere control dependency on the walk would
    # be optimized away.
    is_any = tf.reduce_any(walked >= tf.int64.min)
    return tf.ensure_shape(tf.cond(is_any, encode_anew, lambda: serialized), serialized.shape)

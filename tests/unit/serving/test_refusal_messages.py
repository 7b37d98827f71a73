from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.serving.refusal_messages import NOT_AN_EXAMPLE, explain_refusal, feature_in_words, plain_message

NODE = "{{function_node __inference_signature_wrapper_3}} "
TAIL = "\n\t [[{{function_node __inference_2}}{{node ParseExample}}]] [Op:__inference_signature_wrapper_3]"
COUNTS = (
    "assertion failed: [`serialized` must hold as many values of each feature as its `#size` and spec say; got another "
    "number in feature] [     \\'nodes/item.x\\' (\\'nodes/item.#size\\')]"
)
INDICES = "must hold node indices in [0, number of nodes); got others in one of the features"
ADVICE = " Take examples of the schema that the model was trained on."


def _record(**sizes: int) -> bytes:
    """Items with `size` and, unless they are None, values of x."""
    example = tf.train.Example()
    features = example.features.feature
    features["nodes/item.#size"].int64_list.value.append(sizes["size"])
    if "x" in sizes:
        features["nodes/item.x"].float_list.value.extend([0.5] * sizes["x"])
    serialized: bytes = example.SerializeToString()
    return serialized


@pytest.mark.parametrize(
    ("message", "records", "told"),
    [
        (
            "Name: x, Key: nodes/item.x, Index: 2.  Data types don't match. Expected type: float, Actual type: int64",
            [],
            "`examples` must hold float values of feature 'x' of node set 'item'; got int64 in example 2." + ADVICE,
        ),
        (
            "Name: <unknown>, Feature: context/year (data type: int64) is required but could not be found.",
            [_record(size=1)],
            "`examples` must have feature 'year' of the context; got example 0 without it." + ADVICE,
        ),
        (
            COUNTS,
            [_record(size=1, x=1), _record(size=0), _record(size=2)],
            "`examples` must have feature 'x' of node set 'item'; got example 2 without it." + ADVICE,
        ),
        (
            COUNTS,
            [_record(size=1, x=2)],
            "`examples` must hold as many values of each feature as its set has items; got more or fewer of feature "
            "'x' of node set 'item'." + ADVICE,
        ),
        (
            f"assertion failed: [`serialized` {INDICES}] [edges/link.#source]",
            [],
            f"`examples` {INDICES}: edges/link.#source." + ADVICE,
        ),
        (
            "assertion failed: [`examples` must have exactly one node in node set `_readout`; got others. Send one.]",
            [],
            "`examples` must have exactly one node in node set `_readout`; got others. Send one.",
        ),
        (
            "Could not parse example input, value: 'x'",
            [],
            NOT_AN_EXAMPLE,
        ),
    ],
    ids=["dtype", "absent", "absent of items", "count", "indices", "own words", "garbage"],
)
def test_the_feature_and_the_example_are_named(message, records, told):
    assert explain_refusal(NODE + message + TAIL, records) == told


def test_a_message_becomes_one_line_without_names_of_nodes():
    assert plain_message(NODE + "one\n two" + TAIL) == "one two"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("nodes/paper.venue.short", "feature 'venue.short' of node set 'paper'"),
        ("edges/cites.#source", "feature '#source' of edge set 'cites'"),
        ("context/year", "feature 'year' of the context"),
        ("guess", "feature 'guess' of the context"),
    ],
)
def test_keys_are_told_as_features_of_sets(key, words):
    assert feature_in_words(key) == words

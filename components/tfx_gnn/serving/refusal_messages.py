"""Explains TensorFlow's errors for refused requests."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.serving import model_interface

_NOISE = re.compile(r"\{\{function_node .*?\}\}\s*|\s*\[\[.*?\]\]|\s*\[Op:[^\]]*\](?: name:)?\s*$", re.DOTALL)
_ASSERTION = re.compile(r"assertion failed: \[(?P<rule>[^\]]*)\](?: \[(?P<more>[^\]]*)\])?", re.DOTALL)
_OTHER_DTYPE = re.compile(
    r"Key: (?P<key>.+?), Index: (?P<position>\d+)\.\s+Data types don't match\. "
    r"Expected type: (?P<expected>\w+), Actual type: (?P<actual>\w+)"
)
_ABSENT = re.compile(r"Feature: (?P<key>.+?) \(data type: \w+\) is required but could not be found")
_QUOTED_KEY = re.compile(r"\\?'((?:nodes|edges)/.+?|context/.+?)\\?'")
_KEY = re.compile(r"(?P<kind>nodes|edges)/(?P<set>[^.]+)\.(?P<name>.+)")
_ABOUT_STRUCTURE = re.compile("node indices|exactly one node|at least one node")
_PARSER = "ParseExampleV2"
_SIZE = ".#size"
_ADVICE = "Take examples of the schema that the model was trained on."
_UNPARSEABLE = "Could not parse example input"

NOT_AN_EXAMPLE = (
    f"`{model_interface.EXAMPLES_INPUT}` must hold graph tf.Examples; got a record that cannot be parsed as one. "
    + _ADVICE
)
"""What is wrong with a record that is no tf.Example."""


def parsed_keys(function: Any) -> tuple[str, ...]:
    """Lists the keys of tf.Examples that a signature of a model reads, sorted."""
    keys: set[str] = set()
    for body in function.graph.as_graph_def().library.function:
        constants = {node.name: node.attr["value"].tensor for node in body.node_def if node.op == "Const"}
        for node in body.node_def:
            names = [name.partition(":")[0] for name in node.input] if node.op == _PARSER else []
            # The examples and their names come before the keys, which are strings; default values need not be.
            found = [tf.make_ndarray(constants[name]) for name in names[2:5] if name in constants]
            keys.update(key.decode() for array in found if array.dtype == object for key in array.ravel())
    return tuple(sorted(keys))


def explain_refusal(message: str, records: Sequence[bytes], keys: Collection[str] = ()) -> str:
    """Explains in one line what is wrong with a request, given the message of TensorFlow's error.

    It names features and their sets, and the position of the first example at fault. `keys` are the keys that the model
    reads; empty if unknown.
    """
    plain = plain_message(message)
    if _UNPARSEABLE in plain or not all(map(_is_example, records)):
        return NOT_AN_EXAMPLE
    if found := _OTHER_DTYPE.search(plain):
        return _sentence(
            f"must hold {found['expected']} values of {feature_in_words(found['key'])}",
            f"{found['actual']} in example {found['position']}",
        )
    if found := _ABSENT.search(plain):
        return _absent(found["key"], _first_without(found["key"], records))
    assertion = _ASSERTION.search(plain)
    return plain if assertion is None else _broken_assertion(assertion, records, keys)


def plain_message(message: str) -> str:
    """Removes the names of functions, nodes and operations from TensorFlow's message, and makes it one line."""
    return " ".join(_NOISE.sub("", message).split())


def feature_in_words(key: str) -> str:
    """Names a feature in words that users know.

    Example:
        >>> feature_in_words("nodes/paper.venue"), feature_in_words("context/year")
        ("feature 'venue' of node set 'paper'", "feature 'year' of the context")
    """
    if found := _KEY.fullmatch(key):
        return f"feature {found['name']!r} of {found['kind'][:-1]} set {found['set']!r}"
    return f"feature {key.removeprefix('context/')!r} of the context"


def _broken_assertion(assertion: re.Match[str], records: Sequence[bytes], keys: Collection[str]) -> str:
    if _ABOUT_STRUCTURE.search(assertion["rule"]) and (missing_set := _other_sets(keys, records)):
        return missing_set
    features = [key for key in _QUOTED_KEY.findall(assertion["more"] or "") if not key.endswith(".#size")]
    for key in features:
        position = _first_without(key, records)
        if position is not None:
            return _absent(key, position)
    if features:
        return _sentence(
            "must hold as many values of each feature as its set has items",
            f"more or fewer of {', '.join(map(feature_in_words, features))}",
        )
    rule = assertion["rule"].replace("`serialized`", f"`{model_interface.EXAMPLES_INPUT}`").rstrip(" .")
    # The messages of TensorFlow's assertions on two tensors begin with the compared values.
    has_detail = assertion["more"] and not assertion["more"].startswith("Condition ")
    return f"{rule}: {assertion['more']}. {_ADVICE}" if has_detail else f"{rule}."


def _absent(key: str, position: int | None) -> str:
    which = "one" if position is None else f"example {position}"
    return _sentence(f"must have {feature_in_words(key)}", f"{which} without it")


def _other_sets(keys: Collection[str], records: Sequence[bytes]) -> str | None:
    """Names a set that the model reads and an example lacks: its size counts as 0, so other sets do not match it."""
    size_keys = [key for key in keys if key.endswith(_SIZE)]
    for position, record in enumerate(records):
        found = tf.train.Example.FromString(record).features.feature
        for key in size_keys:
            if key not in found:
                kind, _, name = key.removesuffix(_SIZE).partition("/")
                named = sorted(other.removesuffix(_SIZE) for other in found if other.endswith(_SIZE))
                others = [other.removeprefix(f"{kind}/") for other in named if other.startswith(f"{kind}/")]
                what = f"{kind.removesuffix('s')} set"
                return _sentence(f"must have {what} {name!r}", f"example {position} with the {what}s {others}")
    return None


def _is_example(record: bytes) -> bool:
    try:
        tf.train.Example.FromString(record)
    except DecodeError:
        return False
    return True


def _sentence(rule: str, got: str) -> str:
    return f"`{model_interface.EXAMPLES_INPUT}` {rule}; got {got}. {_ADVICE}"


def _first_without(key: str, records: Sequence[bytes]) -> int | None:
    found = _KEY.fullmatch(key)
    size_key = f"{found['kind']}/{found['set']}.#size" if found else ""
    for position, record in enumerate(records):
        features = tf.train.Example.FromString(record).features.feature
        # An empty set needs no features.
        has_items = not size_key or any(features[size_key].int64_list.value if size_key in features else ())
        is_absent = key not in features or features[key].WhichOneof("kind") is None
        if is_absent and has_items:
            return position
    return None

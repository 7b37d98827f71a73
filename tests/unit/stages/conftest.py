"""Hand-made graph tf.Examples and folders of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.stages import examples_folder


def _feature(values: Sequence[Any]) -> tf.train.Feature:
    if not values:
        return tf.train.Feature()
    if isinstance(values[0], (bytes, str)):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _make_record(content: Mapping[str, Sequence[Any]]) -> bytes:
    feature = {key: _feature(values) for key, values in content.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def _write_examples(
    folder: str, splits: Mapping[str, Sequence[Sequence[Mapping[str, Sequence[Any]]]]], schema: str | None
) -> str:
    for split, shards in splits.items():
        for shard, contents in enumerate(shards):
            records = [_make_record(content) for content in contents]
            examples_folder.write_split_shard(folder, split, shard, len(shards), records)
    if schema is not None:
        with open(os.path.join(folder, "graph_schema.pbtxt"), "w") as file:
            file.write(schema)
    return folder


def _read_split(folder: str, split: str) -> list[dict[str, list[Any]]]:
    contents = []
    for record in examples_folder.read_split(folder, split).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        contents.append(
            {
                key: list(getattr(feature, feature.WhichOneof("kind")).value) if feature.WhichOneof("kind") else []
                for key, feature in features.items()
            }
        )
    return contents


@pytest.fixture(scope="session")
def make_record() -> Callable[[Mapping[str, Sequence[Any]]], bytes]:
    """Serializes {key: values} as a tf.Example."""
    return _make_record


@pytest.fixture(scope="session")
def write_examples() -> Callable[..., str]:
    """Writes {split: [shard, ...]}, a shard being a list of {key: values}, and a schema's text."""
    return _write_examples


@pytest.fixture(scope="session")
def read_examples() -> Callable[[str, str], list[dict[str, list[Any]]]]:
    """Reads the examples of a split as {key: values}."""
    return _read_split

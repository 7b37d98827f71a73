"""Hand-made graph tf.Examples and folders of them."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
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


@dataclasses.dataclass(frozen=True)
class TransformedStar:
    """Folders of the star graph before and after GraphTransform."""

    examples_dir: str
    graph_schema_dir: str
    transform_graph_dir: str
    transformed_examples_dir: str
    transformed_graph_schema_dir: str


def _module_of_file(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def star_graph() -> ModuleType:
    """The module `star_graph`, importable by that name as a user's module is."""
    return _module_of_file("star_graph")


@pytest.fixture(scope="session")
def task_graphs() -> ModuleType:
    """The module `task_graphs`: graphs and models for every task."""
    return _module_of_file("task_graphs")


@pytest.fixture(scope="session")
def ring_project() -> ModuleType:
    """The module `ring_project`, importable by that name as a user's module is."""
    return _module_of_file("ring_project")


@pytest.fixture(scope="session")
def tuned_model() -> ModuleType:
    """The module `tuned_model`, importable by that name as a user's module is."""
    return _module_of_file("tuned_model")


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Any]:
    """Reads an HTML page into `page_reader.PageReader`, which fails for one that is not well formed."""
    return _module_of_file("page_reader").PageReader


@pytest.fixture(scope="session")
def star_examples(star_graph: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Examples folder of the star graph, with the schema beside the splits."""
    return _write_examples(str(tmp_path_factory.mktemp("star") / "examples"), star_graph.SPLITS, star_graph.SCHEMA)


@pytest.fixture(scope="session")
def transform_star(star_examples: str) -> Callable[..., TransformedStar]:
    """Runs GraphTransform on the star graph, in a new folder."""
    from tfx_gnn.stages.graph_transform import GraphTransformOptions, transform_graphs

    def run(folder: Path, preprocessing_fn: str = "star_graph:preprocessing_fn", **options: Any) -> TransformedStar:
        star = TransformedStar(
            examples_dir=star_examples,
            graph_schema_dir=star_examples,
            transform_graph_dir=str(folder / "transform_graph"),
            transformed_examples_dir=str(folder / "transformed"),
            transformed_graph_schema_dir=str(folder / "schema"),
        )
        more = {name: options.pop(name) for name in list(options) if name.endswith("_dir")}
        options_ = GraphTransformOptions(preprocessing_fn=preprocessing_fn, **options)
        transform_graphs(**dataclasses.asdict(star), **more, options=options_)
        return star

    return run


@pytest.fixture(scope="session")
def transformed_star(
    transform_star: Callable[..., TransformedStar], tmp_path_factory: pytest.TempPathFactory
) -> TransformedStar:
    """The star graph, transformed by `star_graph.preprocessing_fn`."""
    return transform_star(tmp_path_factory.mktemp("transformed_star"))

"""Names weights so that another training can find them, and reads those of an exported model by these names.

Keras numbers layers without names within a process, so `dense_7` says which layers were built before rather than which
layer it is. Here, a weight is named by the path of attributes that lead to it from its model, as in TensorFlow's
checkpoints. Layers of a functional model, which have no attributes, have their own name, or else their class and their
number among the model's layers of this class.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.io import options_json
from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declared_weight_index

WEIGHTS_FILE = "assets.extra/weights.json"
"""File next to `saved_model.pb` with the names of the weights, and what numbers them."""

_LAYER_BY_POSITION = re.compile(r"layer(_with_weights)?-[0-9]+")
_OPTIMIZER = "optimizer"
_TFRECORD = ".gz"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightLayout:
    """What the values of a weight are.

    Attributes:
        shape: its shape.
        index: what numbers one of its axes; None for a weight without such an axis.
    """

    shape: tuple[int, ...]
    index: WeightIndex | None = None

    @property
    def axis(self) -> int:
        """The numbered axis, at least 0; 0 if there is none."""
        return self.index.axis % len(self.shape) if self.index is not None else 0

    @property
    def other_sizes(self) -> tuple[int, ...]:
        """The shape without the numbered axis."""
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    def blocks(self) -> Iterator[tuple[int, IndexBlock]]:
        """Yields each block of the numbered axis, and the position where it begins."""
        begin = 0
        for block in self.index.blocks if self.index is not None else ():
            yield begin, block
            begin += block.size


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelWeight:
    """A weight of a model that has been built.

    Attributes:
        variable: its variable; on parameter servers perhaps a sharded one, which can be assigned to as a whole.
        layout: what its values are.
    """

    variable: Any
    layout: WeightLayout


def find_weights(model: tf_keras.Model) -> dict[str, ModelWeight]:
    """Finds the weights of a built model, by names that are the same in every process.

    Args:
        model: the model, under any strategy.

    Returns:
        The weights by name, such as "FeatureEncoder-0/_projections/nodes:user/kernel".
    """
    positions = {id(variable): position for position, variable in enumerate(model.variables)}
    view = tf.train.TrackableView(model)
    found: dict[str, ModelWeight] = {}
    seen: set[int] = set()
    queue: collections.deque[tuple[tuple[str, ...], Any, Any]] = collections.deque([((), model, None)])
    while queue:
        path, node, owner = queue.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        parts = _parts(node)
        if parts:
            if positions.keys() & {id(part) for part in parts}:
                found["/".join(path)] = ModelWeight(variable=node, layout=_layout(node, owner))
                seen |= {id(part) for part in parts}
            continue
        for label, child in _children(view, node).items():
            if not (node is model and label == _OPTIMIZER):
                queue.append(((*path, label.replace("/", ":")), child, node))
    # Whatever is not an attribute of its layer.
    for variable in model.variables:
        if id(variable) not in seen:
            found[f"variables/{positions[id(variable)]}"] = ModelWeight(
                variable=variable, layout=_layout(variable, None)
            )
    return found


def _parts(node: Any) -> list[Any]:
    """Returns the variables that a node of the object graph consists of; empty if it is not a weight."""
    if isinstance(node, tf.Variable):
        return [node]
    is_sharded = hasattr(node, "assign") and hasattr(node, "variables")
    return [node, *node.variables] if is_sharded else []


def _children(view: tf.train.TrackableView, node: Any) -> dict[str, Any]:
    children: dict[str, Any] = dict(view.children(node))
    by_position = {id(child) for label, child in children.items() if _LAYER_BY_POSITION.fullmatch(label)}
    if not by_position:
        return children
    named: dict[str, Any] = {}
    numbers: collections.Counter[str] = collections.Counter()
    for layer in node.layers:
        if id(layer) in by_position:
            kind = type(layer).__name__
            label = layer.name
            if _is_numbered(label, kind):
                label, numbers[kind] = f"{kind}-{numbers[kind]}", numbers[kind] + 1
            named[label] = layer
    return named | {label: child for label, child in children.items() if id(child) not in by_position}


def _is_numbered(name: str, kind: str) -> bool:
    """Returns whether Keras has made the name of a layer from the name of its class."""
    stem = re.sub(r"_[0-9]+$", "", name).replace("_", "")
    return stem == ("model" if kind == "Functional" else kind.replace("_", "").lower())


def _layout(variable: Any, owner: Any) -> WeightLayout:
    shape = tuple(int(size) for size in variable.shape)
    index = declared_weight_index(owner)
    if index is None and isinstance(owner, tf_keras.layers.Embedding):
        index = WeightIndex(axis=0, blocks=(IndexBlock(name="", size=shape[0], vocabulary=None),))
    return WeightLayout(shape=shape, index=index)


def write_saved_weights(model: tf_keras.Model, saved_model_dir: str, vocabulary_files: Mapping[str, str]) -> None:
    """Writes the names of a model's weights next to its SavedModel, whose root has `model.variables` in a list.

    Args:
        model: the model, on one device.
        saved_model_dir: folder of the SavedModel.
        vocabulary_files: name of each vocabulary's file in the folder `assets`, by the vocabulary's name.
    """
    positions = {id(variable): position for position, variable in enumerate(model.variables)}
    weights = {
        name: {"variable": positions[id(weight.variable)], **dataclasses.asdict(weight.layout)}
        for name, weight in find_weights(model).items()
    }
    content = {"format_version": 1, "weights": weights, "vocabulary_files": dict(vocabulary_files)}
    path = os.path.join(saved_model_dir, WEIGHTS_FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SavedWeight(WeightLayout):
    variable: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Content:
    format_version: int
    weights: dict[str, _SavedWeight]
    vocabulary_files: dict[str, str]


class SavedWeights:
    """The weights of an exported model, which is not loaded for that.

    Attributes:
        layouts: what the values of each weight are, by its name.
    """

    def __init__(self, saved_model_dir: str) -> None:
        """Reads what `write_saved_weights` wrote.

        Args:
            saved_model_dir: folder of the SavedModel.

        Raises:
            ValueError: if the model was exported by an earlier version.
        """
        path = os.path.join(saved_model_dir, WEIGHTS_FILE)
        if not tf.io.gfile.exists(path):
            raise ValueError(
                f"`warm_start` must start from a model with {WEIGHTS_FILE}; got none in {saved_model_dir!r}, which an "
                "earlier version has exported. Train and push once with `warm_start` 'none'."
            )
        with tf.io.gfile.GFile(path) as file:
            self._content = options_json.from_json(file.read(), _Content, name=path)
        self._folder = saved_model_dir
        self.layouts: Mapping[str, WeightLayout] = self._content.weights

    @functools.cached_property
    def _reader(self) -> Any:
        return tf.train.load_checkpoint(os.path.join(self._folder, "variables", "variables"))

    def value(self, name: str) -> npt.NDArray[Any]:
        """Reads the values of a weight."""
        key = f"_variables/{self._content.weights[name].variable}/.ATTRIBUTES/VARIABLE_VALUE"
        return np.asarray(self._reader.get_tensor(key))

    def vocabulary_names(self) -> list[str]:
        """Lists the vocabularies of the model's transform."""
        return sorted(self._content.vocabulary_files)

    def vocabulary_by_name(self, name: str) -> Sequence[bytes]:
        """Reads the terms of a vocabulary, in the order of their indices."""
        path = os.path.join(self._folder, tf.saved_model.ASSETS_DIRECTORY, self._content.vocabulary_files[name])
        if path.endswith(_TFRECORD):
            return [bytes(record) for record in tf.data.TFRecordDataset(path, "GZIP").as_numpy_iterator()]
        with tf.io.gfile.GFile(path, "rb") as file:
            return [line.rstrip(b"\n") for line in file]

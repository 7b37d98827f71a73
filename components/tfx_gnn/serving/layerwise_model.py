"""An exported model as functions of its layers, to compute each state once for a whole graph."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import read_json
from tfx_gnn.serving.full_precision import FULL_PRECISION

LAYERS_FILE = "assets.extra/layers.json"
"""File next to `saved_model.pb` that describes the functions of the layers: a `LayerPlan`; absent without these."""

_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadRelation:
    """Edges along which a node set receives in a layer.

    Attributes:
        edge_set: name of the edge set.
        receiver_tag: the end that receives: 0 for the source, 1 for the target.
        sender: name of the node set at the other end.
        features: features of the edges that the layer reads.
    """

    edge_set: str
    receiver_tag: int
    sender: str
    features: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """What the functions of a model's layers read and return.

    Attributes:
        seed_set: node set of the seeds.
        widths: width of the first states, by node set.
        layers: for each layer, the width of the new states, by node set that it updates.
        relations: for each layer, the relations along which each of these node sets receives.
        reads_all_states: whether the head reads the states of the seeds after every layer, the first ones included;
            otherwise, the last ones.
        is_half_precision: whether some states are bfloat16 or float16, which the order of sums rounds by up to 1 %.
    """

    seed_set: str
    widths: Mapping[str, int]
    layers: tuple[Mapping[str, int], ...]
    relations: tuple[Mapping[str, tuple[ReadRelation, ...]], ...]
    reads_all_states: bool
    is_half_precision: bool = False

    def write(self, saved_model_dir: str) -> None:
        """Writes the file next to `saved_model.pb`."""
        path = os.path.join(saved_model_dir, LAYERS_FILE)
        tf.io.gfile.makedirs(os.path.dirname(path))
        content = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(self)}
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(json.dumps(content, indent=2) + "\n")


def read_layer_plan(saved_model_dir: str) -> LayerPlan:
    """Reads the file next to `saved_model.pb`.

    Raises:
        ValueError: if there is none, or it is of another version.
    """
    path = os.path.join(saved_model_dir, LAYERS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`model_dir` must hold a model with {LAYERS_FILE} to infer layer by layer; got none in "
            f"{saved_model_dir!r}. Train with `layerwise_inference`, or infer from subgraphs."
        )
    content = read_json(path)
    version = content.pop("format_version", None) if isinstance(content, dict) else None
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"`{path}` must be of format version {_FORMAT_VERSION}; got {version!r}. Use the version of the library "
            "that exported the model."
        )
    return options_json.from_json(json.dumps(content), LayerPlan, name=path)


class LayerwiseModel:
    """The functions of an exported model's layers.

    Attributes:
        plan: what they read and return.
    """

    def __init__(self, loaded: Any, plan: LayerPlan) -> None:
        """Takes a SavedModel, as TensorFlow loads it, that was exported with them."""
        self.plan = plan
        self._loaded = loaded

    def encode(self, example: bytes) -> dict[str, tf.Tensor]:
        """Transforms and encodes a graph.

        Args:
            example: serialized raw graph tf.Example; it needs no readout.

        Returns:
            "nodes/<set>": float32 [num_nodes, units], the first states; "edges/<set>.<feature>": [num_edges, ...],
            the features that layers read.

        Raises:
            tf.errors.InvalidArgumentError: if a transformed number is not finite.
        """
        with FULL_PRECISION:
            found: dict[str, tf.Tensor] = self._loaded.layer_functions["encoder"](tf.constant([example]))
        return found

    def update(self, layer: int, node_set: str, inputs: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """Computes new states.

        Args:
            layer: number of the layer, from 0.
            node_set: the node set to update.
            inputs: "num_targets": int32 [], how many of the set's first nodes to update; "nodes/<set>": float32
                [num_nodes, units], states of that set and of all senders; for each edge set of a relation,
                "edges/<set>.#source" and "edges/<set>.#target": int32 [num_edges], and "edges/<set>.<feature>".

        Returns:
            float32 array, shape [num_targets, units].
        """
        tensors = {key: tf.convert_to_tensor(value) for key, value in inputs.items()}
        with FULL_PRECISION:
            new = self._loaded.layer_functions[f"{layer}/{node_set}"](tensors)
        states: npt.NDArray[np.float32] = tf.cast(new, tf.float32).numpy()
        return states

    def answer(self, states: Sequence[npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[Any]]:
        """Computes predictions and embeddings from the states of seeds.

        Args:
            states: float32 arrays, shape [n, any]; those that `plan.reads_all_states` asks for.

        Returns:
            Arrays by output name, as signatures `serving_default` and `embeddings` return them, without ids.
        """
        with FULL_PRECISION:
            outputs = self._loaded.layer_functions["head"]([tf.constant(one) for one in states])
        return {name: value.numpy() for name, value in sorted(outputs.items())}

"""Saves the batch that made the loss or weights NaN or infinite, for debugging."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io import options_json
from tfx_gnn.models.tasks import READOUT_NODE_SET
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.loop.training_loop import TrainingPosition

NONFINITE_BATCH_DIR = "nonfinite_batch"
"""Folder of a model run."""

_CAUSE_FILE = "cause.json"
_BATCHES_DIR = "batches"
_ID = "#id"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonfiniteCause:
    """What is known of a number that is not finite.

    Attributes:
        position: where training was after the step that it came up in.
        found_again: whether it came up again in that step when the steps since the last checkpoint were repeated.
            If not, the step is the last one before the loss was looked at.
        tensor: the first tensor of the step that is not finite, such as "feature nodes/item.x", "weight
            dense/kernel", "output", "loss" or "gradient of dense/kernel"; empty if it is not known.
        example_ids: original ids of what the step's examples are about, where the data have `#id`: for each
            replica, names of edge sets from `_readout` (or "context") to ids. Empty if no batch was looked for:
            before the first step, and under parameter servers.
    """

    position: TrainingPosition
    found_again: bool
    tensor: str
    example_ids: tuple[dict[str, list[Any]], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonfiniteBatch:
    """What `read_nonfinite_batch` reads.

    Attributes:
        cause: what is known.
        replicas: for each replica a triple as `train_step` of the model gets it: scalar padded graph, labels, and
            weights before they are scaled by the size of the step.
    """

    cause: NonfiniteCause
    replicas: tuple[tuple[GraphTensor, Any, Any], ...]


def write_nonfinite_batch(run_dir: str, cause: NonfiniteCause, replicas: Sequence[tuple[GraphTensor, Any, Any]]) -> str:
    """Writes the batch into the folder of a model run, over one that is there.

    Args:
        run_dir: folder of the run.
        cause: what is known.
        replicas: as `NonfiniteBatch.replicas`, at least one.

    Returns:
        The folder `nonfinite_batch`.
    """
    folder = os.path.join(run_dir, NONFINITE_BATCH_DIR)
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)
    tf.io.gfile.makedirs(folder)
    elements = [tf.data.Dataset.from_tensors(replica) for replica in replicas]
    batches = elements[0]
    for element in elements[1:]:
        batches = batches.concatenate(element)
    with warnings.catch_warnings():
        # TensorFlow warns that readers need this library.
        warnings.filterwarnings("ignore", message="Encoding a StructuredValue")
        batches.save(os.path.join(folder, _BATCHES_DIR))
    with tf.io.gfile.GFile(os.path.join(folder, _CAUSE_FILE), "w") as file:
        file.write(json.dumps(dataclasses.asdict(cause), indent=2) + "\n")
    return folder


def read_nonfinite_batch(folder: str) -> NonfiniteBatch:
    """Reads a batch that a training ended at.

    Args:
        folder: the folder `nonfinite_batch` that the error named.

    Returns:
        The batch, and what is known.

    Raises:
        ValueError: if there is none in the folder.
    """
    path = os.path.join(folder, _CAUSE_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`folder` must hold a batch that a training ended at; got no {_CAUSE_FILE!r} in {folder!r}. Take the "
            "folder that the error of that training named."
        )
    with tf.io.gfile.GFile(path) as file:
        cause = options_json.from_json(file.read(), NonfiniteCause)
    return NonfiniteBatch(cause=cause, replicas=tuple(tf.data.Dataset.load(os.path.join(folder, _BATCHES_DIR))))


def example_ids(batch: PaddedBatch) -> dict[str, list[Any]]:
    """Tells what the examples of a batch are about.

    Args:
        batch: a padded batch, labels and original ids included.

    Returns:
        "context" to the ids of the graphs, and names of edge sets such as "_readout/seed" to those of the nodes
        that they tie to readout nodes; only where there are ids. Padding has none.
    """
    graph, is_real = batch.graph, batch.is_real
    found: dict[str, list[Any]] = {}
    if _ID in graph.context.features:
        found["context"] = _plain(tf.boolean_mask(graph.context[_ID], is_real))
    for name, edge_set in graph.edge_sets.items():
        source = graph.node_sets[edge_set.adjacency.source_name]
        if name.startswith(f"{READOUT_NODE_SET}/") and _ID in source.features:
            # Padding comes after all that is real.
            num_real = tf.reduce_sum(tf.boolean_mask(edge_set.sizes, is_real))
            found[name] = _plain(tf.gather(source[_ID], edge_set.adjacency.source[:num_real]))
    return found


def _plain(ids: tf.Tensor) -> list[Any]:
    values: list[Any] = tf.reshape(ids, [-1]).numpy().tolist()
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]

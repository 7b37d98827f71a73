"""Operations that must not be exported, because concurrent requests crash them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

UNSAFE_OPERATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
"""Operations whose oneDNN kernel keeps sizes and pointers of the running call in members that calls share.

In training mode, which `tf_keras.layers.LayerNormalization` uses, the size is the number of rows: a call writes as many
values as another call has rows. That corrupts the heap: the process aborts, or continues and returns wrong numbers.
With fixed statistics, as in `BatchNormalization`, all calls usually have the same sizes, so this rarely shows, but the
contract makes no call safe.
"""

_FIRST_SAFE_VERSION = (2, 21)
"""Version with a fix: TensorFlow 2.16.2 aborts within seconds, 2.21 never did."""


def has_unsafe_kernels() -> bool:
    """Returns whether kernels of `UNSAFE_OPERATIONS` are unsafe in this version of TensorFlow.

    This is the version that exports the model. The server's version is unknown: serve the model with the same version
    or a newer one. The server's processor is unknown too: only x86 has these kernels, but a model exported on an Arm
    machine may be served on x86.
    """
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    return version < _FIRST_SAFE_VERSION


def check_operations(saved_model_dir: str) -> None:
    """Refuses a SavedModel that would abort a multi-threaded server."""
    if not has_unsafe_kernels():
        return
    found = sorted(set(_unsafe_layers(saved_model_dir)))
    if found:
        layers = ", ".join(f"{operation} in layer {layer!r}" for layer, operation in found)
        raise ValueError(
            "`model_fn` must give a model that can answer several requests at a time; got "
            f"{layers}: this operation's kernel in TensorFlow {tf.__version__} shares memory between threads, and two "
            "requests abort the server. Use tfx_gnn.keras.layers.LayerNormalization for layer normalization, and "
            "BatchNormalization(fused=False); or, for a single-threaded server, set `allow_unsafe_operations`."
        )


def _unsafe_layers(saved_model_dir: str) -> Iterator[tuple[str, str]]:
    """Yields the scope of each unsafe operation, which is the path of its layer, and the operation."""
    with tf.io.gfile.GFile(os.path.join(saved_model_dir, tf.saved_model.SAVED_MODEL_FILENAME_PB), "rb") as file:
        content = saved_model_pb2.SavedModel.FromString(file.read())
    for meta_graph in content.meta_graphs:
        functions = meta_graph.graph_def.library.function
        for nodes in (meta_graph.graph_def.node, *(function.node_def for function in functions)):
            for node in nodes:
                if node.op in UNSAFE_OPERATIONS:
                    yield node.name.rpartition("/")[0] or node.name, node.op

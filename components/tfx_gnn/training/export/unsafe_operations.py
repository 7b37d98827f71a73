"""Operations that may not be exported, as concurrent requests crash them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

UNSAFE_OPERATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
"""Operations whose oneDNN kernel keeps sizes and pointers of the running call in members, which calls share.

In training mode, which `tf_keras.layers.LayerNormalization` uses, the size is the number of rows: a call writes as many
values as another call has rows. That corrupts the heap: the process aborts, or goes on and answers wrong numbers. With
fixed statistics, as in `BatchNormalization`, all calls usually have the same sizes, so this rarely shows. No call is
safe by contract.
"""

_FIRST_SAFE_VERSION = (2, 21)
"""Where that was mended: TensorFlow 2.16.2 aborts within seconds, 2.21 never did."""


def has_unsafe_kernels() -> bool:
    """Tells whether kernels of `UNSAFE_OPERATIONS` are unsafe in this version of TensorFlow.

    It is the version that exports the model. That of the server is not known: serve the model with the same version or
    a newer one. Nor is the server's processor: these kernels are those of x86, and a model that is exported on an Arm
    machine may be served on x86.
    """
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    return version < _FIRST_SAFE_VERSION


def check_operations(saved_model_dir: str) -> None:
    """Refuses a SavedModel that would abort a server of several threads."""
    if not has_unsafe_kernels():
        return
    found = sorted(set(_unsafe_layers(saved_model_dir)))
    if found:
        layers = ", ".join(f"{operation} in layer {layer!r}" for layer, operation in found)
        raise ValueError(
            "`model_fn` must give a model that can answer several requests at a time; got "
            f"{layers}: this operation's kernel in TensorFlow {tf.__version__} shares memory between threads, and two "
            "requests abort the server. Take tfx_gnn.keras.layers.LayerNormalization for a layer normalization, and "
            "BatchNormalization(fused=False); or, for a server of one thread only, set `allow_unsafe_operations`."
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

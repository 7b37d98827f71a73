"""What a padded batch and a model take of the memory of one TPU core, and how well the batch pads there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.flat_tensors import graph_flat_tensor_specs
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec

TILE_ROWS, TILE_COLUMNS = 8, 128
"""A TPU keeps the last two dimensions of 32-bit values in tiles of this size, and fills up what is less."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchTensor:
    """One tensor of a padded batch.

    Attributes:
        name: key, such as "nodes/item.x".
        dtype: name of its data type.
        shape: static shape; -1 for a size that is not known.
        num_bytes: size of its values; unknown sizes count as 0.
        tiled_bytes: at most so much it takes in tiles.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    tiled_bytes: int

    @property
    def fits_tiles(self) -> bool:
        """Whether the number of rows, all but the last dimension, is a multiple of 8."""
        return len(self.shape) < 2 or self.shape[-2] % TILE_ROWS == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuMemory:
    """Estimated memory of one core in bytes. What the step computes in between, its activations, comes on top.

    Attributes:
        batch: tensors of one batch.
        parameters: trained and other weights.
        gradients: of trained weights.
        optimizer: slots and counters of the optimizer.
    """

    batch: tuple[BatchTensor, ...]
    parameters: int
    gradients: int
    optimizer: int

    @property
    def batch_bytes(self) -> int:
        """Bytes of one batch, in tiles."""
        return sum(tensor.tiled_bytes for tensor in self.batch)

    @property
    def total(self) -> int:
        """All of it. The batch counts twice: the next one is brought while one is computed."""
        return 2 * self.batch_bytes + self.parameters + self.gradients + self.optimizer


def estimate_tpu_memory(batch_spec: Any, model: tf_keras.Model) -> TpuMemory:
    """Adds up what is known before a step is run.

    Args:
        batch_spec: nest of type specs of one replica's batch.
        model: compiled model whose optimizer has its variables.

    Returns:
        The estimate.
    """
    return TpuMemory(
        batch=tuple(_measured(name, spec) for name, spec in _named_tensors(batch_spec)),
        parameters=_num_bytes(model.weights),
        gradients=_num_bytes(model.trainable_weights),
        optimizer=_num_bytes(model.optimizer.variables),
    )


def _named_tensors(batch_spec: Any) -> Iterator[tuple[str, tf.TensorSpec]]:
    fields: Mapping[str, Any] = batch_spec._asdict() if hasattr(batch_spec, "_asdict") else {"batch": batch_spec}
    for name, field in fields.items():
        for leaf in tf.nest.flatten(field):
            if isinstance(leaf, GraphTensorSpec):
                yield from graph_flat_tensor_specs(leaf).items()
            else:
                yield from ((name, spec) for spec in tf.nest.flatten(leaf, expand_composites=True))


def _measured(name: str, spec: tf.TensorSpec) -> BatchTensor:
    shape = tuple(-1 if size is None else int(size) for size in spec.shape) if spec.shape.rank is not None else (-1,)
    known = [max(size, 0) for size in shape]
    width = spec.dtype.size
    tiled = list(known)
    if tiled:
        tiled[-1] = _rounded_up(tiled[-1], TILE_COLUMNS)
    if len(tiled) > 1:
        tiled[-2] = _rounded_up(tiled[-2], TILE_ROWS)
    return BatchTensor(
        name=name,
        dtype=spec.dtype.name,
        shape=shape,
        num_bytes=math.prod(known) * width,
        tiled_bytes=math.prod(tiled) * width,
    )


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _num_bytes(variables: Any) -> int:
    return sum(int(variable.shape.num_elements()) * variable.dtype.size for variable in variables)

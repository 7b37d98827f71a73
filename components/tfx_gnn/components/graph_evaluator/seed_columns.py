"""The seed's own columns in raw examples: what a model without the graph could know."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.measures import feature_values
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, SHADOW_PREFIX
from tfx_gnn.records.graph_layout import FeatureColumn, graph_layout
from tfx_gnn.sampling.plan.hop import SEED

_SEED_EDGES = f"{READOUT_NODE_SET}/{SEED}"
_RESERVED = "#"
_TEXT_BITS = 53
"""Bits of a whole number that a float holds exactly."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedColumns:
    """Which columns the seeds have.

    Attributes:
        set_name: node set of the seeds, or edge set if edges are the seeds.
        size_key: key of the number of its items in an example.
        features: its features of one shape.
        left_out: names of features whose values differ in number.
    """

    set_name: str
    size_key: str
    features: tuple[FeatureColumn, ...]
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; a feature of several numbers is as many columns."""
        return tuple(itertools.chain.from_iterable(map(_names, self.features)))

    @property
    def is_text(self) -> npt.NDArray[np.bool_]:
        """Whether each column holds texts: bool [num_columns]."""
        return np.array([one.dtype == tf.string for one in self.features for _ in _names(one)], bool)

    def values(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> npt.NDArray[np.float64]:
        """Reads the columns, float64 [num_examples, num_columns]; texts are hashed. `places` is for error messages."""
        rows = np.full([len(examples), len(self.names)], np.nan)
        for row, features, place in zip(rows, examples, places, strict=True):
            _, roots = feature_values(features, f"{const.EDGES}/{_SEED_EDGES}.{const.SOURCE_NAME}")
            _, sizes = feature_values(features, self.size_key)
            if not roots or not sizes or not 0 <= roots[0] < sizes[0]:
                raise ValueError(
                    f"`examples_dir` must hold examples with one seed of {self.set_name!r} each; got none in {place}. "
                    "Make the examples again, or set `trees_baseline` to 'off'."
                )
            first = 0
            for column in self.features:
                width = math.prod(size or 0 for size in column.shape)
                _, found = feature_values(features, column.key)
                if len(found) != width * sizes[0]:
                    raise ValueError(
                        f"`examples_dir` must hold {width} values of {column.key!r} per item, as its graph schema "
                        f"says; got {len(found)} values for {sizes[0]} items in {place}. Make the examples again."
                    )
                values = found[width * roots[0] : width * (roots[0] + 1)]
                row[first : first + width] = (
                    [_text_number(one) for one in values] if found and (column.dtype == tf.string) else values
                )
                first += width
        return rows


def find_seed_columns(schema: GraphSchema) -> SeedColumns | None:
    """Lists the columns of the seeds; None if examples are not about single nodes or edges."""
    layout = graph_layout(schema)
    edges = layout.set_by_prefix.get(f"{const.EDGES}/{_SEED_EDGES}")
    if edges is None:
        return None
    name = edges.source.removeprefix(SHADOW_PREFIX)
    is_edge = edges.source.startswith(SHADOW_PREFIX)
    one_set = layout.set_by_prefix.get(f"{const.EDGES if is_edge else const.NODES}/{name}")
    if one_set is None:
        return None
    known = [one for one in one_set.features if not one.name.startswith(_RESERVED) and one.key not in layout.index_keys]
    return SeedColumns(
        set_name=name,
        size_key=one_set.size_key,
        features=tuple(one for one in known if not one.is_ragged),
        left_out=tuple(one.name for one in known if one.is_ragged),
    )


def _names(column: FeatureColumn) -> list[str]:
    if not column.shape:
        return [column.name]
    places = itertools.product(*(range(size or 0) for size in column.shape))
    return [column.name + "".join(f"[{position}]" for position in place) for place in places]


def _text_number(text: bytes) -> float:
    """Hashes a text to a whole number that a float holds exactly."""
    return float(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> (64 - _TEXT_BITS))

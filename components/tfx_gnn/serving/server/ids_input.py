"""Ids in requests: the nodes, or pairs of nodes, around which examples are sampled from a graph index."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.serving.model_interface import REQUEST_SCHEMA_FILE, SAMPLING_PLAN_FILE
from tfx_gnn.serving.server.graph_json import bytes_of
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.refusals import Refusal, malformed, shown

_NUM_SHOWN = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class AskedSeed:
    """A node, or a pair of nodes, that a request asks about.

    Attributes:
        ids: by root ("seed"; or "source" and "target"), the id of the node.
        place: where it is in the request, for messages.
    """

    ids: Mapping[str, str | int]
    place: str


Item = Union[bytes, AskedSeed]
"""What a prediction is about: a serialized example, or the seed of one that is yet to be sampled."""


class SeedInput:
    """Samples examples around the ids in requests to one version of a model.

    Attributes:
        are_pairs: whether a seed is a pair of nodes.
    """

    def __init__(self, index: GraphIndex, saved_model_dir: str, metrics: ServerMetrics) -> None:
        """Reads by which plan the model's examples were sampled.

        Raises:
            ValueError: if the model was exported without its plan, ids alone are not enough for it, or the index is not
                of the graph that the model was trained on.
        """
        recorded = read_recorded_plan(os.path.join(saved_model_dir, SAMPLING_PLAN_FILE))
        if recorded is None:
            raise ValueError(
                f"`model_dir` must hold a model with {SAMPLING_PLAN_FILE}, to be asked by ids; got none in "
                f"{saved_model_dir!r}. Train it on examples of SubgraphExampleGen, with this version of the library or "
                "a later one; or leave `graph_index_dir` out."
            )
        try:
            self._sampler = RecordSampler(index, recorded)
        except ValueError as error:
            raise ValueError(
                f"`model_dir` must hold a model that can be asked by ids of the graph index {index.index_dir!r}; got "
                f"{saved_model_dir!r}. Index the tables that it was trained on, or leave `graph_index_dir` out. Cause: "
                f"{error}"
            ) from error
        wanted = read_schema(os.path.join(saved_model_dir, REQUEST_SCHEMA_FILE))
        for problem in _differences(wanted, self._sampler.schema):
            raise ValueError(
                f"`graph_index_dir` must hold the graph that the model was trained on; got {index.index_dir!r}, where "
                f"{problem}, for the model in {saved_model_dir!r}. Build the index from the same columns."
            )
        self._index, self._metrics = index, metrics
        self._sets, self._types = self._sampler.root_sets, self._sampler.id_types
        self.are_pairs = len(self._sets) > 1

    @property
    def datatype(self) -> str:
        """The Open Inference Protocol's datatype of ids; pairs are JSON."""
        are_integers = not self.are_pairs and all(pa.types.is_integer(dtype) for dtype in self._types.values())
        return "INT64" if are_integers else "BYTES"

    def read(self, value: Any, place: str) -> AskedSeed:
        """Reads the id of a node, or the object {"source": ..., "target": ...} with those of a pair."""
        if not self.are_pairs:
            ((root, dtype),) = self._types.items()
            return AskedSeed(ids={root: self._read_id(value, dtype, place, self._sets[root])}, place=place)
        if not isinstance(value, Mapping) or set(value) != set(self._types):
            raise malformed(
                f"`{place}` must be a pair of ids, because the model predicts links; got {shown(value)}. Write "
                '{"source": ..., "target": ...}.'
            )
        ids = {
            root: self._read_id(value[root], dtype, f"{place}.{root}", self._sets[root])
            for root, dtype in self._types.items()
        }
        return AskedSeed(ids=ids, place=place)

    def sample(self, seeds: Sequence[AskedSeed]) -> list[bytes | None]:
        """Samples the examples around seeds; None for those with an unknown node."""
        start = time.perf_counter()
        rows = self._sampler.find({root: [seed.ids[root] for seed in seeds] for root in self._sets})
        is_known = np.logical_and.reduce([of_root >= 0 for of_root in rows.values()])
        records = iter(self._sampler.sample({root: of_root[is_known] for root, of_root in rows.items()}))
        found = [next(records) if known else None for known in is_known.tolist()]
        self._metrics.ids.inc(len(seeds))
        self._metrics.sampling.observe(time.perf_counter() - start)
        return found

    def unknown_ids(self, seeds: Sequence[AskedSeed]) -> Refusal:
        """Makes the refusal of a request with seeds that `sample` did not find."""
        rows = self._sampler.find({root: [seed.ids[root] for seed in seeds] for root in self._sets})
        unknown = [
            (f"{seed.place}.{root}" if self.are_pairs else seed.place, self._sets[root], seed.ids[root])
            for number, seed in enumerate(seeds)
            for root in self._sets
            if rows[root][number] < 0
        ]
        place, node_set, _ = unknown[0]
        ids = [given for _, _, given in unknown[:_NUM_SHOWN]]
        return Refusal(
            404,
            "unknown_id",
            f"`{place}` must be the id of a node of {node_set!r} in the graph index; got {shown(ids[0])}, one of "
            f"{len(unknown)} unknown ids: {shown(ids)}. Correct it, or send a graph with the new node.",
        )

    def warmup_items(self) -> list[Item]:
        """Lists the first seed, if there is one: the model must answer what is sampled around it."""
        if not all(self._index.node_tables[name].num_nodes for name in self._sets.values()):
            return []
        ids = {root: self._index.node_tables[name].ids[0].as_py() for root, name in self._sets.items()}
        return [AskedSeed(ids=ids, place="the first node")]

    def _read_id(self, value: Any, dtype: pa.DataType, place: str, node_set: str) -> str | int:
        if pa.types.is_integer(dtype):
            if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
                raise malformed(
                    f"`{place}` must be an integer of 64 bits, as the ids of {node_set!r} are; got {shown(value)}. "
                    "Write it as a number; as a tensor, in INT64."
                )
            return value
        text = value if isinstance(value, bytes) else bytes_of(value, place)
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise malformed(f"`{place}` must be text in UTF-8; got {shown(text)}. Encode it so.") from error


def records_of(requests: Sequence[Sequence[Item]], seeds: SeedInput | None) -> list[list[bytes] | Refusal]:
    """Samples the examples of several requests in one call.

    Returns:
        For each request its serialized examples, or why it is refused: it has ids of no node.
    """
    asked = [item for items in requests for item in items if isinstance(item, AskedSeed)]
    sampled = iter(seeds.sample(asked) if seeds is not None and asked else ())
    found: list[list[bytes] | Refusal] = []
    for items in requests:
        records = [next(sampled) if isinstance(item, AskedSeed) else item for item in items]
        known = [record for record in records if record is not None]
        if seeds is not None and len(known) < len(records):
            found.append(seeds.unknown_ids([item for item in items if isinstance(item, AskedSeed)]))
        else:
            found.append(known)
    return found


def _differences(wanted: GraphSchema, made: GraphSchema) -> Iterator[str]:
    """Describes what a model reads but examples of an index would lack, or have in another type."""
    groups: list[tuple[str, Mapping[str, Feature], Mapping[str, Feature] | None]] = [
        ("the context", wanted.context.features, made.context.features)
    ]
    for kind, of_wanted, of_made in (
        ("node set", wanted.node_sets, made.node_sets),
        ("edge set", wanted.edge_sets, made.edge_sets),
    ):
        groups += [
            (f"{kind} {name!r}", one.features, of_made[name].features if name in of_made else None)
            for name, one in of_wanted.items()
        ]
    for place, features, found in groups:
        if found is None:
            yield f"{place} is not sampled"
            continue
        for name, feature in features.items():
            if name not in found:
                yield f"{place} has no feature {name!r}"
            elif _kind(feature) != _kind(found[name]):
                yield f"feature {name!r} of {place} is {_kind(found[name])}, not {_kind(feature)}"


def _kind(feature: Feature) -> str:
    return f"{tf.as_dtype(feature.dtype).name} of shape {[dim.size for dim in feature.shape.dim]}"

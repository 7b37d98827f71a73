"""Ids in requests: the nodes, or pairs of nodes, around which examples are sampled from a graph.

    "u1"                                             a node
    {"source": "u1", "target": "i3"}                 a pair, if the model predicts links
    {"id": "u1", "context": {"time": 1769904000}}    a node as of a time, if the seeds of training came with times
    {"id": "eve", "nodes": {...}, "edges": {...}}    a node of the graph with more rows, which are not kept

A pair may come with rows, too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.files import TableEntry
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.overlay.graph_snapshot import GraphSnapshot
from tfx_gnn.sampling.plan.drawing_weights import check_hop_weights
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.serving.model_interface import REQUEST_SCHEMA_FILE, SAMPLING_PLAN_FILE
from tfx_gnn.serving.schema_differences import schema_differences
from tfx_gnn.serving.server.graph_json import bytes_of
from tfx_gnn.serving.server.graph_rows import (
    ROW_PARTS,
    GraphRows,
    check_id_length,
    read_graph_rows,
    refusal_of_rows,
)
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.refusals import Refusal, malformed, shown
from tfx_gnn.serving.server.seed_context import CONTEXT_PART, SeedContext, Value
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.tables.table_layout import EXTRA_PREFIX

_LOG = logging.getLogger(__name__)
_NUM_SHOWN = 3
_OLD_SECONDS = 86_400
_ID = "id"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AskedSeed:
    """A node, or a pair of nodes, that a request asks about.

    Attributes:
        ids: by root ("seed"; or "source" and "target"), the id of the node.
        places: by root, where the id is in the request, for messages.
        place: where the whole is in the request.
        rows: nodes and edges that the graph lacks, for this seed alone; None for the graph as it is.
        may_have_rows: whether the request could bring some.
        context: what else examples hold of the seed, such as its time.
    """

    ids: Mapping[str, str | int]
    places: Mapping[str, str]
    place: str
    rows: GraphRows | None = None
    may_have_rows: bool = True
    context: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnknownNodes:
    """That the graph lacked nodes of a seed; `roots` says which."""

    roots: tuple[str, ...]


Item = Union[bytes, AskedSeed]
"""What a prediction is about: a serialized example, or the seed of one that is yet to be sampled."""


class SeedInput:
    """Samples examples around the ids in requests to one version of a model.

    Attributes:
        are_pairs: whether a seed is a pair of nodes.
    """

    def __init__(self, graph: ServedGraph, saved_model_dir: str, metrics: ServerMetrics) -> None:
        """Reads by which plan the model's examples were sampled.

        Raises:
            ValueError: if the model was exported without its plan, ids alone are not enough for it, or the graph is not
                the one that the model was trained on.
        """
        recorded = read_recorded_plan(os.path.join(saved_model_dir, SAMPLING_PLAN_FILE))
        if recorded is None:
            raise ValueError(
                f"`model_dir` must hold a model with {SAMPLING_PLAN_FILE}, to be asked by ids; got none in "
                f"{saved_model_dir!r}. Train it on examples of SubgraphExampleGen, with this version of the library or "
                "a later one; or leave `graph_index_dir` out."
            )
        self._graph, self._recorded, self._metrics = graph, recorded, metrics
        self._saved_model_dir = saved_model_dir
        self._wanted = read_schema(os.path.join(saved_model_dir, REQUEST_SCHEMA_FILE))
        self._sampler = self._sampler_of(graph.snapshot)
        self._sets, self._types = self._sampler.root_sets, self._sampler.id_types
        self.are_pairs = len(self._sets) > 1
        self._context = SeedContext(self._sampler.input_types, self._sampler.now_input)

    def check(self, snapshot: GraphSnapshot) -> None:
        """Refuses a graph that is to take the place of the one that is served, unless it answers the same requests.

        Raises:
            ValueError: if the model cannot be asked by its ids, they are of another type, or no example can be sampled.
        """
        sampler = self._sampler_of(snapshot)
        if sampler.id_types != self._types:
            raise ValueError(
                f"`graph_index_dir` must have ids of the types {self._types}, as before; got {sampler.id_types} in "
                f"{snapshot.index.index_dir!r}. Start the server again with it."
            )
        seeds = {root: np.zeros([1], np.int64) for root in self._sets}
        if all(snapshot.node_tables[name].num_nodes for name in self._sets.values()):
            sampler.sample(seeds, self._context.columns([self._context.any_values()]))

    def _sampler_of(self, snapshot: GraphSnapshot) -> RecordSampler:
        """Makes what samples the model's examples from a graph, and refuses one that it was not trained on."""
        index_dir, saved_model_dir = snapshot.index.index_dir, self._saved_model_dir
        try:
            sampler = RecordSampler(snapshot, self._recorded)
        except ValueError as error:
            raise ValueError(
                f"`model_dir` must hold a model that can be asked by ids of the graph index {index_dir!r}; got "
                f"{saved_model_dir!r}. Index the tables that it was trained on, or leave `graph_index_dir` out. Cause: "
                f"{error}"
            ) from error
        for problem in schema_differences(self._wanted, sampler.schema):
            raise ValueError(
                f"`graph_index_dir` must hold the graph that the model was trained on; got {index_dir!r}, where "
                f"{problem}, for the model in {saved_model_dir!r}. Build the index from the same columns."
            )
        if sampler.now_input:
            self._warn_of_old_rows(snapshot.index, f"{CONTEXT_PART}.{sampler.now_input}")
        return sampler

    def _warn_of_old_rows(self, index: GraphIndex, time_place: str) -> None:
        temporal = self._recorded.plan.temporal
        edge_times = temporal.edge_times if temporal else {}
        columns = [index.edge_tables[name].features[feature] for name, feature in edge_times.items()]
        newest = max((pc.max(column).as_py() for column in columns if len(column)), default=None)
        if newest is not None and newest < time.time() - _OLD_SECONDS:
            _LOG.warning(
                "The newest edge of `%s` is of %s UTC: requests that leave `%s` out ask as of now, when all of it is "
                "long ago. Index newer tables, or send the time.",
                index.index_dir,
                f"{dt.datetime.fromtimestamp(max(newest, 0), dt.timezone.utc):%Y-%m-%d %H:%M}",
                time_place,
            )

    @property
    def datatype(self) -> str:
        """The Open Inference Protocol's datatype of ids; pairs are JSON."""
        are_integers = not self.are_pairs and all(pa.types.is_integer(dtype) for dtype in self._types.values())
        return "INT64" if are_integers else "BYTES"

    def read(self, value: Any, place: str) -> AskedSeed:
        """Reads the id of a node, or an object with that of a node or with those of a pair, and with new rows."""
        fields = {root: root if self.are_pairs else _ID for root in self._types}
        if not self.are_pairs and not (isinstance(value, Mapping) and _ID in value):
            ((root, dtype),) = self._types.items()
            found = self._read_id(value, dtype, place, self._sets[root])
            context = self._context.read({}, f"{place}.{CONTEXT_PART}")
            return AskedSeed(ids={root: found}, places={root: place}, place=place, context=context)
        if not isinstance(value, Mapping) or not set(fields.values()) <= set(value):
            raise malformed(
                f"`{place}` must be a pair of ids, because the model predicts links; got {shown(value)}. Write "
                '{"source": ..., "target": ...}.'
            )
        allowed = [*fields.values(), *ROW_PARTS, *([CONTEXT_PART] if self._sampler.input_types else [])]
        for name in value:
            if name not in allowed:
                raise malformed(
                    f"`{place}` must have keys among {allowed}; got {shown(name)}. "
                    f"{did_you_mean(name, allowed, otherwise='Leave it out.')}"
                )
        places = {root: f"{place}.{field}" for root, field in fields.items()}
        ids = {
            root: self._read_id(value[field], self._types[root], places[root], self._sets[root])
            for root, field in fields.items()
        }
        rows = None
        if any(part in value for part in ROW_PARTS):
            graph = self._graph
            given = read_graph_rows(value, f"{place}.", graph.max_new_rows, graph.max_id_bytes)
            self.check_weights(given, f"{place}.")
            rows = self._with_unread_columns(given)
        context = self._context.read(value.get(CONTEXT_PART, {}), f"{place}.{CONTEXT_PART}")
        return AskedSeed(ids=ids, places=places, place=place, rows=rows, context=context)

    def check_weights(self, rows: GraphRows, place: str) -> None:
        """Refuses new edges by whose weights no edge can be drawn, before they are in the way of others' answers.

        Raises:
            Refusal: if there is one; `place` is the start of the place of "edges" in the request.
        """
        for hop in self._recorded.plan.hops:
            values = rows.edges.get(hop.edge_set, {}).get(hop.weight_feature, [])
            # Values of another type are refused with all other columns.
            if not hop.weight_feature or any(type(value) not in (int, float) for value in values):
                continue
            column = f"{place}edges.{hop.edge_set}.{hop.weight_feature}"
            try:
                check_hop_weights(hop, np.array(values, np.float64), (f"`{column}[" + "{}]`").format)
            except ValueError as error:
                raise malformed(str(error)) from error

    def read_candidates(
        self, source: Any, candidates: Sequence[Any], context: Any, *, are_known: bool = False
    ) -> list[AskedSeed]:
        """Reads the pairs of one source and several targets, which may be known to be ids of the graph.

        `context` is that of all pairs.
        """
        of_source, of_target = (self._types[root] for root in (ROOT_SOURCE, ROOT_TARGET))
        source_id = self._read_id(source, of_source, "source", self._sets[ROOT_SOURCE])
        values = self._context.read(context, CONTEXT_PART)
        seeds = []
        for number, candidate in enumerate(candidates):
            place = f"candidates[{number}]"
            target_id = candidate if are_known else self._read_id(candidate, of_target, place, self._sets[ROOT_TARGET])
            seeds.append(
                AskedSeed(
                    ids={ROOT_SOURCE: source_id, ROOT_TARGET: target_id},
                    places={ROOT_SOURCE: "source", ROOT_TARGET: place},
                    place=place,
                    may_have_rows=False,
                    context=values,
                )
            )
        return seeds

    def read_source(self, source: Any, context: Any) -> AskedSeed:
        """Reads a source as the pair of it and the first target of the graph, for an embedding of it."""
        targets = self._graph.snapshot.node_tables[self._sets[ROOT_TARGET]]
        if not targets.num_nodes:
            raise Refusal(404, "unknown_id", "The graph must have targets; got none. Add some.")
        (seed,) = self.read_candidates(source, targets.ids.slice(0, 1).to_pylist(), context, are_known=True)
        return seed

    @property
    def ends_are_of_one_set(self) -> bool:
        """Whether sources and targets are of one node set."""
        return self._sets[ROOT_SOURCE] == self._sets[ROOT_TARGET]

    def are_targets(self, ids: Sequence[str | int]) -> list[bool]:
        """Returns which ids are those of targets in the graph.

        Raises:
            Refusal: if they are of another type than the ids of targets.
        """
        dtype, name = self._types[ROOT_TARGET], self._sets[ROOT_TARGET]
        if any(isinstance(one, int) != pa.types.is_integer(dtype) for one in ids):
            raise malformed(
                f"`candidates` must be a list of ids unless the stored embeddings are those of {name!r}, with ids of "
                f"type {dtype}; got {shown(ids[0])}. List them, or embed examples of this graph."
            )
        rows = self._graph.snapshot.find_nodes(name, pa.array(ids, dtype))
        found: list[bool] = (rows >= 0).tolist()
        return found

    def sample(self, seeds: Sequence[AskedSeed]) -> list[bytes | UnknownNodes | Refusal]:
        """Samples the example around each seed, or says why there is none."""
        start = time.perf_counter()
        snapshot = self._graph.snapshot
        sampler = self._sampler
        if sampler.graph is not snapshot:
            sampler = self._sampler = RecordSampler(snapshot, self._recorded)
        plain = iter(self._records(sampler, [seed for seed in seeds if seed.rows is None]))
        found = [next(plain) if seed.rows is None else self._with_rows(snapshot, seed, seed.rows) for seed in seeds]
        self._metrics.ids.inc(len(seeds))
        self._metrics.sampling.observe(time.perf_counter() - start)
        return found

    def _records(self, sampler: RecordSampler, seeds: Sequence[AskedSeed]) -> list[bytes | UnknownNodes]:
        """Samples seeds of one graph together."""
        if not seeds:
            return []
        rows = sampler.find({root: [seed.ids[root] for seed in seeds] for root in self._sets})
        is_known = np.logical_and.reduce([of_root >= 0 for of_root in rows.values()])
        contexts = self._context.columns([seed.context for seed, known in zip(seeds, is_known, strict=True) if known])
        records = iter(sampler.sample({root: of_root[is_known] for root, of_root in rows.items()}, contexts))
        return [
            next(records)
            if known
            else UnknownNodes(roots=tuple(root for root, of_root in rows.items() if of_root[number] < 0))
            for number, known in enumerate(is_known.tolist())
        ]

    def _with_rows(self, snapshot: GraphSnapshot, seed: AskedSeed, rows: GraphRows) -> bytes | UnknownNodes | Refusal:
        """Samples a seed from the graph with its own rows."""
        try:
            graph = snapshot.with_rows(nodes=rows.nodes, edges=rows.edges)
        except ValueError as error:
            return refusal_of_rows(error, f"In `{seed.place}`, ")
        (found,) = self._records(RecordSampler(graph, self._recorded), [seed])
        return found

    def _with_unread_columns(self, rows: GraphRows) -> GraphRows:
        """Adds columns that rows lack and no example holds: labels of seeds, and columns that only split them."""
        plan, manifest = self._recorded.plan, self._graph.snapshot.index.manifest
        labels = {} if plan.is_link_plan else {plan.seed_node_set: plan.label_features}
        return GraphRows(
            nodes={
                name: _filled(columns, manifest.node_sets.get(name), labels.get(name, ()))
                for name, columns in rows.nodes.items()
            },
            edges={name: _filled(columns, manifest.edge_sets.get(name)) for name, columns in rows.edges.items()},
        )

    def unknown_ids(self, unknown: Sequence[tuple[AskedSeed, UnknownNodes]]) -> Refusal:
        """Makes the refusal of a request with seeds whose nodes the graph lacked."""
        # Candidates share the place of their source.
        ids = {seed.places[root]: (seed.ids[root], root) for seed, missing in unknown for root in missing.roots}
        place, (first, root) = next(iter(ids.items()))
        shown_ids = [given for given, _ in list(ids.values())[:_NUM_SHOWN]]
        may_have_rows = all(seed.may_have_rows for seed, _ in unknown)
        remedy = "send the new node in `nodes` and its edges in `edges`" if may_have_rows else "add it by /v1/graph:add"
        others = f", one of {len(ids)} unknown ids: {shown(shown_ids)}" if len(ids) > 1 else ""
        return Refusal(
            404,
            "unknown_id",
            f"`{place}` must be the id of a node of {self._sets[root]!r} in the graph; got {shown(first)}{others}. "
            f"Correct it, or {remedy}.",
        )

    def example(self) -> dict[str, Any] | None:
        """Writes the first seed as a request has it; None if there is none."""
        for seed in self.warmup_items():
            if isinstance(seed, AskedSeed):
                ids = {root if self.are_pairs else _ID: value for root, value in seed.ids.items()}
                # The time of the request need not be sent.
                context = {name: value for name, value in seed.context.items() if name != self._sampler.now_input}
                return {**ids, **({CONTEXT_PART: context} if context else {})}
        return None

    def warmup_items(self) -> list[Item]:
        """Lists the first seed, if there is one: the model must answer what is sampled around it."""
        tables = {root: self._graph.snapshot.node_tables[name] for root, name in self._sets.items()}
        if not all(table.num_nodes for table in tables.values()):
            return []
        ids = {root: table.ids.slice(0, 1)[0].as_py() for root, table in tables.items()}
        place = "the first node"
        context = self._context.any_values()
        return [AskedSeed(ids=ids, places=dict.fromkeys(ids, place), place=place, context=context)]

    def _read_id(self, value: Any, dtype: pa.DataType, place: str, node_set: str) -> str | int:
        return read_id(
            value,
            is_integer=pa.types.is_integer(dtype),
            max_bytes=self._graph.max_id_bytes,
            place=place,
            owner=repr(node_set),
        )


def read_id(value: Any, *, is_integer: bool, max_bytes: int, place: str, owner: str) -> str | int:
    """Reads an id of a request, of the type that the ids of its owner have, and of bounded length if it is text."""
    if is_integer:
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            raise malformed(
                f"`{place}` must be an integer of 64 bits, as the ids of {owner} are; got {shown(value)}. "
                "Write it as a number; as a tensor, in INT64."
            )
        return value
    text = value if isinstance(value, bytes) else bytes_of(value, place)
    check_id_length(text, place, max_bytes)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"`{place}` must be text in UTF-8; got {shown(text)}. Encode it so.") from error


def records_of(requests: Sequence[Sequence[Item]], seeds: SeedInput | None) -> list[list[bytes] | Refusal]:
    """Samples the examples of several requests in one call.

    Returns:
        For each request its serialized examples, or why it is refused: it has ids of no node, or rows that do not fit.
    """
    asked = [item for items in requests for item in items if isinstance(item, AskedSeed)]
    sampled = iter(seeds.sample(asked) if seeds is not None and asked else ())
    found: list[list[bytes] | Refusal] = []
    for items in requests:
        records: list[bytes] = []
        unknown: list[tuple[AskedSeed, UnknownNodes]] = []
        refusals: list[Refusal] = []
        for item in items:
            record = next(sampled) if isinstance(item, AskedSeed) else item
            if isinstance(record, Refusal):
                refusals.append(record)
            elif isinstance(record, bytes):
                records.append(record)
            else:
                assert isinstance(item, AskedSeed)
                unknown.append((item, record))
        if unknown and seeds is not None:
            refusals.append(seeds.unknown_ids(unknown))
        found.append(refusals[0] if refusals else records)
    return found


def _filled(
    given: Mapping[str, list[Any]], table: TableEntry | None, unread: Collection[str] = ()
) -> Mapping[str, list[Any]]:
    """Adds any values in unread columns of a table, and in those that the index has beside the features."""
    types = {} if table is None else table.columns
    count = max(map(len, given.values()), default=0)
    lacking = {
        key: ["" if pa.types.is_large_string(dtype) else pa.scalar(0).cast(dtype).as_py()] * count
        for key, dtype in types.items()
        if key not in given and (key in unread or key.startswith(EXTRA_PREFIX)) and not pa.types.is_nested(dtype)
    }
    return {**given, **lacking}

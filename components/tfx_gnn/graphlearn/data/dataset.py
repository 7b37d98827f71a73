"""GraphLearn's `Dataset`: the batches of a query as data objects, in a tf.data pipeline."""

from __future__ import annotations

import collections
import functools
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graphlearn.attribute_decoder import REVERSE_SUFFIX, Decoder
from tfx_gnn.graphlearn.data.batch_graph import BatchGraph
from tfx_gnn.graphlearn.data.composite_value import CompositeSpec
from tfx_gnn.graphlearn.data.data import Data, data_of, flat_rows
from tfx_gnn.graphlearn.data.ego_graph import MASK, EgoGraph
from tfx_gnn.graphlearn.data.hetero_batch_graph import HeteroBatchGraph
from tfx_gnn.graphlearn.data.inducers import AnySubGraph, SubGraphInducer, SubGraphProcessor
from tfx_gnn.graphlearn.data.sub_graph import HeteroSubGraph, SubGraph
from tfx_gnn.graphlearn.queries.query import Query
from tfx_gnn.graphlearn.queries.query_step import Step, is_count

_MAX_WINDOW = 128
_DISTANCES = ("dist_to_src", "dist_to_dst")


class _Loop:
    """A loop over a dataset, and the batch that it is at."""

    batch: Any = None


class _Loops:
    """The loops of a thread that have not ended, the innermost last, and the batch that the last one was left at."""

    def __init__(self) -> None:
        self.loops: list[_Loop] = []
        self.left_at: Any = None


class Dataset:
    """The batches of a query as data objects.

    Iterating yields one epoch. A batch is a dict from alias to `Data`; with an inducer or a processor it is a
    `BatchGraph` or `HeteroBatchGraph`, or a pair of the positive and the negative one. `get_data_dict`, `get_egograph`
    and `get_batchgraph` convert the batch that the loop is at; in tf.data and tf.function, give it as `batch`:

        for _ in dataset:
            graph = dataset.get_egograph("seed")
        graphs = dataset.tf_dataset.map(lambda batch: dataset.get_egograph("seed", batch=batch))

    Where an inducer makes no subgraph, there is no batch. Each epoch has other samples, and another order after
    `shuffle(traverse=True)`. Several threads may iterate at once: each has its own epoch, and its own batch.
    """

    def __init__(
        self,
        query: Query,
        window: int = 10,
        inducer: SubGraphInducer | None = None,
        processor: SubGraphProcessor | None = None,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        """Prepares the batches; nothing is sampled yet.

        Args:
            query: a closed query.
            window: number of batches that are made ahead, in (0, 128).
            inducer: makes subgraphs of each batch of the query.
            processor: changes each subgraph that a step `SubGraph` of the query samples; `SubGraphProcessor` itself is
                not needed for subgraphs as they are. Either this or `inducer`.
            batch_size: with an inducer or a processor, how many batches of the query make up one batch.
            drop_last: whether to leave out a last batch that is smaller than the others.

        Raises:
            TypeError: if an argument is of another kind.
            ValueError: if a number is out of range, or both an inducer and a processor are given.
        """
        if not isinstance(query, Query):
            raise TypeError(f"`query` must be a closed query; got {type(query).__name__}. End it by .values().")
        for what, value, expected in (
            ("inducer", inducer, SubGraphInducer),
            ("processor", processor, SubGraphProcessor),
        ):
            if value is not None and not isinstance(value, expected):
                raise TypeError(f"`{what}` must be a {expected.__name__}; got {type(value).__name__}. Derive from it.")
        if inducer is not None and processor is not None:
            raise ValueError("`inducer` and `processor` must not both be given; got both. Remove one of them.")
        for what, number in (("window", window), ("batch_size", batch_size)):
            if not is_count(number, 0):
                raise ValueError(f"`{what}` must be a positive integer; got {number!r}. Correct it.")
        if not 0 < window < _MAX_WINDOW:
            raise ValueError(f"`window` must be in (0, {_MAX_WINDOW}); got {window}. Correct it.")
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {batch_size}. Correct it.")
        if batch_size > 1 and inducer is None and processor is None:
            raise ValueError(
                f"`batch_size` must be 1 without an inducer or a processor; got {batch_size}. Set the size of batches "
                "in the query, by .batch()."
            )
        self._query = query
        self._window = window
        self._inducer = inducer
        self._processor = processor
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._epochs = itertools.count()
        self._by_thread = threading.local()

    @functools.cached_property
    def element_spec(self) -> Any:
        """The type spec of a batch, read off the first one of epoch 0.

        Raises:
            ValueError: if the query yields no batch.
        """
        counts = {alias: collections.Counter(counted) for alias, counted in self._query.counts.items()}
        try:
            first = next(self._batches(0), None)
        finally:
            # This batch is sampled again in the epoch, and counted then.
            self._query.counts = counts
        if first is None:
            raise ValueError(
                "`query` must yield at least one batch; got none. Check that it starts from nodes or edges that exist, "
                "and that `drop_last` leaves a batch."
            )
        return _spec_of(first)

    @property
    def tf_dataset(self) -> tf.data.Dataset:
        """The batches of one epoch as a tf.data.Dataset; each iteration over it is the next epoch."""
        spec = self.element_spec

        def generate() -> Iterator[Any]:
            for batch in self._batches(next(self._epochs)):
                _check_fits(batch, spec)
                yield batch

        return tf.data.Dataset.from_generator(generate, output_signature=spec).prefetch(self._window)

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of one epoch."""
        current = self._current
        loop = _Loop()
        current.loops.append(loop)
        try:
            for batch in self.tf_dataset:
                loop.batch = batch
                yield batch
            loop.batch = None
        finally:
            # A loop inside of another one gives way to it; the last one may have been left at a batch.
            current.loops.remove(loop)
            current.left_at = loop.batch

    @property
    def iterator(self) -> Iterator[Any]:
        """An iterator over the next epoch: `iter(dataset)`."""
        return iter(self)

    @tf.autograph.experimental.do_not_convert
    def get_data_dict(self, batch: Any = None) -> dict[str, Data]:
        """Returns the data of all aliases.

        Args:
            batch: a batch of the dataset; by default, the one that the loop of this thread is at.

        Returns:
            Alias to `Data`, with attributes of shape [num_items, number of attributes].

        Raises:
            ValueError: if there is no batch, or it consists of subgraphs.
        """
        batch = self._given(batch)
        if not isinstance(batch, Mapping):
            raise ValueError(
                "`get_data_dict` must be called on a dataset without an inducer or a processor; got batches of "
                "subgraphs. Call get_batchgraph()."
            )
        return dict(batch)

    @tf.autograph.experimental.do_not_convert
    def get_egograph(self, source: str, neighbors: Sequence[str] | None = None, batch: Any = None) -> EgoGraph:
        """Returns the nodes of an alias with their neighbors, hop by hop.

        Args:
            source: alias of the seeds.
            neighbors: list of the aliases of the hops in order, each a step that starts from the one before, positive
                or negative; aliases of edges go to `nbr_edges`. None: the only positive step that starts there, and so
                on.
            batch: as for `get_data_dict`.

        Returns:
            The graph, with the schemas of the decoders if they say how to encode attributes.

        Raises:
            ValueError: if there is no batch, `neighbors` is not such a list, a step has several positive steps that
                start from it, has no alias, or was sampled by "full".
        """
        data = self.get_data_dict(batch)
        root = self._query.get_step(source)
        if root.kind != "node":
            raise ValueError(f"`source` must be an alias of nodes; got {source!r}, edges. Take one of their ends.")
        steps = self._following(root) if neighbors is None else self._given_hops(root, neighbors)
        nodes = [step for step in steps if step.kind == "node"]
        edges = [step for step in steps if step.kind == "edge" and step.get_alias()]
        for step in (*nodes, *edges):
            if step.is_sparse or step.count is None:
                raise ValueError(
                    f"`{step.get_alias()}` must have a fixed number of neighbors; got a step by "
                    '"full". Sample by another strategy, or call get_batchgraph().'
                )
        if len(edges) not in (0, len(nodes)):
            raise ValueError(
                f"`neighbors` must have edges at all hops or at none; got {[step.get_alias() for step in steps]}. Give "
                "each outE or inE an alias, or none of them."
            )
        return EgoGraph(
            data[source],
            [data[step.get_alias()] for step in nodes],
            _schemas([root, *nodes]),
            [int(step.count or 0) for step in nodes],
            [data[step.get_alias()] for step in edges],
            _schemas(edges) or (),
        )

    @tf.autograph.experimental.do_not_convert
    def get_batchgraph(self, batch: Any = None) -> tuple[Any, Any]:
        """Returns the merged subgraphs.

        Args:
            batch: as for `get_data_dict`.

        Returns:
            The positive and the negative `BatchGraph`, or `HeteroBatchGraph`; None in place of the negative one if
            there is none.

        Raises:
            ValueError: if there is no batch, or the dataset has neither an inducer nor a processor.
        """
        batch = self._given(batch)
        if isinstance(batch, Mapping):
            raise ValueError(
                "`get_batchgraph` must be called on a dataset of subgraphs; got one without `inducer` and `processor`. "
                "Give one of them, or call get_egograph()."
            )
        return batch if isinstance(batch, tuple) else (batch, None)

    @property
    def _current(self) -> _Loops:
        """The loops of this thread."""
        if not hasattr(self._by_thread, "loops"):
            self._by_thread.loops = _Loops()
        loops: _Loops = self._by_thread.loops
        return loops

    def _given(self, batch: Any) -> Any:
        if batch is None:
            current = self._current
            batch = current.loops[-1].batch if current.loops else current.left_at
        if batch is None:
            raise ValueError(
                "`batch` must be given outside of a loop over the dataset; got none. Write "
                "`for batch in dataset:`, or pass a batch of `tf_dataset`."
            )
        return batch

    def _following(self, step: Step) -> list[Step]:
        """Returns the steps from one to the next, as long as there is one."""
        steps: list[Step] = []
        while hops := [one for one in step.pos_downstreams if one.operation != "subgraph"]:
            if len(hops) > 1:
                names = [one.get_alias() or one.path for one in hops]
                raise ValueError(
                    f"`neighbors` must be given: {step.get_alias() or step.path} has multiple downstreams, {names}. "
                    "Name the hops in order."
                )
            step = hops[0]
            if step.kind == "node" and not step.get_alias():
                raise ValueError(
                    f"`alias` must name each hop of an EgoGraph; got none at {step.path}. Add .alias('hop1'), for "
                    "example, or give `neighbors`."
                )
            steps.append(step)
        return steps

    def _given_hops(self, root: Step, neighbors: Sequence[str]) -> list[Step]:
        if not isinstance(neighbors, (list, tuple)):
            raise ValueError(f"`neighbors` must be a list of aliases; got {neighbors!r}. Write [{neighbors!r}].")
        steps, before = [], root
        for alias in neighbors:
            step = self._query.get_step(alias)
            downstreams = [*before.pos_downstreams, *before.neg_downstreams]
            # Edges without an alias are passed through.
            downstreams += [end for one in downstreams if not one.get_alias() for end in one.pos_downstreams]
            if step not in downstreams:
                raise ValueError(
                    f"{alias} is not the downstream of {before.get_alias()}. Its downstreams are "
                    f"{[one.get_alias() for one in downstreams if one.get_alias()]}."
                )
            steps.append(step)
            before = step
        return steps

    def _batches(self, epoch: int) -> Iterator[Any]:
        """Yields the batches of an epoch, in numpy."""
        values = self._query.value_batches(epoch)
        if self._drop_last and self._query.num_batches is not None:
            root = self._query.root
            assert root.source_rows is not None
            num_full = len(root.source_rows) // self._query.batch_size
            values = itertools.islice(values, num_full - num_full % self._batch_size)
        if self._inducer is None and self._processor is None:
            for value in values:
                yield {alias: _as_data(self._query.get_step(alias), found) for alias, found in value.items()}
            return
        while some := list(itertools.islice(values, self._batch_size)):
            parts = [self._induced(value) for value in some]
            if any(graphs or negatives for graphs, negatives in parts):
                yield self._merged(parts)

    def _induced(self, value: Mapping[str, Any]) -> tuple[list[AnySubGraph], list[AnySubGraph] | None]:
        """Returns the positive and negative subgraphs of a batch of the query."""
        if self._processor is not None:
            return self._processed(self._processor, value)
        assert self._inducer is not None
        found = self._inducer.induce_func(value)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                f"`induce_func` must return (positive subgraphs, negative subgraphs or None); got "
                f"{type(found).__name__} of {type(self._inducer).__name__}. Return a tuple of two."
            )
        positive, negative = found
        if (negative is not None) != self._inducer.use_neg:
            raise ValueError(
                f"`use_neg` must say whether `induce_func` returns negative subgraphs; got {self._inducer.use_neg} and "
                f"{'some' if negative is not None else 'none'} of {type(self._inducer).__name__}. Correct it."
            )
        return list(positive), None if negative is None else list(negative)

    def _processed(
        self, processor: SubGraphProcessor, value: Mapping[str, Any]
    ) -> tuple[list[AnySubGraph], list[AnySubGraph] | None]:
        aliases = [alias for alias in value if self._query.get_step(alias).operation == "subgraph"]
        if len(aliases) != 1 + processor.use_neg:
            raise ValueError(
                f"`processor` must have {1 + processor.use_neg} steps SubGraph with an alias in the query; got "
                f"{aliases}. Add .SubGraph(...).alias(...), or correct `use_neg`."
            )
        graphs = [
            [processor.process_func(_as_sub_graph(one, use_edges=processor.use_edges)) for one in value[alias]]
            for alias in aliases
        ]
        return graphs[0], graphs[1] if processor.use_neg else None

    def _merged(self, parts: Sequence[tuple[list[AnySubGraph], list[AnySubGraph] | None]]) -> Any:
        positive = self._merge([graph for graphs, _ in parts for graph in graphs])
        if parts[0][1] is None:
            return positive
        return positive, self._merge([graph for _, graphs in parts for graph in graphs or ()])

    def _merge(self, graphs: Sequence[AnySubGraph]) -> BatchGraph | HeteroBatchGraph:
        inducer = self._inducer or self._processor
        assert inducer is not None
        keys = list(inducer.addl_types_and_shapes)
        if graphs and isinstance(graphs[0], HeteroSubGraph):
            return HeteroBatchGraph.from_graphs(
                graphs,  # type: ignore[arg-type]
                keys,
                node_schema_dict=self._schema_dict({name: name for name in graphs[0].node_types}, "node"),
                edge_schema_dict=self._schema_dict({key: key[1] for key in graphs[0].edges_dict or {}}, "edge"),
            )
        return BatchGraph.from_graphs(
            graphs,  # type: ignore[arg-type]
            keys,
            node_schema=self._schema_of(inducer.node_types or self._types("node"), "node"),
            edge_schema=self._schema_of([key[1] for key in inducer.edge_types or ()] or self._types("edge"), "edge"),
        )

    def _types(self, kind: str) -> list[str]:
        """Returns the node or edge types of the query."""
        names: list[str] = []
        for step in self._query.steps:
            if step.operation == "subgraph":
                names += (
                    self._query.store.ends(step.settings.edge_type) if kind == "node" else [step.settings.edge_type]
                )
            elif step.kind == kind:
                names.append(step.type)
            elif kind == "edge" and step.settings.edge_type:
                names.append(step.settings.edge_type)
        return list(dict.fromkeys(names))

    def _decoder(self, name: str, kind: str) -> Decoder | None:
        """Returns the decoder of a type; None if the graph does not have it."""
        store = self._query.store
        if kind == "node":
            return store.node_ids(name).attributes.decoder if name in store.tables.node_tables else None
        names = (name, name.removesuffix(REVERSE_SUFFIX))
        known = next((one for one in names if one in store.tables.edge_tables), None)
        return None if known is None else store.edge_attributes(known).decoder

    def _schema_of(self, names: Sequence[str], kind: str) -> Any:
        """Returns the schema of the only type; None if there are several, or nothing says how to encode it."""
        decoder = self._decoder(names[0], kind) if len(names) == 1 else None
        return (names[0], decoder.feature_spec) if decoder is not None and _is_encoded(decoder) else None

    def _schema_dict(self, names: Mapping[Any, str], kind: str) -> Any:
        decoders = {key: self._decoder(name, kind) for key, name in names.items()}
        specs = {key: one.feature_spec for key, one in decoders.items() if one is not None and _is_encoded(one)}
        return specs or None

    def __repr__(self) -> str:
        return f"Dataset(aliases={list(self._query.aliases)}, window={self._window}, batch_size={self._batch_size})"


def _as_data(step: Step, values: Any) -> Data:
    """Converts what a step found, with one row per item."""
    if step.operation == "subgraph":
        raise ValueError(
            f"`processor` must be given for subgraphs; got none for {step.get_alias()!r}. Write one that derives from "
            "SubGraphProcessor."
        )
    arrays = flat_rows(values)
    if step.upstream is not None and not step.is_sparse:
        arrays[MASK] = values.mask.reshape(-1)
    return data_of(arrays)


def _as_sub_graph(sampled: Any, *, use_edges: bool) -> SubGraph:
    """Converts a sampled subgraph, with distances if it has them."""
    further = {key: getattr(sampled, key) for key in _DISTANCES if getattr(sampled, key) is not None}
    edges = data_of(flat_rows(sampled.edges)) if use_edges else None
    return SubGraph(sampled.edge_index, data_of(flat_rows(sampled.nodes)), edges, **further)


def _is_encoded(decoder: Decoder) -> bool:
    """Returns whether a decoder says how to encode its attributes: by dimensions, or because all are numbers."""
    numbers = all(one.type_name != "string" and one.bucket_size is None for one in decoder.attributes)
    return decoder.attributed and (bool(decoder.attr_dims) or numbers)


def _schemas(steps: Sequence[Step]) -> list[Any] | None:
    """Returns the schemas of steps; None if the decoder of none says how to encode attributes."""
    if not any(_is_encoded(step.decoder) for step in steps):
        return None
    return [(step.type, step.decoder.feature_spec) for step in steps]


def _spec_of(batch: Any) -> Any:
    return tf.nest.map_structure(lambda value: value.spec.relax(), batch)


def _check_fits(batch: Any, spec: Any) -> None:
    """Refuses a batch with other arrays than the first one."""
    found = _spec_of(batch)
    if found == spec:
        return
    pairs = zip(tf.nest.flatten(found), tf.nest.flatten(spec), strict=False)
    for one, expected in pairs:
        if isinstance(one, CompositeSpec) and one != expected:
            raise ValueError(
                f"All batches must have the same arrays, dtypes and shapes; got {one.components} in one, and "
                f"{expected.components} in the first. Make the inducer return the same of each batch."
            )
    raise ValueError("All batches must have the same form; got another than that of the first one.")

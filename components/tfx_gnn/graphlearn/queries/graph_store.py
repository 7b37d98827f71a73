"""A graph in memory that GraphLearn's queries run on."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graphlearn.attribute_decoder import WEIGHT, Decoder
from tfx_gnn.graphlearn.graph_source import MASK_COLUMN, Graph, Mask
from tfx_gnn.graphlearn.queries.attributes import TypeAttributes, decoder_of, scalar_features
from tfx_gnn.graphlearn.queries.drawable_edges import DrawableEdges
from tfx_gnn.graphlearn.queries.query_step import Draft
from tfx_gnn.graphlearn.queries.results import NodeIds
from tfx_gnn.graphlearn.queries.steps import EdgeStep, NodeStep
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.engine.adjacency import Adjacency, build_adjacency
from tfx_gnn.sampling.engine.negatives import PairLookup
from tfx_gnn.sampling.random_choice import edge_hash, hash_ids
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_tables import GraphTables, NodeTable
from tfx_gnn.tables.row_rules import RowRules

_PADDINGS = ("circular", "replicate")

_T = TypeVar("_T")

Weighting = Literal["", "edge_weight", "edge_rank", "in_degree"]


class NodeFrom(enum.Enum):
    """Which nodes `GraphStore.V` traverses: those of a node type, or those at one end of an edge type."""

    NODE = "node"
    EDGE_SRC = "edge_src"
    EDGE_DST = "edge_dst"


class GraphStore:
    r"""A graph in memory, with the queries of GraphLearn's graph sampling language (GSL).

    A query starts with `V` or `E`, goes on step by step, and is closed by `values`. Every
    random choice is a function of `sampling_seed`, the epoch, the step and the item that it
    starts from, so a query yields the same in every process, whatever is asked before.

    Attributes:
        tables: the graph.
        padding_mode: what fills up a sample without replacement of a node that has too few
            neighbors: "circular", its neighbors again, or "replicate", the default id.
        default_neighbor_id: id where there is no node at all; '' if ids are texts.
        sampling_seed: seed of all random choices.

    Example:
        >>> import pathlib, tempfile
        >>> from tfx_gnn.graphlearn import Decoder, Graph
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "users").write_text("id:int64\n1\n2\n")
        >>> _ = (folder / "items").write_text("id:int64\n10\n11\n")
        >>> _ = (folder / "buy").write_text("a:int64\tb:int64\n1\t10\n1\t11\n2\t11\n")
        >>> graph = Graph().node(f"{folder}/users", "user", Decoder()).node(f"{folder}/items", "item", Decoder())
        >>> store = GraphStore.read(graph.edge(f"{folder}/buy", ("user", "item", "buy")))
        >>> query = store.V("user").batch(2).alias("u").outV("buy").sample(0).by("full").alias("i").values()
        >>> [(batch["u"].ids.tolist(), [row.ids.tolist() for row in batch["i"]]) for batch in query.batches()]
        [([1, 2], [[10, 11], [11]])]
    """

    def __init__(
        self,
        tables: GraphTables,
        *,
        node_decoders: Mapping[str, Decoder] | None = None,
        edge_decoders: Mapping[str, Decoder] | None = None,
        padding_mode: Literal["circular", "replicate"] = "circular",
        default_neighbor_id: int = 0,
        sampling_seed: int = 0,
    ) -> None:
        """Keeps the tables; what a query needs is built when it is first needed.

        Args:
            tables: the graph, from `Graph.init` or `tfx_gnn.tables.read_tables`.
            node_decoders: by node type, the description of the columns; by default, `weight`,
                `label` and `timestamp` are read as such if they have a fitting type, and all
                other features are attributes: those of a packed column in its order, then
                the others in the order of their names.
            edge_decoders: the same by edge type.
            padding_mode: "circular" or "replicate".
            default_neighbor_id: id of nodes that do not exist.
            sampling_seed: seed of all random choices, at least 0.

        Raises:
            TypeError: if the tables or the seed are something else.
            ValueError: if a decoder is for an unknown type, or the padding mode is unknown.
        """
        if isinstance(tables, Graph):
            raise TypeError(
                "`tables` must be GraphTables; got a Graph. Call GraphStore.read(graph), or pass graph.init()."
            )
        if not isinstance(tables, GraphTables):
            raise TypeError(f"`tables` must be GraphTables; got {type(tables).__name__}. Read them by `read_tables`.")
        if padding_mode not in _PADDINGS:
            raise ValueError(
                f"`padding_mode` must be one of {list(_PADDINGS)}; got {padding_mode!r}. "
                f"{did_you_mean(padding_mode, _PADDINGS, otherwise='Choose one of them.')}"
            )
        for field, value in (("sampling_seed", sampling_seed), ("default_neighbor_id", default_neighbor_id)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"`{field}` must be an integer; got {value!r}. Write a number such as 0.")
        if not -(2**63) <= default_neighbor_id < 2**63:
            raise ValueError(f"`default_neighbor_id` must be an int64; got {default_neighbor_id}. Choose another.")
        if not 0 <= sampling_seed < 2**64:
            raise ValueError(f"`sampling_seed` must be in [0, 2**64); got {sampling_seed}. Choose another.")
        self.tables = tables
        self.padding_mode: Literal["circular", "replicate"] = padding_mode
        self.default_neighbor_id = default_neighbor_id
        self.sampling_seed = sampling_seed
        self._decoders = {"nodes": dict(node_decoders or {}), "edges": dict(edge_decoders or {})}
        for field, known in (("nodes", tables.node_tables), ("edges", tables.edge_tables)):
            for name in self._decoders[field]:
                _check_type(f"{field[:-1]}_decoders", name, known)
        self._made: dict[tuple[object, ...], Any] = {}

    @classmethod
    def read(
        cls,
        graph: Graph,
        *,
        rules: RowRules | None = None,
        padding_mode: Literal["circular", "replicate"] = "circular",
        default_neighbor_id: int = 0,
        sampling_seed: int = 0,
    ) -> GraphStore:
        """Reads GraphLearn's files, and keeps their decoders.

        Args:
            graph: the sources.
            rules: how to handle rows that break a rule; see `Graph.init`.
            padding_mode: "circular" or "replicate".
            default_neighbor_id: id of nodes that do not exist.
            sampling_seed: seed of all random choices.

        Returns:
            The store.

        Raises:
            ValueError: if a file cannot be read; see `Graph.init`.
        """
        return cls(
            graph.init(rules=rules),
            node_decoders=graph.node_decoders,
            edge_decoders=graph.edge_decoders,
            padding_mode=padding_mode,
            default_neighbor_id=default_neighbor_id,
            sampling_seed=sampling_seed,
        )

    def V(self, type_name: str, node_from: NodeFrom = NodeFrom.NODE, mask: Mask = Mask.NONE) -> NodeStep:  # noqa: N802
        """Starts a query at nodes.

        Args:
            type_name: node type; edge type if `node_from` is an end of edges.
            node_from: NODE for the nodes of a type; EDGE_SRC or EDGE_DST for the nodes that
                are source or target of an edge of a type, each once.
            mask: use of the nodes; NONE for all.

        Returns:
            The first step; `batch` must follow.

        Raises:
            TypeError: if `node_from` or `mask` is something else.
            ValueError: if the type is unknown, or has no masks.
        """
        if not isinstance(node_from, NodeFrom):
            raise TypeError(f"`node_from` must be a NodeFrom; got {node_from!r}. Write NodeFrom.NODE, for example.")
        if not isinstance(mask, Mask):
            raise TypeError(f"`mask` must be a Mask; got {mask!r}. Write Mask.TRAIN, for example.")
        if node_from is NodeFrom.NODE:
            _check_type("type_name", type_name, self.tables.node_tables)
            node_type, rows = type_name, np.arange(self.tables.node_tables[type_name].num_nodes)
        else:
            table = self.edge_table(type_name, "type_name")
            is_source = node_from is NodeFrom.EDGE_SRC
            node_type = table.source_set if is_source else table.target_set
            rows = np.unique(table.sources if is_source else table.targets)
        if mask is not Mask.NONE:
            rows = rows[self._is_masked(node_type, mask)[rows]]
        return NodeStep.start(Draft(self), node_type, rows, f"V({type_name},{node_from.name},{mask.name})")

    def E(self, edge_type: str, reverse: bool = False) -> EdgeStep:  # noqa: N802, FBT001, FBT002
        """Starts a query at edges.

        Args:
            edge_type: edge type.
            reverse: whether to exchange the ends of the edges.

        Returns:
            The first step; `batch` must follow.

        Raises:
            ValueError: if the edge type is unknown.
        """
        table = self.edge_table(edge_type, "edge_type")
        return EdgeStep.start(Draft(self), edge_type, np.arange(table.num_edges), is_reversed=bool(reverse))

    def edge_table(self, edge_type: str, argument: str) -> Edges:
        """Returns the table of an edge type; `argument` names it in the error if it is unknown."""
        _check_type(argument, edge_type, self.tables.edge_tables)
        return self.tables.edge_tables[edge_type]

    def node_table(self, node_type: str) -> NodeTable:
        """Returns the table of a node type."""
        return self.tables.node_tables[node_type]

    def ends(self, edge_type: str, *, backward: bool = False) -> tuple[str, str]:
        """Returns the node types of the sources and targets, exchanged if `backward`."""
        table = self.tables.edge_tables[edge_type]
        return (table.target_set, table.source_set) if backward else (table.source_set, table.target_set)

    def end_rows(
        self, edge_type: str, *, backward: bool = False
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns the rows of the sources and targets, exchanged if `backward`."""
        table = self.tables.edge_tables[edge_type]
        return (table.targets, table.sources) if backward else (table.sources, table.targets)

    def node_ids(self, node_type: str) -> NodeIds:
        """Returns ids and attributes of a node type."""
        return self.once(("node ids", node_type), lambda: self._make_node_ids(node_type))

    def edge_attributes(self, edge_type: str) -> TypeAttributes:
        """Returns the attributes of an edge type."""
        return self.once(("edge attributes", edge_type), lambda: self._attributes("edges", edge_type))

    def _attributes(self, kind: Literal["nodes", "edges"], name: str) -> TypeAttributes:
        if kind == "nodes":
            node_table = self.tables.node_tables[name]
            features, num_rows, declared = node_table.features, node_table.num_nodes, self.tables.schema.node_sets[name]
            columns = scalar_features(f"nodes/{name}", features)
            decoder = self._decoders[kind].get(name) or decoder_of(declared, columns)
        else:
            edge_table = self.tables.edge_tables[name]
            num_rows = edge_table.num_edges
            columns = scalar_features(f"edges/{name}", edge_table.features)
            decoder = self._decoders[kind].get(name) or decoder_of(self.tables.schema.edge_sets[name], columns)
        return TypeAttributes(f"{kind}/{name}", columns, num_rows, decoder)

    def node_codes(self, node_type: str) -> npt.NDArray[np.uint64]:
        """Returns the code of each node in random choices."""
        return self.once(("node codes", node_type), lambda: hash_ids(self.tables.node_tables[node_type].ids))

    def edge_codes(self, edge_type: str) -> npt.NDArray[np.uint64]:
        """Returns the code of each edge in random choices."""
        num_edges = self.tables.edge_tables[edge_type].num_edges
        return self.once(("edge codes", edge_type), lambda: edge_hash(np.arange(num_edges)))

    def adjacency(self, edge_type: str, *, backward: bool = False, weighting: Weighting = "") -> Adjacency:
        """Returns the edges grouped by the node that a step starts from, with their times if they have any."""
        key = ("adjacency", edge_type, backward, weighting)
        return self.once(key, lambda: self._make_adjacency(edge_type, backward=backward, weighting=weighting))

    def drawable_edges(self, edge_type: str, *, backward: bool, weighting: Weighting, is_timed: bool) -> DrawableEdges:
        """Returns what edges are drawn with replacement from."""
        adjacency = self.adjacency(edge_type, backward=backward, weighting=weighting)
        key = ("drawable edges", edge_type, backward, weighting, is_timed)
        return self.once(key, lambda: DrawableEdges(adjacency, is_timed=is_timed))

    def pairs(self, edge_type: str, *, backward: bool = False) -> PairLookup:
        """Returns the lookup of which pairs of nodes are edges."""
        starts, ends = self.end_rows(edge_type, backward=backward)
        num_ends = self.tables.node_tables[self.ends(edge_type, backward=backward)[1]].num_nodes
        return self.once(("pairs", edge_type, backward), lambda: PairLookup(starts, ends, num_targets=num_ends))

    def once(self, key: tuple[object, ...], make: Callable[[], _T]) -> _T:
        """Returns what was made under this key, or makes it."""
        if key not in self._made:
            self._made[key] = make()
        made: _T = self._made[key]
        return made

    def _make_node_ids(self, node_type: str) -> NodeIds:
        table = self.tables.node_tables[node_type]
        ids = table.ids.to_numpy(zero_copy_only=False)
        default = self.default_neighbor_id if pa.types.is_integer(table.ids.type) else ""
        return NodeIds(node_type, np.append(ids, np.array([default], ids.dtype)), self._attributes("nodes", node_type))

    def _make_adjacency(self, edge_type: str, *, backward: bool, weighting: Weighting) -> Adjacency:
        starts, ends = self.end_rows(edge_type, backward=backward)
        start_type = self.ends(edge_type, backward=backward)[0]
        if not weighting:
            attributes = self.edge_attributes(edge_type)
            times = attributes.timestamps(np.arange(len(starts))) if attributes.decoder.timestamped else None
            num_nodes = self.tables.node_tables[start_type].num_nodes
            return build_adjacency(starts, ends, num_nodes, times=times)
        plain = self.adjacency(edge_type, backward=backward)
        if weighting == "in_degree":
            weights = np.bincount(ends)[plain.neighbors].astype(np.float64) if len(ends) else np.zeros(0)
        else:
            weights = self.edge_weights(edge_type, are_ranks=weighting == "edge_rank")[plain.edge_rows]
        return dataclasses.replace(plain, weights=weights)

    def edge_weights(self, edge_type: str, *, are_ranks: bool) -> npt.NDArray[np.float64]:
        """Returns the weight of each edge, float64, shape [num_edges]; of those that only rank edges, any number."""
        table = self.tables.edge_tables[edge_type]
        return _checked_weights(
            self.edge_attributes(edge_type),
            table.num_edges,
            f"edge type {edge_type!r}",
            lambda position: f"row {table.rows[position]} of {table.path}",
            are_ranks=are_ranks,
        )

    def node_weights(self, node_type: str) -> npt.NDArray[np.float64]:
        """Returns the weight of each node, float64, shape [num_nodes]."""
        table = self.tables.node_tables[node_type]
        return _checked_weights(
            self.node_ids(node_type).attributes,
            table.num_nodes,
            f"node type {node_type!r}",
            lambda position: f"node {table.ids[position].as_py()!r} of {table.path}",
        )

    def _is_masked(self, node_type: str, mask: Mask) -> npt.NDArray[np.bool_]:
        column = self.tables.node_tables[node_type].extra_columns.get(MASK_COLUMN)
        if column is None:
            raise ValueError(
                f"`mask` must be NONE for a node type without masks; got {mask.name} for {node_type!r}. Add sources "
                "by Graph.node(..., mask=...)."
            )
        return np.asarray(column.to_numpy(zero_copy_only=False) == mask.value, np.bool_)


def _checked_weights(
    attributes: TypeAttributes,
    num_rows: int,
    where: str,
    place_of: Callable[[int], str],
    *,
    are_ranks: bool = False,
) -> npt.NDArray[np.float64]:
    weights = attributes.weights(np.arange(num_rows))
    if weights is None:
        raise ValueError(
            f"`by` must draw by weight from weighted types only; got {where}, which has no column {WEIGHT!r} of "
            "floats. Declare Decoder(weighted=True), or use 'random'."
        )
    wrong = np.flatnonzero(~(np.isfinite(weights) & ((weights >= 0) | are_ranks)))
    if len(wrong):
        rule = "rank by" if are_ranks else "draw by, and at least 0"
        remedy = "" if are_ranks else ", give what must not be drawn the weight 0"
        raise ValueError(
            f"`{WEIGHT}` must be a finite number to {rule}; got {weights[wrong[0]]} in {place_of(int(wrong[0]))}, of "
            f"{where}, one of {len(wrong)}. Correct the table{remedy}, or use 'random'."
        )
    return weights.astype(np.float64)


def _check_type(argument: str, name: str, known: Mapping[str, object]) -> None:
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"`{argument}` must be one of {sorted(known)}; got {name!r}. {did_you_mean(name, known)}")

"""GraphLearn's `Graph`: node and edge sources, node masks, and the resulting tables."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.graphlearn.attribute_decoder import REVERSE_SUFFIX, DecodedEdges, DecodedNodes, Decoder, decoded_schema
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_checks import check_nodes, find_nodes
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable, read_layouts
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    RowProblem,
    RowRules,
    TableReport,
    check_dropped_share,
    dangling_edge_problem,
    refusal,
    show_value,
)
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import Table, read_table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

MASK_COLUMN = "mask"
"""Extra node column with the masks, for `SplitPlan(column=MASK_COLUMN, unused_values=(UNMASKED,))`."""

UNMASKED = "none"
"""Value of the mask column for nodes that are not in any mask."""

_ANYWHERE = TableAccess(allow_outside_files=True)  # the caller names the files, not a schema from elsewhere

_Integers = npt.NDArray[np.int64]


def add_reverse_edges(sources: _Integers, targets: _Integers) -> tuple[_Integers, _Integers, _Integers]:
    """Adds the reverse of each edge between nodes of one set, and keeps one edge per (source, target) pair.

    Args:
        sources: int64 array, shape [num_edges].
        targets: int64 array, shape [num_edges].

    Returns:
        Sources and targets of the edges, each pair once, in ascending order; and, for each
        pair, the row of the first given edge in its direction, or else in the other direction.

    Example:
        >>> import numpy as np
        >>> sources, targets, rows = add_reverse_edges(np.array([1, 2, 1]), np.array([2, 1, 3]))
        >>> list(zip(sources.tolist(), targets.tolist(), rows.tolist()))
        [(1, 2, 0), (1, 3, 2), (2, 1, 1), (3, 1, 2)]
    """
    rows = np.arange(len(sources))
    both = np.concatenate([np.stack([sources, targets], 1), np.stack([targets, sources], 1)])
    pairs, firsts = np.unique(both, axis=0, return_index=True)
    return pairs[:, 0], pairs[:, 1], np.concatenate([rows, rows])[firsts]


class Mask(enum.Enum):
    """The use of the nodes of a source; the enum values are those of the mask column."""

    NONE = UNMASKED
    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class Graph:
    r"""A graph that is read from GraphLearn's files.

    Each call of `node` or `edge` adds one source; `init` reads all sources. A source is a
    path relative to the working directory: a file, a glob or a sharded file; several paths are
    separated by commas. A file has a header line of `name:type` fields, and the columns
    described by its decoder.

    An undirected edge between nodes of one type is stored in both directions, and each
    (source, target) pair once: the first edge in the order of the files is kept, and a direction
    that the files lack gets the features of the other direction. An undirected edge type `e`
    between two node types comes with `e_reverse`, which has the same edges in reverse.

    A node type may have further sources with masks, which list the nodes for training,
    validation and test. If the type also has a source without a mask, the sources with masks
    may have another decoder, and only their ids are read. If all sources of a type have masks,
    the type consists of the nodes of all of them, and they must have the same decoder.

    Example:
        >>> import pathlib, tempfile
        >>> from tfx_gnn.graphlearn.attribute_decoder import Decoder
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "people").write_text("id:int64\n1\n2\n3\n")
        >>> _ = (folder / "train").write_text("id:int64\n3\n")
        >>> _ = (folder / "knows").write_text("a:int64\tb:int64\n1\t2\n3\t1\n")
        >>> tables = (
        ...     Graph()
        ...     .node(f"{folder}/people", "person", Decoder())
        ...     .node(f"{folder}/train", "person", Decoder(), mask=Mask.TRAIN)
        ...     .edge(f"{folder}/knows", ("person", "person", "knows"), directed=False)
        ...     .init()
        ... )
        >>> tables.node_tables["person"].extra_columns["mask"].to_pylist()
        ['none', 'none', 'train']
        >>> tables.edge_tables["knows"].sources.tolist(), tables.edge_tables["knows"].targets.tolist()
        ([0, 0, 1, 2], [1, 2, 0, 0])
    """

    def __init__(self, *, delimiter: str = "\t") -> None:
        """Makes a graph without sources.

        Args:
            delimiter: separator of columns in all files, one character.
        """
        self._delimiter = delimiter
        self._nodes: dict[str, dict[Mask, DecodedNodes]] = {}
        self._edges: dict[str, DecodedEdges] = {}

    def node(self, source: str, node_type: str, decoder: Decoder, mask: Mask = Mask.NONE) -> Graph:
        """Adds a source of nodes.

        Args:
            source: path, or several paths separated by commas.
            node_type: name of the node set.
            decoder: description of the columns.
            mask: use of these nodes; NONE for a source of all nodes of the type.

        Returns:
            The graph itself.

        Raises:
            TypeError: if an argument has a wrong type.
            ValueError: if the source is empty, or the node type already has a source with this mask.
        """
        _check_source(source, decoder)
        _check_name("node_type", node_type)
        if not isinstance(mask, Mask):
            raise TypeError(f"`mask` must be a Mask; got {mask!r} for {node_type!r}. Write Mask.TRAIN, for example.")
        sources = self._nodes.setdefault(node_type, {})
        if mask in sources:
            raise ValueError(
                f"`mask` must be another for each source of a node type; got {mask.name} again for {node_type!r}, with "
                f"{source!r}. Join the paths of both sources by a comma."
            )
        sources[mask] = DecodedNodes(filename=source, decoder=decoder)
        return self

    def edge(
        self, source: str, edge_type: tuple[str, str, str], decoder: Decoder | None = None, *, directed: bool = True
    ) -> Graph:
        """Adds a source of edges.

        Args:
            source: path, or several paths separated by commas.
            edge_type: node type of the sources, node type of the targets, and name of
                the edge set. The node types may be added later.
            decoder: description of the columns; None for `src_id` and `dst_id` alone.
            directed: whether the edges have one direction only.

        Returns:
            The graph itself.

        Raises:
            TypeError: if an argument has a wrong type.
            ValueError: if the source is empty, or the edge type or its reverse already exists.
        """
        decoder = Decoder() if decoder is None else decoder
        _check_source(source, decoder)
        if not isinstance(edge_type, tuple) or len(edge_type) != 3:
            raise TypeError(
                f"`edge_type` must be a tuple (source type, target type, name); got {edge_type!r} for {source!r}. "
                "Name all three."
            )
        for part in edge_type:
            _check_name("edge_type", part)
        source_type, target_type, name = edge_type
        added = DecodedEdges(
            filename=source, source=source_type, target=target_type, decoder=decoder, is_directed=directed
        )
        known = {one for name_, edges in self._edges.items() for one in _edge_sets(name_, edges)}
        again = sorted(known & set(_edge_sets(name, added)))
        if again:
            raise ValueError(
                f"`edge_type` must have a name of its own, and so must its reverse; got {again[0]!r} again, with "
                f"{source!r}. Rename the edge type, or join the paths of both sources by a comma."
            )
        self._edges[name] = added
        return self

    @property
    def node_decoders(self) -> dict[str, Decoder]:
        """Decoders by node type."""
        return {node_type: _all_nodes(node_type, sources).decoder for node_type, sources in self._nodes.items()}

    @property
    def edge_decoders(self) -> dict[str, Decoder]:
        """Decoders by edge type, including the reverse edge types that `init` adds."""
        return {one: edges.decoder for name, edges in self._edges.items() for one in _edge_sets(name, edges)}

    def init(self, *, rules: RowRules | None = None) -> GraphTables:
        """Reads all sources.

        Args:
            rules: how to handle rows that break a rule; by default, each of them is
                refused. `dangling_edges` also applies to ids in a mask that are not ids of
                nodes. Repeated undirected edges between nodes of one type are skipped and
                counted, unless they are refused.

        Returns:
            The graph, with nodes in ascending order of their ids and edges numbered from 0.
            Node sets with masks have the extra column `mask`, for
            `SplitPlan(column="mask", unused_values=("none",))`. Reports of masks have keys
            "nodes/<type>/<mask>"; reports of edges count rows of the files.

        Raises:
            ValueError: if there are no nodes, a file is missing or does not fit its
                decoder, an edge joins unknown node types, or a row breaks a rule.
        """
        if not self._nodes:
            raise ValueError("`node` must be called before `init`; got no source of nodes. Add one per node type.")
        rules = rules or RowRules()
        both_ways = [name for name, edges in self._edges.items() if _is_both_ways(edges)]
        schema = decoded_schema(
            "",
            nodes={node_type: _all_nodes(node_type, sources) for node_type, sources in self._nodes.items()},
            edges={
                name: dataclasses.replace(edges, is_directed=edges.is_directed or name in both_ways)
                for name, edges in self._edges.items()
            },
            delimiter=self._delimiter,
        )
        schema_validation.validate_schema(schema)
        once = dataclasses.replace(rules, duplicate_edges="keep_first") if rules.duplicate_edges == "keep" else rules
        tables = read_layouts(
            schema, layouts_of(schema, "", access=_ANYWHERE), rules=rules, edge_rules=dict.fromkeys(both_ways, once)
        )
        edge_tables = {
            name: _both_ways(table) if name in both_ways else table for name, table in tables.edge_tables.items()
        }
        return self._with_masks(dataclasses.replace(tables, edge_tables=edge_tables), rules)

    def _with_masks(self, tables: GraphTables, rules: RowRules) -> GraphTables:
        node_tables, reports, problems = dict(tables.node_tables), dict(tables.reports), tables.problems
        for node_type, sources in self._nodes.items():
            masks = {mask.value: source for mask, source in sources.items() if mask is not Mask.NONE}
            if not masks:
                continue
            schema = decoded_schema(
                "",
                nodes={f"{node_type}/{mask}": source for mask, source in masks.items()},
                delimiter=self._delimiter,
            )
            layouts = layouts_of(schema, "", access=_ANYWHERE).node_sets
            masked = mask_nodes(
                node_tables[node_type],
                {mask: layouts[f"{node_type}/{mask}"] for mask in masks},
                node_set=node_type,
                rules=rules,
            )
            node_tables[node_type] = masked.nodes
            reports.update(masked.reports)
            problems += masked.problems
        return dataclasses.replace(tables, node_tables=node_tables, reports=reports, problems=problems)


def _all_nodes(node_type: str, sources: Mapping[Mask, DecodedNodes]) -> DecodedNodes:
    """Returns the source of all nodes of a type."""
    if Mask.NONE in sources:
        return sources[Mask.NONE]
    first, *others = sources.values()
    if any(source.decoder != first.decoder for source in others):
        raise ValueError(
            f"`decoder` must be the same under every mask where a node type has no source without one; got "
            f"{len({repr(source.decoder) for source in sources.values()})} decoders for {node_type!r}. Use one of "
            "them, or add a source of all nodes."
        )
    return dataclasses.replace(first, filename=",".join(source.filename for source in sources.values()))


def _is_both_ways(edges: DecodedEdges) -> bool:
    """Returns whether the reverse edges are in the same edge set."""
    return not edges.is_directed and edges.source == edges.target


def _edge_sets(name: str, edges: DecodedEdges) -> tuple[str, ...]:
    return (name,) if edges.is_directed or _is_both_ways(edges) else (name, f"{name}{REVERSE_SUFFIX}")


def _both_ways(table: Edges) -> EdgeTable:
    sources, targets, rows = add_reverse_edges(table.sources, table.targets)
    positions = pa.array(rows)
    return EdgeTable(
        path=table.path,
        source_set=table.source_set,
        target_set=table.target_set,
        sources=sources,
        targets=targets,
        features={name: values.take(positions) for name, values in table.features.items()},
    )


def _check_source(source: str, decoder: Decoder) -> None:
    if not isinstance(source, str):
        raise TypeError(f"`source` must be a path, or paths between commas; got {source!r}. Join them as one text.")
    if not source:
        raise ValueError("`source` must name a file; got ''. Write its path.")
    if not isinstance(decoder, Decoder):
        raise TypeError(f"`decoder` must be a Decoder; got {decoder!r} for {source!r}. Write Decoder(...).")


def _check_name(argument: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"`{argument}` must have names that are texts; got {name!r}. Name every type.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedNodes:
    """Nodes with a column for the mask of each node.

    Attributes:
        nodes: the table, with `MASK_COLUMN` among its extra columns.
        reports: reports on the rows of the mask tables, by the labels of the tables.
        problems: rows of the mask tables that were dropped.
    """

    nodes: NodeTable
    reports: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]


def mask_nodes(
    nodes: NodeTable, layouts: Mapping[str, TableLayout], *, node_set: str, rules: RowRules | None = None
) -> MaskedNodes:
    """Reads the ids in each mask, and adds a mask column to the nodes.

    Only the ids in the mask tables are read.

    Args:
        nodes: all nodes of the set.
        layouts: by mask, the table of the nodes in it.
        node_set: name of the set, for messages.
        rules: how to handle rows of the mask tables: `duplicate_nodes` applies to repeated
            ids in one mask, `dangling_edges` to ids that are not ids of nodes. By default,
            both are refused.

    Returns:
        The nodes; those that are not in any mask are `UNMASKED`.

    Raises:
        ValueError: if a row is refused, or an id is in two masks.
    """
    rules = rules or RowRules()
    codes = np.zeros(nodes.num_nodes, np.int64)
    reports: dict[str, TableReport] = {}
    problems: tuple[RowProblem, ...] = ()
    for code, (mask, layout) in enumerate(layouts.items(), start=1):
        id_column = layout.columns[ID_FEATURE]
        if id_column.dtype != nodes.ids.type:
            raise ValueError(
                f"`{id_column.name}` must have the type of the nodes' ids, {nodes.ids.type}; got {id_column.dtype} in "
                f"{layout.declared_as}, mask {mask!r} of {node_set!r}. Write all ids in the same type."
            )
        table = read_table(dataclasses.replace(layout, columns={ID_FEATURE: id_column}, decoders={}), rules)
        rows, report, found = _find_rows(table, nodes, node_set, rules)
        taken = rows[codes[rows] > 0]
        if len(taken):
            other = tuple(layouts)[codes[taken[0]] - 1]
            raise ValueError(
                f"`mask` must name each node once; got {show_value(nodes.ids[int(taken[0])].as_py())} in {mask!r} and "
                f"in {other!r} of {node_set!r}, one of {len(taken)}. Remove it from one of the two."
            )
        codes[rows] = code
        reports[report.table] = report
        problems += found
    names = pa.array([UNMASKED, *layouts], pa.large_string())
    column = names.take(pa.array(codes))
    return MaskedNodes(
        nodes=dataclasses.replace(nodes, extra_columns={**nodes.extra_columns, MASK_COLUMN: column}),
        reports=reports,
        problems=problems,
    )


def _find_rows(
    table: Table, nodes: NodeTable, node_set: str, rules: RowRules
) -> tuple[npt.NDArray[np.int64], TableReport, tuple[RowProblem, ...]]:
    """Returns the nodes in a mask, and the report on the rows of its table."""
    checked = check_nodes(table, rules)
    positions = np.sort(checked.positions)
    ids = table.columns[ID_FEATURE]
    rows = find_nodes(ids.take(pa.array(positions)), nodes.ids)
    dangling = positions[rows < 0]
    added = tuple(
        dangling_edge_problem(
            table=table.layout.label,
            file=file,
            row=number,
            row_word=table_format(table.layout).row_word,
            rule=DANGLING_SOURCE,
            column=table.layout.columns[ID_FEATURE].name,
            node_set=node_set,
            node_file=nodes.path,
            value=ids[position].as_py(),
        )
        for position, (file, number) in zip(dangling.tolist(), table.locate(table.rows[dangling]), strict=True)
    )
    if added and rules.dangling_edges == "refuse":
        raise refusal(added[0], len(added))
    report = dataclasses.replace(
        checked.report,
        rows_used=checked.report.rows_used - len(added),
        dropped=dict(collections.Counter(problem.rule for problem in (*checked.problems, *added))),
    )
    check_dropped_share(report, rules)
    return rows[rows >= 0], report, (*checked.problems, *added)

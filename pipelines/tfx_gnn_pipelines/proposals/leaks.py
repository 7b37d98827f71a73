"""Finds what tells the label almost alone: columns of the seeds, and of neighbors, such as a copy of a price."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_values import ColumnValues, as_texts
from tfx_gnn.tables.label_splits import SPLIT_COLUMN
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_format import RawBlock
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout
from tfx_gnn_pipelines.checks.label_judge import LabelJudge
from tfx_gnn_pipelines.proposals.labels import Label
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set

_MOST_ROWS = 200_000
"""Rows that are looked at, the first ones of the table."""
_MOST_PAIRS = 1_000_000
"""Pairs of seeds and rows two hops away that are looked at."""
_TIME = "#time"

_Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelLeak:
    """What tells the label.

    Attributes:
        place: the set that has it, as in "nodes/orders".
        feature: the feature; "" if the edges of the set tell it by where they lead, or how many there are.
        evidence: what tells it and how well, in words.
    """

    place: str
    feature: str
    evidence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seeds:
    """The rows whose label is looked for.

    Attributes:
        layout: their table.
        label: feature with the labels.
        time: feature with their times, which hide later edges; "" if there is none.
        is_class: whether the label is a class; otherwise it is a number.
    """

    layout: TableLayout
    label: str
    time: str
    is_class: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Neighbors:
    """One way from the seeds to other rows.

    Attributes:
        edges: table of the edges.
        is_forward: whether the seeds are the sources.
        nodes: table of the nodes that the edges lead to.
        near_ids: the ids of the nearer ends, with how many edges each has.
        time: feature of the edges with their times; "" if there is none.
        features: by table's label, such as "nodes/orders", the features to look at.
    """

    edges: TableLayout
    is_forward: bool
    nodes: TableLayout
    near_ids: ColumnValues
    time: str
    features: Mapping[str, Sequence[str]]


def find_leaks(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    label: Label,
    prepared: PreparedTables | None,
) -> tuple[LabelLeak, ...]:
    """Finds what tells the label of a seed almost alone, in its own row and in those next to it.

    Args:
        schema: graph schema of the tables.
        tables: the tables by label, such as "nodes/user".
        label: what is predicted; nothing is looked for if it is several numbers.
        prepared: the times of rows and edges, where they are known.
    """
    if label.num_outputs > 1:
        return ()
    seeds = _Seeds(
        layout=tables[f"nodes/{label.node_set}"].layout,
        label=label.feature,
        time=prepared.node_times.get(label.node_set, "") if prepared is not None else "",
        is_class=label.kind == "node_classification",
    )
    features = {prefix: _features(schema, table, label, prepared) for prefix, table in tables.items()}
    ways = {name: list(_ways(schema, tables, name, features, prepared)) for name in schema.node_sets}
    found = [*_own_leaks(seeds, features[seeds.layout.label]), *_neighbor_leaks(seeds, ways)]
    return tuple({(leak.place, leak.feature): leak for leak in reversed(found)}.values())[::-1]


def _features(schema: GraphSchema, table: SetTable, label: Label, prepared: PreparedTables | None) -> list[str]:
    times = prepared.times.get(table.layout.label, ()) if prepared is not None else ()
    left_out = {SPLIT_COLUMN, *times} | ({label.feature} if table.layout.label == f"nodes/{label.node_set}" else set())
    declared = declared_set(schema, table.layout).features
    return [name for name in sorted(declared) if name not in left_out and not name.startswith("#")]


def _ways(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    node_set: str,
    features: Mapping[str, list[str]],
    prepared: PreparedTables | None,
) -> Iterator[_Neighbors]:
    for name in sorted(schema.edge_sets):
        edge_set = schema.edge_sets[name]
        for near, far, is_forward in (
            (edge_set.source, edge_set.target, True),
            (edge_set.target, edge_set.source, False),
        ):
            if near == node_set:
                yield _Neighbors(
                    edges=tables[f"edges/{name}"].layout,
                    is_forward=is_forward,
                    nodes=tables[f"nodes/{far}"].layout,
                    near_ids=tables[f"edges/{name}"].values_of(SOURCE_KEY if is_forward else TARGET_KEY),
                    time=prepared.edge_times.get(name, "") if prepared is not None else "",
                    features=features,
                )


def _own_leaks(seeds: _Seeds, features: Sequence[str]) -> list[LabelLeak]:
    """Finds the features that tell the label of their row; rows without a label do not count."""
    texts = _read_first_rows(seeds.layout, [seeds.label, *features])
    has_label = texts[seeds.label].is_valid()
    judge = LabelJudge(texts[seeds.label].filter(has_label), is_class=seeds.is_class)
    found = {name: judge.evidence(texts[name].filter(has_label)) for name in features if name in texts}
    return [LabelLeak(place=seeds.layout.label, feature=name, evidence=of) for name, of in found.items() if of]


def _neighbor_leaks(seeds: _Seeds, ways: Mapping[str, Sequence[_Neighbors]]) -> list[LabelLeak]:
    """Finds what the neighbors of seeds and those next to them tell of their labels.

    Of each way: which neighbor a seed has, where it has one at most; otherwise how many. Of each feature of the
    neighbors and of the edges, and of those behind them: its value, or the mean, the largest and the first of several.
    Edges that are newer than the seed do not count.
    """
    rows = _read_first_rows(seeds.layout, [ID_FEATURE, seeds.label, *([seeds.time] if seeds.time else [])])
    has_label = rows[seeds.label].is_valid()
    rows = {name: of_column.filter(has_label).combine_chunks() for name, of_column in rows.items()}
    judge = LabelJudge(pa.chunked_array([rows[seeds.label]]), is_class=seeds.is_class)
    ids = rows[ID_FEATURE]
    times = rows[seeds.time].cast(pa.int64()) if seeds.time else None
    found = []
    for way in ways[seeds.layout.name]:
        edges = _visible_edges(way, ids, times)
        of_edges = _leak_of_edges(way, judge, edges, len(ids))
        if of_edges is not None:
            found.append(of_edges)
            continue
        found += _leaks_of_features(way, judge, edges, len(ids))
        for behind in ways[way.nodes.name]:
            is_back = behind.edges is way.edges and behind.is_forward != way.is_forward
            if not is_back and _count_behind(edges, behind) <= _MOST_PAIRS:
                pairs = _edges_behind(edges, behind, times)
                found += _leaks_of_features(behind, judge, pairs, len(ids), where=f"two hops away, by {way.edges.name}")
    return found


def _leak_of_edges(way: _Neighbors, judge: LabelJudge, edges: pa.Table, num_seeds: int) -> LabelLeak | None:
    """Judges which neighbor a seed has, or how many."""
    owners = np.asarray(edges.column("seed").to_numpy(), np.int64)
    is_single = len(np.unique(owners)) == len(owners)
    which = _spread(edges.column("far"), owners, num_seeds) if is_single else None
    counts = pa.chunked_array([pa.array(np.bincount(owners, minlength=num_seeds)).cast(pa.large_string())])
    evidence = judge.evidence(counts if which is None else which)
    what = "how many of them there are" if which is None else "which one it is"
    place = f"edges/{way.edges.name}"
    return LabelLeak(place=place, feature="", evidence=f"{what}: {evidence}") if evidence else None


def _leaks_of_features(
    way: _Neighbors, judge: LabelJudge, edges: pa.Table, num_seeds: int, where: str = ""
) -> Iterator[LabelLeak]:
    """Judges the features of neighbors and edges, each by what sums up those of a seed; at most one leak for each."""
    owners = np.asarray(edges.column("seed").to_numpy(), np.int64)
    is_single = len(np.unique(owners)) == len(owners)
    far = _rows_of(way.nodes, way.features.get(way.nodes.label, ()), edges.column("far"))
    of_edges = {feature: edges.column(feature) for feature in way.features.get(way.edges.label, ())}
    for place, found in ((way.nodes.label, far), (way.edges.label, of_edges)):
        for feature, values in found.items():
            for what, of_seeds in _summaries(values, owners, num_seeds, is_single=is_single):
                evidence = judge.evidence(of_seeds)
                if evidence:
                    what = f"{what}, {where}" if where else what
                    yield LabelLeak(place=place, feature=feature, evidence=f"{what}: {evidence}")
                    break


def _count_behind(edges: pa.Table, behind: _Neighbors) -> int:
    """Counts the pairs of a seed and an edge of a neighbor.

    There are very many from a seed to its country and on to all that are in it: what many seeds share tells the label
    of none of them.
    """
    places = pc.index_in(edges.column("far"), value_set=behind.near_ids.values).drop_null()
    return int(pc.sum(behind.near_ids.counts.take(places)).as_py() or 0)


def _edges_behind(edges: pa.Table, behind: _Neighbors, times: pa.Array | None) -> pa.Table:
    """Follows edges from the neighbors on: positions of seeds, ids two hops away, features of the second edges."""
    ids = pc.unique(edges.column("far"))
    second = _visible_edges(behind, ids, None)
    near = second.column("seed").to_numpy()
    counts = np.bincount(near, minlength=len(ids))
    of_first = pc.index_in(edges.column("far"), value_set=ids).to_numpy()
    num_behind = counts[of_first]
    starts = (np.cumsum(counts) - counts)[of_first]
    total = np.cumsum(num_behind)
    places = np.arange(num_behind.sum()) - np.repeat(total - num_behind - starts, num_behind)
    pairs = second.take(pa.array(np.argsort(near, kind="stable")[places]))
    owners = pa.array(np.repeat(edges.column("seed").to_numpy(), num_behind))
    pairs = pairs.set_column(0, "seed", owners)
    if times is None or not behind.time:
        return pairs
    is_old = pc.less_equal(pairs.column(_TIME).cast(pa.int64()), times.take(owners))
    return pairs.filter(pc.fill_null(is_old, fill_value=False))


def _visible_edges(way: _Neighbors, ids: pa.Array, times: pa.Array | None) -> pa.Table:
    """Reads the edges of seeds that are not newer than they are: positions of seeds, ids of neighbors, features."""
    near, far = (SOURCE_KEY, TARGET_KEY) if way.is_forward else (TARGET_KEY, SOURCE_KEY)
    features = way.features.get(way.edges.label, ())
    schema = pa.schema(
        [
            ("seed", pa.int64()),
            ("far", pa.large_string()),
            (_TIME, pa.large_string()),
            *((one, pa.large_string()) for one in features),
        ]
    )
    tables = [schema.empty_table()]
    for columns in _blocks(way.edges, [near, far, *([way.time] if way.time else []), *features]):
        seed = pc.index_in(columns[near], value_set=ids).cast(pa.int64())
        is_visible = pc.and_(seed.is_valid(), columns[far].is_valid())
        if times is not None and way.time:
            # A row without a time is as new as the newest.
            is_old = pc.less_equal(columns[way.time].cast(pa.int64()), times.take(seed))
            is_visible = pc.and_(is_visible, pc.fill_null(is_old, fill_value=False))
        time = columns[way.time] if way.time else pa.nulls(len(seed), pa.large_string())
        block = {"seed": seed, "far": columns[far], _TIME: time, **{one: columns[one] for one in features}}
        tables.append(pa.table(block, schema=schema).filter(is_visible))
    return pa.concat_tables(tables).combine_chunks()


def _rows_of(layout: TableLayout, features: Sequence[str], ids: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Reads features of the nodes with these ids, large_string [num_ids]; null where there is no such node."""
    wanted = pc.unique(ids)
    parts: list[pa.Table] = []
    for columns in _blocks(layout, [ID_FEATURE, *features]):
        table = pa.table(columns)
        parts.append(table.filter(pc.is_in(table.column(ID_FEATURE), value_set=wanted)))
    if not parts:
        return {}
    rows = pa.concat_tables(parts)
    positions = pc.index_in(ids, value_set=rows.column(ID_FEATURE).combine_chunks())
    return {one: rows.column(one).take(positions) for one in features if one in rows.column_names}


def _read_first_rows(layout: TableLayout, features: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Reads features of the first rows as texts; those that cannot be spelled as one, such as lists, are left out."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in features}
    num_rows = 0
    for block in read_all_columns(layout):
        for name in list(parts):
            texts = _texts(block, layout, name)
            if texts is None:
                del parts[name]
            else:
                parts[name].append(texts)
        num_rows += block.columns.num_rows
        if num_rows >= _MOST_ROWS:
            break
    return {name: pa.chunked_array(of_column, pa.large_string()) for name, of_column in parts.items()}


def _blocks(layout: TableLayout, names: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
    """Reads features as texts, block by block; what cannot be spelled as one is null."""
    for block in read_all_columns(layout):
        found = {name: _texts(block, layout, name) for name in names}
        yield {
            name: pa.nulls(block.columns.num_rows, pa.large_string()) if of is None else of
            for name, of in found.items()
        }


def _texts(block: RawBlock, layout: TableLayout, name: str) -> pa.Array | None:
    return as_texts(block.columns.column(layout.columns[name].name), f"{layout.declared_as}, column {name!r}")


def _summaries(
    values: pa.ChunkedArray, owners: _Positions, num_seeds: int, *, is_single: bool
) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Sums up the values of each seed's edges, large_string [num_seeds]."""
    if is_single:
        yield "its value", _spread(values, owners, num_seeds)
        return
    numbers = _as_numbers(values)
    if numbers is None:
        yield "the first value", _spread(values, owners, num_seeds)
        return
    is_known = np.isfinite(numbers)
    of_known, known = owners[is_known], numbers[is_known]
    counts = np.bincount(of_known, minlength=num_seeds)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(of_known, known, minlength=num_seeds) / counts
    largest = np.full(num_seeds, -np.inf)
    np.maximum.at(largest, of_known, known)
    for what, summary in (("the mean", mean), ("the largest", np.where(counts > 0, largest, np.nan))):
        yield what, pa.chunked_array([pa.array(summary, from_pandas=True).cast(pa.large_string())])


def _as_numbers(texts: pa.ChunkedArray) -> npt.NDArray[np.float64] | None:
    try:
        numbers = pc.fill_null(texts.cast(pa.float64()), np.nan)
    except pa.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)


def _spread(values: pa.ChunkedArray, owners: _Positions, num_seeds: int) -> pa.ChunkedArray:
    """Gives each seed the value of its first edge; null without edges."""
    first = np.full(num_seeds, -1, np.int64)
    first[owners[::-1]] = np.arange(len(owners), dtype=np.int64)[::-1]
    positions = pa.array(first, mask=first < 0)
    taken = values.take(positions)
    return taken if isinstance(taken, pa.ChunkedArray) else pa.chunked_array([taken])

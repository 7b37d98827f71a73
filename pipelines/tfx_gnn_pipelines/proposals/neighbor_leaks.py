"""Finds what the neighbors of a seed tell of its label almost alone, such as an order line's copy of a price."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import as_texts
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout
from tfx_gnn_pipelines.proposals.label_leaks import LabelJudge, LabelLeak, read_first_rows

_Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seeds:
    """The rows whose label is looked for among their neighbors.

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
class Neighbors:
    """One way from the seeds to other rows.

    Attributes:
        edges: table of the edges.
        is_forward: whether the seeds are the sources.
        nodes: table of the nodes that the edges lead to.
        time: feature of the edges with their times; "" if there is none.
        features: by table's label, such as "nodes/orders", the features to look at.
    """

    edges: TableLayout
    is_forward: bool
    nodes: TableLayout
    time: str
    features: Mapping[str, Sequence[str]]


def find_neighbor_leaks(seeds: Seeds, ways: Sequence[Neighbors]) -> list[LabelLeak]:
    """Finds what the direct neighbors of seeds tell of their labels almost alone.

    Of each way: which neighbor a seed has, where it has one at most; otherwise how many. Of each feature of the
    neighbors and of the edges: its value, or the mean, the largest and the first of several. Edges that are newer than
    the seed do not count.

    Args:
        seeds: the rows with labels; the first ones of the table are looked at.
        ways: where their edges lead.

    Returns:
        What passes the bounds of `find_label_leaks`, at most one for each feature.
    """
    rows = read_first_rows(seeds.layout, [ID_FEATURE, seeds.label, *([seeds.time] if seeds.time else [])])
    has_label = rows[seeds.label].is_valid()
    rows = {name: of_column.filter(has_label).combine_chunks() for name, of_column in rows.items()}
    judge = LabelJudge(pa.chunked_array([rows[seeds.label]]), is_class=seeds.is_class)
    ids = rows[ID_FEATURE]
    times = rows[seeds.time].cast(pa.int64()) if seeds.time else None
    return [leak for way in ways for leak in _leaks_of(way, judge, ids, times)]


def _leaks_of(way: Neighbors, judge: LabelJudge, ids: pa.Array, times: pa.Array | None) -> Iterator[LabelLeak]:
    edges = _visible_edges(way, ids, times)
    owners = np.asarray(edges.column("seed").to_numpy(), np.int64)
    name = way.edges.name
    is_single = len(np.unique(owners)) == len(owners)
    which = _spread(edges.column("far"), owners, len(ids)) if is_single else None
    counts = pa.chunked_array([pa.array(np.bincount(owners, minlength=len(ids))).cast(pa.large_string())])
    evidence = judge.evidence(counts if which is None else which)
    if evidence:
        what = "how many of them there are" if which is None else "which one it is"
        yield LabelLeak(place=f"edges/{name}", feature="", evidence=f"{what}: {evidence}")
        return
    far = _rows_of(way.nodes, way.features.get(way.nodes.label, ()), edges.column("far"))
    of_edges = {feature: edges.column(feature) for feature in way.features.get(way.edges.label, ())}
    for place, found in ((way.nodes.label, far), (way.edges.label, of_edges)):
        for feature, values in found.items():
            for what, of_seeds in _summaries(values, owners, len(ids), is_single=is_single):
                evidence = judge.evidence(of_seeds)
                if evidence:
                    yield LabelLeak(place=place, feature=feature, evidence=f"{what}: {evidence}")
                    break


def _visible_edges(way: Neighbors, ids: pa.Array, times: pa.Array | None) -> pa.Table:
    """Reads the edges of seeds that are not newer than they are: positions of seeds, ids of neighbors, features."""
    near, far = (SOURCE_KEY, TARGET_KEY) if way.is_forward else (TARGET_KEY, SOURCE_KEY)
    features = way.features.get(way.edges.label, ())
    schema = pa.schema(
        [("seed", pa.int64()), ("far", pa.large_string()), *((one, pa.large_string()) for one in features)]
    )
    tables = [schema.empty_table()]
    for columns in _blocks(way.edges, [near, far, *([way.time] if way.time else []), *features]):
        seed = pc.index_in(columns[near], value_set=ids).cast(pa.int64())
        is_visible = pc.and_(seed.is_valid(), columns[far].is_valid())
        if times is not None and way.time:
            # A row without a time is as new as the newest.
            is_old = pc.less_equal(columns[way.time].cast(pa.int64()), times.take(seed))
            is_visible = pc.and_(is_visible, pc.fill_null(is_old, fill_value=False))
        block = {"seed": seed, "far": columns[far], **{one: columns[one] for one in features}}
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


def _blocks(layout: TableLayout, names: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
    for block in read_all_columns(layout):
        found = {
            name: as_texts(block.columns.column(layout.columns[name].name), f"{layout.declared_as}, column {name!r}")
            for name in names
        }
        yield {
            name: pa.nulls(block.columns.num_rows, pa.large_string()) if of is None else of
            for name, of in found.items()
        }


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

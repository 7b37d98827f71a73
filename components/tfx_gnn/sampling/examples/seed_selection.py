"""Selects the seeds of a plan, split by split, from tables in memory: from the seed set or a seed table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.engine.negatives import (
    PairLookup,
    choose_negatives,
    order_drawable_nodes,
    times_of_nodes,
    whole_weights,
)
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.plan.edge_ranks import rank_limit
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, root_node_sets
from tfx_gnn.sampling.plan.seed_splits import (
    UNUSED,
    SplitColumns,
    edge_split_codes,
    edge_split_columns,
    node_split_codes,
    node_split_columns,
    pair_keys,
    place_of_row,
    select_split_columns,
    supervision_only,
    tables_with_splits,
)
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.data_files import resolve_table_files
from tfx_gnn.tables.graph_tables import GraphTables, NodeTable
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    DANGLING_TARGET,
    RowProblem,
    RowRules,
    TableReport,
    check_dropped_share,
    dangling_edge_problem,
    show_value,
)
from tfx_gnn.tables.schema_layouts import id_type, seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

_Rows = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


_KEYS = {SEED: ID_FEATURE, ROOT_SOURCE: SOURCE_KEY, ROOT_TARGET: TARGET_KEY}
# A seed that names an unknown node is counted like an edge with an unknown source.
_RULES = {SEED: DANGLING_SOURCE, ROOT_SOURCE: DANGLING_SOURCE, ROOT_TARGET: DANGLING_TARGET}
_ARROW_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.large_string()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedReport:
    """Counts of the candidate seeds, by what they were used for.

    Attributes:
        num_seeds: by split, seeds; negatives are not among them, even if they have subgraphs of their own.
        num_unused: rows that `SplitPlan.unused_values` excludes.
        num_message_passing_only: edges of the first split that are not seeds, because
            `disjoint_train_share` makes only some of its edges supervision.
        num_negatives: by split, negatives that were drawn; empty without negatives.
        num_missing_negatives: by split, negatives for which every draw was refused.
        table: counts of the seed table's rows; None without a seed table.
        problems: rows of the seed table that were dropped.
    """

    num_seeds: Mapping[str, int]
    num_unused: int = 0
    num_message_passing_only: int = 0
    num_negatives: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_missing_negatives: Mapping[str, int] = dataclasses.field(default_factory=dict)
    table: TableReport | None = None
    problems: tuple[RowProblem, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Candidates:
    """Candidate seeds: their nodes by root, and the columns that decide splits."""

    nodes: Mapping[str, _Rows]
    rows: _Rows
    columns: SplitColumns
    times: npt.NDArray[np.int64] | None
    table: TableReport | None = None
    problems: tuple[RowProblem, ...] = ()


def make_seeds(
    tables: GraphTables,
    plan: SamplingPlan,
    sampling_seed: int,
    *,
    seed_table: Table | None = None,
    rules: RowRules | None = None,
) -> tuple[dict[str, Seeds], SeedReport]:
    """Chooses the seeds of every split, and draws their negatives.

    Args:
        tables: the graph, read with the extra columns that `tables_with_splits` lists.
        plan: a plan that fits the graph.
        sampling_seed: seed of all random choices, in [0, 2**63); negatives depend on it.
        seed_table: the plan's seed table, if it has one.
        rules: `dangling_edges` decides what to do with rows of the seed table that name
            unknown nodes. By default they are an error.

    Returns:
        The seeds of each split, in the order of `plan.splits.names`; and the counts.
        Nodes are rows of their node tables. If negatives have subgraphs of their own, they follow their true pair.

    Raises:
        ValueError: if a row has no split or a split no seeds, or the seed table names
            unknown nodes or repeats a seed.
    """
    candidates = _find_candidates(tables, plan, seed_table, rules or RowRules())
    sets = root_node_sets(plan, tables.schema)
    codes = {root: hash_ids(tables.node_tables[sets[root]].ids)[rows] for root, rows in candidates.nodes.items()}
    keys = pair_keys(codes[ROOT_SOURCE], codes[ROOT_TARGET]) if plan.is_link_plan else next(iter(codes.values()))
    split_codes = _split_codes(plan, codes, candidates.columns)
    is_passed_only = _is_message_passing_only(plan, codes, split_codes)
    num_unused = int((split_codes == UNUSED).sum())
    split_codes = np.where(is_passed_only, np.int16(UNUSED), split_codes)
    written = splits_with_seeds(
        plan.splits, {name: int((split_codes == code).sum()) for code, name in enumerate(plan.splits.names)}
    )
    drawer = _NegativeDrawer(tables, plan, sampling_seed) if plan.negatives else None
    seeds_by_split: dict[str, Seeds] = {}
    num_seeds: dict[str, int] = {}
    for code, name in enumerate(plan.splits.names):
        if name not in written:
            continue
        chosen = np.flatnonzero(split_codes == code)
        chosen = chosen[np.lexsort((candidates.rows[chosen], keys[chosen]))]
        num_seeds[name] = len(chosen)
        seeds_by_split[name] = _make_split(plan, candidates, keys, chosen, code=code, drawer=drawer)
    num_negatives = _count_negatives(seeds_by_split) if drawer else {}
    return seeds_by_split, SeedReport(
        num_seeds=num_seeds,
        num_unused=num_unused,
        num_message_passing_only=int(is_passed_only.sum()),
        num_negatives=num_negatives,
        num_missing_negatives=_count_missing(plan, num_seeds, num_negatives),
        table=candidates.table,
        problems=candidates.problems,
    )


def splits_with_seeds(splits: SplitPlan, counts: Mapping[str, int]) -> dict[str, int]:
    """Checks that splits have seeds, and leaves out empty splits that may be missing; keeps their order."""
    kept = {name: counts[name] for name in splits.names if counts[name] or not splits.may_be_missing}
    total = sum(kept.values())
    if not total:
        raise ValueError(
            "`splits` must give some split a seed; got none for any of them. "
            "Look at the seed set or table, `unused_values` and `disjoint_train_share`."
        )
    empty = [name for name, count in kept.items() if not count]
    if empty and not splits.allows_empty_splits:
        raise ValueError(
            f"`splits` must give every split at least one seed; got none for {empty}, and {total} for the others "
            "together. Change the shares or bounds, or set `allows_empty_splits`."
        )
    return kept


def seed_table_layout(
    tables_dir: str, plan: SamplingPlan, schema: GraphSchema, *, access: TableAccess | None = None
) -> TableLayout:
    """Describes a plan's seed table: ids, declared features, and, as text, the columns that decide splits.

    The file name is relative to `tables_dir`, the folder of the graph schema.
    """
    if plan.seed_table is None:
        raise ValueError("`plan` must have a seed table; got none. Its seeds are all of its seed set.")
    columns = {}
    for root, node_set in root_node_sets(plan, schema).items():
        name = "id" if root == SEED else root
        renamed = plan.seed_table.columns.get(name)
        columns[_KEYS[root]] = TableColumn(
            name=renamed or name,
            dtype=id_type(schema.node_sets[node_set], f"node set {node_set!r}"),
            alternatives=() if renamed else (f"#{name}",),
        )
    for name, dtype in plan.seed_table.features.items():
        columns[name] = TableColumn(name=name, dtype=_ARROW_TYPES[dtype])
    for name in tables_with_splits(plan).extra_columns:
        columns[EXTRA_PREFIX + name] = TableColumn(name=name, dtype=pa.large_string())
    access = access or TableAccess()
    filename = plan.seed_table.filename
    if not resolve_table_files(
        tables_dir, filename, allow_outside_files=access.allow_outside_files, place="the plan's seed table"
    ):
        raise ValueError(
            "`seed_table.filename`, or `ids`, must name a file that exists, relative to the folder of the tables; got "
            f"{filename!r} in {tables_dir!r}. Correct the name or put the file there."
        )
    return seeds_layout(tables_dir, filename, columns, access=access)


def _find_candidates(tables: GraphTables, plan: SamplingPlan, seed_table: Table | None, rules: RowRules) -> _Candidates:
    if (plan.seed_table is None) != (seed_table is None):
        raise ValueError(
            "`seed_table` must be there if and only if the plan names one; got "
            f"{'rows' if seed_table else 'none'} for {plan.seed_table!r}. Read it as `seed_table_layout` describes it."
        )
    if seed_table is not None:
        return _find_table_seeds(tables, plan, seed_table, rules)
    if plan.is_link_plan:
        edges = tables.edge_tables[plan.seed_edge_set]
        return _Candidates(
            nodes={ROOT_SOURCE: edges.sources, ROOT_TARGET: edges.targets},
            rows=edges.rows,
            columns=edge_split_columns(plan, plan.seed_edge_set, edges),
            times=_times(plan, edges.features),
        )
    nodes = tables.node_tables[plan.seed_node_set]
    return _Candidates(
        nodes={plan.root_names[0]: np.arange(nodes.num_nodes)},
        rows=np.arange(nodes.num_nodes),
        columns=node_split_columns(plan, nodes),
        times=_times(plan, nodes.features),
    )


def _find_table_seeds(tables: GraphTables, plan: SamplingPlan, table: Table, rules: RowRules) -> _Candidates:
    """Looks up the nodes that a seed table names.

    The rule `dangling_edges` decides what happens to rows that name unknown nodes.
    """
    sets = root_node_sets(plan, tables.schema)
    found = {
        root: pc.index_in(table.columns[_KEYS[root]], value_set=tables.node_tables[node_set].ids)
        for root, node_set in sets.items()
    }
    is_there = np.ones(table.num_rows, np.bool_)
    broken: list[tuple[int, str]] = []
    for root, positions in found.items():
        missing = positions.is_null().to_numpy(zero_copy_only=False) & is_there
        broken += [(int(row), root) for row in np.flatnonzero(missing)]
        is_there &= ~missing
    problems = _dangling_problems(tables, table, sets, sorted(broken))
    if problems and rules.dangling_edges == "refuse":
        raise ValueError(problems[0].message + (f" It is one of {len(problems)} such rows." if problems[1:] else ""))
    report = dataclasses.replace(
        table.report,
        rows_used=int(is_there.sum()),
        dropped=_add_counts(table.report.dropped, [problem.rule for problem in problems]),
    )
    check_dropped_share(report, rules)
    rows = np.flatnonzero(is_there)
    kept = {key: column.take(pa.array(rows)) for key, column in table.columns.items()}
    times = _times(plan, kept)
    nodes = {
        root: np.asarray(positions.take(pa.array(rows)).to_numpy(zero_copy_only=False), np.int64)
        for root, positions in found.items()
    }
    assert plan.seed_table is not None
    codes = [hash_ids(kept[name]) for name in plan.seed_table.identity_features]
    _refuse_repeats(table, rows, [*nodes.values(), *codes, *([] if times is None else [times])])
    return _Candidates(
        nodes=nodes,
        rows=rows,
        columns=select_split_columns(plan.splits, table, rows),
        times=times,
        table=report,
        problems=(*table.problems, *problems),
    )


def _dangling_problems(
    tables: GraphTables, table: Table, sets: Mapping[str, str], broken: Sequence[tuple[int, str]]
) -> list[RowProblem]:
    rows = np.array([row for row, _ in broken], np.int64)
    return [
        dangling_edge_problem(
            table=table.layout.label,
            file=file,
            row=number,
            row_word=table_format(table.layout).row_word,
            rule=_RULES[root],
            column=table.layout.columns[_KEYS[root]].name,
            node_set=sets[root],
            node_file=tables.node_tables[sets[root]].path,
            value=table.columns[_KEYS[root]][row].as_py(),
        )
        for (row, root), (file, number) in zip(broken, table.locate(table.rows[rows]), strict=True)
    ]


def _refuse_repeats(table: Table, rows: npt.NDArray[np.int64], identity: Sequence[npt.NDArray[Any]]) -> None:
    order = np.lexsort((rows, *identity))
    is_repeat = np.ones(max(len(order) - 1, 0), np.bool_)
    for values in identity:
        is_repeat &= values[order][1:] == values[order][:-1]
    if is_repeat.any():
        row = int(rows[order[1:][is_repeat]].min())
        names = {key: table.columns[key][row].as_py() for key in _KEYS.values() if key in table.columns}
        raise ValueError(
            f"`{table.layout.label}` must name every seed once, or once for each time and identity; got "
            f"{show_value(tuple(names.values()))} again in {place_of_row(table, row)}, one of {int(is_repeat.sum())}. "
            "Remove the repetition, or name the columns that distinguish them in `identity_features`."
        )


def _add_counts(counts: Mapping[str, int], rules: Sequence[str]) -> dict[str, int]:
    added = dict(counts)
    for rule in rules:
        added[rule] = added.get(rule, 0) + 1
    return added


def _times(plan: SamplingPlan, features: Mapping[str, pa.Array]) -> npt.NDArray[np.int64] | None:
    if plan.temporal is None:
        return None
    return np.asarray(features[plan.temporal.seed_time].to_numpy(zero_copy_only=False), np.int64)


def _split_codes(plan: SamplingPlan, codes: Mapping[str, _Codes], columns: SplitColumns) -> npt.NDArray[np.int16]:
    if not plan.is_link_plan:
        return node_split_codes(plan.splits, codes=codes[plan.root_names[0]], columns=columns)
    return edge_split_codes(
        plan.splits,
        source_codes=codes[ROOT_SOURCE],
        target_codes=codes[ROOT_TARGET],
        columns=columns,
        is_symmetric=plan.seed_edge_set in plan.reverse_edge_sets,
    )


def _is_message_passing_only(
    plan: SamplingPlan, codes: Mapping[str, _Codes], split_codes: npt.NDArray[np.int16]
) -> npt.NDArray[np.bool_]:
    if not plan.splits.disjoint_train_share:
        return np.zeros(len(split_codes), np.bool_)
    is_symmetric = plan.seed_edge_set in plan.reverse_edge_sets
    keys = pair_keys(codes[ROOT_SOURCE], codes[ROOT_TARGET], is_symmetric=is_symmetric)
    return (split_codes == 0) & ~supervision_only(plan.splits, keys)


def _make_split(
    plan: SamplingPlan,
    candidates: _Candidates,
    keys: _Codes,
    chosen: _Rows,
    *,
    code: int,
    drawer: _NegativeDrawer | None,
) -> Seeds:
    nodes = {root: rows[chosen] for root, rows in candidates.nodes.items()}
    readout_splits = np.arange(len(chosen) + 1, dtype=np.int64)
    labels = None
    if drawer is not None:
        times = None if candidates.times is None else candidates.times[chosen]
        nodes, readout_splits, labels = drawer.draw(keys[chosen], nodes, times)
    has_ranks = plan.is_link_plan or plan.splits.visibility == "inductive"
    seeds = Seeds(
        keys=keys[chosen],
        rows=candidates.rows[chosen],
        readout_splits=readout_splits,
        readout_nodes=nodes,
        readout_labels=labels,
        time_limits=None if candidates.times is None else candidates.times[chosen],
        rank_limits=np.full(len(chosen), rank_limit(code), np.int8) if has_ranks else None,
    )
    return seeds.with_own_subgraphs()[0] if plan.negatives and plan.negatives.own_subgraphs else seeds


class _NegativeDrawer:
    """Draws negatives from the graph in memory."""

    def __init__(self, tables: GraphTables, plan: SamplingPlan, sampling_seed: int) -> None:
        assert plan.negatives is not None
        self._negatives = plan.negatives
        self._sampling_seed = sampling_seed
        edges = tables.edge_tables[plan.seed_edge_set]
        ends = {ROOT_SOURCE: edges.sources, ROOT_TARGET: edges.targets}
        sets = root_node_sets(plan, tables.schema)
        replaced, kept = plan.negatives.side, plan.negatives.kept_side
        nodes = tables.node_tables[sets[replaced]]
        weights = None
        if plan.negatives.distribution == "in_degree":
            weights = np.bincount(ends[replaced], minlength=nodes.num_nodes).astype(np.int64)
        elif plan.negatives.weight_feature:
            weights = whole_weights(
                nodes.features[plan.negatives.weight_feature],
                plan.negatives.weight_feature,
                lambda position: f"node {nodes.ids[position].as_py()!r} of {nodes.path}",
            )
        self._groups = _groups(nodes, plan.negatives) if plan.negatives.condition_features else None
        self._drawable = order_drawable_nodes(hash_ids(nodes.ids), weights=weights, groups=self._groups)
        self._edges = PairLookup(ends[kept], ends[replaced], num_targets=nodes.num_nodes)
        self._has_one_node_set = sets[kept] == sets[replaced]
        self._since = None
        if plan.negatives.time_feature:
            self._since = times_of_nodes(nodes.features[plan.negatives.time_feature])

    def draw(
        self, keys: _Codes, nodes: Mapping[str, _Rows], time_limits: _Rows | None
    ) -> tuple[dict[str, _Rows], npt.NDArray[np.int64], npt.NDArray[np.int8]]:
        """Returns nodes by root, the start of each pair's readouts, and labels."""
        kept, replaced = nodes[self._negatives.kept_side], nodes[self._negatives.side]
        drawn, is_there = choose_negatives(
            keys,
            kept,
            replaced,
            negatives=self._negatives,
            sampling_seed=self._sampling_seed,
            drawable=self._drawable,
            groups=self._groups,
            edges=self._edges,
            has_one_node_set=self._has_one_node_set,
            since=self._since,
            time_limits=time_limits,
        )
        is_readout = np.insert(is_there, 0, values=True, axis=1)
        counts = is_readout.sum(axis=1)
        labels = np.zeros(is_readout.shape, np.int8)
        labels[:, 0] = 1
        of_root = {
            self._negatives.kept_side: np.repeat(kept, counts),
            self._negatives.side: np.insert(drawn, 0, replaced, axis=1)[is_readout],
        }
        return (
            {root: of_root[root] for root in (ROOT_SOURCE, ROOT_TARGET)},
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            labels[is_readout],
        )


def _groups(nodes: NodeTable, negatives: Negatives) -> npt.NDArray[np.int64]:
    """Returns the group of each node for each part of the negatives."""
    groups = np.zeros((len(negatives.parts), nodes.num_nodes), np.int64)
    for number, (feature, _) in enumerate(negatives.parts):
        if number:
            groups[number] = groups[number - 1].max(initial=-1) + 1
        if feature:
            values = nodes.features[feature]
            if pa.types.is_floating(values.type):
                values = pc.add(values, 0.0)  # zero has one sign
            groups[number] += values.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return groups


def _count_negatives(seeds_by_split: Mapping[str, Seeds]) -> dict[str, int]:
    return {
        name: 0 if seeds.readout_labels is None else int((seeds.readout_labels == 0).sum())
        for name, seeds in seeds_by_split.items()
    }


def _count_missing(
    plan: SamplingPlan, num_seeds: Mapping[str, int], num_negatives: Mapping[str, int]
) -> dict[str, int]:
    wanted = plan.negatives.num_per_positive if plan.negatives else 0
    return {name: wanted * num_seeds[name] - number for name, number in num_negatives.items()}

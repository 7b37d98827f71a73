"""Writes subgraph or graph-level examples in one process that holds the tables in memory."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io.progress import progress
from tfx_gnn.records import examples_folder
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledSubgraphs, SubgraphStatisticsBuilder
from tfx_gnn.sampling.engine.seeds import Seeds, shard_bounds
from tfx_gnn.sampling.examples.graph_level_conversion import GraphLevelConverter, convert_graph_level_examples
from tfx_gnn.sampling.examples.seed_selection import make_seeds, seed_table_layout
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.plan import reached_node_sets
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR, RowProblem, TableReport, write_dead_letters
from tfx_gnn.tables.table_files import read_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class MadeExamples:
    """What a folder of examples was made from.

    Attributes:
        num_seeds: by split, the number of seeds or, for graph-level examples, of graphs or pairs.
        num_no_seeds: rows that could be seeds but are not: those that
            `SplitPlan.unused_values` excludes, edges of the first split that are for
            message passing only, and pairs of graphs of different splits.
        tables: what happened to the rows, by label of the table.
    """

    num_seeds: Mapping[str, int]
    num_no_seeds: int
    tables: Mapping[str, TableReport]


_BATCH_SIZE = 256  # larger batches gain nothing; smaller ones need more NumPy calls


class ExampleSource(Protocol):
    """Makes the records of one split; implemented for subgraphs and for graph-level examples."""

    def keys_of(self, split: str) -> npt.NDArray[np.uint64]:
        """Returns the keys of the split's records, ascending."""
        ...

    def batches(self, split: str, start: int, stop: int) -> Iterator[tuple[SampledSubgraphs, list[bytes]]]:
        """Yields graphs and their records, for keys from position `start` to `stop`."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenedTables:
    """Tables in memory, from which examples can be made.

    Attributes:
        source: makes the examples.
        made: numbers of examples, and what happened to the rows.
        problems: rows that were dropped.
    """

    source: ExampleSource
    made: MadeExamples
    problems: tuple[RowProblem, ...]


def open_tables(
    *,
    tables_dir: str,
    schema: GraphSchema,
    options: SubgraphExampleGenOptions,
    check_tables: Callable[[], None] = lambda: None,
) -> OpenedTables:
    """Reads tables into memory and finds the seeds, or graphs, of each split.

    `check_tables` is called when the tables have been read, and raises if they changed meanwhile.
    """
    rules, access, plan = options.rules, options.access, options.plan
    if plan is None:
        assert options.graph_level_examples is not None
        converter, converted = convert_graph_level_examples(
            tables_dir, schema, options.graph_level_examples, rules=rules, access=access
        )
        check_tables()
        return OpenedTables(
            source=_WholeSource(converter, converted.num_graphs),
            made=MadeExamples(
                num_seeds=converted.num_graphs, num_no_seeds=converted.num_unused, tables=converted.tables
            ),
            problems=converted.problems,
        )
    tables = read_tables(
        tables_dir,
        node_sets=reached_node_sets(plan, schema),
        edge_sets=plan.table_edge_sets,
        extra_columns=tables_with_splits(plan).extra_columns_by_table,
        rules=rules,
        edge_times=plan.temporal.edge_times if plan.temporal else None,
        access=access,
    )
    seed_table = None
    if plan.seed_table:
        seed_table = read_table(seed_table_layout(tables_dir, plan, schema, access=access), rules)
    check_tables()
    seeds, report = make_seeds(tables, plan, options.sampling_seed, seed_table=seed_table, rules=rules)
    sampler = InMemorySampler(tables, plan, sampling_seed=options.sampling_seed, edge_ranks=rank_edges(tables, plan))
    encoder = SubgraphExampleEncoder(tables, plan, seed_features=seed_table.columns if seed_table else None)
    reports = dict(tables.reports)
    if report.table is not None:
        reports[report.table.table] = report.table
    return OpenedTables(
        source=_SampledSource(sampler, encoder, seeds),
        made=MadeExamples(
            num_seeds=report.num_seeds,
            num_no_seeds=report.num_unused + report.num_message_passing_only,
            tables=reports,
        ),
        problems=(*tables.problems, *report.problems),
    )


def make_in_memory(
    *,
    tables_dir: str,
    schema: GraphSchema,
    folder: str,
    options: SubgraphExampleGenOptions,
    check_tables: Callable[[], None],
    only_split: str = "",
) -> MadeExamples:
    """Makes the examples of a plan, or of every graph, and writes the missing shards; see `open_tables`.

    If `only_split` is given, the other splits are counted, but not written.
    """
    opened = open_tables(tables_dir=tables_dir, schema=schema, options=options, check_tables=check_tables)
    splits = [split for split in opened.made.num_seeds if only_split in ("", split)]
    _write_missing_shards(folder, splits, opened.source, options.num_shards)
    write_dead_letters(os.path.join(folder, DEAD_LETTERS_DIR), opened.problems)
    return opened.made


class _SampledSource:
    def __init__(self, sampler: InMemorySampler, encoder: SubgraphExampleEncoder, seeds: Mapping[str, Seeds]) -> None:
        self._sampler = sampler
        self._encoder = encoder
        self._seeds = seeds

    def keys_of(self, split: str) -> npt.NDArray[np.uint64]:
        return self._seeds[split].keys

    def batches(self, split: str, start: int, stop: int) -> Iterator[tuple[SampledSubgraphs, list[bytes]]]:
        for begin in range(start, stop, _BATCH_SIZE):
            subgraphs = self._sampler.sample(self._seeds[split].slice(begin, min(begin + _BATCH_SIZE, stop)))
            yield subgraphs, self._encoder.encode(subgraphs)


class _WholeSource:
    def __init__(self, converter: GraphLevelConverter, splits: Iterable[str]) -> None:
        self._converter = converter
        self._keys = {split: converter.keys_of(split) for split in splits}

    def keys_of(self, split: str) -> npt.NDArray[np.uint64]:
        return self._keys[split]

    def batches(self, split: str, start: int, stop: int) -> Iterator[tuple[SampledSubgraphs, list[bytes]]]:
        for batch in self._converter.convert(split, start=start, stop=stop):
            yield batch.graphs, batch.records


def _write_missing_shards(folder: str, splits: Iterable[str], source: ExampleSource, num_shards: int) -> None:
    log = ShardLog(folder)
    finished = log.read()
    shards = [
        (split, shard, start, stop)
        for split in splits
        for shard, (start, stop) in enumerate(
            itertools.pairwise(shard_bounds(source.keys_of(split), num_shards).tolist())
        )
    ]
    sizes = {(split, shard): stop - start for split, shard, start, stop in shards}
    done = sum(size for of, size in sizes.items() if of in finished)
    with progress("sampling", total=sum(sizes.values()), unit="examples", done=done) as advance:
        for split, shard, start, stop in shards:
            if (split, shard) in finished:
                continue
            statistics = SubgraphStatisticsBuilder()
            statistics.add_split(split)

            def make_records(
                split: str = split,
                start: int = start,
                stop: int = stop,
                statistics: SubgraphStatisticsBuilder = statistics,
            ) -> Iterator[bytes]:
                for graphs, records in source.batches(split, start, stop):
                    statistics.add(split, graphs)
                    advance(len(records))
                    yield from records

            examples_folder.write_split_shard(folder, split, shard, num_shards, make_records())
            log.note(split, shard, statistics.build())

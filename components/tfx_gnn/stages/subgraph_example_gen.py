"""From tables of nodes and edges to graph tf.Examples, one subgraph around each seed."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from tfx_gnn.graph import schema as graph_schema
from tfx_gnn.sampling import seed_splits
from tfx_gnn.sampling.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.plan import SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan_checks import check_plan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.sampling.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.subgraph_schema import make_subgraph_schema
from tfx_gnn.sampling.subgraph_statistics import SubgraphStatistics, SubgraphStatisticsBuilder
from tfx_gnn.stages import examples_folder
from tfx_gnn.stages.atomic_folder import atomic_folder
from tfx_gnn.tables.graph_tables import NodeTable, read_tables, read_tables_schema

STATISTICS_FILE = "statistics.json"
"""File beside the splits with `SubgraphStatistics` as JSON."""

_BATCH_SIZE = 256  # larger batches gain nothing, smaller ones pay for more NumPy calls


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphExampleGenOptions:
    """Options of `generate_subgraph_examples`.

    Attributes:
        plan: what to sample around each seed.
        sampling_seed: seed of all random choices, in [0, 2**63).
        num_shards: files a split; a split with fewer seeds gets one file a seed.
        split_weights: share of each split where `plan.splits.column` is empty and a hash
            of the seed's id decides; not used otherwise.
    """

    plan: SamplingPlan
    sampling_seed: int = 0
    num_shards: int = 2
    split_weights: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"train": 8, "val": 1, "test": 1})

    def __post_init__(self) -> None:
        if not isinstance(self.plan, SamplingPlan):
            raise TypeError(f"`plan` must be a SamplingPlan; got {type(self.plan).__name__}. Make one from hops.")
        if not 0 <= self.sampling_seed < 2**63:
            raise ValueError(f"`sampling_seed` must be in [0, 2**63); got {self.sampling_seed}. Choose another number.")
        if self.num_shards < 1:
            raise ValueError(
                f"`num_shards` must be at least 1; got {self.num_shards}. Use 1 for a single file a split."
            )
        seed_splits.check_split_weights(self.split_weights)
        object.__setattr__(self, "split_weights", dict(self.split_weights))


def generate_subgraph_examples(
    *, tables_dir: str, examples_dir: str, options: SubgraphExampleGenOptions
) -> SubgraphStatistics:
    """Samples one subgraph around each node of the plan's seed node set.

    The records of a split are the same for every number of shards. They are
    ordered by a hash of the seed's id, so that neighbours in the table, which are
    often alike, are spread out.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the tables it names.
        examples_dir: folder to make, with `Split-<name>` folders of gzipped TFRecord
            files, `graph_schema.pbtxt` and `statistics.json`.
        options: what to sample.

    Returns:
        The statistics.

    Raises:
        ValueError: if the tables break a rule or the plan does not fit them; nothing
            is written then.
        FileExistsError: if `examples_dir` holds files already.
    """
    plan = options.plan
    schema = read_tables_schema(tables_dir)
    check_plan(plan, schema)
    tables = read_tables(
        tables_dir,
        node_sets=reached_node_sets(plan, schema),
        edge_sets=plan.edge_set_names,
        extra_columns={plan.seed_node_set: (plan.splits.column,)} if plan.splits.column else {},
    )
    seeds = tables.node_tables[plan.seed_node_set]
    if plan.splits.column:
        rows_by_split = seed_splits.split_seeds_by_column(seeds, plan.splits.column)
    else:
        rows_by_split = seed_splits.split_seeds_by_hash(seeds, options.split_weights)
    sampler = InMemorySampler(tables, plan, sampling_seed=options.sampling_seed)
    encoder = SubgraphExampleEncoder(tables, plan)
    statistics = SubgraphStatisticsBuilder()
    with atomic_folder(examples_dir) as folder, _progress() as progress:
        task = progress.add_task("Sampling subgraphs", total=seeds.num_nodes)

        def make_records(split: str, rows: npt.NDArray[np.int64]) -> Iterator[bytes]:
            for start in range(0, len(rows), _BATCH_SIZE):
                subgraphs = sampler.sample_nodes(rows[start : start + _BATCH_SIZE])
                statistics.add(split, subgraphs)
                yield from encoder.encode(subgraphs)
                progress.advance(task, subgraphs.num_subgraphs)

        for split, rows in rows_by_split.items():
            num_shards = min(options.num_shards, len(rows))
            for shard, shard_rows in enumerate(np.array_split(_spread(seeds, rows), num_shards)):
                examples_folder.write_split_shard(folder, split, shard, num_shards, make_records(split, shard_rows))
        graph_schema.write_schema(make_subgraph_schema(schema, plan), examples_folder.graph_schema_path(folder))
        summary = statistics.build()
        with tf.io.gfile.GFile(os.path.join(folder, STATISTICS_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(summary), indent=2, sort_keys=True) + "\n")
    return summary


def _spread(seeds: NodeTable, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return rows[np.argsort(hash_ids(seeds.ids.take(pa.array(rows))), kind="stable")]


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)

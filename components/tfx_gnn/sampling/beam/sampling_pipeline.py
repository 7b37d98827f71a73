"""The Beam pipeline that samples subgraphs from graphs of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf

from tfx_gnn.sampling.beam.partitioned_graph.files import PartitionInfo, hub_table
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.beam.rounds.block_assembly import AssembleBlocks
from tfx_gnn.sampling.beam.rounds.block_state import list_runs
from tfx_gnn.sampling.beam.rounds.negative_steps import draw_negatives
from tfx_gnn.sampling.beam.rounds.round_steps import (
    ANSWERS,
    FORWARDED,
    REQUESTS,
    STATES,
    AcceptAnswers,
    AnswerNodes,
    AnswerRequests,
    StartBlocks,
)
from tfx_gnn.sampling.beam.shard_files import WriteShards, remove_blocks
from tfx_gnn.sampling.engine.block_sampling import rounds_of_plan
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatistics, SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan

DEFAULT_SEEDS_PER_BLOCK = 1024
"""Seeds that are sampled together: more take more memory, fewer take more time."""


def sample_with_beam(
    *,
    make_pipeline: Callable[[], beam.Pipeline],
    partitions_dir: str,
    examples_dir: str,
    plan: SamplingPlan,
    sampling_seed: int,
    num_shards: int,
    shards: Sequence[tuple[str, int]] | None = None,
    seeds_per_block: int = DEFAULT_SEEDS_PER_BLOCK,
) -> SubgraphStatistics:
    """Samples the subgraphs of a plan and writes them as an examples folder.

    A worker's memory depends on the size of a partition of the graph and of a block
    of seeds, not on the size of the graph or the degree of a node. Shards are written
    atomically and recorded in the folder's `ShardLog`, so that after a failure the
    missing shards can be requested. The caller removes the log once the folder is
    finished.

    Args:
        make_pipeline: makes an empty pipeline with the runner's options.
        partitions_dir: folder of the partitioned graph, written for this plan; all workers must
            be able to read it.
        examples_dir: folder to write `Split-<name>` folders into; all workers must be
            able to write it.
        plan: what to sample.
        sampling_seed: seed of all random choices, in [0, 2**63).
        num_shards: files per split.
        shards: pairs (split, shard) of the files to make; all by default.
        seeds_per_block: seeds that are sampled together, at least 1. The records do not
            depend on it.

    Returns:
        The statistics of the shards that were made.

    Raises:
        ValueError: if there is no partitioned graph, a number is out of range, or `shards` names an
            unknown split or shard.
    """
    for name, value in (("num_shards", num_shards), ("seeds_per_block", seeds_per_block)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}. Choose a larger number.")
    if not 0 <= sampling_seed < 2**63:
        raise ValueError(f"`sampling_seed` must be in [0, 2**63); got {sampling_seed}. Choose another number.")
    info = PartitionedGraph(partitions_dir).info
    wanted = _wanted_shards(info, shards, num_shards)
    tf.io.gfile.makedirs(examples_dir)
    with make_pipeline() as pipeline:
        seed_counts = {code: sum(info.seed_counts.get(name, ())) for code, name in enumerate(info.splits)}
        runs = list(list_runs(wanted, seed_counts, num_shards, seeds_per_block))
        blocks_to_read = pipeline | "Blocks" >> beam.Create(runs, reshuffle=False) | "Spread" >> beam.Reshuffle()
        if plan.negatives:
            started = draw_negatives(blocks_to_read, partitions_dir, plan, sampling_seed, info)
        else:
            started = blocks_to_read | "Start" >> beam.ParDo(
                StartBlocks(partitions_dir, plan, sampling_seed)
            ).with_outputs(REQUESTS, main=STATES)
        blocks = _with_answers(started, partitions_dir, plan, info)
        written = blocks | "Assemble" >> beam.ParDo(
            AssembleBlocks(partitions_dir, plan, examples_dir, info.splits, num_shards)
        )
        empty = pipeline | "Shards" >> beam.Create([(key, None) for key in wanted], reshuffle=False)
        _ = (
            (written, empty)
            | "WithEmptyShards" >> beam.Flatten()
            | "ByShard" >> beam.GroupByKey()
            | "WriteShards" >> beam.ParDo(WriteShards(examples_dir, info.splits, num_shards))
        )
    remove_blocks(examples_dir)
    log = ShardLog(examples_dir).read()
    statistics = SubgraphStatisticsBuilder()
    for split, shard in wanted:
        statistics.add_statistics(log[info.splits[split], shard])
    return statistics.build()


def _with_answers(started: Any, partitions_dir: str, plan: SamplingPlan, info: PartitionInfo) -> Any:
    """Adds the rounds that find edges, and the round that fetches nodes."""
    states, requests = started[STATES], started[REQUESTS]
    for number, hops in enumerate(rounds_of_plan(plan)):
        answered = (
            requests
            | f"ByPartition{number}" >> beam.GroupByKey()
            | f"Answer{number}"
            >> beam.ParDo(AnswerRequests(partitions_dir, plan, number)).with_outputs(FORWARDED, main=ANSWERS)
        )
        answers = [answered[ANSWERS]]
        if _has_hubs(info, hops):
            answers.append(
                answered[FORWARDED]
                | f"ByBucketPartition{number}" >> beam.GroupByKey()
                | f"AnswerBuckets{number}" >> beam.ParDo(AnswerRequests(partitions_dir, plan, number, of_buckets=True))
            )
        accepted = (
            (states, *answers)
            | f"WithStates{number}" >> beam.Flatten()
            | f"ByBlock{number}" >> beam.GroupByKey()
            | f"Accept{number}"
            >> beam.ParDo(AcceptAnswers(partitions_dir, plan, number)).with_outputs(REQUESTS, main=STATES)
        )
        states, requests = accepted[STATES], accepted[REQUESTS]
    nodes = (
        requests
        | "ByPartitionOfNodes" >> beam.GroupByKey()
        | "AnswerNodes" >> beam.ParDo(AnswerNodes(partitions_dir, plan))
    )
    return (states, nodes) | "WithNodes" >> beam.Flatten() | "ByBlock" >> beam.GroupByKey()


def _has_hubs(info: PartitionInfo, hops: Iterable[Hop]) -> bool:
    return any(info.tables[hub_table(hop.edge_set, hop.direction)].total for hop in hops)


def _wanted_shards(
    info: PartitionInfo, shards: Sequence[tuple[str, int]] | None, num_shards: int
) -> list[tuple[int, int]]:
    """Returns pairs (position of the split, shard)."""
    codes = {name: code for code, name in enumerate(info.splits)}
    if shards is None:
        return [(codes[name], shard) for name in info.seed_counts for shard in range(num_shards)]
    for name, shard in shards:
        if name not in info.seed_counts or not 0 <= shard < num_shards:
            raise ValueError(
                f"`shards` must name splits of {sorted(info.seed_counts)} and numbers below {num_shards}; got "
                f"{(name, shard)}. Correct the name or the number."
            )
    return sorted({(codes[name], shard) for name, shard in shards})

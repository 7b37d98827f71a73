"""Checks splits by time: no training seed is newer than a test seed, no edge newer than its seed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_example_validator.split_leaks import LeakRules, SeedsOfBatch
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import ExampleBatch, item_splits
from tfx_gnn.records.findings import MAX_PLACES, Findings, Place
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.value_hashes import Rows

SEED_NEWER = "seed_newer_than_later_split"
EDGE_NEWER = "edge_newer_than_seed"

TIME_ROW = np.dtype([("time", "<i8"), ("rank", "<u2"), ("shard", "<i4"), ("record", "<i8")])
"""When a seed is, and where it stands."""

_LATEST = np.iinfo(np.int64).max


def time_rows(seeds: SeedsOfBatch, rank: int, shard: int) -> Rows:
    """Tells when the seeds of a batch are.

    Args:
        seeds: seeds with times.
        rank: position of their split among all, from first to last.
        shard: position of their file in the split.

    Returns:
        Array of `TIME_ROW`, a row a seed.
    """
    assert seeds.times is not None
    rows = np.zeros(int(seeds.counts.sum()), TIME_ROW)
    rows["time"] = seeds.times[seeds.counts]
    rows["rank"], rows["shard"] = rank, shard
    rows["record"] = seeds.batch.numbers[seeds.roots.examples[seeds.counts]]
    return rows


def find_newer_seeds(
    rows: Rows, earliest: Mapping[int, int], rules: LeakRules, files: Mapping[tuple[str, int], str], about: str
) -> Findings:
    """Finds seeds that are newer than the earliest seed of a later split.

    Args:
        rows: seeds of one split and file.
        earliest: time of the earliest seed, by position of the split.
        rules: tell the splits.
        files: file name by split and shard.
        about: name of the feature with the time.

    Returns:
        The findings; each counts seeds.
    """
    findings = Findings()
    if not len(rows):
        return findings
    rank = int(rows["rank"][0])
    limit = min((time for later, time in earliest.items() if later > rank), default=_LATEST)
    newer = rows[rows["time"] > limit]
    if len(newer):
        split = rules.splits[rank]
        places = [
            Place(
                file=files[split, int(row["shard"])],
                record=int(row["record"]),
                detail=f"time {int(row['time'])}, but a later split begins at {limit}",
            )
            for row in newer[np.lexsort([newer["record"], newer["shard"]])[:MAX_PLACES]]
        ]
        findings.at(SEED_NEWER, split, about).add(len(newer), places)
    return findings


def find_newer_edges(
    seeds: SeedsOfBatch,
    edge_times: Mapping[str, str],
    layout: GraphLayout,
    place: tuple[str, str],
    findings: Findings,
    *,
    only_earlier: bool,
) -> None:
    """Finds edges that are newer than the seed of their example.

    Args:
        seeds: seeds with times.
        edge_times: feature with the time of each edge, by edge set.
        layout: the keys of the schema.
        place: split, and name of the file.
        findings: what is found is added to it.
        only_earlier: whether edges of the seed's very time are found, too.
    """
    assert seeds.times is not None
    batch = seeds.batch
    limits = np.full(batch.num_examples, _LATEST)
    np.minimum.at(limits, seeds.roots.examples[seeds.counts], seeds.times[seeds.counts])
    for name, feature in sorted(edge_times.items()):
        one_set = layout.set_by_prefix[f"{const.EDGES}/{name}"]
        times = _scalars(batch, one_set.key_of(feature))
        owners = np.repeat(np.arange(batch.num_examples), np.diff(item_splits(batch, one_set.prefix)))
        is_newer = times >= limits[owners] if only_earlier else times > limits[owners]
        examples = np.unique(owners[is_newer])
        if len(examples):
            places = [
                Place(
                    file=place[1],
                    record=int(batch.numbers[example]),
                    detail=f"time {times[is_newer & (owners == example)][0]}, but the seed is of {limits[example]}",
                )
                for example in examples[:MAX_PLACES]
            ]
            about = one_set.key_of(feature)
            findings.at(EDGE_NEWER, place[0], about).add(len(examples), places, int(is_newer.sum()))


def _scalars(batch: ExampleBatch, key: str) -> npt.NDArray[np.int64]:
    return batch.column(key).numbers.astype(np.int64)

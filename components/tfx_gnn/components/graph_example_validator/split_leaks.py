"""Finds what one split reveals of another, and seeds and edges that are newer than they may be.

Each example yields claims (what it is tested on: its seed, its pair) and sightings (what it reveals: its
nodes, its edges), as rows with a 64-bit hash. Rows with equal hashes are compared across all files:
an earlier split must not reveal what a later split claims. If seeds have times, no seed may be
newer than a seed of a later split, and no edge may be newer than the seed of its example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_example_validator.check_names import SEED_IN_TWO_SPLITS
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import ExampleBatch, flat_index, item_splits
from tfx_gnn.records.findings import MAX_PLACES, Findings, Place
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.readout_roots import ReadoutRoots, RootSets, node_hashes
from tfx_gnn.records.value_hashes import Hashes, Rows, first_of_equal, hash_pairs
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED
from tfx_gnn.sampling.random_choice import mix

UNSEEN_NODE_SHOWN = "unseen_node_shown"
SUPERVISION_EDGE_SHOWN = "supervision_edge_shown"
SUPERVISION_EDGE_IN_EXAMPLE = "supervision_edge_in_example"
SEED_NEWER = "seed_newer_than_later_split"
EDGE_NEWER = "edge_newer_than_seed"

_SEEDS, _NODES, _PAIRS = 0, 1, 2
_CHECKS = {_SEEDS: SEED_IN_TWO_SPLITS, _NODES: UNSEEN_NODE_SHOWN, _PAIRS: SUPERVISION_EDGE_SHOWN}
_CLAIM, _SIGHTING = 0, 1

LEAK_ROW = np.dtype(
    [("key", "<u8"), ("family", "u1"), ("role", "u1"), ("rank", "<u2"), ("shard", "<i4"), ("record", "<i8")]
)
"""A claim or a sighting of a seed, node or pair, and its place; `rank` is the position of its split."""

TIME_ROW = np.dtype([("time", "<i8"), ("rank", "<u2"), ("shard", "<i4"), ("record", "<i8")])
"""The time of a seed, and its place."""

_LATEST = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeakRules:
    """The guarantees to check.

    Attributes:
        layout: keys of the schema.
        roots: where readout nodes read from.
        splits: the splits from first to last.
        seed_edge_set: edge set whose pairs are predicted; empty if no pairs are predicted, or
            the examples do not have it.
        reverse_edge_sets: edge sets that hold the edges of `seed_edge_set` with reversed direction.
        hides_nodes: whether seeds of a later split are hidden from earlier ones.
    """

    layout: GraphLayout
    roots: RootSets
    splits: tuple[str, ...]
    seed_edge_set: str = ""
    reverse_edge_sets: tuple[str, ...] = ()
    hides_nodes: bool = False

    @property
    def shown_edge_sets(self) -> list[tuple[str, bool]]:
        """Edge sets that may reveal pairs, and whether their edges are reversed."""
        forward = [(self.seed_edge_set, False)] if self.seed_edge_set else []
        return [*forward, *((name, True) for name in self.reverse_edge_sets)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedsOfBatch:
    """The seeds of the examples in a batch.

    Attributes:
        batch: the examples.
        roots: the roots of their readout nodes.
        counts: bool [num_readouts]; which readouts count as seeds. Readouts of negative pairs and readouts
            that lack a root do not count.
        times: int64 [num_readouts], the time of each seed; None if seeds have no time.
        records: uint64 [num_examples], a hash of each record; None unless ids are missing.
    """

    batch: ExampleBatch
    roots: ReadoutRoots
    counts: npt.NDArray[np.bool_]
    times: npt.NDArray[np.int64] | None = None
    records: Hashes | None = None


def make_leak_rows(seeds: SeedsOfBatch, rules: LeakRules, split: str, shard: int) -> Rows:
    """Returns the claims and sightings of a batch's examples, as `LEAK_ROW`."""
    rank = rules.splits.index(split)
    is_last = rank == len(rules.splits) - 1
    examples = seeds.roots.examples[seeds.counts]
    nodes = {root: index[seeds.counts] for root, index in seeds.roots.nodes.items()}
    hashes: dict[str, Hashes] = {}
    if seeds.records is None:
        hashes = {name: node_hashes(seeds.batch, name, rules.layout) for name in set(rules.roots.node_sets.values())}
    ids = {root: hashes[rules.roots.node_sets[root]][index] for root, index in nodes.items() if hashes}
    parts = [(_SEEDS, _CLAIM, _identities(seeds, ids), examples)]
    if rules.hides_nodes:
        if rank:
            parts.append((_NODES, _CLAIM, ids[SEED], examples))
        if not is_last:
            node_set = rules.roots.node_sets[SEED]
            parts.append((_NODES, _SIGHTING, hashes[node_set], _owners(seeds.batch, f"{const.NODES}/{node_set}")))
    if rules.shown_edge_sets and hashes:
        if rank:
            parts.append((_PAIRS, _CLAIM, hash_pairs(ids[ROOT_SOURCE], ids[ROOT_TARGET]), examples))
        if not is_last:
            for name, is_reverse in rules.shown_edge_sets:
                first, second, owners = _pairs(seeds.batch, name, rules, is_reverse=is_reverse)
                source_hashes, target_hashes = (
                    hashes[rules.roots.node_sets[root]] for root in (ROOT_SOURCE, ROOT_TARGET)
                )
                parts.append((_PAIRS, _SIGHTING, hash_pairs(source_hashes[first], target_hashes[second]), owners))
    rows = [
        _rows(family, role, mix(keys ^ np.uint64(family)), seeds.batch.numbers[owners], rank, shard)
        for family, role, keys, owners in parts
    ]
    return reduce_leak_rows(np.concatenate(rows))


def find_supervision_in_examples(
    seeds: SeedsOfBatch, rules: LeakRules, split: str, file: str, findings: Findings
) -> None:
    """Finds pairs to be predicted that are edges of their own example."""
    whole = seeds.counts
    num_targets = item_splits(seeds.batch, f"{const.NODES}/{rules.roots.node_sets[ROOT_TARGET]}")[-1] + 1
    # Encodes a pair as one integer: `num_targets` exceeds the index of every target.
    pairs = seeds.roots.nodes[ROOT_SOURCE][whole] * num_targets + seeds.roots.nodes[ROOT_TARGET][whole]
    for name, is_reverse in rules.shown_edge_sets:
        first, second, _ = _pairs(seeds.batch, name, rules, is_reverse=is_reverse)
        is_shown = np.isin(pairs, first * num_targets + second)
        examples = np.unique(seeds.roots.examples[whole][is_shown])
        if len(examples):
            detail = f"its pair is an edge of {name!r}" + (", the other way round" if is_reverse else "")
            places = [
                Place(file=file, record=int(seeds.batch.numbers[example]), detail=detail)
                for example in examples[:MAX_PLACES]
            ]
            finding = findings.at(SUPERVISION_EDGE_IN_EXAMPLE, split, f"{const.EDGES}/{name}")
            finding.add(len(examples), places, int(is_shown.sum()))


def reduce_leak_rows(rows: Rows) -> Rows:
    """Keeps the first place of each claim and of each sighting, by split."""
    return first_of_equal(rows, ("family", "key", "role", "rank"), ("shard", "record"))


def compare_leak_rows(rows: Rows, rules: LeakRules, files: Mapping[tuple[str, int], str]) -> Findings:
    """Finds what a later split claims and an earlier split reveals.

    `rows` are all rows with some hashes, reduced. Each finding counts distinct seeds, nodes or pairs.
    """
    findings = Findings()
    for family, check in _CHECKS.items():
        of_family = rows[rows["family"] == family]
        claims = of_family[of_family["role"] == _CLAIM]
        shown = claims if family == _SEEDS else of_family[of_family["role"] == _SIGHTING]
        for later in range(1, len(rules.splits)):
            claimed = claims[claims["rank"] == later]
            for earlier in range(later):
                seen = shown[shown["rank"] == earlier]
                _, mine, theirs = np.intersect1d(claimed["key"], seen["key"], assume_unique=True, return_indices=True)
                if len(mine):
                    names = (rules.splits[earlier], rules.splits[later])
                    about = f"{_subject(family, rules)} of split {names[1]!r}"
                    places = _places(seen[theirs], claimed[mine], names, files)
                    findings.at(check, names[0], about).add(len(mine), places)
    return findings


def _identities(seeds: SeedsOfBatch, ids: Mapping[str, Hashes]) -> Hashes:
    """uint64 [num_counted]: identity of each seed: its ids and its time or, if ids are missing, its whole record."""
    if seeds.records is not None:
        return seeds.records[seeds.roots.examples[seeds.counts]]
    keys = np.zeros(int(seeds.counts.sum()), np.uint64)
    for root in sorted(ids):
        keys = mix(mix(keys) ^ ids[root])
    if seeds.times is not None:
        keys = mix(mix(keys) ^ seeds.times[seeds.counts].astype(np.uint64))
    return keys


def _owners(batch: ExampleBatch, prefix: str) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(batch.num_examples), np.diff(item_splits(batch, prefix)))


def _pairs(
    batch: ExampleBatch, name: str, rules: LeakRules, *, is_reverse: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Edge ends in the direction of the seed edge set, and the edges' examples; int64 [num_edges] each."""
    edges = rules.layout.set_by_prefix[f"{const.EDGES}/{name}"]
    source = flat_index(batch, edges.source_key, edges.source)
    target = flat_index(batch, edges.target_key, edges.target)
    owners = _owners(batch, edges.prefix)
    return (target, source, owners) if is_reverse else (source, target, owners)


def _rows(  # noqa: PLR0917 - one argument per field.
    family: int, role: int, keys: Hashes, records: npt.NDArray[np.int64], rank: int, shard: int
) -> Rows:
    rows = np.zeros(len(keys), LEAK_ROW)
    rows["key"], rows["family"], rows["role"] = keys, family, role
    rows["rank"], rows["shard"], rows["record"] = rank, shard, records
    return rows


def _subject(family: int, rules: LeakRules) -> str:
    if family == _PAIRS:
        return f"{const.EDGES}/{rules.shown_edge_sets[0][0]}"
    return "seeds" if family == _SEEDS else f"{const.NODES}/{rules.roots.node_sets[SEED]}"


def _places(seen: Rows, claimed: Rows, names: Sequence[str], files: Mapping[tuple[str, int], str]) -> list[Place]:
    order = np.lexsort([claimed["record"], claimed["shard"], seen["record"], seen["shard"]])[:MAX_PLACES]
    places = []
    for there, here in zip(seen[order], claimed[order], strict=True):
        other = files[names[1], int(here["shard"])]
        detail = f"contains the seed of record {int(here['record'])} of {other} (split {names[1]!r})"
        places.append(Place(file=files[names[0], int(there["shard"])], record=int(there["record"]), detail=detail))
    return places


def make_time_rows(seeds: SeedsOfBatch, rank: int, shard: int) -> Rows:
    """Returns the times of the seeds of a batch, as `TIME_ROW`."""
    assert seeds.times is not None
    rows = np.zeros(int(seeds.counts.sum()), TIME_ROW)
    rows["time"] = seeds.times[seeds.counts]
    rows["rank"], rows["shard"] = rank, shard
    rows["record"] = seeds.batch.numbers[seeds.roots.examples[seeds.counts]]
    return rows


def find_newer_seeds(
    rows: Rows, earliest: Mapping[int, int], rules: LeakRules, files: Mapping[tuple[str, int], str], about: str
) -> Findings:
    """Finds seeds in rows of one split and file that are newer than the earliest seed of a later split.

    `earliest` maps the position of a split to the time of its earliest seed.
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

    With `only_earlier`, edges with the same time as the seed are found, too. `place` is the split and the file's name.
    """
    assert seeds.times is not None
    batch = seeds.batch
    limits = np.full(batch.num_examples, _LATEST)
    np.minimum.at(limits, seeds.roots.examples[seeds.counts], seeds.times[seeds.counts])
    for name, feature in sorted(edge_times.items()):
        one_set = layout.set_by_prefix[f"{const.EDGES}/{name}"]
        times = batch.column(one_set.key_of(feature)).numbers.astype(np.int64)
        owners = _owners(batch, one_set.prefix)
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

"""SizeConstraintLearner: how large is a batch of graphs at most?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph import schema as graph_schema_io
from tfx_gnn.graph.size_constraints import tight_size_constraints_from_maxima
from tfx_gnn.stages import examples_folder, options_json
from tfx_gnn.stages.atomic_folder import atomic_folder
from tfx_gnn.stages.graph_layout import GraphLayout, graph_layout
from tfx_gnn.stages.record_files import RecordFile, place_of, record_files
from tfx_gnn.stages.size_constraints_file import (
    TIGHT,
    Budget,
    SetSizes,
    SizeConstraintsFile,
    SplitSizes,
    fingerprint_examples,
    fingerprint_graph_schema,
    write_size_constraints,
)
from tfx_gnn.stages.summary_pass import summarize_files

_READ_BATCH = 1024
_READOUT_PREFIX = "_readout"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeConstraintLearnerOptions:
    """What to learn.

    Attributes:
        batch_size: graphs of a batch, at least 1.
        extra_batch_sizes: further batch sizes to learn budgets for.
        success_ratios: shares of random batches that fit, in (0, 1): one fit-or-skip budget for each.
        splits: splits to learn from; empty for all. Graphs of other splits may not fit the budgets.
        train_split: split that is trained on, one of `splits`. Fit-or-skip and packing budgets are shaped
            after it.
        window: look-ahead of `pack_batches` that packing budgets are chosen for, at least 1.
        label_feature: feature of `_readout` with the class, an integer or a string, by which losses of
            fit-or-skip budgets are told; empty for none.
        class_vocabulary: vocabulary of the transform graph that names the classes; empty if there is none.
        warn_slice_loss: share in [0, 1]; a label class or degree bucket that loses more is warned of.
        max_slice_loss: share in [0, 1]; one that loses more is refused.
        seed: seed of the draws, in [0, 2**31). Equal data, options and seeds give equal budgets.
    """

    batch_size: int = 32
    extra_batch_sizes: tuple[int, ...] = ()
    success_ratios: tuple[float, ...] = (0.99,)
    splits: tuple[str, ...] = ()
    train_split: str = "train"
    window: int = 128
    label_feature: str = ""
    class_vocabulary: str = ""
    warn_slice_loss: float = 0.05
    max_slice_loss: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, number in (("batch_size", self.batch_size), ("window", self.window)):
            if number < 1:
                raise ValueError(f"`{name}` must be at least 1; got {number}. Give a number of graphs.")
        if min(self.extra_batch_sizes, default=1) < 1 or len(set(self.batch_sizes)) < len(self.batch_sizes):
            raise ValueError(
                "`extra_batch_sizes` must be different numbers of graphs, at least 1, other than `batch_size`; got "
                f"{self.extra_batch_sizes} beside {self.batch_size}. Leave out what is repeated."
            )
        ratios = self.success_ratios
        if any(not 0 < ratio < 1 for ratio in ratios) or len(set(ratios)) < len(ratios):
            raise ValueError(
                f"`success_ratios` must be different shares above 0 and below 1; got {ratios}. For batches that all "
                "fit, take the tight budget or packing."
            )
        if not self.train_split or (self.splits and self.train_split not in self.splits):
            raise ValueError(
                f"`train_split` must be one of `splits`; got {self.train_split!r}, not among {list(self.splits)}. "
                "Name the split that is trained on in both."
            )
        for name, share in (("warn_slice_loss", self.warn_slice_loss), ("max_slice_loss", self.max_slice_loss)):
            if not 0 <= share <= 1:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {share}. Give a share of graphs.")
        if self.class_vocabulary and not self.label_feature:
            raise ValueError(
                f"`class_vocabulary` must come with `label_feature`; got {self.class_vocabulary!r} alone. Name the "
                "feature of `_readout` that holds the class."
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"`seed` must lie in [0, 2**31); got {self.seed}. Choose another number.")

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """All batch sizes that budgets are learned for."""
        return (self.batch_size, *self.extra_batch_sizes)


def learn_size_constraints(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    size_constraints_dir: str,
    options: SizeConstraintLearnerOptions,
    beam_args: Sequence[str] = (),
) -> SizeConstraintsFile:
    """Learns padding budgets from the sizes of graphs, in one pass by Apache Beam that reads nothing else.

    The budget "tight" fits every batch of `batch_size` graphs: that many times the largest size of
    each set, and room for the padding component, as `find_tight_size_constraints` has it. If each
    graph has a readout node, so has each padding component.

    Args:
        examples_dir: graph tf.Examples that will be trained on, that is, transformed ones.
        graph_schema_dir: folder of their `graph_schema.pbtxt`.
        size_constraints_dir: absent or empty folder for `size_constraints.json`.
        options: what to learn.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        What was written.

    Raises:
        ValueError: if a split is missing or empty, or an example holds more than one graph component.
    """
    files = record_files(examples_dir, options.splits)
    layout = graph_layout(graph_schema_io.read_schema(examples_folder.graph_schema_path(graph_schema_dir)))
    with atomic_folder(size_constraints_dir) as partial:
        with_sizes = [one_set for one_set in layout.sets if one_set.set_type != const.CONTEXT]
        summaries = {
            split: summarize_files(
                [file for file in files if file.split == split],
                summarize=_SummarizeSizes({one_set.prefix: one_set.size_key for one_set in with_sizes}),
                merge=merge_size_summaries,
                kind=SizeSummary,
                scratch_dir=partial,
                beam_args=beam_args,
            )
            for split in sorted({file.split for file in files})
        }
        summary = merge_size_summaries(summaries.values())
        if summary.problem:
            raise ValueError(summary.problem)
        if not summary.num_graphs:
            raise ValueError(
                f"`examples_dir` must hold at least one example; got none in {len(files)} files of {examples_dir!r}. "
                "Make the examples again."
            )
        content = SizeConstraintsFile(
            data_fingerprint=fingerprint_examples(examples_dir, options.splits),
            graph_schema_fingerprint=fingerprint_graph_schema(graph_schema_dir),
            options=json.loads(options_json.to_json(options)),
            splits={split: _split_sizes(part, layout) for split, part in summaries.items()},
            budgets={
                budget.name: budget
                for budget in (_tight_budget(summary, layout, batch_size) for batch_size in options.batch_sizes)
            },
        )
        write_size_constraints(content, partial)
    return content


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeSummary:
    """Sizes of the graphs of a part of the data.

    Attributes:
        num_graphs: graphs seen.
        totals: items of all graphs, by prefix of the set.
        minima: smallest size of a graph.
        maxima: largest size of a graph.
        problem: message for the first file that could not be read; empty if all could.
    """

    num_graphs: int = 0
    totals: dict[str, int] = dataclasses.field(default_factory=dict)
    minima: dict[str, int] = dataclasses.field(default_factory=dict)
    maxima: dict[str, int] = dataclasses.field(default_factory=dict)
    problem: str = ""


def merge_size_summaries(summaries: Iterable[SizeSummary]) -> SizeSummary:
    """Adds up summaries of disjoint parts, in any order."""
    merged = SizeSummary()
    for part in summaries:
        merged = SizeSummary(
            num_graphs=merged.num_graphs + part.num_graphs,
            totals={
                key: merged.totals.get(key, 0) + part.totals.get(key, 0) for key in {**merged.totals, **part.totals}
            },
            minima={
                key: min(one[key] for one in (merged.minima, part.minima) if key in one)
                for key in {**merged.minima, **part.minima}
            },
            maxima={
                key: max(one[key] for one in (merged.maxima, part.maxima) if key in one)
                for key in {**merged.maxima, **part.maxima}
            },
            problem=min(filter(None, (merged.problem, part.problem)), default=""),
        )
    return merged


@dataclasses.dataclass(frozen=True)
class _SummarizeSizes:
    """The sizes of the graphs of a file."""

    size_keys: dict[str, str]
    """Key of `#size` by prefix of the set."""

    def __call__(self, file: RecordFile) -> SizeSummary:
        # A set without `#size` is empty. Of the other keys the parser skips even the bytes.
        spec = {key: tf.io.FixedLenFeature([], tf.int64, default_value=0) for key in self.size_keys.values()}
        batches = (
            tf.data.TFRecordDataset(file.path, compression_type="GZIP")
            .batch(_READ_BATCH)
            .map(lambda records: (tf.size(records), tf.io.parse_example(records, spec)))
        )
        try:
            return merge_size_summaries(self._summary(*batch) for batch in batches.as_numpy_iterator())
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            return SizeSummary(
                problem="`examples_dir` must hold gzipped TFRecords of tf.Examples with one `#size` a set; got "
                f"others in {place_of(file)}. Check them by GraphSchemaGen. Cause: {error.message}"
            )

    def _summary(self, num_graphs: int, sizes: dict[str, npt.NDArray[np.int64]]) -> SizeSummary:
        by_prefix = {prefix: sizes[key] for prefix, key in self.size_keys.items()}
        return SizeSummary(
            num_graphs=int(num_graphs),
            totals={prefix: int(value.sum()) for prefix, value in by_prefix.items()},
            minima={prefix: int(value.min()) for prefix, value in by_prefix.items()},
            maxima={prefix: int(value.max()) for prefix, value in by_prefix.items()},
        )


def _split_sizes(summary: SizeSummary, layout: GraphLayout) -> SplitSizes:
    return SplitSizes(
        num_graphs=summary.num_graphs,
        node_sets=_set_sizes(summary, layout, const.NODES),
        edge_sets=_set_sizes(summary, layout, const.EDGES),
    )


def _set_sizes(summary: SizeSummary, layout: GraphLayout, set_type: str) -> dict[str, SetSizes]:
    return {
        one_set.name: SetSizes(
            total=summary.totals.get(one_set.prefix, 0),
            mean=summary.totals.get(one_set.prefix, 0) / max(summary.num_graphs, 1),
            minimum=summary.minima.get(one_set.prefix, 0),
            maximum=summary.maxima.get(one_set.prefix, 0),
            quantiles={},
            histogram_bounds=(),
            histogram_counts=(),
        )
        for one_set in layout.sets
        if one_set.set_type == set_type
    }


def _tight_budget(summary: SizeSummary, layout: GraphLayout, batch_size: int) -> Budget:
    node_sets = [one_set for one_set in layout.sets if one_set.set_type == const.NODES]
    edge_sets = [one_set for one_set in layout.sets if one_set.set_type == const.EDGES]
    # A mask over components is a mask over readouts only if padding components have readouts too.
    readouts = {
        one_set.name: 1
        for one_set in node_sets
        if one_set.name.startswith(_READOUT_PREFIX) and summary.minima[one_set.prefix] > 0
    }
    constraints = tight_size_constraints_from_maxima(
        max_num_nodes={one_set.name: summary.maxima[one_set.prefix] for one_set in node_sets},
        max_num_edges={one_set.name: summary.maxima[one_set.prefix] for one_set in edge_sets},
        incident_node_sets={one_set.name: (one_set.source, one_set.target) for one_set in edge_sets},
        batch_size=batch_size,
        min_nodes_per_component=readouts,
    )
    totals = {f"{const.NODES}/{name}": size for name, size in constraints.total_num_nodes.items()}
    totals.update({f"{const.EDGES}/{name}": size for name, size in constraints.total_num_edges.items()})
    means = {prefix: batch_size * summary.totals[prefix] / summary.num_graphs for prefix in totals}
    return Budget(
        kind=TIGHT,
        batch_size=batch_size,
        graphs_per_batch=float(batch_size),
        fill=sum(means.values()) / max(sum(totals.values()), 1),
        fill_by_set={prefix: means[prefix] / max(size, 1) for prefix, size in totals.items()},
        bytes_per_batch=0,
        total_num_components=int(constraints.total_num_components),
        total_num_nodes={name: int(size) for name, size in constraints.total_num_nodes.items()},
        total_num_edges={name: int(size) for name, size in constraints.total_num_edges.items()},
        min_nodes_per_component=dict(readouts),
    )

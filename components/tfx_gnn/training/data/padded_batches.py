"""Padded batches from serialized tf.Examples: packed, fit-or-skip, tight or of trees.

- "packed": `pack_batches` fills the budget with as many graphs as fit. No graph is removed.
- "fit_or_skip": batches of a fixed number of graphs; batches that do not fit are removed and counted.
- "tight": batches of a fixed number of graphs, and a budget that every batch fits.
- "ego": batches of a fixed number of sampled trees of fixed size (`tfx_gnn.graph.batching.ego_batches`).

Sizes are read before anything is parsed, so removed batches cost little. Training and the writer of
precomputed batches both use `padded_batches`, so their batches are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import EgoTrees, ego_batch
from tfx_gnn.graph.batching.size_constraints import SizeConstraints, SizeRule
from tfx_gnn.graph.codec.batch_packing import ExampleItems, pack_batches
from tfx_gnn.graph.codec.example_parsing import parse_and_merge, parse_merge_and_pad
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.size_constraints_file import (
    FIT_OR_SKIP,
    PACKING,
    TIGHT,
    Budget,
    SizeConstraintsFile,
    fingerprint_examples,
    fingerprint_graph_schema,
    read_size_constraints,
)
from tfx_gnn.training.data.batching_names import BUDGET_BATCHINGS, EGO

BUDGET_KINDS: dict[str, str] = dict(zip(BUDGET_BATCHINGS, (PACKING, FIT_OR_SKIP, TIGHT), strict=True))
"""Ways of batching that pad to a learned budget, and the kind of budget that each takes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EgoBudget:
    """The size of a batch of sampled trees; takes the place of a learned `Budget`.

    Attributes:
        batch_size: examples in a batch; those that are missing in the last batch are padding.
        trees: form of the trees.
        kind: "ego".
        graphs_per_batch: expected number of graphs in a batch.
    """

    batch_size: int
    trees: EgoTrees
    kind: str = EGO

    @property
    def graphs_per_batch(self) -> float:
        """Expected number of graphs in a batch."""
        return float(self.batch_size)

    @property
    def constraints(self) -> SizeConstraints:
        """The sizes of every batch."""
        return self.trees.sizes(self.batch_size)


BatchBudget = Union[Budget, EgoBudget]


def read_matching_size_constraints(
    size_constraints_dir: str,
    *,
    transformed_examples_dir: str,
    transformed_graph_schema_dir: str,
    splits: Collection[str],
) -> SizeConstraintsFile:
    """Reads budgets, and refuses those learned from other examples or not from all of the splits."""
    content = read_size_constraints(size_constraints_dir)
    content.check_matches(
        data_fingerprint=fingerprint_examples(transformed_examples_dir, tuple(content.options["splits"])),
        graph_schema_fingerprint=fingerprint_graph_schema(transformed_graph_schema_dir),
    )
    content.check_covers(splits)
    return content


class PaddedBatch(NamedTuple):
    """One element of a dataset of padded batches.

    The two counters, summed over the batches of a pass, are what that pass removed: each batch counts what was
    removed between it and the next batch that was kept, and the first batch also what was removed before it.

    Attributes:
        graph: scalar graph padded to the budget, with static shapes.
        is_real: bool [total_num_components]; False for padding.
        num_removed_batches: int64 scalar.
        num_removed_graphs: int64 scalar.
    """

    graph: GraphTensor
    is_real: tf.Tensor
    num_removed_batches: tf.Tensor
    num_removed_graphs: tf.Tensor


def padded_batches(
    records: tf.data.Dataset,
    spec: GraphTensorSpec,
    budget: BatchBudget,
    batching: str,
    *,
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Batches, parses, merges and pads graphs.

    Args:
        records: serialized tf.Examples, strings of shape [], one graph each. Shuffle these, not the parsed
            graphs: they are smaller.
        spec: spec of the scalar graph in one tf.Example.
        budget: what a batch is padded to, of the kind in `BUDGET_KINDS` for `batching`, or that of trees.
        batching: "packed", "fit_or_skip" or "tight"; without meaning for trees.
        keep: maps the number of a batch in its pass, int64 scalar from 0, to whether the batch is wanted.
            Other batches are never parsed, and their counters of removed batches and graphs are lost.

    Returns:
        Dataset of `PaddedBatch`; features that hold indices of nodes still count from the first node of their example,
        until `LabelledGraphs` shifts them. In the same order in each pass if `records` is. All shapes are static,
        except those of ragged features. With a fixed number of graphs, the last batch may have fewer.

    Raises:
        ValueError: if `batching` is unknown, or the budget is of another kind or lacks a set.
        tf.errors.InvalidArgumentError: at run time, if a graph does not fit even alone (packed), a batch
            does not fit (tight), or no batch fits at all (fit-or-skip).
    """
    if isinstance(budget, EgoBudget):
        batches = records.batch(budget.batch_size)
    else:
        batches = _batches_of_budget(records, spec, budget, batching)
    if keep is not None:
        batches = numbered_batches(batches, keep)
    padded = batches.map(_pad_to(spec, budget), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return padded.prefetch(tf.data.AUTOTUNE)


def _batches_of_budget(
    records: tf.data.Dataset, spec: GraphTensorSpec, budget: Budget, batching: str
) -> tf.data.Dataset:
    kind = BUDGET_KINDS.get(batching)
    if kind is None:
        raise ValueError(
            f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {batching!r}. "
            f"{did_you_mean(batching, BUDGET_KINDS, otherwise='Choose one of these.')}"
        )
    if budget.kind != kind:
        raise ValueError(
            f"`budget` must be of kind {kind!r} for batching={batching!r}; got {budget.kind!r}. Take the budget from "
            f"the size constraints by `find({kind!r})`."
        )
    if kind == PACKING:
        return pack_batches(records, budget.batch_constraints, window=budget.window, spec=spec)
    batches = records.batch(budget.batch_size)
    return _fitting(batches, spec, budget) if kind == FIT_OR_SKIP else batches


class EpochOffset:
    """Number of an epoch, and of its first batch that is wanted.

    A dataset built with `epochs()` and `keep` reads both when an iteration starts.
    """

    def __init__(self, epoch: int = 0) -> None:
        # On the CPU, where tf.data runs, whatever device the model is on.
        with tf.device("/CPU:0"):
            self._epoch = tf.Variable(epoch, dtype=tf.int64, trainable=False, name="epoch")
            self._first_batch = tf.Variable(0, dtype=tf.int64, trainable=False, name="first_batch")

    def set(self, epoch: int, first_batch: int = 0) -> None:
        """Sets the epoch, from 0, and how many of its first batches the next iteration skips."""
        self._epoch.assign(epoch)
        self._first_batch.assign(first_batch)

    def epochs(self) -> tf.data.Dataset:
        """Returns a dataset with one element, the number of the epoch; int64 scalar."""
        read = tf.autograph.experimental.do_not_convert(lambda _: self._epoch.read_value())
        return tf.data.Dataset.from_tensors(0).map(read)

    def epochs_until(self, end: int) -> tf.data.Dataset:
        """Returns a dataset of the numbers from this epoch to the one before `end`, int64 scalars."""
        following = tf.autograph.experimental.do_not_convert(lambda epoch: tf.data.Dataset.range(epoch, end))
        return self.epochs().flat_map(following)

    def keep(self, number: tf.Tensor) -> tf.Tensor:
        """Returns whether a batch is wanted, given its number in the epoch, int64 scalar."""
        return number >= self._first_batch

    def keep_in_epoch(self, epoch: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Like `keep`, for an iteration over several epochs: all batches after the first epoch are wanted."""
        return tf.logical_or(epoch > self._epoch, self.keep(number))


def numbered_batches(batches: tf.data.Dataset, keep: Callable[[tf.Tensor], tf.Tensor]) -> tf.data.Dataset:
    """Keeps the elements of a dataset whose numbers are wanted; `keep` is as for `padded_batches`."""
    as_written = tf.autograph.experimental.do_not_convert
    numbered = batches.enumerate().filter(as_written(lambda number, _: keep(number)))
    return numbered.map(as_written(lambda _, batch: batch))


def empty_batches(spec: GraphTensorSpec, budget: BatchBudget) -> tf.data.Dataset:
    """Repeats a batch of nothing but padding endlessly; its `element_spec` is that of `padded_batches`."""
    batch = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string)).map(_pad_to(spec, budget))
    return batch.cache().repeat()


def ended_batches(
    batches: tf.data.Dataset, spec: GraphTensorSpec, budget: BatchBudget, *, num_replicas: int
) -> tf.data.Dataset:
    """Marks the end of a pass for replicas that take its `PaddedBatch`es in turns, by a last step of only padding.

    Replicas without a batch in the last step with data also get padding there.
    """
    # At most n - 1 to fill up the last step with data, then n for the step of padding.
    most = 2 * num_replicas - 1
    padding = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string)).repeat(most).map(_pad_to(spec, budget))
    if num_replicas == 1:
        return batches.concatenate(padding)
    as_written = tf.autograph.experimental.do_not_convert

    def step(state: tuple[tf.Tensor, tf.Tensor], element: Any) -> Any:
        (num_real, number), (batch, is_real) = state, element
        num_real += tf.cast(is_real, tf.int64)
        num_steps = (num_real + num_replicas - 1) // num_replicas + 1
        return (num_real, number + 1), (batch, number < num_steps * num_replicas)

    def marked(dataset: tf.data.Dataset, *, is_real: bool) -> tf.data.Dataset:
        return dataset.map(as_written(lambda batch: (batch, is_real)))

    zero = tf.zeros([], tf.int64)
    counted = (
        marked(batches, is_real=True).concatenate(marked(padding, is_real=False)).scan((zero, zero), as_written(step))
    )
    wanted = counted.take_while(as_written(lambda _, is_wanted: is_wanted))
    return wanted.map(as_written(lambda batch, _: batch))


def padded_batch(spec: GraphTensorSpec, serialized: tf.Tensor, budget: BatchBudget) -> tuple[GraphTensor, tf.Tensor]:
    """Parses, merges and pads one batch; returns the graph and which components are real, as in `PaddedBatch`."""
    if isinstance(budget, EgoBudget):
        trees = budget.trees
        indices = {const.CONTEXT: {hop.feature: hop.node_set for hop in trees.hops}}
        graph = parse_and_merge(spec, serialized, index_features=indices)
        return ego_batch(graph, trees, budget.batch_size)
    return parse_merge_and_pad(spec, serialized, budget.constraints)


def padded_batch_spec(spec: GraphTensorSpec, budget: Budget) -> PaddedBatch:
    """Returns the `element_spec` of `padded_batches`, which needs no records."""
    pad = tf.function(_pad_to(spec, budget), input_signature=[tf.TensorSpec([None], tf.string)])
    described: PaddedBatch = tf.nest.map_structure(
        tf.type_spec_from_value, pad.get_concrete_function().structured_outputs
    )
    return described


def _pad_to(spec: GraphTensorSpec, budget: BatchBudget) -> Callable[..., PaddedBatch]:
    """Returns a function that pads a batch; no examples give a batch of padding."""

    def pad(serialized: tf.Tensor, *removed: tf.Tensor) -> PaddedBatch:
        graph, is_real = padded_batch(spec, serialized, budget)
        num_batches, num_graphs = removed or (tf.zeros([], tf.int64), tf.zeros([], tf.int64))
        return PaddedBatch(graph, is_real, num_batches, num_graphs)

    # Nothing here needs AutoGraph, which would take seconds to rewrite all of it.
    as_written: Callable[..., PaddedBatch] = tf.autograph.experimental.do_not_convert(pad)
    return as_written


def _fitting(batches: tf.data.Dataset, spec: GraphTensorSpec, budget: Budget) -> tf.data.Dataset:
    """Removes batches that do not fit, and lets the other batches carry the number of removed ones.

    Elements are (strings [num_graphs], number of batches removed, number of graphs removed). A batch is held back
    until the next one that fits, or the end: only then is it known what was removed after it.
    """
    rule = SizeRule.from_constraints(spec, budget.batch_constraints)
    # Components that are too small are not removed here: padding rejects them.
    items = ExampleItems(spec, prefix=None, demands={})
    zero, no_records = tf.zeros([], tf.int64), tf.zeros([0], tf.string)
    as_written = tf.autograph.experimental.do_not_convert

    def measure(serialized: tf.Tensor) -> Any:
        totals = tf.reduce_sum(items.sizes((serialized,))[0], axis=0)
        return serialized, rule.fits(totals[0], totals[1:]), tf.zeros([], tf.bool)

    def step(state: Any, element: Any) -> Any:
        held, is_held, num_batches, num_graphs = state
        serialized, fits, is_end = element
        removed = tf.stack([tf.ones([], tf.int64), tf.size(serialized, tf.int64)])
        removed = tf.where(fits | is_end, tf.zeros_like(removed), removed)
        num_batches, num_graphs = num_batches + removed[0], num_graphs + removed[1]
        none_fits = tf.debugging.Assert(
            tf.logical_not(is_end) | is_held | tf.equal(num_batches, 0),
            [
                "`budget` must have room for a batch; got no batch that fits, removed batches and graphs:",
                num_batches,
                num_graphs,
                "Learn budgets from these examples.",
            ],
        )
        with tf.control_dependencies([none_fits]):
            leaves = is_held & (fits | is_end)
        kept = tf.cond(fits, lambda: serialized, lambda: held)
        after = (
            tf.ensure_shape(kept, [None]),
            is_held | fits,
            tf.where(leaves, zero, num_batches),
            tf.where(leaves, zero, num_graphs),
        )
        return after, (leaves, (held, num_batches, num_graphs))

    end = tf.data.Dataset.from_tensors((no_records, tf.zeros([], tf.bool), tf.ones([], tf.bool)))
    measured = batches.map(as_written(measure), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    start = (no_records, tf.zeros([], tf.bool), zero, zero)
    carried = measured.concatenate(end).scan(start, as_written(step))
    return carried.filter(as_written(lambda leaves, _: leaves)).map(as_written(lambda _, kept: kept))

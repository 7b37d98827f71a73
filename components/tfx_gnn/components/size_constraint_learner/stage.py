"""SizeConstraintLearner: learns padding budgets (TF-GNN's `SizeConstraints`) from the sizes of graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import numpy as np

from tfx_gnn.components.size_constraint_learner.budgets import (
    SizesOfSplits,
    describe_split,
    learn_tight_budget,
    with_padded_node_sets,
)
from tfx_gnn.components.size_constraint_learner.fit_or_skip_budget import check_losses, learn_fit_or_skip_budgets
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.packing_budget import learn_packing_budget
from tfx_gnn.components.size_constraint_learner.size_pass import SliceKeys, summarize_sizes
from tfx_gnn.components.size_constraint_learner.size_report import write_size_report
from tfx_gnn.components.size_constraint_learner.size_summary import SAMPLE_SIZE, SizeColumns, SizeSummary
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import reading_progress, record_files
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SizeConstraintsFile,
    fingerprint_examples,
    fingerprint_graph_schema,
    write_size_constraints,
)
from tfx_gnn.records.warning_kinds import SIZES_FROM_SAMPLE
from tfx_gnn.reports.report_page import REPORT_FILE

#: Largest batch size allowed even if the training split has fewer graphs: tasks are often tried on a few graphs first.
_ALWAYS_LEARNED = 1024


def learn_size_constraints(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    size_constraints_dir: str,
    transform_graph_dir: str = "",
    options: SizeConstraintLearnerOptions,
    beam_args: Sequence[str] = (),
    only_tight: bool = False,
) -> SizeConstraintsFile:
    """Learns padding budgets (TF-GNN's `SizeConstraints`) from the sizes of graphs, in a single pass by Apache Beam.

    From each example, the pass reads the `#size` values. With `label_feature` it also reads that feature and,
    for the degree of the seed, the edge ends in the seed's node set and the seed's position. No
    other feature is read. For each batch size, these budgets are learned:

    *   "tight": every batch of that many graphs fits, from any split. For evaluation.
    *   "fit_or_skip", for each success ratio: that fraction of random batches of the training split fits,
        with the least padded work.
    *   "packing": the least padded work per real graph when `pack_batches` fills batches with graphs of
        the training split. Every single graph of every split fits.

    All budgets have room for padding components, as `pad_to_total_sizes` requires. If each graph has readouts,
    each padding component has readouts, too, and as many edges that lead to them.

    Args:
        examples_dir: graph tf.Examples to be used for training, that is, transformed ones.
        graph_schema_dir: folder with the `graph_schema.pbtxt` of the examples.
        size_constraints_dir: absent or empty folder for `size_constraints.json` and `report.html`.
        transform_graph_dir: the transform that made the examples; needed only for `class_vocabulary`.
        options: what to learn.
        beam_args: command-line arguments of Apache Beam.
        only_tight: whether to learn nothing but tight budgets, which takes less time.

    Returns:
        The contents of `size_constraints.json`.

    Raises:
        ValueError: if a split is missing or empty, a batch is larger than the training split, an example
            holds more than one graph component, all sets of the schema are empty in the examples,
            `label_feature` is not a class, the vocabulary is missing, or a slice loses more than
            `max_slice_loss`.
    """
    files = record_files(examples_dir, options.splits)
    schema = graph_schema_io.read_schema(examples_folder.graph_schema_path(graph_schema_dir))
    spec = create_graph_spec_from_schema_pb(schema)
    columns = SizeColumns.of(spec, index_features(schema))
    slice_keys = SliceKeys.of(spec, options.label_feature)
    class_names = _class_names(transform_graph_dir, options.class_vocabulary)
    with atomic_folder(size_constraints_dir, name="size_constraints_dir") as partial:
        with reading_progress("measuring sizes", files):
            summary = summarize_sizes(files, columns, slice_keys, scratch_dir=partial, beam_args=beam_args)
        _check_summary(summary, examples_dir, options)
        _check_schema(summary, columns, examples_dir, graph_schema_dir)
        sizes = SizesOfSplits(
            spec=spec,
            columns=columns,
            summaries=summary.splits,
            train_split=options.train_split,
            seed=options.seed,
        )
        budgets, warnings = _learn_budgets(sizes, options, class_names, only_tight=only_tight)
        losses = check_losses(budgets, warn_slice_loss=options.warn_slice_loss, max_slice_loss=options.max_slice_loss)
        content = SizeConstraintsFile(
            data_fingerprint=fingerprint_examples(examples_dir, options.splits),
            graph_schema_fingerprint=fingerprint_graph_schema(graph_schema_dir),
            options=json.loads(options_json.to_json(options)),
            splits={split: describe_split(part, columns) for split, part in summary.splits.items()},
            budgets=budgets,
            warnings=(*losses, *warnings),
        )
        write_size_constraints(content, partial)
        write_size_report(content, os.path.join(partial, REPORT_FILE))
    return content


def _learn_budgets(
    sizes: SizesOfSplits, options: SizeConstraintLearnerOptions, class_names: Sequence[str], *, only_tight: bool
) -> tuple[dict[str, Budget], list[str]]:
    budgets: list[Budget] = []
    warnings: list[str] = []
    if sizes.train.rows is None:
        warnings.append(
            SIZES_FROM_SAMPLE.mark(
                f"Split {options.train_split!r} has too many different graphs to count each: fit-or-skip and packing "
                f"budgets are learned from {SAMPLE_SIZE} of its {sizes.train.num_graphs} graphs."
            )
        )
    for batch_size in options.batch_sizes:
        budgets.append(learn_tight_budget(sizes, batch_size))
        if only_tight:
            continue
        skipping, doubts = learn_fit_or_skip_budgets(
            sizes,
            batch_size,
            options.success_ratios,
            with_losses=bool(options.label_feature),
            class_names=class_names,
        )
        packed, surprises = learn_packing_budget(sizes, batch_size, options.window)
        budgets += [*skipping, packed]
        warnings += [*doubts, *surprises]
    return {budget.name: with_padded_node_sets(budget, sizes.room) for budget in budgets}, warnings


def _check_summary(summary: SizeSummary, examples_dir: str, options: SizeConstraintLearnerOptions) -> None:
    if summary.problem:
        raise ValueError(summary.problem)
    if not summary.splits:
        raise ValueError(
            f"`examples_dir` must hold at least one example; got none in {examples_dir!r}. Make the examples again."
        )
    if options.train_split not in summary.splits:
        raise ValueError(
            f"`train_split` must be a split with examples; got {options.train_split!r}, but only "
            f"{sorted(summary.splits)} have any. Name the split used for training."
        )
    check_batch_sizes(options, summary.splits[options.train_split].num_graphs)


def check_batch_sizes(options: SizeConstraintLearnerOptions, num_graphs: int) -> None:
    """Refuses batches that are larger than the training split, which has `num_graphs` graphs."""
    largest = max(options.batch_sizes)
    if largest > max(num_graphs, _ALWAYS_LEARNED):
        raise ValueError(
            f"`batch_size` must be at most the number of graphs of split {options.train_split!r}, {num_graphs}; got "
            f"{largest}. An epoch would be less than one batch: choose a smaller batch size."
        )


def _check_schema(summary: SizeSummary, columns: SizeColumns, examples_dir: str, graph_schema_dir: str) -> None:
    """Refuses a schema that belongs to other examples: sets that the examples lack have no `#size`, so look empty."""
    maxima = np.max([split.maxima for split in summary.splits.values()], axis=0)
    is_sampled = np.asarray([not name.startswith(READOUT_NODE_SET) for _, name in columns.sets], bool)
    if is_sampled.any() and not maxima[is_sampled].any():
        raise ValueError(
            f"`graph_schema_dir` must describe the examples; got {graph_schema_dir!r}, whose sets "
            f"{np.asarray(columns.prefixes)[is_sampled].tolist()} are empty in all graphs of {examples_dir!r}. Give "
            "the schema that was made with the examples."
        )


def _class_names(transform_graph_dir: str, class_vocabulary: str) -> list[str]:
    if not class_vocabulary:
        return []
    if not transform_graph_dir:
        raise ValueError(
            f"`transform_graph_dir` must be given with `class_vocabulary`; got {class_vocabulary!r} alone. Name the "
            "transform that made the examples."
        )
    import tensorflow as tf
    import tensorflow_transform as tft

    try:
        names = tft.TFTransformOutput(transform_graph_dir).vocabulary_by_name(class_vocabulary)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"`class_vocabulary` must be a vocabulary of the transform; got {class_vocabulary!r}, which "
            f"{transform_graph_dir!r} lacks. Give tft.compute_and_apply_vocabulary of the label this vocab_filename. "
            f"Cause: {error}"
        ) from error
    return [bytes(name).decode("utf-8", errors="replace") for name in names]

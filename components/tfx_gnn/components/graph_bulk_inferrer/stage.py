"""GraphBulkInferrer: asks a model about all examples of a folder, and writes its answers as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_bulk_inferrer.answer_columns import check_outputs_exist
from tfx_gnn.components.graph_bulk_inferrer.bigquery_load import BigQueryLoad
from tfx_gnn.components.graph_bulk_inferrer.bulk_inference import BulkInference, write_bulk_inference
from tfx_gnn.components.graph_bulk_inferrer.inference_pipeline import FileCounts, infer_files
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import atomic_folder, resumable_folder
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.finished_shards import FinishedShards
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.records import blessing
from tfx_gnn.records.examples_folder import fingerprint_examples_folder, record_files, split_dir
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.versions import resolve_saved_model


def infer_in_bulk(
    *,
    examples_dir: str,
    model_dir: str,
    inference_dir: str,
    blessing_dir: str = "",
    infra_blessing_dir: str = "",
    options: GraphBulkInferrerOptions | None = None,
    beam_args: Sequence[str] = (),
) -> BulkInference:
    """Writes what a model answers to every example of a folder, as a table with the original ids.

    Answers are those of a server that is asked with the same examples; floating point values may differ by rounding,
    which depends on the batch. Each file of examples becomes one file of rows, in the same order.

    An interrupted run is resumed: finished files stay in a hidden folder next to `inference_dir`, where the next run
    with the same examples, model and options finds them.

    Args:
        examples_dir: folder of raw graph tf.Examples, by split.
        model_dir: a trained model, a SavedModel, or a push destination, whose newest version answers.
        inference_dir: folder to create, with `Split-<name>` folders of tables, `inference.json` and, if examples were
            refused, `dead_letters`.
        blessing_dir: blessing of the model; empty to ask any model. One whose blessing is withheld is not asked, and
            `inference.json` says so.
        infra_blessing_dir: blessing of GraphSkewValidator, in the same way.
        options: what to infer, and how to write it.
        beam_args: options of the Beam runner.

    Returns:
        What was read and written.

    Raises:
        FileNotFoundError: if there is no model.
        ValueError: if the examples are damaged, the model predicts nothing known or has no embeddings, its blessing
            is about another model, or it refuses a larger share of the examples than the options allow; then finished
            files are kept for a run that allows more.
        FileExistsError: if `inference_dir` already holds files.
        BlockingIOError: if another process is doing the same work.
    """
    options = options or GraphBulkInferrerOptions()
    saved_model_dir = resolve_saved_model(model_dir)
    model_fingerprint = fingerprint_model(saved_model_dir)
    reasons = blessing.model_objections(
        blessing_dir=blessing_dir, infra_blessing_dir=infra_blessing_dir, model_fingerprint=model_fingerprint
    )
    if reasons:
        found = BulkInference(blessed=False, reasons=tuple(reasons), model_fingerprint=model_fingerprint)
        with atomic_folder(inference_dir, name="inference_dir") as folder:
            write_bulk_inference(found, folder)
        return found
    check_outputs_exist(options.outputs, saved_model_dir)
    files = record_files(examples_dir, options.splits, argument="splits")
    splits = {file.split for file in files}
    load = BigQueryLoad(options.bigquery_table, splits, inference_dir) if options.bigquery_table else None
    parts = [
        tfx_gnn.__version__,
        # What may be refused, and where answers go, changes none: a run that allows more goes on.
        options_json.to_json(dataclasses.replace(options, max_refused_share=0.0, bigquery_table="")),
        model_fingerprint,
        fingerprint_examples_folder(examples_dir),
    ]
    with resumable_folder(
        inference_dir, fingerprint=fingerprint_text("\n".join(parts)), name="inference_dir"
    ) as folder:
        counts = infer_files(
            files, saved_model_dir=saved_model_dir, folder=folder, options=options, beam_args=beam_args
        )
        for split in splits:
            # A split without any row has a folder, too.
            tf.io.gfile.makedirs(split_dir(folder, split))
        found = _summed(counts, model_fingerprint)
        _check_refused(found, counts, options)
        if load is not None:
            load.load(folder, found.num_rows)
            found = dataclasses.replace(found, bigquery_tables=load.tables)
        write_bulk_inference(found, folder)
        if has_locks(folder):
            # Before the log is removed: a run that is killed meanwhile resumes from the log.
            sync_tree(folder)
        FinishedShards(folder).remove()
    return found


def _summed(counts: Mapping[tuple[str, int], FileCounts], model_fingerprint: str) -> BulkInference:
    def by_split(field: str) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (split, _), of_file in counts.items():
            sums[split] = sums.get(split, 0) + getattr(of_file, field)
        return sums

    return BulkInference(
        num_examples=by_split("num_examples"),
        num_refused=by_split("num_refused"),
        num_without_pairs=by_split("num_without_pairs"),
        num_rows=by_split("num_rows"),
        num_nonfinite=sum(of_file.num_nonfinite for of_file in counts.values()),
        columns=next((of_file.columns for of_file in counts.values() if of_file.columns), {}),
        model_fingerprint=model_fingerprint,
    )


def _check_refused(
    found: BulkInference, counts: Mapping[tuple[str, int], FileCounts], options: GraphBulkInferrerOptions
) -> None:
    total, refused = sum(found.num_examples.values()), sum(found.num_refused.values())
    if refused > options.max_refused_share * total:
        reasons = [reason for of_file in counts.values() for reason in of_file.reasons]
        raise ValueError(
            f"`max_refused_share` must cover the examples that the model refuses; got {options.max_refused_share} for "
            f"{refused} of {total}. Correct the examples, or allow a larger share. The first: {reasons[0]}"
        )

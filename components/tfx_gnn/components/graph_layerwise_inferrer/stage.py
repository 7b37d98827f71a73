"""GraphLayerwiseInferrer: asks a model about all nodes of a graph, and computes each state once, not in each subgraph.

It runs in one process, on a machine that holds the graph index and the states on local disks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_bulk_inferrer.answer_columns import (
    answer_columns,
    check_outputs_exist,
    count_nonfinite,
)
from tfx_gnn.components.graph_bulk_inferrer.bigquery_load import BigQueryLoad
from tfx_gnn.components.graph_bulk_inferrer.bulk_inference import BulkInference, write_bulk_inference
from tfx_gnn.components.graph_bulk_inferrer.table_writers import SUFFIXES, whole_table
from tfx_gnn.components.graph_layerwise_inferrer.batches import MAX_BATCH_NODES
from tfx_gnn.components.graph_layerwise_inferrer.options import GraphLayerwiseInferrerOptions
from tfx_gnn.components.graph_layerwise_inferrer.plan_rules import with_full_neighborhoods
from tfx_gnn.components.graph_layerwise_inferrer.rules import check_subgraphs_are_whole
from tfx_gnn.components.graph_layerwise_inferrer.states import STATES_DIR, LayerStates
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import atomic_folder, resumable_folder
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.finished_shards import FinishedShards
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records import blessing
from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.graph_index import GraphIndex, graph_index_on_local_disk
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.inference_plan import ALL_SPLIT, plan_of_ids
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan, read_recorded_plan
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.layerwise_model import LayerPlan, LayerwiseModel, read_layer_plan
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.schema_differences import schema_differences
from tfx_gnn.serving.versions import resolve_saved_model

_ROWS_OF_FILE = 1 << 20
# Sums over edges are rounded in another order.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5
_HALF_RELATIVE, _HALF_ABSOLUTE = 5e-2, 5e-2


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerwiseInference(BulkInference):
    """What was inferred layer by layer; there are no examples, so each node of the seed set counts as one.

    Attributes:
        num_verified: nodes whose answers were compared with those from their subgraphs.
        largest_difference: the largest absolute difference of a number in these answers.
    """

    num_verified: int = 0
    largest_difference: float = 0.0


def infer_layerwise(
    *,
    graph_index_dir: str,
    model_dir: str,
    inference_dir: str,
    blessing_dir: str = "",
    infra_blessing_dir: str = "",
    options: GraphLayerwiseInferrerOptions | None = None,
) -> LayerwiseInference:
    """Writes what a model answers to every node of its plan's seed node set, in the order of their ids.

    The tables have the columns that `infer_in_bulk` writes for the examples of all nodes, in files of 1,048,576 rows.
    Answers are the same, up to rounding: a plan, a graph or a network for which they are not is refused.

    An interrupted run is resumed after the last node set of the last layer that is complete. An index on an object
    store is copied to a temporary folder and compared with its checksums; tables for an object store are made in
    another one, with all states, and then copied, so an interrupted run starts anew there.

    Args:
        graph_index_dir: the graph.
        model_dir: a trained model, a SavedModel, or a push destination, whose newest version answers. It must have been
            trained with `layerwise_inference`, on examples that a plan sampled around nodes.
        inference_dir: folder to create, with `Split-all` and `inference.json`. On a local disk, a hidden folder beside
            it holds the states of all nodes after all layers until it is complete.
        blessing_dir: as for `infer_in_bulk`.
        infra_blessing_dir: as for `infer_in_bulk`.
        options: what to infer, and how to write it.

    Returns:
        What was read and written.

    Raises:
        FileNotFoundError: if there is no model.
        ValueError: if answers layer by layer would differ from those from subgraphs, or the model cannot be asked so.
        FileExistsError: if `inference_dir` already holds files.
        BlockingIOError: if another process is doing the same work.
        tf.errors.InvalidArgumentError: if a transformed feature is not finite.
    """
    options = options or GraphLayerwiseInferrerOptions()
    saved_model_dir = resolve_saved_model(model_dir)
    model_fingerprint = fingerprint_model(saved_model_dir)
    reasons = blessing.model_objections(
        blessing_dir=blessing_dir, infra_blessing_dir=infra_blessing_dir, model_fingerprint=model_fingerprint
    )
    if reasons:
        refused = LayerwiseInference(blessed=False, reasons=tuple(reasons), model_fingerprint=model_fingerprint)
        with atomic_folder(inference_dir, name="inference_dir") as folder:
            write_bulk_inference(refused, folder)
        return refused
    # Before an index is copied.
    check_outputs_exist(options.outputs, saved_model_dir)
    load = BigQueryLoad(options.bigquery_table, {ALL_SPLIT}, inference_dir) if options.bigquery_table else None
    layers = read_layer_plan(saved_model_dir)
    recorded = _recorded_plan(saved_model_dir, full=options.neighborhoods == "full")
    with graph_index_on_local_disk(graph_index_dir) as graph, _by_way_of_local_disk(inference_dir) as (place, store):
        encoder = _encoder(graph, layers, recorded, graph_index_dir=graph_index_dir, saved_model_dir=saved_model_dir)
        model = ServingModel(saved_model_dir)
        layerwise = LayerwiseModel(model.loaded, layers)
        models = [model]
        if "embeddings" in options.outputs:
            models.append(model.with_signature(model_interface.EMBEDDINGS_SIGNATURE))
        # What was compared, and in which batches, changes no answer by more than rounding.
        answers = dataclasses.replace(options, batch_edges=1, num_verified=0, bigquery_table="")
        parts = [tfx_gnn.__version__, options_json.to_json(answers), model_fingerprint, graph.fingerprint]
        with resumable_folder(place, fingerprint=fingerprint_text("\n".join(parts)), name="inference_dir") as folder:
            states = LayerStates(layerwise, graph, encoder, folder=folder, batch_edges=options.batch_edges).compute()
            largest = _verify(layerwise, states, models, RecordSampler(graph, recorded), options.num_verified)
            writing = _Writing(layerwise, states, graph.node_tables[layers.seed_set].ids, options, folder)
            writing.write()
            found = LayerwiseInference(
                num_examples={ALL_SPLIT: writing.num_rows},
                num_refused={ALL_SPLIT: 0},
                num_without_pairs={ALL_SPLIT: 0},
                num_rows={ALL_SPLIT: writing.num_rows},
                num_nonfinite=writing.num_nonfinite,
                columns=writing.columns,
                model_fingerprint=model_fingerprint,
                num_verified=min(options.num_verified, writing.num_rows),
                largest_difference=largest,
                bigquery_tables=load.tables if load else {},
            )
            write_bulk_inference(found, folder)
            # Before the states are removed: a run that is killed meanwhile resumes from them.
            sync_tree(folder)
            tf.io.gfile.rmtree(os.path.join(folder, STATES_DIR))
            FinishedShards(folder).remove()
        if store:
            copy_files(place, store)
            if load is not None:
                load.load(store, found.num_rows)
    return found


@contextlib.contextmanager
def _by_way_of_local_disk(inference_dir: str) -> Iterator[tuple[str, str]]:
    """Yields where to create the folder, and the folder on an object store to copy it into from there, or ""."""
    if has_locks(inference_dir):
        yield inference_dir, ""
        return
    with (
        atomic_folder(inference_dir, name="inference_dir") as folder,
        tempfile.TemporaryDirectory(prefix="inference-") as local,
    ):
        yield os.path.join(local, "inference"), folder


def _encoder(
    graph: GraphIndex, layers: LayerPlan, recorded: RecordedPlan, *, graph_index_dir: str, saved_model_dir: str
) -> SubgraphExampleEncoder:
    """Returns what writes the model's examples of the graph, after the checks of the plan and the graph."""
    plan = plan_of_ids(recorded.plan, graph.schema)
    check_subgraphs_are_whole(plan, layers, graph)
    encoder = SubgraphExampleEncoder(graph, plan)
    wanted = read_schema(os.path.join(saved_model_dir, model_interface.REQUEST_SCHEMA_FILE))
    for problem in schema_differences(wanted, encoder.schema):
        raise ValueError(
            f"`graph_index_dir` must hold the graph that the model was trained on; got {graph_index_dir!r}, where "
            f"{problem}, for the model in {saved_model_dir!r}. Build the index from the same columns."
        )
    return encoder


def _recorded_plan(saved_model_dir: str, *, full: bool) -> RecordedPlan:
    recorded = read_recorded_plan(os.path.join(saved_model_dir, model_interface.SAMPLING_PLAN_FILE))
    if recorded is None:
        raise ValueError(
            f"`model_dir` must hold a model with {model_interface.SAMPLING_PLAN_FILE} to infer layer by layer; got "
            f"none in {saved_model_dir!r}. Train it on examples of SubgraphExampleGen."
        )
    return dataclasses.replace(recorded, plan=with_full_neighborhoods(recorded.plan)) if full else recorded


def _verify(
    layerwise: LayerwiseModel,
    states: Sequence[npt.NDArray[np.float32]],
    models: Sequence[ServingModel],
    sampler: RecordSampler,
    num_verified: int,
) -> float:
    """Compares answers with those from subgraphs, and returns the largest difference of a number."""
    seed_set = layerwise.plan.seed_set
    num_nodes = len(states[-1])
    rtol, atol = (_HALF_RELATIVE, _HALF_ABSOLUTE) if layerwise.plan.is_half_precision else (_RELATIVE, _ABSOLUTE)
    rows = np.linspace(0, num_nodes - 1, min(num_verified, num_nodes)).astype(np.int64)
    largest = 0.0
    # All at once, as they are written: a head that compares seeds would differ.
    answers = layerwise.answer([of_layer[rows] for of_layer in states])
    for number, row in enumerate(rows):
        # One at a time: whole neighborhoods may be large.
        records = sampler.sample({SEED: np.array([row])})
        served = {name: values for model in models for name, values in model.outputs_of(records).items()}
        found = {name: values[[number]] for name, values in answers.items()}
        for name, expected in served.items():
            if not np.issubdtype(expected.dtype, np.floating):
                continue
            largest = max(largest, float(np.abs(found[name] - expected).max(initial=0.0)))
            if not np.allclose(found[name], expected, rtol=rtol, atol=atol, equal_nan=True):
                node_id = sampler.graph.node_tables[seed_set].ids[int(row)].as_py()
                raise ValueError(
                    f"`model_dir` must hold a network whose answers layer by layer are those from subgraphs; got "
                    f"{name} {found[name].ravel()[:3].tolist()}, not {expected.ravel()[:3].tolist()}, for node "
                    f"{node_id!r}. Its transform or a layer of yours reads more than a node and its edges: infer from "
                    "subgraphs."
                )
    return largest


class _Writing:
    """Writes the answers to all nodes of the seed set."""

    def __init__(
        self,
        model: LayerwiseModel,
        states: Sequence[npt.NDArray[np.float32]],
        ids: pa.Array,
        options: GraphLayerwiseInferrerOptions,
        folder: str,
    ) -> None:
        self._model, self._states, self._ids, self._options = model, states, ids, options
        self._folder = split_dir(folder, ALL_SPLIT)
        self.num_rows, self.num_nonfinite = len(states[-1]), 0
        self.columns: dict[str, str] = {}

    def write(self) -> None:
        tf.io.gfile.makedirs(self._folder)
        num_files = -(-self.num_rows // _ROWS_OF_FILE)
        for number in range(num_files):
            first = number * _ROWS_OF_FILE
            name = f"predictions-{number:05d}-of-{num_files:05d}{SUFFIXES[self._options.file_format]}"
            with whole_table(os.path.join(self._folder, name), self._options.file_format) as writer:
                for start in range(first, min(first + _ROWS_OF_FILE, self.num_rows), MAX_BATCH_NODES):
                    part = self._part(first, start, min(start + MAX_BATCH_NODES, first + _ROWS_OF_FILE, self.num_rows))
                    writer.write(part)
                    self.num_nonfinite += count_nonfinite(part)
                    self.columns = {field.name: str(field.type) for field in part.schema}

    def _part(self, first: int, start: int, stop: int) -> pa.Table:
        """Returns the answers to a range of nodes, whose records count from the first node of the file."""
        outputs = dict(self._model.answer([of_layer[start:stop] for of_layer in self._states]))
        if "embeddings" not in self._options.outputs:
            embedding = model_interface.EMBEDDING_OUTPUT
            outputs = {name: values for name, values in outputs.items() if name.rpartition("/")[2] != embedding}
        outputs[model_interface.ID_OUTPUT] = self._ids.slice(start, stop - start).to_numpy(zero_copy_only=False)
        records = np.arange(start - first, stop - first)
        return answer_columns(records, outputs, with_scores="scores" in self._options.outputs)

"""Tables of answers layer by layer are those of bulk inference from subgraphs."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import tempfile

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk
from tfx_gnn.components.graph_layerwise_inferrer import stage
from tfx_gnn.components.graph_layerwise_inferrer import states as layer_states
from tfx_gnn.components.graph_layerwise_inferrer.options import GraphLayerwiseInferrerOptions
from tfx_gnn.components.graph_layerwise_inferrer.stage import infer_layerwise
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.serving.layerwise_model import LayerwiseModel, read_layer_plan
from tfx_gnn.serving.prediction import ServingModel

OUTPUTS = ("predictions", "scores", "embeddings")


@pytest.fixture(scope="module")
def model_dir(shop_graph, shop_index, shop_transform_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    model = shop_graph.make_model("graph_sage", shop_index, shop_graph.PLAN)
    options = {"layerwise_inference": True, "embedding_normalization": "l2"}
    shop_graph.served_model(model, shop_index, shop_graph.PLAN, shop_transform_dir, **options).save(str(folder))
    RecordedPlan(plan=shop_graph.PLAN, sampling_seed=0).write(str(folder / "assets.extra" / "sampling_plan.json"))
    return str(folder)


@pytest.fixture(scope="module", autouse=True)
def _loads_once():
    """Loads each model once, however often it is asked."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stage, "ServingModel", functools.cache(ServingModel))
        yield


@pytest.fixture
def with_plan(model_dir, tmp_path):
    """Copies the model with another plan."""

    def copy(plan):
        place = str(tmp_path / "other_model")
        shutil.copytree(model_dir, place)
        if plan is None:
            os.remove(f"{place}/assets.extra/sampling_plan.json")
        else:
            RecordedPlan(plan=plan, sampling_seed=0).write(f"{place}/assets.extra/sampling_plan.json")
        return place

    return copy


def infer(shop_index, model_dir, folder, **options):
    return infer_layerwise(
        graph_index_dir=shop_index.index_dir,
        model_dir=model_dir,
        inference_dir=str(folder),
        options=GraphLayerwiseInferrerOptions(**options),
    )


def test_rows_are_those_of_bulk_inference_from_whole_subgraphs(shop_graph, shop_index, model_dir, tmp_path):
    examples = str(tmp_path / "examples")
    records = RecordSampler(shop_index, RecordedPlan(plan=shop_graph.PLAN, sampling_seed=0)).sample(
        {SEED: np.arange(shop_graph.NUM_USERS)}
    )
    write_split_shard(examples, "all", 0, 1, records)
    expected = infer_in_bulk(
        examples_dir=examples,
        model_dir=model_dir,
        inference_dir=str(tmp_path / "expected"),
        options=GraphBulkInferrerOptions(outputs=OUTPUTS),
    )

    found = infer(shop_index, model_dir, tmp_path / "found", outputs=OUTPUTS, batch_edges=7)

    name = "Split-all/predictions-00000-of-00001.parquet"
    wanted, got = (pq.read_table(tmp_path / folder / name) for folder in ("expected", "found"))
    assert got.schema == wanted.schema
    for column in wanted.column_names:
        values, others = (table.column(column).to_pylist() for table in (got, wanted))
        if column in ("record", "id", "label"):
            assert values == others
        else:
            np.testing.assert_allclose(values, others, atol=1e-5)
    assert found.num_verified == 16
    assert found.largest_difference < 1e-5
    for field in dataclasses.fields(expected):
        assert getattr(found, field.name) == getattr(expected, field.name), field.name
    assert json.loads((tmp_path / "found" / "inference.json").read_text())["num_rows"] == {"all": shop_graph.NUM_USERS}
    assert sorted(os.listdir(tmp_path / "found")) == ["Split-all", "inference.json"]


def test_a_run_that_was_stopped_goes_on_after_its_finished_states(shop_index, model_dir, tmp_path, monkeypatch):
    updated = []
    update = LayerwiseModel.update

    def fails_once(self, layer, node_set, inputs):
        updated.append((layer, node_set))
        if len(updated) == 3:
            raise KeyboardInterrupt
        return update(self, layer, node_set, inputs)

    monkeypatch.setattr(LayerwiseModel, "update", fails_once)
    with pytest.raises(KeyboardInterrupt):
        infer(shop_index, model_dir, tmp_path / "found")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    # A file that was damaged since is made again.
    with open(folder / "states" / "0-0.npy", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\1\0")
    infer(shop_index, model_dir, tmp_path / "found")
    infer(shop_index, model_dir, tmp_path / "anew")

    # Items and users by the first layer, users by the second.
    assert updated[:3] == [(0, "item"), (0, "user"), (1, "user")]
    assert updated[3:] == [(1, "user"), (0, "item"), (0, "user"), (1, "user")]
    assert fingerprint_folders([str(tmp_path / "found")]) == fingerprint_folders([str(tmp_path / "anew")])


def test_files_have_a_bounded_number_of_rows(shop_index, model_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "_ROWS_OF_FILE", 10)
    monkeypatch.setattr(stage, "MAX_BATCH_NODES", 4)
    monkeypatch.setattr(layer_states, "MAX_BATCH_NODES", 4)

    infer(shop_index, model_dir, tmp_path / "found", file_format="csv", num_verified=0)

    first, second = sorted((tmp_path / "found" / "Split-all").iterdir())
    assert [path.name for path in (first, second)] == [
        "predictions-00000-of-00002.csv",
        "predictions-00001-of-00002.csv",
    ]
    rows = [line.split(",")[:2] for path in (first, second) for line in path.read_text().splitlines()[1:]]
    assert [int(record) for record, _ in rows] == [*range(10), *range(8)]
    assert [name.strip('"') for _, name in rows] == sorted(f"u{number}" for number in range(18))


def test_fan_outs_that_leave_out_edges_are_refused_unless_whole_neighborhoods_are_asked_for(
    shop_graph, shop_index, model_dir, with_plan, tmp_path
):
    narrow = with_plan(shop_graph.plan_of(2, strategy="uniform", fan_out=1))

    with pytest.raises(ValueError, match=r"`hops` must take all edges .*--neighborhoods full"):
        infer(shop_index, narrow, tmp_path / "found")
    places = ["--graph-index-dir", shop_index.index_dir, "--model-dir", narrow]
    places += ["--inference-dir", str(tmp_path / "found")]
    shown = CliRunner().invoke(app, ["infer-layerwise", *places, "--neighborhoods", "full", "--num-verified", "3"])
    infer(shop_index, model_dir, tmp_path / "whole")

    assert shown.exit_code == 0, shown.output
    assert "split 'all': 18 nodes, 18 rows" in shown.stdout
    assert "3 of them also asked by their subgraphs: largest difference" in shown.stdout
    name = "Split-all/predictions-00000-of-00001.parquet"
    assert pq.read_table(tmp_path / "found" / name).equals(pq.read_table(tmp_path / "whole" / name))


def test_answers_that_differ_from_those_of_subgraphs_are_an_error(shop_index, model_dir, tmp_path, monkeypatch):
    answer = LayerwiseModel.answer

    def change(changed):
        def answers(self, states):
            found = answer(self, states)
            return {name: values if values.dtype == object else changed(values) for name, values in found.items()}

        monkeypatch.setattr(LayerwiseModel, "answer", answers)

    # The second is that of a head that compares the seeds of a batch.
    for changed in (lambda values: values + 0.01, lambda values: values + 0.01 * (len(values) - 1)):
        change(changed)
        with pytest.raises(
            ValueError, match=r"answers layer by layer are those from subgraphs; got .* for node 'u\d+'"
        ):
            infer(shop_index, model_dir, tmp_path / "found", num_verified=2)

    # Half precision is rounded by more.
    half = shutil.copytree(model_dir, str(tmp_path / "half_model"))
    dataclasses.replace(read_layer_plan(half), is_half_precision=True).write(half)
    assert infer(shop_index, half, tmp_path / "half", num_verified=2).largest_difference > 0.009


def test_an_index_without_a_feature_of_the_model_is_refused(shop_graph, shop_index, with_plan, tmp_path):
    without_price = dataclasses.replace(shop_graph.PLAN, excluded_features={"item": ("price",)})

    with pytest.raises(ValueError, match=r"`graph_index_dir` must hold .* node set 'item' has no feature 'price'"):
        infer(shop_index, with_plan(without_price), tmp_path / "found")


def test_models_that_cannot_be_asked_so_are_refused(shop_index, with_plan, toy_model_dir, tmp_path):
    with pytest.raises(ValueError, match=r"must hold a model with assets.extra/layers.json .*`layerwise_inference`"):
        infer(shop_index, toy_model_dir, tmp_path / "found")
    with pytest.raises(ValueError, match=r"must hold a model with assets.extra/sampling_plan.json to infer layer by"):
        infer(shop_index, with_plan(None), tmp_path / "found")


def test_options_are_checked():
    with pytest.raises(ValueError, match="`outputs` must name what to write"):
        GraphLayerwiseInferrerOptions(outputs=())
    with pytest.raises(ValueError, match="`batch_edges` must be at least 1; got 0"):
        GraphLayerwiseInferrerOptions(batch_edges=0)
    with pytest.raises(ValueError, match="`num_verified` must be at least 0; got -1"):
        GraphLayerwiseInferrerOptions(num_verified=-1)
    with pytest.raises(ValueError, match="`file_format` must be 'parquet' for `bigquery_table`; got 'csv'"):
        GraphLayerwiseInferrerOptions(bigquery_table="shop.answers", file_format="csv")


def test_tables_are_loaded_into_bigquery_from_the_store_that_they_are_copied_to(
    shop_index, model_dir, tmp_path, monkeypatch
):
    loads = []

    class Load:
        """In place of the client of the service."""

        def __init__(self, table, splits, inference_dir):
            self.tables = dict.fromkeys(splits, table)

        def load(self, folder, num_rows):
            loads.append((sorted(tf.io.gfile.listdir(f"{folder}/Split-all")), num_rows))

    monkeypatch.setattr(stage, "BigQueryLoad", Load)
    found = infer_layerwise(
        graph_index_dir=shop_index.index_dir,
        model_dir=model_dir,
        inference_dir=f"ram://{tmp_path.name}-{os.getpid()}/found",
        options=GraphLayerwiseInferrerOptions(bigquery_table="shop.answers"),
    )

    assert found.bigquery_tables == {"all": "shop.answers"}
    assert loads == [(["predictions-00000-of-00001.parquet"], found.num_rows)]


def test_index_and_tables_may_be_on_an_object_store(shop_index, model_dir, tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    store = f"ram://{tmp_path.name}-{os.getpid()}"
    copy_files(shop_index.index_dir, f"{store}/index")

    def infer_there(index, name):
        return infer_layerwise(graph_index_dir=f"{store}/{index}", model_dir=model_dir, inference_dir=f"{store}/{name}")

    assert infer_there("index", "found") == infer(shop_index, model_dir, tmp_path / "expected")
    copy_files(f"{store}/found", str(tmp_path / "found"))
    assert fingerprint_folders([str(tmp_path / "found")]) == fingerprint_folders([str(tmp_path / "expected")])
    assert sorted(name.strip("/") for name in tf.io.gfile.listdir(store)) == ["found", "index"]

    with pytest.raises(ValueError, match=r"`graph_index_dir` must be a graph index; got 'ram://.*/absent'"):
        infer_there("absent", "other")
    largest = max(shop_index.mapped.records, key=lambda name: os.path.getsize(f"{shop_index.index_dir}/{name}"))
    tf.io.gfile.remove(f"{store}/index/{largest}")
    with tf.io.gfile.GFile(f"{store}/index/{largest}", "wb") as file:
        file.write(b"\0" * os.path.getsize(f"{shop_index.index_dir}/{largest}"))
    with pytest.raises(ValueError, match=r"must have the checksum .* The graph index is damaged"):
        infer_there("index", "other")
    assert os.listdir(tmp_path / "scratch") == []

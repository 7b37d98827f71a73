"""Several tasks at a time, and half precision, from stored graphs to a served model."""

from __future__ import annotations

import contextlib
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_trainer.training_run import SAVED_MODELS, Exporters
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.models.tasks import GraphClassification, MultiTask, NodeClassification, NodeRegression
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.warmup_requests import read_warmup_requests
from tfx_gnn.training.export.unsafe_operations import has_unsafe_kernels
from tfx_gnn.training.options import BatchingOptions, ExecutionOptions, ExportOptions, GraphTrainerOptions

TASK = MultiTask(
    tasks={
        "color": NodeClassification(label_feature="color", num_classes=2, class_weights="balanced"),
        "price": NodeRegression(label_feature="price", num_outputs=2, standardize=True),
        "shape": GraphClassification(label_feature="shape", num_classes=2, pooling="mean|max"),
    },
    loss_weights={"shape": 0.5},
)


@pytest.fixture(scope="module")
def folders(write_examples, task_graphs, tmp_path_factory):
    """36 graphs of one to three items; all labels hang on whether the seed's x, which is the last, is positive."""
    random = np.random.default_rng(1)

    def example(number):
        xs = random.uniform(0.5, 2.0, 1 + number % 3).tolist()
        sign = 1 if number % 2 else -1
        # In every sixth graph one of the two prices is not known.
        price = [100.0 + 10.0 * sign, float("nan") if number % 6 == 0 else -sign]
        return task_graphs.node_example(
            f"graph {number}", [sign * x for x in xs], color=int(sign > 0), price=price, shape=int(sign < 0)
        )

    folder = tmp_path_factory.mktemp("tasks")
    splits = {"train": [[example(i) for i in range(36)]], "val": [[example(i) for i in range(12)]]}
    examples = write_examples(str(folder / "examples"), splits, task_graphs.NODE_SCHEMA)
    found = {
        "transformed_examples_dir": examples,
        "transform_graph_dir": task_graphs.write_identity_transform(str(folder / "transform"), task_graphs.NODE_SCHEMA),
        "graph_schema_dir": examples,
        "transformed_graph_schema_dir": examples,
        "size_constraints_dir": str(folder / "sizes"),
    }
    learn_size_constraints(
        examples_dir=examples,
        graph_schema_dir=examples,
        size_constraints_dir=found["size_constraints_dir"],
        options=SizeConstraintLearnerOptions(batch_size=6),
        only_tight=True,
    )
    return found


class _Unwritten:
    """Instead of what training saw, which takes long to export, an empty folder."""

    def __init__(self, **_):
        pass

    def save(self, folder):
        os.makedirs(folder)


NO_REFERENCE = Exporters(training_reference=_Unwritten)


@pytest.fixture(scope="module")
def trained(folders, tmp_path_factory):
    """Summary, and folder of the outputs, by precision."""
    found = {}
    for precision in ("float32", "mixed_bfloat16"):
        folder = tmp_path_factory.mktemp(precision)
        options = GraphTrainerOptions(
            model_fn="tfx_gnn.models.model_fns:graph_sage",
            task=TASK,
            num_epochs=10,
            batching=BatchingOptions(kind="tight"),
            execution=ExecutionOptions(precision=precision, steps_per_execution=3),
            verify_tpu="always" if precision == "mixed_bfloat16" else "never",
            hyperparameters={"units": 16, "num_layers": 1, "dropout_rate": 0.0, "learning_rate": 0.02},
        )
        summary = train_graph_model(
            **folders,
            # Nothing is transformed.
            examples_dir=folders["transformed_examples_dir"],
            model_dir=str(folder / "model"),
            model_run_dir=str(folder / "run"),
            options=options,
            exporters=SAVED_MODELS if precision == "mixed_bfloat16" else NO_REFERENCE,
        )
        found[precision] = (summary, folder)
    return found


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_all_tasks_are_learned_and_measured(trained, precision):
    summary, folder = trained[precision]

    first, last = summary.epochs[0], summary.epochs[-1]
    assert last["val_loss"] < 0.5 * first["val_loss"]
    assert last["val_color_accuracy"] == last["val_color_macro_f1"] == last["val_shape_accuracy"] == 1.0
    # In the labels' own unit: prices are 90 or 110, and 1 or -1.
    assert last["val_price_rmse"] < 4.0
    parts = last["color_loss"] + last["price_loss"] + 0.5 * last["shape_loss"]
    assert last["loss"] == pytest.approx(parts, rel=1e-3)
    stored = json.loads((folder / "run" / "training_summary.json").read_text())
    assert stored["options"]["precision"] == precision


def test_half_precision_learns_what_float32_learns_and_keeps_weights_whole(trained):
    (whole, _), (half, folder) = trained["float32"], trained["mixed_bfloat16"]

    assert [epoch["loss"] for epoch in half.epochs] == pytest.approx(
        [epoch["loss"] for epoch in whole.epochs], rel=0.1, abs=0.02
    )
    assert half.epochs != whole.epochs
    reader = tf.train.load_checkpoint(str(folder / "model" / "Format-Serving" / "variables" / "variables"))
    dtypes = set(reader.get_variable_to_dtype_map().values())
    assert {dtype for dtype in dtypes if dtype.is_floating} == {tf.float32}


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_served_model_answers_all_tasks_in_float32(trained, folders, precision):
    _, folder = trained[precision]
    records = [bytes(record) for record in read_split(folders["transformed_examples_dir"], "val").as_numpy_iterator()]

    answers = ServingModel(str(folder / "model" / "Format-Serving"))(tf.constant(records))

    signs = np.array([1 if number % 2 else -1 for number in range(12)])
    assert answers["color/label"].numpy().tolist() == [b"1" if sign > 0 else b"0" for sign in signs]
    assert answers["shape/label"].numpy().tolist() == [b"0" if sign > 0 else b"1" for sign in signs]
    np.testing.assert_allclose(answers["price/prediction"][:, 0], 100 + 10 * signs, atol=8.0)
    assert {answers[name].dtype for name in ("color/logits", "price/prediction")} == {tf.float32}


def test_bulk_inference_has_columns_for_each_task(trained, folders, tmp_path):
    _, folder = trained["float32"]

    found = infer_in_bulk(
        examples_dir=folders["transformed_examples_dir"],
        model_dir=str(folder / "model"),
        inference_dir=str(tmp_path / "inference"),
        options=GraphBulkInferrerOptions(splits=("val",), outputs=("predictions", "scores")),
    )

    of_classes = {"label": "string", "score": "float", "probabilities": "fixed_size_list<item: float>[2]"}
    assert found.num_rows == {"val": 12}
    assert dict(found.columns) == {
        "record": "int64",
        "id": "string",
        **{f"color/{name}": kind for name, kind in of_classes.items()},
        "color/logits": of_classes["probabilities"],
        "price/prediction": of_classes["probabilities"],
        **{f"shape/{name}": kind for name, kind in of_classes.items()},
        "shape/logits": of_classes["probabilities"],
    }


def test_model_carries_warmup_requests_of_raw_examples_without_labels(trained, folders):
    _, folder = trained["float32"]
    records = [bytes(record) for record in read_split(folders["transformed_examples_dir"], "val").as_numpy_iterator()]

    requests = list(read_warmup_requests(str(folder / "model" / "Format-Serving")))

    sent = [(name, tf.make_ndarray(inputs["examples"]).tolist()) for name, inputs in requests]
    names = ("embeddings", "serving_default", "transformed_graph")
    assert [(name, len(batch)) for name, batch in sent] == [(name, size) for name in names for size in (1, 8, 64)]
    raw, stripped = (tf.train.Example.FromString(record).features.feature for record in (records[0], sent[0][1][0]))
    assert raw.keys() - stripped.keys() == {"context/shape", "nodes/_readout.color", "nodes/_readout.price"}
    assert stripped["nodes/item.x"] == raw["nodes/item.x"]


def test_no_raw_example_for_warmup_requests_is_refused_before_training(folders, write_examples, task_graphs, tmp_path):
    empty = write_examples(str(tmp_path / "examples"), {"val": [[]]}, task_graphs.NODE_SCHEMA)
    options = GraphTrainerOptions(
        model_fn="tfx_gnn.models.model_fns:gcn",
        task=TASK.tasks["color"],
        num_epochs=1,
        batching=BatchingOptions(kind="tight"),
    )

    with pytest.raises(ValueError, match="`examples_dir` must hold an example in split 'val'"):
        train_graph_model(
            **folders,
            examples_dir=empty,
            model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
            options=options,
        )


def test_model_that_would_abort_a_server_is_refused_before_training(folders, task_graphs, tmp_path):
    def train(folder, export):
        options = GraphTrainerOptions(
            model_fn="task_graphs:normalized_model_fn",
            task=TASK.tasks["color"],
            num_epochs=1,
            batching=BatchingOptions(kind="tight"),
            export=export,
        )
        return train_graph_model(
            **folders,
            model_dir=str(folder / "model"),
            model_run_dir=str(folder / "run"),
            options=options,
            exporters=NO_REFERENCE,
        )

    assert task_graphs.normalized_model_fn is not None
    is_refused = pytest.raises(ValueError, match=r"FusedBatchNormV3 in layer '[^']*my_norm'.*`allow_unsafe_operations`")
    with is_refused if has_unsafe_kernels() else contextlib.nullcontext():
        train(tmp_path / "refused", ExportOptions())
    if has_unsafe_kernels():
        # Not even a folder for checkpoints was made.
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert train(tmp_path / "asked for", ExportOptions(allow_unsafe_operations=True)).num_steps > 0

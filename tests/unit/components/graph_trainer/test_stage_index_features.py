"""A model that reads nodes by an index feature of the context, from stored graphs to served answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.graph.batching.index_shifts import component_sizes
from tfx_gnn.graph.tensor.index_features import padded_index_features
from tfx_gnn.models.tasks import GraphClassification
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.records.size_constraints_file import read_size_constraints
from tfx_gnn.serving.model_interface import read_served_task, tensor_input_name
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS, padded_batches
from tfx_gnn.training.options import ExportOptions, GraphTrainerOptions


def _example(random: np.random.Generator, number: int) -> Mapping[str, list[Any]]:
    size = 2 + number % 4
    xs = random.uniform(-0.2, 0.2, size)
    root = int(random.integers(size))
    return {
        "context/root": [root],
        "context/is_positive": [int(xs[root] > 0)],
        "nodes/item.#size": [size],
        "nodes/item.x": xs.tolist(),
        "edges/link.#size": [1],
        "edges/link.#source": [0],
        "edges/link.#target": [1],
    }


@pytest.fixture(scope="module")
def folder(
    root_project: Any, write_examples: Any, served_and_reference: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """All stages up to the trained model."""
    folder = tmp_path_factory.mktemp("roots")
    random = np.random.default_rng(3)
    splits = {"train": [[_example(random, i) for i in range(200)]], "val": [[_example(random, i) for i in range(40)]]}
    write_examples(str(folder / "examples"), splits, root_project.SCHEMA)
    transform_graphs(
        examples_dir=str(folder / "examples"),
        graph_schema_dir=str(folder / "examples"),
        transform_graph_dir=str(folder / "transform"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(preprocessing_fn="root_project:preprocessing_fn"),
    )
    learn_size_constraints(
        examples_dir=str(folder / "transformed"),
        graph_schema_dir=str(folder / "schema"),
        size_constraints_dir=str(folder / "sizes"),
        options=SizeConstraintLearnerOptions(batch_size=8),
    )
    train_graph_model(
        transformed_examples_dir=str(folder / "transformed"),
        transform_graph_dir=str(folder / "transform"),
        graph_schema_dir=str(folder / "examples"),
        transformed_graph_schema_dir=str(folder / "schema"),
        size_constraints_dir=str(folder / "sizes"),
        model_dir=str(folder / "model"),
        model_run_dir=str(folder / "run"),
        options=GraphTrainerOptions(
            model_fn="root_project:model_fn",
            task=GraphClassification(label_feature="is_positive", num_classes=2),
            num_epochs=6,
            export=ExportOptions(raw_tensor_signature=True),
        ),
        exporters=served_and_reference,
    )
    return folder


def test_transform_passes_indices_on_unchanged(folder: Path, read_examples: Any) -> None:
    raw, transformed = (read_examples(str(folder / name), "val") for name in ("examples", "transformed"))

    assert [content["context/root"] for content in transformed] == [content["context/root"] for content in raw]
    schema = tfx_gnn.read_schema(str(folder / "schema" / "graph_schema.pbtxt"))
    assert tfx_gnn.index_features(schema) == {"context": {"root": "item"}}


def test_transform_refuses_to_replace_them(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"must not replace features that hold indices of nodes; got \['context/root"):
        transform_graphs(
            examples_dir=str(folder / "examples"),
            graph_schema_dir=str(folder / "examples"),
            transform_graph_dir=str(folder / "other"),
            transformed_examples_dir=str(folder / "other_examples"),
            transformed_graph_schema_dir=str(folder / "other_schema"),
            options=GraphTransformOptions(preprocessing_fn="root_project:replacing_fn"),
        )


def test_model_reads_the_right_node_of_each_graph_in_a_batch(folder: Path, read_examples: Any) -> None:
    records = list(read_split(str(folder / "examples"), "val").as_numpy_iterator())
    labels = [str(content["context/is_positive"][0]) for content in read_examples(str(folder / "examples"), "val")]
    model = ServingModel(str(folder / "model" / "Format-Serving"))

    together = [answer["label"] for answer in model.answers(records)]
    alone = [answer["label"] for record in records for answer in model.answers([record])]

    assert np.mean([answer == label for answer, label in zip(together, labels, strict=True)]) > 0.95
    assert alone == together


def test_training_sees_what_serving_sees(folder: Path) -> None:
    report = validate_skew(
        examples_dir=str(folder / "examples"),
        transformed_examples_dir=str(folder / "transformed"),
        model_dir=str(folder / "model"),
        model_run_dir=str(folder / "run"),
        skew_dir=str(folder / "skew"),
        infra_blessing_dir=str(folder / "blessing"),
        options=GraphSkewValidatorOptions(),
    )

    assert report.blessed, report.reasons
    assert "context/root" in {feature.key for feature in report.features}


@pytest.mark.parametrize("batching", ["packed", "fit_or_skip", "tight"])
def test_padding_of_every_batch_refers_to_padding(folder: Path, batching: str) -> None:
    schema = tfx_gnn.read_schema(str(folder / "schema" / "graph_schema.pbtxt"))
    indices = tfx_gnn.index_features(schema)
    records = read_split(str(folder / "transformed"), "train")
    content = read_size_constraints(str(folder / "sizes"))
    budget = content.find(BUDGET_KINDS[batching], 8, 0.99 if batching == "fit_or_skip" else None)

    num_graphs = 0
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    for batch in padded_batches(records, spec, budget, batching):
        graph = padded_index_features(batch.graph, component_sizes(batch.graph), indices, batch.is_real, shift=True)
        num_real = int(tf.math.count_nonzero(batch.is_real))
        num_nodes = int(tf.reduce_sum(graph.node_sets["item"].sizes[:num_real]))
        root = graph.context["root"].numpy()
        assert (root[num_real:] == num_nodes).all()
        assert num_nodes < graph.node_sets["item"].spec.total_size
        num_graphs += num_real
    assert num_graphs >= 190


def _plain_tensors(folder: Path, records: list[bytes]) -> dict[str, tf.Tensor]:
    """Returns the inputs of the signature `tensors`."""
    schema = tfx_gnn.read_schema(str(folder / "examples" / "graph_schema.pbtxt"))
    graph = tfx_gnn.parse_and_merge(
        tfx_gnn.create_graph_spec_from_schema_pb(schema),
        tf.constant(records),
        index_features=tfx_gnn.index_features(schema),
    )
    served = read_served_task(str(folder / "model" / "Format-Serving"))
    assert served is not None
    tensors = {tensor_input_name(key): value for key, value in tfx_gnn.graph_to_flat_tensors(graph).items()}
    return {name: tensors[name] for name in served.tensor_inputs}


def test_plain_tensors_count_from_the_first_node_of_all_graphs(folder: Path, make_record: Any) -> None:
    saved_model_dir = str(folder / "model" / "Format-Serving")
    records = list(read_split(str(folder / "examples"), "val").as_numpy_iterator())[:4]
    inputs = _plain_tensors(folder, records)
    signature = tf.saved_model.load(saved_model_dir).signatures["tensors"]

    labels = [label.decode() for label in signature(**inputs)["label"].numpy()]

    assert labels == [answer["label"] for answer in ServingModel(saved_model_dir).answers(records)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must hold indices of nodes of the same graph"):
        signature(**{**inputs, "context_root": tf.roll(inputs["context_root"], 1, axis=0)})
    nothing = {"nodes/item.#size": [0], "nodes/item.x": [], "context/root": [-1], "context/is_positive": [0]}
    nothing |= {"edges/link.#size": [0], "edges/link.#source": [], "edges/link.#target": []}
    inputs = _plain_tensors(folder, [records[0], make_record(nothing)])
    root = int(inputs["context_root"][0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must hold indices of nodes of the same graph"):
        signature(**{**inputs, "context_root": tf.constant([root, root], tf.int64)})


def test_request_that_refers_to_a_node_of_another_example_is_refused(folder: Path, make_record: Any) -> None:
    model = ServingModel(str(folder / "model" / "Format-Serving"))
    random = np.random.default_rng(4)
    records = [make_record({**_example(random, i), **change}) for i, change in enumerate(({"context/root": [2]}, {}))]

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"nodes of the same graph in \\*'item"):
        list(model.answers(records))

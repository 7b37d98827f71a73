"""Exports of every task: what they answer, worked out by hand, and what a stranger needs to ask them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn.serving.fresh_process_check
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.codec.flat_tensors import graph_to_flat_tensors
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)
from tfx_gnn.serving.model_interface import ServedTask, read_served_task, tensor_input_name
from tfx_gnn.serving.prediction import ServingModel, plain_answers
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

PRICE = NodeRegression(label_feature="price", num_outputs=2, mean=(1.0, 0.0), std=(2.0, 1.0))
TASKS = {
    "nodes": MultiTask(tasks={"color": NodeClassification(label_feature="color", num_classes=2), "price": PRICE}),
    "graphs": GraphClassification(label_feature="shape", num_classes=2),
    "links": LinkPrediction(projects_states=False),
}


@pytest.fixture(scope="module")
def models(task_graphs: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One export a kind of task."""
    folders = {}
    with libraries_traced_as_written():
        for name, task in TASKS.items():
            schema = task_graphs.LINK_SCHEMA if name == "links" else task_graphs.NODE_SCHEMA
            folder = str(tmp_path_factory.mktemp(name) / "model")
            task_graphs.export(folder, task, schema, raw_tensor_signature=name == "nodes")
            folders[name] = Path(folder) / "Format-Serving"
    return folders


@pytest.fixture(scope="module")
def records(task_graphs: Any, make_record: Callable[..., bytes]) -> dict[str, list[bytes]]:
    nodes = [make_record(content) for content in task_graphs.NODE_EXAMPLES]
    return {
        "nodes": nodes,
        "graphs": nodes,
        "links": [make_record(content) for content in task_graphs.LINK_EXAMPLES],
    }


@functools.lru_cache
def _load(folder: Path) -> Any:
    return tf.saved_model.load(str(folder))


@functools.lru_cache
def _serving(folder: Path) -> ServingModel:
    return ServingModel(str(folder))


def _ask(folder: Path, records: list[bytes], signature: str = "serving_default") -> dict[str, Any]:
    loaded = _load(folder)
    outputs = loaded.signatures[signature](examples=tf.constant(records, tf.string))
    return {name: value.numpy().tolist() for name, value in outputs.items()}


def _serve(folder: Path, records: list[bytes]) -> dict[str, tf.Tensor]:
    outputs: dict[str, tf.Tensor] = _load(folder).signatures["serving_default"](examples=tf.constant(records))
    return outputs


def _without(records: list[bytes], *keys: str) -> list[bytes]:
    stripped = []
    for record in records:
        example = tf.train.Example.FromString(record)
        for key in keys:
            del example.features.feature[key]
        stripped.append(example.SerializeToString())
    return stripped


def test_tasks_of_seeds_are_answered_with_their_ids(models, records) -> None:
    found = _ask(models["nodes"], records["nodes"])

    # Seeds have x 0.5, 3, -5 and 2; the state, and so every output, is [x, -x].
    assert found["id"] == [b"a1", b"b0", b"c2", b"d1"]
    assert found["color/logits"] == [[0.5, -0.5], [3.0, -3.0], [-5.0, 5.0], [2.0, -2.0]]
    assert found["color/label"] == [b"0", b"0", b"1", b"0"]
    assert found["price/prediction"] == [[2.0, -0.5], [7.0, -3.0], [-9.0, 5.0], [5.0, -2.0]]
    assert sorted(found) == [
        "color/label", "color/logits", "color/probabilities", "color/score", "id", "price/prediction",
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(TASKS))
def test_every_row_for_the_stock_bulk_inferrer_is_an_array_or_a_number(models, records, name: str) -> None:
    predictions = _serve(models[name], records[name])

    rows = _load(models[name]).signatures["bulk_inferrer"](examples=tf.constant(records[name]))

    assert sorted(rows) == sorted(predictions)
    for output, values in rows.items():
        # TFX's component asks each row for its dtype, which `bytes` do not have.
        assert all(hasattr(row, "dtype") for row in values.numpy()), output
        expected = predictions[output]
        if expected.dtype == tf.string and expected.shape.rank == 1:
            expected = expected[:, None]
        assert values.numpy().tolist() == expected.numpy().tolist(), output


def test_the_stock_evaluator_is_told_the_classes_of_a_single_task(models, records) -> None:
    found = _ask(models["graphs"], records["graphs"], "evaluator")

    predictions = _ask(models["graphs"], records["graphs"])
    assert found == {name: predictions[name] for name in ("logits", "probabilities")} | {
        "all_classes": [[b"0", b"1"]] * 4
    }
    assert _ask(models["graphs"], [], "evaluator")["all_classes"] == []
    assert "evaluator" not in _load(models["nodes"]).signatures
    assert _serving(models["graphs"]).example_signatures == [
        "embeddings", "serving_default", "transformed_graph",
    ]  # fmt: skip


def test_whole_graphs_are_answered_with_their_ids(models, records) -> None:
    found = _ask(models["graphs"], records["graphs"])

    # The mean state of the items.
    assert found["id"] == [b"a", b"b", b"c", b"d"]
    assert found["logits"] == [[0.75, -0.75], [3.0, -3.0], [-1.0, 1.0], [-1.0, 1.0]]
    assert found["label"] == [b"0", b"0", b"1", b"1"]


def test_candidates_are_scored_with_ids_of_both_ends(models, records) -> None:
    found = _ask(models["links"], records["links"])

    infinity = float("-inf")
    # Inner products of [x, -x] and [y, -y] are 2 x y.
    assert found == {
        "scores": [[6.0, -4.0, 1.0], [-4.0, infinity, infinity], [1.0, 4.0, infinity]],
        "num_candidates": [3, 1, 2],
        "source_id": [[b"a0"] * 3, [b"b0", b"", b""], [b"c0", b"c0", b""]],
        "target_id": [[b"a1", b"a2", b"a3"], [b"b1", b"", b""], [b"c1", b"c2", b""]],
    }


def test_few_bytes_cannot_ask_for_padding_of_any_size(models, records) -> None:
    """One example with many candidates makes the rows of all others as long."""
    example = tf.train.Example.FromString(records["links"][0])
    features = example.features.feature
    many = 60_000
    for key in ("nodes/_readout.#size", "edges/_readout/source.#size", "edges/_readout/target.#size"):
        features[key].int64_list.value[:] = [many]
    features["nodes/_readout.label"].int64_list.value[:] = [0] * many
    for end in ("source", "target"):
        features[f"edges/_readout/{end}.#source"].int64_list.value[:] = [0] * many
        features[f"edges/_readout/{end}.#target"].int64_list.value[:] = range(many)
    large = example.SerializeToString()

    assert _serve(models["links"], [large])["scores"].shape == [1, many]
    for signature in ("serving_default", "embeddings"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Send examples with many candidates in a request of"):
            _ask(models["links"], [large, *records["links"][1:2] * 1200], signature)


def test_labels_do_not_matter(models, records) -> None:
    of_nodes = ["nodes/_readout.color", "nodes/_readout.price"]
    labels = {"nodes": of_nodes, "graphs": ["context/shape", *of_nodes], "links": ["nodes/_readout.label"]}
    for name, keys in labels.items():
        stripped = _without(records[name], *keys)
        assert _ask(models[name], stripped) == _ask(models[name], records[name])
        served = read_served_task(str(models[name]))
        assert served is not None
        assert sorted(served.label_keys) == sorted(keys)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda features: features["nodes/item.x"].Clear(), "must have feature 'x' of node set 'item'; got example 1"),
        (lambda features: features.pop("nodes/item.x"), "must have feature 'x' of node set 'item'; got example 1 wit"),
        (lambda features: features.pop("edges/link.#target"), "must have feature '#target' of edge set 'link'; got ex"),
        (
            lambda features: features["nodes/item.x"].int64_list.value.extend([1, 2]),
            "must hold float values of feature 'x' of node set 'item'; got int64 in example 1",
        ),
    ],
    ids=["empty", "feature", "structure", "dtype"],
)
def test_what_is_wrong_with_a_request_is_told_by_feature_and_set(models, records, change, told) -> None:
    good, other = records["nodes"][:2]
    example = tf.train.Example.FromString(other)
    change(example.features.feature)

    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"^`examples` {told}[^\n]*$"):
        _serving(models["nodes"])(tf.constant([good, example.SerializeToString()]))


def _with_price(record: bytes, value: float) -> bytes:
    example = tf.train.Example.FromString(record)
    example.features.feature["nodes/item.x"].float_list.value[0] = value
    return example.SerializeToString()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("signature", ["serving_default", "embeddings", "transformed_graph"])
def test_number_that_is_not_finite_is_refused_by_name(models, records, value: float, signature: str) -> None:
    good, other = records["nodes"][:2]

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"finite numbers .* got NaN or infinity in `nodes"):
        _ask(models["nodes"], [good, _with_price(other, value)], signature)


def test_refused_number_is_told_in_one_line(models, records) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^`examples` must .* in `nodes/item.x`\. [^\n]*`\.$"):
        _serving(models["nodes"])(tf.constant([_with_price(records["nodes"][1], float("nan"))]))


def test_feature_that_may_be_no_finite_number_is_served(task_graphs, records, tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    task_graphs.export(folder, TASKS["graphs"], task_graphs.NODE_SCHEMA, nonfinite_features=("nodes/item.x",))

    answers = _ask(tmp_path / "model" / "Format-Serving", [_with_price(records["graphs"][0], float("nan"))])

    assert answers["id"] == [b"a"]


def _of_another_project(features) -> None:
    for key in [key for key in features if key.startswith("nodes/item.")]:
        features[key.replace("item", "user")].CopyFrom(features[key])
        del features[key]


def _with_two_readouts(features) -> None:
    for key in ("nodes/_readout.#size", "edges/_readout/seed.#size"):
        features[key].int64_list.value[:] = [2]
    features["edges/_readout/seed.#source"].int64_list.value[:] = [0, 0]
    features["edges/_readout/seed.#target"].int64_list.value[:] = [0, 1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            _of_another_project,
            "must have node set 'item'; got example 1 with the node sets ['_readout', 'user']. Take examples",
        ),
        (
            _with_two_readouts,
            "must have exactly one node in node set `_readout` and one edge in `_readout/seed` in every example; got",
        ),
    ],
    ids=["another project", "two readouts"],
)
def test_a_request_of_another_structure_is_refused_in_plain_words(models, records, change, told) -> None:
    good, other = records["nodes"][:2]
    example = tf.train.Example.FromString(other)
    change(example.features.feature)

    with pytest.raises(tf.errors.InvalidArgumentError) as refused:
        _serving(models["nodes"])(tf.constant([good, example.SerializeToString()]))
    assert refused.value.message.startswith(f"`examples` {told}")
    assert refused.value.message.endswith(("trained on.", "got others. Send one rooted subgraph per example."))


def test_embeddings_are_served_apart(models, records) -> None:
    assert _ask(models["nodes"], records["nodes"], "embeddings") == {
        "id": [b"a1", b"b0", b"c2", b"d1"],
        "embedding": [[0.5, -0.5], [3.0, -3.0], [-5.0, 5.0], [2.0, -2.0]],
    }
    assert _ask(models["graphs"], records["graphs"][:1], "embeddings")["embedding"] == [[0.75, -0.75]]
    links = _ask(models["links"], records["links"][1:], "embeddings")
    assert sorted(links) == ["source_embedding", "source_id", "target_embedding", "target_id"]
    assert links["source_embedding"] == [[[-1.0, 1.0], [0.0, 0.0]], [[0.5, -0.5], [0.5, -0.5]]]
    assert links["target_embedding"] == [[[2.0, -2.0], [0.0, 0.0]], [[1.0, -1.0], [4.0, -4.0]]]


def test_plain_tensors_are_answered_as_examples_are(models, records, task_graphs) -> None:
    served = read_served_task(str(models["nodes"]))
    assert served is not None
    raw = parse_and_merge(task_graphs.raw_spec(task_graphs.NODE_SCHEMA), tf.constant(records["nodes"]))
    tensors = {tensor_input_name(key): value for key, value in graph_to_flat_tensors(raw).items()}
    inputs = {name: tensors[name] for name in served.tensor_inputs}
    signature = _load(models["nodes"]).signatures["tensors"]

    found = {name: value.numpy().tolist() for name, value in signature(**inputs).items()}

    assert found == _ask(models["nodes"], records["nodes"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="less than the number of nodes"):
        signature(**{**inputs, "edges_link__source": tf.constant([99] * 4, tf.int32)})


def test_request_without_readouts_is_refused(models, records) -> None:
    stripped = [_without(records[name], "nodes/_readout.#size")[0] for name in ("nodes", "links")]

    with pytest.raises(tf.errors.InvalidArgumentError, match="_readout"):
        _ask(models["nodes"], stripped[:1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="_readout"):
        _ask(models["links"], stripped[1:])


def test_answers_are_plain(models, records) -> None:
    of_seed, of_graph = (
        plain_answers({key: value.numpy() for key, value in _serve(models[name], records[name][:1]).items()})[0]
        for name in ("nodes", "graphs")
    )
    links = list(_serving(models["links"]).answers(records["links"], batch_size=2))

    assert of_seed == {
        "id": "a1",
        "color": {"label": "0", "score": pytest.approx(0.7311, abs=1e-4)},
        "price": {"prediction": [2.0, -0.5]},
    }
    assert of_graph == {"id": "a", "label": "0", "score": pytest.approx(0.8176, abs=1e-4)}
    assert links[2] == {
        "candidates": [
            {"source_id": "c0", "target_id": "c2", "score": 4.0},
            {"source_id": "c0", "target_id": "c1", "score": 1.0},
        ]
    }


_ALL_IN_ONE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("check", sys.argv[1])
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)
for arguments in json.loads(sys.argv[2]):
    check.main(arguments)
"""


def test_strangers_are_answered(models, records, tmp_path: Path) -> None:
    commands = []
    for name, folder in models.items():
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.tfrecord")) as writer:
            for record in records[name]:
                writer.write(record)
        served = read_served_task(str(folder))
        assert served is not None
        paths = ["--examples", str(tmp_path / f"{name}.tfrecord"), "--report", str(tmp_path / f"{name}.json")]
        labels = ["--label-keys", *served.label_keys, *(["--needs-readout"] if served.roots else [])]
        commands.append(["--saved-model", str(folder), *paths, *labels])
    script = tfx_gnn.serving.fresh_process_check.__file__
    assert script is not None

    # TF_USE_LEGACY_KERAS would make TensorFlow itself look for tf_keras.
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALL_IN_ONE, script, json.dumps(commands)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    for name in models:
        report = json.loads((tmp_path / f"{name}.json").read_text())
        assert (report["problems"], report["forbidden_modules"]) == ([], [])
        requests = [request["name"] for request in report["requests"]]
        assert {"no example", "examples without labels", "embeddings of no example"} <= set(requests)
        assert ("a record without a readout" in requests) is (name != "graphs")


def test_export_tells_its_task(models) -> None:
    served = read_served_task(str(models["graphs"]))

    assert isinstance(served, ServedTask)
    assert (served.task["kind"], served.roots, served.tensor_inputs) == ("graph_classification", (), {})


class _Hidden(tf_keras.Model):
    """A model that does not tell its embeddings."""

    def __init__(self, model: tf_keras.Model) -> None:
        super().__init__()
        self._model = model

    def call(self, graph: Any, training: Any = None) -> tf.Tensor:
        return self._model(graph, training=training)


def test_embeddings_of_other_models(task_graphs, tmp_path: Path, records, caplog: pytest.LogCaptureFixture) -> None:
    task = GraphRegression(label_feature="shape")
    functional = task_graphs.model_of(task, task_graphs.NODE_SCHEMA)
    renamed = tf_keras.Model(functional.input, functional.output)
    renamed.get_layer("embeddings")._name = "pooled"
    for name, model in {"hidden": _Hidden(functional), "renamed": renamed}.items():
        with libraries_traced_as_written():
            task_graphs.export(str(tmp_path / name), task, task_graphs.NODE_SCHEMA, model)

    hidden = _load(tmp_path / "hidden" / "Format-Serving")
    assert sorted(hidden.signatures) == ["bulk_inferrer", "serving_default", "transformed_graph"]
    assert [record.message for record in caplog.records if "without signature `embeddings`" in record.message]
    found = _ask(tmp_path / "renamed" / "Format-Serving", records["graphs"][:1], "embeddings")
    assert found == {"id": [b"a"], "embedding": [[0.75, -0.75]]}

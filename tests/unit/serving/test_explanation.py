from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.serving.explanation import Explainer
from tfx_gnn.serving.model_interface import ServedTask, write_served_task

_SERVED = ServedTask(task={}, label_keys=(), roots=("seed",), tensor_inputs={}, edge_ends={"buys": ["user", "item"]})


class _Spending(tf.Module):
    """The sum of all prices, and its square."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        ragged = tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)
        prices = tf.io.parse_example(examples, {"edges/buys.price": ragged})["edges/buys.price"]
        total = tf.reduce_sum(prices, axis=1)
        return {
            "prediction": tf.stack([total, total * total], axis=1),
            "id": tf.fill([tf.size(examples)], "u0"),
        }


class _Classes(_Spending):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        total = super().predict(examples)["prediction"][:, :1]
        return {"logits": tf.concat([total, tf.zeros_like(total)], axis=1)}


EXAMPLE = {
    "nodes/user.#size": [2],
    "nodes/user.#id": ["u0", "u1"],
    "nodes/item.#size": [3],
    "edges/buys.#size": [3],
    "edges/buys.#source": [0, 0, 1],
    "edges/buys.#target": [0, 2, 2],
    "edges/buys.price": [1.0, 4.0, -2.0],
    "edges/_readout/seed.#source": [0],
}


def _save(folder: Path, module: Any, served: ServedTask = _SERVED) -> str:
    tf.saved_model.save(module, str(folder), signatures=module.predict)
    write_served_task(served, str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def saved_model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _save(tmp_path_factory.mktemp("spending") / "model", _Spending())


@pytest.fixture
def record(make_record: Callable[..., bytes]) -> bytes:
    return make_record(EXAMPLE)


def test_occlusion_weighs_each_edge_and_all_edges_of_each_node(saved_model_dir: str, record: bytes) -> None:
    (explained,) = Explainer(saved_model_dir).explain([record])

    assert (explained.id, explained.method, explained.target_name) == ("u0", "occlusion", "0")
    assert (explained.value, explained.value_without_edges, explained.edges_error) == (3.0, 0.0, None)
    assert [(edge.position, edge.source_id, edge.target, edge.weight) for edge in explained.edges] == [
        (1, "u0", 2, 4.0), (2, "u1", 2, -2.0), (0, "u0", 0, 1.0),
    ]  # fmt: skip
    assert [(node.node_set, node.index, node.id, node.weight) for node in explained.nodes] == [
        ("user", 0, "u0", 5.0), ("item", 2, None, 2.0), ("user", 1, "u1", -2.0), ("item", 0, None, 1.0),
    ]  # fmt: skip
    assert explained.features == {}


def test_another_output_is_explained_by_its_position(saved_model_dir: str, record: bytes) -> None:
    (explained,) = Explainer(saved_model_dir).explain([record], target="1")

    # 3^2, and 2^2, 5^2 and (-1)^2 without the first, third and second edge.
    assert {edge.position: edge.weight for edge in explained.edges} == {0: 5.0, 1: 8.0, 2: -16.0}


def test_a_class_is_explained_by_its_name_as_log_odds(tmp_path: Path, record: bytes) -> None:
    served = ServedTask(
        task={}, label_keys=(), roots=(), tensor_inputs={}, classes={"": ["yes", "no"]}, edge_ends=_SERVED.edge_ends
    )
    explainer = Explainer(_save(tmp_path / "model", _Classes(), served))

    predicted, other = (next(explainer.explain([record], target=target)) for target in (None, "no"))

    assert (predicted.target_name, predicted.value, predicted.edges[0].weight) == ("yes", 3.0, 4.0)
    assert (other.target_name, other.value, other.edges[0].weight) == ("no", -3.0, -4.0)
    with pytest.raises(ValueError, match=r"`target` must be one of \['yes', 'no'\]; got 'maybe'"):
        next(explainer.explain([record], target="maybe"))


def test_contexts_change_only_weights_of_edges_that_depend_on_each_other(saved_model_dir: str, record: bytes) -> None:
    def weights(target: str, num_contexts: int) -> dict[int, float]:
        explainer = Explainer(saved_model_dir, num_contexts=num_contexts)
        return {edge.position: edge.weight for edge in next(explainer.explain([record], target=target)).edges}

    assert weights("0", 9) == weights("0", 1)  # a sum
    found = weights("1", 9)
    # Of a square, an edge adds w^2 + 2ws, where s is the sum of those other edges that a context keeps: from all of
    # them (1) or, for the first, 4 and -2 together or alone (-2 to 4), or none.
    assert found == weights("1", 9) != weights("1", 1)
    assert 1 + 2 * -2 <= found[0] <= 1 + 2 * 4
    assert 16 + 8 * -2 <= found[1] <= 16 + 8 * 1


def test_what_cannot_be_explained_is_refused(
    saved_model_dir: str, record: bytes, make_record: Callable[..., bytes]
) -> None:
    ragged = make_record({**EXAMPLE, "edges/buys.words.d1": [0, 0, 0], "edges/buys.words": []})

    with pytest.raises(ValueError, match="`target` must be below 2, the number of classes, outputs or candidates"):
        next(Explainer(saved_model_dir).explain([record], target=2))
    with pytest.raises(ValueError, match="`method` must not be 'gradients' for a model without signature"):
        Explainer(saved_model_dir, method="gradients")
    with pytest.raises(ValueError, match="`method` must be one of"):
        Explainer(saved_model_dir, method="magic")
    with pytest.raises(ValueError, match="`num_contexts` must be at least 1; got 0"):
        Explainer(saved_model_dir, num_contexts=0)
    with pytest.raises(ValueError, match=r"got the ragged feature 'edges/buys\.words'"):
        next(Explainer(saved_model_dir).explain([ragged]))


def test_a_model_that_does_not_declare_the_ends_of_edges_is_refused(tmp_path: Path, record: bytes) -> None:
    model = _save(tmp_path / "model", _Spending(), ServedTask(task={}, label_keys=(), roots=(), tensor_inputs={}))

    with pytest.raises(ValueError, match=r"declares the node sets at the ends of \['buys'\]; got one of an earlier"):
        next(Explainer(model).explain([record]))


def test_the_command_prints_tables_or_json(saved_model_dir: str, record: bytes, tmp_path: Path) -> None:
    examples = str(tmp_path / "examples")
    with tf.io.TFRecordWriter(examples) as file:
        file.write(record)
    arguments = ["explain", "--model-dir", saved_model_dir, "--examples", examples]

    page = tmp_path / "page.html"

    shown = CliRunner().invoke(app, [*arguments, "--top", "1", "--page", str(page)], env={"COLUMNS": "120"})
    plain = CliRunner().invoke(app, [*arguments, "--json"])

    assert shown.exit_code == plain.exit_code == 0, shown.output + plain.output
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "Predicted 3 units of the label; the true label is unknown, because the example does not hold it." in lines
    assert "The explained value is 3.0000 units of the label, and 0.0000 without edges." in lines
    # 4 of 1 + 4 + 2 in all; 5 of 5 + 2 + 2 + 1.
    assert "edge value in the table weight, units of the label share" in lines
    assert "buys: u0 -> 2 price = 4.0 +4.0000 57.1%" in lines
    assert "user u0 +5.0000 50.0%" in lines
    # Without the first two parts, 1 + 4 is gone.
    assert any(
        line.startswith("Removing the 2 parts that speak most for it lowers the prediction by 5") for line in lines
    )
    found = json.loads(plain.stdout.splitlines()[-1])
    assert found["edges"][0] == {
        "edge_set": "buys", "position": 1, "source": 0, "target": 2, "source_id": "u0", "target_id": None,
        "weight": 4.0, "share": 4.0 / 7.0, "features": {}, "values": {"price": 4.0},
    }  # fmt: skip
    assert (found["unit"], found["predicted"], found["label"]) == ("units of the label", 3.0, None)
    assert found["check"]["explained"] == [0.0, 4.0, 5.0]
    drawn = page.read_text()
    assert '"weights": [1.0, 4.0, -2.0]' in drawn
    assert "The explained value is 3.0000 units of the label, and 0.0000 without edges." in drawn
    assert 'aria-labelledby="check-0-title"' in drawn

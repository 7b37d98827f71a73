"""A model whose answer is known: the price of one neighbor decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.codec.flat_tensors import graph_to_flat_tensors
from tfx_gnn.graph.ops.readout import structured_readout
from tfx_gnn.reports.explanation_texts import check_sentence, check_warning, prediction_text, weight_tables
from tfx_gnn.serving.explained_prediction import Explanation
from tfx_gnn.serving.explanation import Explainer
from tfx_gnn.serving.explanation_check import feature_groups
from tfx_gnn.serving.model_interface import REQUEST_SCHEMA_FILE, ServedTask, write_served_task
from tfx_gnn.training.export.explanations import explain_graph

_SCHEMA = tfx_gnn.parse_schema("""
    node_sets { key: "user" value {} }
    node_sets { key: "item" value {
        features { key: "price" value { dtype: DT_FLOAT } }
        features { key: "released" value { dtype: DT_INT64 } }
        features { key: "stock" value { dtype: DT_INT64 } }
        metadata { extra { key: "default.stock" value: "-1" }
                   extra { key: "unit.released" value: "seconds since 1970" } } } }
    node_sets { key: "_readout" value {} }
    edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
    edge_sets { key: "buys" value { source: "item" target: "user" } }
""")
_SPEC = tfx_gnn.create_graph_spec_from_schema_pb(_SCHEMA)
_NUM_ITEMS = 12
EXAMPLE = {
    "nodes/user.#size": [1],
    "nodes/item.#size": [_NUM_ITEMS],
    "nodes/item.#id": [f"i{index}" for index in range(_NUM_ITEMS)],
    "nodes/item.price": [0.0] * 7 + [6.0] + [0.0] * 4,
    "nodes/item.released": [1_700_000_000 + index for index in range(_NUM_ITEMS)],
    "nodes/item.stock": [-1, *range(1, _NUM_ITEMS)],
    "nodes/_readout.#size": [1],
    "nodes/_readout.kind": ["cheap"],
    "edges/_readout/seed.#size": [1],
    "edges/_readout/seed.#source": [0],
    "edges/_readout/seed.#target": [0],
    "edges/buys.#size": [_NUM_ITEMS],
    "edges/buys.#source": list(range(_NUM_ITEMS)),
    "edges/buys.#target": [0] * _NUM_ITEMS,
}


def _outputs(graph: tfx_gnn.GraphTensor) -> Mapping[str, tf.Tensor]:
    """Logits of "dear" and "cheap": the sum of prices minus 2, and 0."""
    sums = tfx_gnn.pool_neighbors_to_node(graph, "buys", tfx_gnn.TARGET, reduce_type="sum", feature_name="double_price")
    of_users = graph.replace_features(node_sets={"user": {"sum": sums}})
    total = structured_readout(of_users, "seed", feature_name="sum") / 2.0 - 2.0
    return {"logits": tf.stack([total, tf.zeros_like(total)], axis=1)}


def _transformed(examples: tf.Tensor) -> tfx_gnn.GraphTensor:
    """Doubles prices, under another name."""
    graph = parse_and_merge(_SPEC, examples)
    return graph.replace_features(node_sets={"item": {"double_price": 2.0 * graph.node_sets["item"]["price"]}})


class _DearestItem(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return _outputs(_transformed(examples))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transform(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return graph_to_flat_tensors(_transformed(examples))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="examples"),
            tf.TensorSpec([None], tf.int64, name="target"),
        ]
    )
    def explain(self, examples: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        return explain_graph(_outputs, _transformed(examples), target, steps=16)


@pytest.fixture(scope="module")
def saved_model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, model = tmp_path_factory.mktemp("dearest") / "model", _DearestItem()
    signatures = {"serving_default": model.predict, "transformed_graph": model.transform, "explanations": model.explain}
    tf.saved_model.save(model, str(folder), signatures=signatures)
    served = ServedTask(
        task={"kind": "node_classification", "label_feature": "kind"},
        label_keys=("nodes/_readout.kind",),
        roots=("seed",),
        tensor_inputs={},
        classes={"": ["dear", "cheap"]},
        edge_ends={"buys": ["item", "user"], "_readout/seed": ["user", "_readout"]},
    )
    write_served_task(served, str(folder))
    tfx_gnn.write_schema(_SCHEMA, str(Path(folder) / REQUEST_SCHEMA_FILE))
    return str(folder)


@pytest.fixture(scope="module")
def explained(saved_model_dir: str, make_record: Callable[..., bytes]) -> Explanation:
    return next(Explainer(saved_model_dir, num_orders=20).explain([make_record(EXAMPLE)]))


def test_the_deciding_feature_is_named_with_its_raw_value(explained: Explanation) -> None:
    items = next(table for table in weight_tables(explained, 3) if table.kind.startswith("feature of a node"))
    edges = weight_tables(explained, 1)[0]

    assert explained.columns == {"nodes/item.double_price": ("price",)}
    # The sum of prices is 6: log odds of 4, and of -2 without edges or features.
    ((name, values, weight, share),) = items.rows
    assert (name, values, share) == ("item i7, double_price", "price = 6.0", 1.0)
    assert weight == pytest.approx(6.0, rel=1e-4)
    assert edges.rows[0][0] == "buys: i7 -> 0"
    assert edges.rows[0][2] == pytest.approx(6.0, rel=1e-4)
    assert explained.unit == "log odds"


def test_times_and_missing_values_are_those_of_the_table(explained: Explanation) -> None:
    values = {node.id: node.values for node in explained.nodes}

    assert values["i0"] == {"released": "2023-11-14T22:13:20Z", "price": 0.0, "stock": None}
    assert values["i7"]["stock"] == 7


def test_the_prediction_stands_beside_the_true_class(
    explained: Explanation, saved_model_dir: str, make_record: Callable[..., bytes]
) -> None:
    without_label = {key: values for key, values in EXAMPLE.items() if key != "nodes/_readout.kind"}
    unknown = next(Explainer(saved_model_dir).explain([make_record(without_label)], target="cheap"))

    # 1 / (1 + exp(-4)) = .982.
    assert prediction_text(explained) == "Predicted dear with a probability of 98.2%; the true kind is cheap."
    assert prediction_text(unknown) == (
        "Predicted dear; explained is cheap with a probability of 1.8%; the true label is unknown, because the example "
        "does not hold it."
    )


def test_the_check_passes(explained: Explanation) -> None:
    check = explained.check

    # Edges and prices: 24 parts, of which the edge and the price of one item have a weight. Without it, the probability
    # is 1 / (1 + exp(2)) = .119; a removed price becomes the mean, .5, so that it is 1 / (1 + exp(1.5)) = .182.
    assert check is not None
    assert (check.verdict, check.num_parts, check.num_kept) == ("better than random", 24, 0)
    assert check.explained[-1] == pytest.approx(0.982 - 0.119, abs=1e-3)
    assert check_sentence(explained).startswith(
        "Removing the 2 parts that speak most for it lowers the probability of dear by 86.3 percentage points; "
        "2 random parts of 24 by "
    )
    assert check_warning(explained) == ""


def test_shuffled_weights_are_warned_of(
    explained: Explanation, saved_model_dir: str, make_record: Callable[..., bytes]
) -> None:
    def shuffled(explanation: Explanation) -> Explanation:
        """Gives the weights of the deciding item to another."""
        moved = {"i7": "i0", "i0": "i7"}
        weights = {node.id: node.features for node in explanation.nodes}
        edges = {edge.source_id: edge.weight for edge in explanation.edges}
        return dataclasses.replace(
            explanation,
            nodes=tuple(
                dataclasses.replace(node, features=weights[moved.get(node.id, node.id)]) for node in explanation.nodes
            ),
            edges=tuple(
                dataclasses.replace(edge, weight=edges[moved.get(edge.source_id, edge.source_id)])
                for edge in explanation.edges
            ),
        )

    explainer = Explainer(saved_model_dir, num_orders=20)
    right = next(explainer.explain([make_record(EXAMPLE)]))
    wrong = explainer.checked(shuffled(right), make_record(EXAMPLE))

    assert right == explained
    assert wrong.check is not None
    assert wrong.check.verdict == "no better than random"
    assert check_warning(wrong).startswith("This explanation is no better than random")


def test_features_that_share_columns_are_one_part() -> None:
    columns = {"nodes/u.x": ["a"], "nodes/u.y": ["b"], "nodes/u.z": ["a", "c"], "nodes/u.v": ["c"]}

    assert feature_groups("nodes/u", ["x", "y", "z", "v"], columns) == [(["x", "z", "v"], ["a", "c"]), (["y"], ["b"])]

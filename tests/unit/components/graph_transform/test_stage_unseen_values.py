"""What the transform does with values that its statistics never saw, in files and in requests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.transform.graph_view import GraphView
from tfx_gnn.transform.transform_layer import GraphTransformLayer

SCHEMA = """
context { features { key: "day" value { dtype: DT_INT64 } } }
node_sets { key: "a" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } }
    features { key: "constant" value { dtype: DT_FLOAT } }
    features { key: "gaps" value { dtype: DT_FLOAT } }
    features { key: "number" value { dtype: DT_INT64 } }
    features { key: "word" value { dtype: DT_STRING } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "floats" value { dtype: DT_FLOAT shape { dim { size: -1 } } } } } }
node_sets { key: "late" value {
    features { key: "y" value { dtype: DT_FLOAT } }
    features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "kind" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_STRING } } } }
edge_sets { key: "to_a" value { source: "a" target: "a" features { key: "w" value { dtype: DT_FLOAT } } } }
edge_sets { key: "to_late" value { source: "a" target: "late" features { key: "w" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }
"""
NAN = float("nan")

NODES: dict[str, dict[str, Any]] = {
    # In training: x has mean 5 and variance (25 + 9 + 9 + 25) / 4 = 17, gaps without NaN mean 2 and variance 1.
    "n0": {"x": 0.0, "gaps": 1.0, "number": 7, "word": "red", "words": ["p", "q"], "floats": [1.0, 3.0]},
    "n1": {"x": 2.0, "gaps": NAN, "number": 7, "word": "red", "words": ["p"], "floats": []},
    "n2": {"x": 8.0, "gaps": 3.0, "number": 8, "word": "blue", "words": [], "floats": [5.0]},
    "n3": {"x": 10.0, "gaps": NAN, "number": 9, "word": "", "words": ["", "p"], "floats": []},
    # And then:
    "low": {"x": -5.0, "gaps": NAN, "number": -1, "word": "green", "words": [], "floats": []},
    "high": {"x": 20.0, "gaps": 9.0, "number": 10**12, "word": "", "words": ["z", "", "q"], "floats": [-7.0, 1e6]},
}


def example(
    nodes: list[str], late: int = 0, label: str | None = "yes", day: int = 1, constant: float = 3.0
) -> dict[str, list[Any]]:
    """A chain of nodes of "a", the first of which points to all of "late"."""
    content: dict[str, list[Any]] = {
        "context/day": [day],
        "nodes/a.#size": [len(nodes)],
        "nodes/a.#id": nodes,
        "nodes/a.constant": [constant] * len(nodes),
        **{f"nodes/a.{name}": [NODES[node][name] for node in nodes] for name in ("x", "gaps", "number", "word")},
        "nodes/late.#size": [late],
        "nodes/late.y": [2.0 + number for number in range(late)],
        "nodes/late.pair": [1.0, -1.0] * late,
        "nodes/late.kind": ["odd"] * late,
        "nodes/_readout.#size": [1],
        "edges/to_a.#size": [max(len(nodes) - 1, 0)],
        "edges/to_a.#source": list(range(len(nodes) - 1)),
        "edges/to_a.#target": list(range(1, len(nodes))),
        "edges/to_a.w": [float(number) for number in range(1, len(nodes))],
        "edges/to_late.#size": [late],
        "edges/to_late.#source": [0] * late,
        "edges/to_late.#target": list(range(late)),
        "edges/to_late.w": [4.0] * late,
        "edges/_readout/seed.#size": [min(len(nodes), 1)],
        "edges/_readout/seed.#source": [0][: len(nodes)],
        "edges/_readout/seed.#target": [0][: len(nodes)],
    }
    for name in ("words", "floats"):
        content[f"nodes/a.{name}"] = [value for node in nodes for value in NODES[node][name]]
        content[f"nodes/a.{name}.d1"] = [len(NODES[node][name]) for node in nodes]
    if label is not None:
        content["nodes/_readout.label"] = [label]
    return content


TRAIN = [example(["n0", "n1"]), example(["n2", "n3", "n0"], label="no"), example(["n1", "n2"])]
UNSEEN = {
    "other nodes": example(["low", "high"], label="maybe", day=99),
    "another constant": example(["n0"], constant=5.0),
    "a set that training lacks": example(["n1", "n3"], late=2),
    "no node": example([]),
}


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Every kind of statistic that has to answer for unseen values."""
    a, late = graph.node_sets["a"], graph.node_sets["late"]
    to_a, to_late = graph.edge_sets["to_a"], graph.edge_sets["to_late"]
    return graph.replace_features(
        context={"day": tft.compute_and_apply_vocabulary(graph.context["day"], num_oov_buckets=1)},
        node_sets={
            "a": {
                "x_z": tft.scale_to_z_score(a["x"]),
                "x_unit": tft.scale_to_0_1(a["x"]),
                "x_bucket": tft.bucketize(a["x"], num_buckets=4),
                "x_density": tft.estimated_probability_density(a["x"], boundaries=[-0.5, 5.0, 10.5]),
                "constant_z": tft.scale_to_z_score(a["constant"]),
                "constant_unit": tft.scale_to_0_1(a["constant"]),
                "gaps_z": tft.scale_to_z_score(a["gaps"]),
                "gaps_unit": tft.scale_to_0_1(a["gaps"]),
                "gaps_bucket": tft.bucketize(a["gaps"], num_buckets=2),
                "gaps_filled": tf.where(tf.math.is_nan(a["gaps"]), tft.mean(a["gaps"]), a["gaps"]),
                "number": tft.compute_and_apply_vocabulary(a["number"]),
                "word": tft.compute_and_apply_vocabulary(a["word"], vocab_filename="word"),
                "word_or_rest": tft.compute_and_apply_vocabulary(a["word"], num_oov_buckets=1),
                "word_hash": tft.hash_strings(a["word"], 5),
                "x_by_word": tft.scale_to_z_score_per_key(a["x"], key=a["word"]),
                "x_bucket_by_word": tft.bucketize_per_key(a["x"], a["word"], num_buckets=2),
                "words": tft.compute_and_apply_vocabulary(a["words"], vocab_filename="words", default_value=-7),
                "floats": tft.scale_to_z_score(a["floats"]),
            },
            "late": {
                "y_z": tft.scale_to_z_score(late["y"]),
                "y_unit": tft.scale_to_0_1(late["y"]),
                "y_bucket": tft.bucketize(late["y"], num_buckets=3),
                "y_less_mean": late["y"] - tft.mean(late["y"]),
                "pair": tft.scale_to_z_score(late["pair"], elementwise=True),
                "kind": tft.compute_and_apply_vocabulary(late["kind"], vocab_filename="kind"),
                "kind_or_rest": tft.compute_and_apply_vocabulary(late["kind"], num_oov_buckets=1),
            },
            "_readout": {"label": tft.compute_and_apply_vocabulary(graph.node_sets["_readout"]["label"])},
        },
        edge_sets={
            "to_a": {"w": tft.scale_to_z_score(to_a["w"])},
            "to_late": {"w": tft.scale_to_z_score(to_late["w"])},
        },
    )


@pytest.fixture(scope="module")
def folders(write_examples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unseen")
    splits = {"train": [TRAIN], "unseen": [list(UNSEEN.values())]}
    examples_dir = write_examples(str(folder / "examples"), splits, SCHEMA)
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(
            preprocessing_fn=f"{__name__}:preprocessing_fn",
            nonfinite_features=("nodes/a.gaps_unit", "nodes/a.gaps_z"),
        ),
    )
    return folder


@pytest.fixture(scope="module")
def transformed(folders, read_examples):
    """The examples in the files after the transform, by name."""
    contents = read_examples(str(folders / "transformed"), "unseen")
    return dict(zip(UNSEEN, contents, strict=True))


_DEVIATION = math.sqrt(17)


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        # -5 and 20, where 0 to 10 was seen.
        ("other nodes", "nodes/a.x_z", [-10 / _DEVIATION, 15 / _DEVIATION]),
        ("other nodes", "nodes/a.x_unit", [-0.5, 2.0]),
        ("other nodes", "nodes/a.x_bucket", [0, 3]),
        ("other nodes", "nodes/a.number", [-1, -1]),
        ("other nodes", "nodes/a.floats", [-10 / math.sqrt(8 / 3), (1e6 - 3) / math.sqrt(8 / 3)]),
        ("other nodes", "context/day", [1]),  # One day was seen, so 1 is the bucket for others.
        # "green" was not seen. The empty text was, yet tf.Transform takes it into no vocabulary.
        ("other nodes", "nodes/a.word", [-1, -1]),
        ("other nodes", "nodes/a.word_or_rest", [2, 2]),
        ("other nodes", "nodes/a.words", [-7, -7, 1]),
        ("other nodes", "nodes/a.words.d1", [0, 3]),
        ("other nodes", "nodes/_readout.label", [-1]),
        # A key that was not seen leaves numbers as they are, and has no bucket. The empty text is a key: its 10 alone.
        ("other nodes", "nodes/a.x_by_word", [-5.0, 20.0 - 10.0]),
        ("other nodes", "nodes/a.x_bucket_by_word", [-1, 1]),
        # A constant has no variance: what is left is the difference to it; between 0 and 1, the logistic function.
        ("other nodes", "nodes/a.constant_z", [0.0, 0.0]),
        ("another constant", "nodes/a.constant_z", [2.0]),
        ("another constant", "nodes/a.constant_unit", [1 / (1 + math.exp(-5))]),
        # NaN is passed over by means, variances and quantiles, stays NaN, and is in the last bucket.
        ("other nodes", "nodes/a.gaps_z", [NAN, 7.0]),
        ("other nodes", "nodes/a.gaps_bucket", [1, 1]),
        ("other nodes", "nodes/a.gaps_filled", [2.0, 9.0]),
        # Of sets without a single item there are no statistics: a mean is 0, a variance nothing to divide by.
        ("a set that training lacks", "nodes/late.y_z", [2.0, 3.0]),
        ("a set that training lacks", "nodes/late.y_less_mean", [2.0, 3.0]),
        ("a set that training lacks", "nodes/late.y_unit", [1 / (1 + math.exp(-y)) for y in (2.0, 3.0)]),
        ("a set that training lacks", "nodes/late.pair", [1.0, -1.0, 1.0, -1.0]),
        ("a set that training lacks", "nodes/late.kind", [-1, -1]),
        ("a set that training lacks", "nodes/late.kind_or_rest", [1, 1]),  # A word for an empty vocabulary is 0.
        ("a set that training lacks", "edges/to_late.w", [4.0, 4.0]),
    ],
)
def test_unseen_values_have_defined_results(transformed, name, key, expected):
    found = transformed[name][key]

    if isinstance(expected[0], float):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert found == expected


def test_a_hash_and_a_bucket_are_in_range_whatever_comes(transformed):
    for content in transformed.values():
        assert set(content["nodes/a.word_hash"]) <= set(range(5))
        assert set(content["nodes/a.x_bucket"]) <= set(range(4))
        assert set(content["nodes/late.y_bucket"]) <= set(range(3))


def test_an_example_without_nodes_has_empty_features(transformed):
    content = transformed["no node"]

    assert content["nodes/a.#size"] == [0]
    assert content["context/day"] == [0]
    assert all(
        not values for key, values in content.items() if key.startswith(("nodes/a.", "edges/")) and "#" not in key
    )


def _request(layer: GraphTransformLayer, records: list[bytes], schema: str) -> dict[str, Any]:
    """The transformed features of raw examples, by key, as a model that is served gets them."""
    spec = create_graph_spec_from_schema_pb(text_format.Parse(schema, graph_schema_pb2.GraphSchema()))
    graph = layer(parse_and_merge(spec, tf.constant(records)))
    found = {f"context/{name}": value for name, value in graph.context.features.items()}
    for kind, sets in (("nodes", graph.node_sets), ("edges", graph.edge_sets)):
        for set_name, one_set in sets.items():
            found.update({f"{kind}/{set_name}.{name}": value for name, value in one_set.features.items()})
    return found


@pytest.fixture(scope="module")
def layer(folders):
    return GraphTransformLayer(str(folders / "transform_graph"))


@pytest.mark.parametrize("names", [*((name,) for name in UNSEEN), tuple(UNSEEN)], ids=" and ".join)
def test_a_request_gets_what_stands_in_the_files(layer, transformed, make_record, names):
    served = _request(layer, [make_record(UNSEEN[name]) for name in names], SCHEMA)

    assert set(served) == {key for key in transformed["no node"] if "#" not in key and not key.endswith(".d1")}
    for key, value in served.items():
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        expected = [number for name in names for number in transformed[name][key]]
        np.testing.assert_array_equal(np.ravel(flat), np.array(expected, flat.dtype.as_numpy_dtype), err_msg=key)
        if isinstance(value, tf.RaggedTensor):
            lengths = [length for name in names for length in transformed[name][f"{key}.d1"]]
            assert value.row_lengths().numpy().tolist() == lengths


def test_a_request_needs_no_label(layer, transformed, make_record):
    schema = SCHEMA.replace('features { key: "label" value { dtype: DT_STRING } }', "")
    assert schema != SCHEMA

    served = _request(layer, [make_record(example(["low", "high"], label=None, day=99))], schema)

    assert served["nodes/_readout.label"].numpy().tolist() == [-1]
    assert served["nodes/a.words"].to_list() == [[], [-7, -7, 1]]
    assert served["nodes/a.x_unit"].numpy().tolist() == transformed["other nodes"]["nodes/a.x_unit"]


def test_the_bounds_of_a_feature_with_nan_are_none_and_others_are_not_harmed(transformed):
    content = transformed["another constant"]

    # tf.Transform's bounds of values among which is NaN are NaN; what is left is the logistic function.
    np.testing.assert_allclose(content["nodes/a.gaps_unit"], [1 / (1 + math.exp(-1))], rtol=1e-6)
    assert content["nodes/a.x_unit"] == [0.0]

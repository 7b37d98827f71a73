from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.slices import Slicing, make_slicings, slice_value
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

SCHEMA = text_format.Parse(
    """
    node_sets { key: "user" value {} } node_sets { key: "item" value {} } node_sets { key: "_readout" value {} }
    edge_sets { key: "knows" value { source: "user" target: "user" } }
    edge_sets { key: "buys" value { source: "user" target: "item" } }
    edge_sets { key: "like" value { source: "item" target: "item" } }
    edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
    """,
    GraphSchema(),
)


def features(**lists: Any) -> Any:
    """An example whose seed is user 1 of 3."""
    content = {
        "nodes/user.#size": [3],
        "edges/_readout/seed.#source": [1],
        **{name.replace("__", "/").replace("_of_", ".#"): values for name, values in lists.items()},
    }
    example = tf.train.Example()
    for name, values in content.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(example.features.feature[name], kind).value.extend(values)
    return example.features.feature


@pytest.mark.parametrize(
    ("age", "expected"),
    [(19.5, "< 20"), (20.0, "[20, 40)"), (39.0, "[20, 40)"), (40.0, ">= 40"), (float("nan"), "(none)")],
)
def test_number_is_in_the_slice_between_its_edges(age: float, expected: str) -> None:
    slicing = Slicing(key="context/age", edges=(20.0, 40.0))

    assert slice_value(features(context__age=[age]), slicing, "here") == expected
    assert slice_value(features(), slicing, "here") == "(none)"


def test_slices_between_large_numbers_have_names_of_their_own() -> None:
    slicing = Slicing(key="context/time", edges=(1700000000.0, 1700000001.5, 1700086400.0))

    found = [slice_value(features(context__time=[time]), slicing, "here") for time in (1700000000, 1700000002)]

    assert found == ["[1700000000, 1700000001.5)", "[1700000001.5, 1700086400)"]


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [([0], [2], "0"), ([1], [0], "1"), ([1, 0], [0, 1], "2-3"), ([1, 1, 1, 1], [1, 0, 0, 0], "4-7")],
)
def test_degree_counts_the_edges_of_the_seed_at_both_ends(sources: Any, targets: Any, expected: str) -> None:
    (slicing,) = make_slicings(["degree/knows"], {}, SCHEMA)
    example = features(edges__knows_of_source=sources, edges__knows_of_target=targets)

    assert slice_value(example, slicing, "here") == expected


def test_degree_has_the_edges_that_are_given_and_counts_one_end_only() -> None:
    (slicing,) = make_slicings(["degree/buys"], {"degree/buys": (2.0,)}, SCHEMA)
    example = features(edges__buys_of_source=[1, 1, 0], edges__buys_of_target=[1, 1, 1])

    assert slicing.ends == ("edges/buys.#source",)
    assert slice_value(example, slicing, "here") == ">= 2"
    # An edge set without edges in this example.
    assert slice_value(features(), slicing, "here") == "< 2"


def test_degree_in_an_edge_set_without_seeds_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"from or to the seed's node set \['user'\]; got 'degree/like' from 'item' to"
    ):
        make_slicings(["degree/like"], {}, SCHEMA)
    with pytest.raises(
        ValueError, match=r"must name an edge set of the examples; got 'degree/knew', but \['_readout/s"
    ):
        make_slicings(["degree/knew"], {}, SCHEMA)
    with pytest.raises(ValueError, match=r"got 'degree/knows', but no schema"):
        make_slicings(["degree/knows"], {}, None)


def test_floats_without_edges_are_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"got floats in 'context/age' of here. Write for example \{'context/age': "):
        slice_value(features(context__age=[1.0]), Slicing(key="context/age"), "here")


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"context/year": (1,)}, r"`slice_edges` must be of `slices`; got 'context/year'"),
        ({"context/age": (2, 1)}, r"`slice_edges` must be ascending numbers; got \[2.0, 1.0\] for 'context/age'"),
        ({"context/age": ()}, r"`slice_edges` must be ascending numbers; got \[\] for 'context/age'"),
    ],
)
def test_wrong_edges_are_refused(edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(label_feature="color", slices=("context/age",), slice_edges=edges)

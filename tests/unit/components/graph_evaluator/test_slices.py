from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.slice_knowledge import SliceKnowledge, hash_node_ids, union_of_hashes
from tfx_gnn.components.graph_evaluator.slices import Slicing, make_slicings, quantile_ranges, slice_values
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.models.tasks import LinkPrediction

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


def slice_value(example: Any, slicing: Slicing, place: str, knowledge: SliceKnowledge | None = None) -> str:
    (value,) = slice_values([example], slicing, [place], knowledge or SliceKnowledge())
    return value


def features(**lists: Any) -> Any:
    """An example whose seed is user 1 of 3."""
    content = {
        "nodes/user.#size": [3],
        "edges/_readout/seed.#source": [1],
        **{name.replace("__", "/").replace("_of_", ".#"): values for name, values in lists.items()},
    }
    example = tf.train.Example()
    for name, values in content.items():
        kind = {float: "float_list", bytes: "bytes_list"}.get(type(values[0]), "int64_list")
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


@pytest.mark.parametrize(("age", "expected"), [(20.0, "q1"), (20.5, "q2"), (40.0, "q2"), (41.0, "q4")])
def test_number_is_in_the_quantile_whose_upper_edge_it_does_not_exceed(age: float, expected: str) -> None:
    slicing = Slicing(key="context/age", num_quantiles=4)
    knowledge = SliceKnowledge(quantiles={"context/age": (20.0, 40.0, 40.0)})

    assert slice_value(features(context__age=[age]), slicing, "here", knowledge) == expected
    assert slice_value(features(), slicing, "here", knowledge) == "(none)"
    assert quantile_ranges((20.0, 40.0, 40.0)) == {"q1": "<= 20", "q2": "(20, 40]", "q3": "(40, 40]", "q4": "> 40"}
    assert quantile_ranges((0.25, 1767225600.0)) == {"q1": "<= 0.25", "q2": "(0.25, 1767225600]", "q3": "> 1767225600"}


def test_node_was_seen_if_training_has_its_id_in_the_same_node_set() -> None:
    (slicing,) = make_slicings(["seen_in_training"], {}, SCHEMA)
    example = features(nodes__user_of_id=[b"a", b"b", b"c"])

    def seen(node_set: str, name: bytes) -> str:
        knowledge = SliceKnowledge(seen=union_of_hashes([hash_node_ids(node_set, [name])]))
        return slice_value(example, slicing, "here", knowledge)

    assert slicing.roots == (("_readout/seed", "user"),)
    assert [seen("user", b"b"), seen("user", b"a"), seen("item", b"b")] == ["seen", "unseen", "unseen"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"user": 8, "item": 9}, "both ends seen"),
        ({"user": 8}, "source seen"),
        ({"item": 9}, "target seen"),
        ({"user": 9}, "unseen"),
    ],
)
def test_link_was_seen_by_both_of_its_ends(seen: dict[str, int], expected: str) -> None:
    schema = text_format.Parse(
        """
        edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
        edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
        """,
        GraphSchema(),
    )
    (slicing,) = make_slicings(["seen_in_training"], {}, schema)
    # The first of two pairs is from user 8 to item 9.
    example = features(nodes__user_of_id=[7, 8], nodes__item_of_id=[9, 10])
    for root, positions in (("source", [1, 1]), ("target", [0, 1])):
        example[f"edges/_readout/{root}.#source"].int64_list.value.extend(positions)
    hashes = [hash_node_ids(node_set, [number]) for node_set, number in seen.items()]

    assert slice_value(example, slicing, "here", SliceKnowledge(seen=union_of_hashes(hashes))) == expected


def test_seeds_without_ids_or_without_nodes_cannot_be_looked_for_in_training() -> None:
    (slicing,) = make_slicings(["seen_in_training"], {}, SCHEMA)

    with pytest.raises(ValueError, match=r"got no #id of node set 'user' in here. Leave it out, or sample"):
        slice_value(features(), slicing, "here")
    for schema in (None, GraphSchema()):
        with pytest.raises(
            ValueError, match=r"where examples are not about nodes or pairs of nodes; got (no sch|seeds)"
        ):
            make_slicings(["seen_in_training"], {}, schema)


def test_pairs_with_examples_of_their_own_cannot_be_sliced_by_what_was_seen() -> None:
    with pytest.raises(ValueError, match=r"must not name 'seen_in_training' where each pair has an example of its own"):
        GraphEvaluatorOptions(task=LinkPrediction(scoring="seal"), slices=("seen_in_training",))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"context/year": (1,)}, r"`slice_edges` must be of numbers among `slices`; got 'context/year'"),
        ({"seen_in_training": (1,)}, r"`slice_edges` must be of numbers among `slices`; got 'seen_in_training'"),
        ({"context/age": (2, 1)}, r"`slice_edges` must be ascending numbers; got \[2.0, 1.0\] for 'context/age'"),
        ({"context/age": ()}, r"`slice_edges` must be ascending numbers; got \[\] for 'context/age'"),
    ],
)
def test_wrong_edges_are_refused(edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(label_feature="color", slices=("context/age",), slice_edges=edges)


@pytest.mark.parametrize(
    ("quantiles", "edges", "message"),
    [
        ({"context/year": 4}, {}, r"`slice_quantiles` must be of numbers among `slices`; got 'context/year'"),
        ({"context/age": 4}, {"context/age": (1,)}, "must be of other features than `slice_edges`; got 'context/age'"),
        ({"context/age": 1}, {}, r"must be whole numbers in \[2, 100\]; got 1 for 'context/age'"),
        ({"context/age": 4.0}, {}, r"must be whole numbers in \[2, 100\]; got 4.0 for 'context/age'"),
    ],
)
def test_wrong_quantiles_are_refused(quantiles: Any, edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(
            label_feature="color", slices=("context/age",), slice_edges=edges, slice_quantiles=quantiles
        )

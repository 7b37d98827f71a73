import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.graph.batching.size_constraints import (
    SizeConstraints,
    tight_size_constraints_from_maxima,
    with_room_for_padding,
)

ONE_SET = {
    "max_num_nodes": {"docs": 3},
    "max_num_edges": {"cites": 6},
    "incident_node_sets": {"cites": ("docs", "docs")},
}


@pytest.mark.parametrize(("demand", "num_nodes"), [(0, 31), (1, 31), (4, 34)])
def test_maxima_are_multiplied_and_room_for_one_padding_component_is_added(demand, num_nodes):
    constraints = tight_size_constraints_from_maxima(
        **ONE_SET, batch_size=10, max_num_components=5, min_nodes_per_component={"docs": demand}
    )

    assert constraints == SizeConstraints(
        total_num_components=51,
        total_num_nodes={"docs": num_nodes},
        total_num_edges={"cites": 60},
        min_nodes_per_component={"docs": demand},
    )


def test_only_ends_of_edge_sets_get_a_node_for_padding():
    constraints = tight_size_constraints_from_maxima(
        max_num_nodes={"docs": 3, "authors": 2, "tags": 0},
        max_num_edges={"writes": 4},
        incident_node_sets={"writes": ("authors", "docs")},
        batch_size=2,
    )

    assert constraints.total_num_nodes == {"docs": 7, "authors": 5, "tags": 0}
    assert constraints.total_num_components == 3


def test_a_graph_without_sets_needs_only_a_component():
    constraints = tight_size_constraints_from_maxima(
        max_num_nodes={}, max_num_edges={}, incident_node_sets={}, batch_size=4
    )

    assert constraints == SizeConstraints(5, {}, {}, {})


def test_demand_is_optional_in_the_named_tuple():
    assert SizeConstraints(1, {}, {}).min_nodes_per_component == ()


def test_room_accepts_the_demand_as_pairs():
    enlarged = with_room_for_padding(
        SizeConstraints(2, {"a": 4, "b": 4}, {}, (("a", 3),)), padded_incident_node_sets=["b"]
    )

    assert enlarged == SizeConstraints(3, {"a": 7, "b": 5}, {}, (("a", 3),))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9), st.integers(0, 4))
def test_constraints_grow_with_the_batch(nodes, edges, batch_size, demand):
    def constraints(size):
        return tight_size_constraints_from_maxima(
            max_num_nodes={"docs": nodes},
            max_num_edges={"cites": edges},
            incident_node_sets={"cites": ("docs",)},
            batch_size=size,
            min_nodes_per_component={"docs": demand},
        )

    smaller, larger = constraints(batch_size), constraints(batch_size + 1)

    assert larger.total_num_components == smaller.total_num_components + 1
    assert larger.total_num_nodes["docs"] == smaller.total_num_nodes["docs"] + nodes
    assert larger.total_num_edges["cites"] == smaller.total_num_edges["cites"] + edges


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, r"`batch_size` must be at least 1; got 0"),
        ({"max_num_components": 0}, r"`max_num_components` must be at least 1"),
        ({"max_num_nodes": {"docs": -1}}, r"`max_num_nodes\['docs'\]` must be at least 0; got -1"),
        ({"max_num_edges": {"cites": -2}}, r"`max_num_edges\['cites'\]` must be at least 0"),
        ({"min_nodes_per_component": {"docs": -1}}, r"`min_nodes_per_component\['docs'\]` must be at least 0"),
        ({"min_nodes_per_component": {"nope": 1}}, r"`min_nodes_per_component` must name node sets .* \['nope'\]"),
        ({"incident_node_sets": {}}, r"`incident_node_sets` must have one entry per edge set"),
        ({"incident_node_sets": {"cites": ("nope",)}}, r"`incident_node_sets` must name node sets .* \['nope'\]"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        tight_size_constraints_from_maxima(**{**ONE_SET, "batch_size": 2, **change})

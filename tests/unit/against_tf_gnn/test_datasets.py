"""Datasets of graphs are made, batched and filtered as by tensorflow-gnn."""

import functools

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfx_gnn


def elements(dataset):
    return {"spec": list_of_specs(dataset.element_spec), "elements": list(dataset)}


def list_of_specs(spec):
    return list(spec) if isinstance(spec, tuple) else spec


def generated(library, plans, wrap):
    graphs = [plan.build(library) for plan in plans]
    return elements(library.dataset_from_generator(lambda: (wrap(graph) for graph in graphs)))


WRAPS = {
    "graphs": lambda graph: graph,
    "pairs": lambda graph: (graph, graph.context["scalar"]),
    "dicts": lambda graph: {"graph": graph, "words": graph.node_sets["a"]["words"]},
    "ragged": lambda graph: graph.node_sets["a"]["deep"],
    "pieces": lambda graph: (graph.node_sets["a"], graph.edge_sets["ab"].adjacency),
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_generated_datasets(oracle, few, graph_plans, agreement, wrap):
    @few(1)
    @given(plans=st.lists(graph_plans(min_components=1, max_components=1, lean=True), min_size=2, max_size=2))
    def check(plans):
        agreement(generated, (tfx_gnn, plans, WRAPS[wrap]), (oracle, plans, WRAPS[wrap]))

    check()


def small(library, graph):
    """Leaves out much of a graph, as tracing it takes the time here."""
    nodes = graph.node_sets["a"]
    return library.GraphTensor.from_pieces(
        node_sets={
            "a": nodes.replace_features({"scalar": nodes["scalar"], "deep": nodes["deep"]}),
            "b": graph.node_sets["b"].replace_features({}),
        },
        edge_sets={"ab": graph.edge_sets["ab"]},
    )


def dataset_of(library, plans):
    graphs = [small(library, plan.build(library)) for plan in plans]
    spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
    return tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)


def test_dynamic_batches(oracle, few, graph_plans, agreement):
    # It is documented there, and not exported.
    from tensorflow_gnn.graph import batching_utils

    def batched(library, function, plans, room):
        budget = library.SizeConstraints(
            total_num_components=2 + room,
            total_num_nodes={"a": 5 + room, "b": 5 + room},
            total_num_edges={"ab": 6 + room},
        )
        return elements(function(dataset_of(library, plans), budget))

    @few(1)
    @given(
        plans=st.lists(graph_plans(min_components=1, max_components=1, lean=True), min_size=3, max_size=5),
        room=st.integers(0, 9),
    )
    def check(plans, room):
        agreement(
            batched,
            (tfx_gnn, tfx_gnn.dynamic_batch, plans, room),
            (oracle, batching_utils.dynamic_batch, plans, room),
        )

    check()


def test_filters(oracle, few, graph_plans, agreement, tmp_path):
    def filtered(library, plans, num_nodes):
        budget = library.SizeConstraints(
            total_num_components=4,
            total_num_nodes={"a": num_nodes, "b": 99},
            total_num_edges={"ab": 99},
        )
        with tf.summary.create_file_writer(str(tmp_path / library.__name__)).as_default():
            return elements(
                library.dataset_filter_with_summary(
                    dataset_of(library, plans),
                    functools.partial(library.satisfies_total_sizes, total_sizes=budget),
                    summary_steps=2,
                )
            )

    @few(1)
    @given(
        plans=st.lists(graph_plans(min_components=1, max_components=1, lean=True), min_size=2, max_size=4),
        num_nodes=st.integers(1, 5),
    )
    def check(plans, num_nodes):
        agreement(filtered, (tfx_gnn, plans, num_nodes), (oracle, plans, num_nodes))

    check()


def test_random_graphs_are_of_the_same_type(oracle, few, graph_plans, agreement):
    def types(library, plan):
        spec = plan.build(library).spec.relax(num_nodes=True, num_edges=True)
        options = [{}, {"row_lengths_range": (2, 3)}, {"sample_dict": {("nodes", "a", "count"): [5, 6]}}]
        return [
            library.random_graph_tensor(spec, **option).spec.relax(num_nodes=True, num_edges=True) for option in options
        ]

    @few(2)
    @given(plan=graph_plans(min_components=1, max_components=1, lean=True))
    def check(plan):
        agreement(types, (tfx_gnn, plan), (oracle, plan))

    check()


def test_switches_of_validation(oracle, agreement):
    def broken(library):
        return library.GraphTensor.from_pieces(
            node_sets={"a": library.NodeSet.from_fields(sizes=tf.constant([1]), features={"x": tf.zeros([1])})},
            edge_sets={
                "e": library.EdgeSet.from_fields(
                    sizes=tf.constant([1]), adjacency=library.Adjacency.from_indices(("a", [7]), ("a", [0]))
                )
            },
        )

    def wrong_statically(library):
        return library.NodeSet.from_fields(sizes=[2], features={"x": tf.zeros([2]), "y": tf.zeros([3])})

    def with_checks(library):
        library.enable_graph_tensor_validation_at_runtime()
        try:
            return broken(library)
        finally:
            library.disable_graph_tensor_validation_at_runtime()

    def without_checks(library):
        library.disable_graph_tensor_validation()
        try:
            return wrong_statically(library)["y"]
        finally:
            library.enable_graph_tensor_validation()

    for operation in (broken, with_checks, wrong_statically, without_checks, broken):
        agreement(operation, (tfx_gnn,), (oracle,))

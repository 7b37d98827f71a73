"""Size constraints and padding are those of tensorflow-gnn."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfx_gnn

NODES, EDGES = ("a", "b", "latent"), ("ab", "ba", "aa", "al")


def constraints(lib, num_components, num_nodes, num_edges, minimum=()):
    return lib.SizeConstraints(
        total_num_components=num_components,
        total_num_nodes=dict.fromkeys(NODES, num_nodes),
        total_num_edges=dict.fromkeys(EDGES, num_edges),
        min_nodes_per_component=dict(minimum),
    )


def defaults(lib):
    return lib.FeatureDefaultValues(
        context={"scalar": tf.constant(9.0)},
        node_sets={"a": {"name": tf.constant("pad"), "vector": tf.constant(1.5)}},
        edge_sets={"ab": {"count": tf.constant(7, tf.int64), "name": tf.constant("")}},
    )


def test_padding(agree, graph_plans):
    budgets = {
        "plain": {"num_components": 5, "num_nodes": 16, "num_edges": 20},
        "minimum": {"num_components": 6, "num_nodes": 20, "num_edges": 17, "minimum": {"a": 1, "latent": 2}},
    }
    operations = {}
    for name, budget in budgets.items():
        operations[f"pad {name}"] = lambda lib, g, budget=budget: lib.pad_to_total_sizes(
            g, constraints(lib, **budget), validate=False
        )
    operations["pad with values"] = lambda lib, g: lib.pad_to_total_sizes(
        g, constraints(lib, **budgets["plain"]), padding_values=defaults(lib)
    )
    operations["satisfies"] = lambda lib, g: [
        lib.satisfies_size_constraints(g, constraints(lib, **budget)) for budget in budgets.values()
    ]
    operations["satisfies tightly"] = lambda lib, g: [
        lib.satisfies_total_sizes(g, constraints(lib, components, nodes, edges, minimum))
        # Each pair of values once.
        for components, nodes, edges, minimum in (
            (1, 0, 0, {}),
            (1, 3, 4, {"a": 1, "b": 1}),
            (3, 0, 4, {"a": 1, "b": 1}),
            (3, 3, 0, {"a": 1, "b": 1}),
            (3, 3, 4, {}),
        )
    ]
    agree(operations, graph_plans(lean=True), num_examples=1)


def test_padding_of_hyper_graphs(agree, graph_plans):
    def pad(lib, graph):
        budget = constraints(lib, 5, 16, 20)
        return lib.pad_to_total_sizes(graph, budget._replace(total_num_edges={**budget.total_num_edges, "hyper": 18}))

    agree({"pad": pad}, graph_plans(kind="hyper", lean=True), num_examples=1)


def totals(graph):
    return (
        graph.num_components.numpy(),
        {name: tf.reduce_sum(nodes.sizes).numpy() for name, nodes in graph.node_sets.items()},
        {name: tf.reduce_sum(edges.sizes).numpy() for name, edges in graph.edge_sets.items()},
    )


def test_budgets_near_the_size_of_the_graph(oracle, few, graph_plans, agreement):
    operations = {
        "satisfies": lambda lib, graph, budget: lib.satisfies_total_sizes(graph, budget),
        "asserts": lambda lib, graph, budget: lib.assert_satisfies_total_sizes(graph, budget) is None,
        "asserts constraints": lambda lib, graph, budget: (
            len(lib.assert_satisfies_size_constraints(graph, budget)) > 99
        ),
        "pad": lambda lib, graph, budget: lib.pad_to_total_sizes(graph, budget),
    }

    @few(10)
    @given(
        plan=graph_plans(lean=True),
        spare=st.lists(st.integers(-1, 2), min_size=8, max_size=8),
        minimum=st.integers(0, 2),
    )
    def check(plan, spare, minimum):
        arguments = []
        for library in (tfx_gnn, oracle):
            graph = plan.build(library)
            components, nodes, edges = totals(graph)
            budget = library.SizeConstraints(
                int(components) + spare[0],
                {name: max(int(nodes[name]) + extra, 0) for name, extra in zip(NODES, spare[1:4], strict=True)},
                {name: max(int(edges[name]) + extra, 0) for name, extra in zip(EDGES, spare[4:], strict=True)},
                {"a": minimum, "latent": minimum} if minimum else (),
            )
            arguments.append((library, graph, budget))
        agreement(operations["satisfies"], *arguments)
        agreement(operations["asserts"], *arguments)
        agreement(operations["asserts constraints"], *arguments)
        agreement(operations["pad"], *arguments)

    check()


def dataset_of(library, plans):
    graphs = [plan.build(library) for plan in plans]
    spec = graphs[0].spec.relax(num_components=True, num_nodes=True, num_edges=True)
    return tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)


def as_budget(found):
    return {name: value if isinstance(value, int) else dict(value) for name, value in found._asdict().items()}


def test_tight_constraints(oracle, few, graph_plans, agreement):
    def search(library, plans, batch_size, minimum):
        dataset = dataset_of(library, plans)
        return as_budget(
            library.find_tight_size_constraints(dataset, min_nodes_per_component=minimum, target_batch_size=batch_size)
        )

    @few(3)
    @given(
        plans=st.lists(graph_plans(lean=True), min_size=1, max_size=3),
        batch_size=st.sampled_from([None, 1, 3]),
        minimum=st.sampled_from([None, {}, {"a": 1}, {"a": 2, "latent": 0}]),
    )
    def check(plans, batch_size, minimum):
        agreement(search, (tfx_gnn, plans, batch_size, minimum), (oracle, plans, batch_size, minimum))

    check()


def test_learned_constraints_of_graphs_of_one_size(oracle, few, graph_plans, agreement):
    def learn(library, plan, minimum):
        found = library.learn_fit_or_skip_size_constraints(
            dataset_of(library, [plan] * 2),
            [1, 3],
            min_nodes_per_component=minimum,
            success_ratio=[0.5, 1.0],
            sample_size=20,
        )
        return [[as_budget(budget) for budget in budgets] for budgets in found]

    @few(2)
    @given(plan=graph_plans(min_components=1, lean=True), minimum=st.sampled_from([None, {"a": 1}]))
    def check(plan, minimum):
        agreement(learn, (tfx_gnn, plan, minimum), (oracle, plan, minimum))

    check()

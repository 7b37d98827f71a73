import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.ops.readout import (
    add_readout_from_first_node,
    context_readout_into_feature,
    gather_first_node,
    readout_named,
    readout_named_into_feature,
    structured_readout,
    structured_readout_into_feature,
)
from tfx_gnn.graph.ops.readout_structure import (
    validate_graph_tensor_for_readout,
    validate_graph_tensor_spec_for_readout,
)
from tfx_gnn.tpu_check.check import check_step


def edge_set(library, source, sources, target, targets, **features):
    return library.EdgeSet.from_fields(
        sizes=tf.constant([len(sources)]),
        features={name: tf.constant(values) for name, values in features.items()},
        adjacency=library.Adjacency.from_indices(
            (source, tf.constant(sources, tf.int32)), (target, tf.constant(targets, tf.int32))
        ),
    )


def make_graph(edges, num_readouts=1, readout="_readout", library=tfx_gnn.graph, **more_nodes):
    """Node sets "a" (x = 1, 2, 3) and "b" (x = 5, 6); `edges`: name -> (source, sources, target, targets)."""
    return library.GraphTensor.from_pieces(
        context=library.Context.from_fields(features={"c": tf.constant([0.5])}),
        node_sets={
            "a": library.NodeSet.from_fields(
                sizes=[3], features={"x": tf.constant([1.0, 2.0, 3.0]), "id": tf.constant(["p", "q", "r"])}
            ),
            "b": library.NodeSet.from_fields(sizes=[2], features={"x": tf.constant([5.0, 6.0])}),
            readout: library.NodeSet.from_fields(sizes=tf.constant([num_readouts])),
            **{
                name.replace("shadow_", "_shadow/"): library.NodeSet.from_fields(sizes=tf.constant([size]))
                for name, size in more_nodes.items()
            },
        },
        edge_sets={
            "links": edge_set(library, "a", [0, 1, 2], "b", [0, 1, 1], x=[10.0, 20.0, 30.0]),
            **{name: edge_set(library, *ends) for name, ends in edges.items()},
        },
    )


def seed(sources, targets=None, source="a", target="_readout"):
    return source, sources, target, list(range(len(sources))) if targets is None else targets


CASES = {
    "one seed": ({"_readout/seed": seed([2])}, {}, [3.0]),
    "several readouts": ({"_readout/seed": seed([2, 0])}, {"num_readouts": 2}, [3.0, 1.0]),
    "no readouts": ({"_readout/seed": seed([])}, {"num_readouts": 0}, []),
    "two sources interleave": (
        {"_readout/seed/1": seed([2], [1]), "_readout/seed/2": seed([0, 1], [0, 2], "b")},
        {"num_readouts": 3},
        [5.0, 3.0, 6.0],
    ),
    "with and without suffix": (
        {"_readout/seed": seed([2], [1]), "_readout/seed/b": seed([0], [0], "b")},
        {"num_readouts": 2},
        [5.0, 3.0],
    ),
    "edges by their shadow": (
        {"_readout/seed": seed([2, 0], None, "_shadow/links")},
        {"num_readouts": 2, "shadow_links": 3},
        [30.0, 10.0],
    ),
    "other sets do not matter": (
        {"_readout/seed": seed([1]), "_readoutx/seed": seed([0]), "other": seed([0])},
        {},
        [2.0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_read_in_the_order_of_readout_nodes(run, case):
    edges, more, expected = CASES[case]
    graph = make_graph(edges, **more)

    values = run(lambda graph: structured_readout(graph, "seed", feature_name="x"), graph)
    unchecked = run(lambda graph: structured_readout(graph, "seed", feature_name="x", validate=False), graph)
    checked = run(lambda graph: validate_graph_tensor_for_readout(graph, ["seed"]), graph)

    assert values.numpy().tolist() == expected
    assert unchecked.numpy().tolist() == expected
    assert structured_readout(checked, "seed", feature_name="x").numpy().tolist() == expected


def test_the_older_name_is_the_same_function():
    assert readout_named is structured_readout
    assert readout_named_into_feature is structured_readout_into_feature


def test_strings_and_other_readout_structures_are_read(run):
    graph = make_graph({"_readout:alt/seed": seed([1], None, "a", "_readout:alt")}, readout="_readout:alt")

    values = run(
        lambda graph: structured_readout(graph, "seed", feature_name="id", readout_node_set="_readout:alt"), graph
    )

    assert values.numpy().tolist() == [b"q"]


def test_static_numbers_of_readouts_stay_static_and_xla_accepts_them():
    graph = make_graph({"_readout/seed/1": seed([2], [1]), "_readout/seed/2": seed([0], [0], "b")}, num_readouts=2)
    graph = graph.remove_features(node_sets={"a": ["id"]})
    shapes = []

    @tf.function(jit_compile=True, input_signature=[graph.spec])
    def read(graph):
        values = structured_readout(graph, "seed", feature_name="x")
        shapes.append(values.shape.as_list())
        return values

    assert read(graph).numpy().tolist() == [5.0, 3.0]
    assert shapes == [[2]]
    # From the spec alone, as for a TPU: checks of values must not need them at compile time.
    lowered = tf.function(lambda graph: validate_graph_tensor_for_readout(graph).node_sets["a"]["x"], jit_compile=True)
    assert check_step(lowered, [graph.spec]) == ()


@pytest.mark.parametrize(
    ("edges", "more", "message"),
    [
        (
            {"_readout/seed": seed([2, 0], [1, 0])},
            {"num_readouts": 2},
            "Not strictly sorted by target: .*_readout/seed",
        ),
        ({"_readout/seed": seed([2, 0], [0, 0])}, {"num_readouts": 2}, "Not strictly sorted by target"),
        ({"_readout/seed": seed([2])}, {"num_readouts": 2}, r"Target indices not equal to range\(readout_size\)"),
        ({"_readout/seed": seed([2, 1])}, {"num_readouts": 1}, "Target indices not equal to range"),
        ({"_readout/seed": seed([])}, {"num_readouts": 1}, "Target indices not equal to range"),
        (
            {"_readout/seed/1": seed([2]), "_readout/seed/2": seed([0], None, "b")},
            {"num_readouts": 1},
            "Target indices not equal to range",
        ),
        (
            {"_readout/seed/1": seed([2], [1]), "_readout/seed/2": seed([0, 1], [1, 2], "b")},
            {"num_readouts": 3},
            "Target indices not equal to range",
        ),
        (
            {"_readout/seed": seed([1], None, "_shadow/links")},
            {"shadow_links": 2},
            "Shadow node set .*_shadow/links.* does not have the same sizes as shadowed edge set .*links",
        ),
    ],
)
def test_wrong_indices_are_named(run, edges, more, message):
    graph = make_graph(edges, **more)

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(lambda graph: structured_readout(graph, "seed", feature_name="x"), graph)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(
            lambda graph: structured_readout(
                validate_graph_tensor_for_readout(graph), "seed", feature_name="x", validate=False
            ),
            graph,
        )


@pytest.mark.parametrize(
    ("edges", "more", "key", "error", "message"),
    [
        ({"_readout/seed": seed([0])}, {}, "root", KeyError, r"Unknown readout keys \['root'\].*'_readout/root'"),
        (
            {"_readout/seed": seed([0])},
            {"readout": "_readout:q"},
            "seed",
            ValueError,
            "lacks auxiliary node set '_readout'",
        ),
        (
            {"_readout/seed": seed([0], target="a")},
            {},
            "seed",
            ValueError,
            "Expected target node set '_readout' but found",
        ),
        ({"_readout/": seed([0])}, {}, "seed", ValueError, "Malformed auxiliary edge set name: '_readout/'"),
        (
            {"_readout/seed": seed([0]), "_readout/seed/again": seed([1])},
            {},
            "seed",
            ValueError,
            "Duplicate readout edge set from nodes 'a': '_readout/seed/again' vs '_readout/seed'",
        ),
        (
            {"_readout/seed": seed([0], source="_shadow/f")},
            {"shadow_f": 1},
            "seed",
            ValueError,
            "lacks edge set 'f' referenced by auxiliary edge set '_readout/seed'",
        ),
    ],
)
def test_malformed_structures_are_named(edges, more, key, error, message):
    if more.get("readout"):
        edges = {name: (*ends[:2], "a", ends[3]) for name, ends in edges.items()}
    graph = make_graph(edges, **more)

    with pytest.raises(error, match=message):
        structured_readout(graph, key, feature_name="x")
    with pytest.raises(error, match=message):
        validate_graph_tensor_spec_for_readout(graph.spec, [key])


@pytest.mark.parametrize("name", ["a", "_readout:q-", "_readout:", "_readoutx"])
def test_readout_node_sets_have_a_fixed_form(name):
    with pytest.raises(ValueError, match="Malformed name of readout_node_set"):
        structured_readout(make_graph({"_readout/seed": seed([0])}), "seed", feature_name="x", readout_node_set=name)


def test_a_readout_node_set_without_edges_is_malformed():
    with pytest.raises(ValueError, match="Found node set '_readout' but no edge sets for readout into it"):
        validate_graph_tensor_spec_for_readout(make_graph({}).spec)


def test_a_missing_feature_is_named():
    with pytest.raises(KeyError, match="nope"):
        structured_readout(make_graph({"_readout/seed": seed([0])}), "seed", feature_name="nope")


def test_a_batch_of_graphs_is_refused():
    batch = tf.data.Dataset.from_tensors(make_graph({"_readout/seed": seed([0])})).batch(1).get_single_element()

    for call in (
        lambda: structured_readout(batch, "seed", feature_name="x"),
        lambda: validate_graph_tensor_for_readout(batch),
        lambda: validate_graph_tensor_spec_for_readout(batch.spec),
        lambda: gather_first_node(batch, "a", feature_name="x"),
        lambda: add_readout_from_first_node(batch, "root", node_set_name="a"),
        lambda: context_readout_into_feature(batch, feature_name="c"),
    ):
        with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
            call()


def test_a_readout_is_stored_and_its_input_removed(run):
    graph = make_graph({"_readout/seed": seed([2])})

    stored = run(
        lambda graph: structured_readout_into_feature(
            graph, "seed", feature_name="x", new_feature_name="label", remove_input_feature=True
        ),
        graph,
    )

    assert stored.node_sets["_readout"]["label"].numpy().tolist() == [3.0]
    assert set(stored.node_sets["a"].features) == {"id"}
    assert set(stored.node_sets["b"].features) == {"x"}


def test_a_readout_from_edges_removes_the_feature_of_the_edges():
    graph = make_graph({"_readout/seed": seed([2], None, "_shadow/links")}, shadow_links=3)

    stored = structured_readout_into_feature(graph, "seed", feature_name="x", remove_input_feature=True)

    assert stored.node_sets["_readout"]["x"].numpy().tolist() == [30.0]
    assert set(stored.edge_sets["links"].features) == set()


def test_a_stored_readout_is_only_replaced_on_demand():
    graph = structured_readout_into_feature(make_graph({"_readout/seed": seed([2])}), "seed", feature_name="x")

    with pytest.raises(ValueError, match="Output feature 'x' already exists on node set '_readout'"):
        structured_readout_into_feature(graph, "seed", feature_name="x")
    replaced = structured_readout_into_feature(graph, "seed", feature_name="id", new_feature_name="x", overwrite=True)

    assert replaced.node_sets["_readout"]["x"].numpy().tolist() == [b"r"]


def test_the_first_node_of_each_component_is_read(run, graph):
    first = run(lambda graph: gather_first_node(graph, "a", feature_name="id"), graph)
    value = run(lambda graph: gather_first_node(graph, "a", feature_value=tf.constant([[1], [2], [3]])), graph)

    assert first.numpy().tolist() == [b"p", b"r"]
    assert value.numpy().tolist() == [[1], [3]]


def test_an_added_readout_structure_reads_the_first_nodes(run, graph):
    def read(graph):
        graph = add_readout_from_first_node(graph, "root", node_set_name="a")
        graph = add_readout_from_first_node(graph, "other", node_set_name="b")
        return [structured_readout(graph, key, feature_name="x") for key in ("root", "other")]

    roots, others = run(read, graph)

    assert roots.numpy().tolist() == [1.0, 3.0]
    assert others.numpy().tolist() == [5.0, 6.0]


def with_empty_component(library):
    return library.GraphTensor.from_pieces(
        node_sets={
            "a": library.NodeSet.from_fields(sizes=tf.constant([2, 0]), features={"x": tf.constant([1.0, 2.0])}),
            "_readout": library.NodeSet.from_fields(sizes=tf.constant([1, 0])),
        }
    )


def test_a_component_without_nodes_has_no_first_one(run):
    graph = with_empty_component(tfx_gnn.graph)

    with pytest.raises(tf.errors.InvalidArgumentError, match="one or more components contain no nodes"):
        run(lambda graph: gather_first_node(graph, "a", feature_name="x"), graph)


def test_an_existing_readout_node_set_must_have_one_node_per_component(run, graph):
    wrong = tfx_gnn.graph.GraphTensor.from_pieces(
        context=graph.context,
        node_sets={**graph.node_sets, "_readout": tfx_gnn.graph.NodeSet.from_fields(sizes=[2, 1])},
        edge_sets=graph.edge_sets,
    )

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Existing aux node set .*_readout.* does not match"):
        run(lambda graph: add_readout_from_first_node(graph, "root", node_set_name="a"), wrong)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Existing aux node set .*_readout.* does not match"):
        run(lambda graph: context_readout_into_feature(graph, feature_name="c"), wrong)


def test_a_key_is_added_once_and_for_a_known_node_set(graph):
    graph = add_readout_from_first_node(graph, "root", node_set_name="a")

    with pytest.raises(ValueError, match="Requested readout key already exists: found edge set name '_readout/root'"):
        add_readout_from_first_node(graph, "root", node_set_name="b")
    with pytest.raises(ValueError, match="Unknown node set name 'nope'"):
        add_readout_from_first_node(graph, "other", node_set_name="nope")


def test_exactly_one_feature_is_gathered(graph):
    with pytest.raises(ValueError, match="exactly one of feature_name, feature_value"):
        gather_first_node(graph, "a")


def test_a_context_feature_is_copied_to_readout_nodes(run, graph):
    copied = run(lambda graph: context_readout_into_feature(graph, feature_name="c"), graph)
    moved = context_readout_into_feature(
        graph, feature_name="c", new_feature_name="label", remove_input_feature=True, readout_node_set="_readout:q"
    )

    assert copied.node_sets["_readout"]["c"].numpy().tolist() == [10.0, 20.0]
    assert copied.context["c"].numpy().tolist() == [10.0, 20.0]
    assert moved.node_sets["_readout:q"]["label"].numpy().tolist() == [10.0, 20.0]
    assert dict(moved.context.features) == {}


def test_a_copied_context_feature_is_only_replaced_on_demand(graph):
    graph = context_readout_into_feature(graph, feature_name="c")

    with pytest.raises(ValueError, match="Output feature 'c' already exists"):
        context_readout_into_feature(graph, feature_name="c")
    with pytest.raises(KeyError, match="nope"):
        context_readout_into_feature(graph, feature_name="nope")


@settings(max_examples=20)
@given(data=st.data())
def test_agrees_with_the_oracle(oracle, plain, graph_plans, data):
    plan = data.draw(graph_plans(min_nodes=1))

    def results(library, copy_context):
        graph = plan.build(library)
        graph = library.add_readout_from_first_node(graph, "root", node_set_name="a")
        graph = library.add_readout_from_first_node(graph, "end", node_set_name="b")
        graph = copy_context(graph, feature_name="vector", new_feature_name="v")
        return plain(
            [
                library.structured_readout(graph, "root", feature_name="ragged"),
                library.structured_readout_into_feature(graph, "end", feature_name="name", remove_input_feature=True),
                library.gather_first_node(graph, "b", feature_name="count"),
            ]
        )

    assert results(tfx_gnn.graph, context_readout_into_feature) == results(
        oracle, oracle.experimental.context_readout_into_feature
    )

"""Readout structures are read and made as by tensorflow-gnn."""

import tensorflow as tf

SEED = "seed"


def with_key(lib, graph, key, source="a"):
    """Puts another readout edge set in, from the same nodes or from others."""
    seeds = graph.edge_sets["_readout/seed"]
    return lib.GraphTensor.from_pieces(
        graph.context,
        dict(graph.node_sets),
        {
            **graph.edge_sets,
            f"_readout/{key}": lib.EdgeSet.from_fields(
                sizes=seeds.sizes,
                adjacency=lib.Adjacency.from_indices(
                    (source, tf.zeros_like(seeds.adjacency.source)), ("_readout", seeds.adjacency.target)
                ),
            ),
        },
    )


def backwards(lib, graph):
    """Turns the readout edges around: their targets do not ascend."""
    seeds = graph.edge_sets["_readout/seed"]
    turned = lib.EdgeSet.from_fields(
        sizes=seeds.sizes,
        adjacency=lib.Adjacency.from_indices(
            ("a", seeds.adjacency.source), ("_readout", tf.reverse(seeds.adjacency.target, [0]))
        ),
    )
    return lib.GraphTensor.from_pieces(
        graph.context, dict(graph.node_sets), {**graph.edge_sets, "_readout/seed": turned}
    )


READOUTS = {
    f"read {field}": lambda lib, g, field=field: lib.structured_readout(g, SEED, feature_name=field)
    for field in ("scalar", "vector", "matrix", "name", "flag", "ragged", "deep")
} | {
    "named": lambda lib, g: lib.readout_named(g, SEED, feature_name="vector"),
    "without checks": lambda lib, g: lib.structured_readout(g, SEED, feature_name="vector", validate=False),
    "into": lambda lib, g: lib.structured_readout_into_feature(g, SEED, feature_name="vector"),
    "into another": lambda lib, g: lib.structured_readout_into_feature(
        g, SEED, feature_name="ragged", new_feature_name="y", remove_input_feature=True
    ),
    "into the label": lambda lib, g: lib.structured_readout_into_feature(
        g, SEED, feature_name="count", new_feature_name="label"
    ),
    "over the label": lambda lib, g: lib.structured_readout_into_feature(
        g, SEED, feature_name="count", new_feature_name="label", overwrite=True
    ),
    "named into": lambda lib, g: lib.readout_named_into_feature(g, SEED, feature_name="name"),
    "unknown key": lambda lib, g: lib.structured_readout(g, "zz", feature_name="vector"),
    "unknown feature": lambda lib, g: lib.structured_readout(g, SEED, feature_name="zz"),
    "unknown node set": lambda lib, g: lib.structured_readout(
        g, SEED, feature_name="vector", readout_node_set="_readout:other"
    ),
    "badly named": lambda lib, g: lib.structured_readout(g, SEED, feature_name="vector", readout_node_set="zz"),
    "valid": lambda lib, g: lib.validate_graph_tensor_for_readout(g, [SEED]),
    "valid keys": lambda lib, g: lib.validate_graph_tensor_for_readout(g),
    "valid spec": lambda lib, g: lib.validate_graph_tensor_spec_for_readout(g.spec, [SEED]),
    "invalid spec": lambda lib, g: lib.validate_graph_tensor_spec_for_readout(g.spec, ["zz"]),
    "invalid node set": lambda lib, g: lib.validate_graph_tensor_spec_for_readout(
        g.spec, readout_node_set="_readout:x"
    ),
    "second key": lambda lib, g: lib.structured_readout(with_key(lib, g, "other"), "other", feature_name="scalar"),
    "without structure": lambda lib, _: lib.structured_readout(
        lib.homogeneous(tf.constant([0]), tf.constant([0])), SEED, feature_name="vector"
    ),
    "context": lambda lib, g: lib.experimental.context_readout_into_feature(
        lib.GraphTensor.from_pieces(g.context, {"a": g.node_sets["a"]}, {}), feature_name="vector"
    ),
    "context twice": lambda lib, g: lib.experimental.context_readout_into_feature(
        g, feature_name="count", new_feature_name="label"
    ),
    "context over": lambda lib, g: lib.experimental.context_readout_into_feature(
        g, feature_name="count", new_feature_name="label", overwrite=True, remove_input_feature=True
    ),
}


REFUSED = (
    *("badly named", "context twice", "into the label", "invalid node set", "invalid spec", "unknown feature"),
    *("unknown key", "unknown node set", "without structure"),
)


def test_readouts(agree, graph_plans):
    agree(
        {**READOUTS, "backwards": lambda lib, g: lib.structured_readout(backwards(lib, g), SEED, feature_name="name")},
        graph_plans(kind="readout", lean=True, min_components=1, min_nodes=1),
        num_examples=3,
        only_eager=["backwards", "context"],
        refuses=REFUSED,
    )


def test_readouts_of_empty_components(agree, graph_plans):
    agree(
        READOUTS,
        graph_plans(kind="readout", lean=True),
        num_examples=2,
        traced=False,
        answers_more=["context"],
        refuses=REFUSED,
    )


def test_first_nodes_become_readouts(agree, graph_plans):
    operations = {
        "add": lambda lib, g: lib.add_readout_from_first_node(g, SEED, node_set_name="a"),
        "add to another": lambda lib, g: lib.add_readout_from_first_node(
            g, "other", node_set_name="b", readout_node_set="_readout:2"
        ),
        "add twice": lambda lib, g: lib.add_readout_from_first_node(
            lib.add_readout_from_first_node(g, SEED, node_set_name="a"), SEED, node_set_name="b"
        ),
        "add two": lambda lib, g: lib.add_readout_from_first_node(
            lib.add_readout_from_first_node(g, SEED, node_set_name="a"), "other", node_set_name="b"
        ),
        "read": lambda lib, g: lib.structured_readout(
            lib.add_readout_from_first_node(g, SEED, node_set_name="a"), SEED, feature_name="ragged"
        ),
        "unknown": lambda lib, g: lib.add_readout_from_first_node(g, SEED, node_set_name="zz"),
        "badly named": lambda lib, g: lib.add_readout_from_first_node(
            g, SEED, node_set_name="a", readout_node_set="zz"
        ),
    }
    agree(
        operations,
        graph_plans(min_components=1, min_nodes=1, lean=True),
        num_examples=2,
        refuses=["add twice", "unknown"],
    )


def two_sources(lib, graph):
    """Reads the even components from nodes "a", the odd ones from nodes "b"."""
    seeds = graph.edge_sets["_readout/seed"]
    readouts = seeds.adjacency.target
    firsts = {name: tf.cumsum(graph.node_sets[name].sizes, exclusive=True) for name in ("a", "b")}
    edge_sets = dict(graph.edge_sets)
    for remainder, source in enumerate(("a", "b")):
        chosen = tf.boolean_mask(readouts, readouts % 2 == remainder)
        edge_sets[f"_readout/x/{remainder}"] = lib.EdgeSet.from_fields(
            sizes=tf.cast(tf.range(tf.size(seeds.sizes)) % 2 == remainder, seeds.sizes.dtype),
            adjacency=lib.Adjacency.from_indices((source, tf.gather(firsts[source], chosen)), ("_readout", chosen)),
        )
    return lib.GraphTensor.from_pieces(graph.context, dict(graph.node_sets), edge_sets)


def test_readouts_from_two_node_sets(agree, graph_plans):
    operations = {
        field: lambda lib, g, field=field: lib.structured_readout(two_sources(lib, g), "x", feature_name=field)
        for field in ("scalar", "vector", "name")
    }
    # Theirs cannot put strings of two node sets together.
    plans = graph_plans(kind="readout", lean=True, min_components=1, min_nodes=1)
    agree(operations, plans, num_examples=3, answers_more=["name"])

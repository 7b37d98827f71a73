"""What changes the structure of graphs does it as tensorflow-gnn does."""

import tensorflow as tf

from tfx_gnn.graph.tensor import fields


def upside_down(node_set):
    return tf.reverse(tf.range(tf.shape(node_set["scalar"])[0]), [0])


def turned(node_set):
    """Turns the nodes of each component around."""
    sizes = node_set.sizes
    ends = tf.cumsum(sizes)
    component = tf.repeat(tf.range(tf.size(sizes)), sizes)
    position = tf.range(tf.size(component), dtype=sizes.dtype)
    return tf.gather(ends, component) - 1 - (position - tf.gather(ends - sizes, component))


EDITS = {
    "mask": lambda lib, g: lib.mask_edges(g, "ab", g.edge_sets["ab"]["count"] > 1),
    "mask and keep": lambda lib, g: lib.mask_edges(g, "ab", g.edge_sets["ab"]["scalar"] > 0, "masked"),
    "mask nothing": lambda lib, g: lib.mask_edges(g, "aa", tf.ones_like(g.edge_sets["aa"]["scalar"], tf.bool)),
    "mask unknown": lambda lib, g: lib.mask_edges(g, "zz", tf.constant([True])),
    "mask by numbers": lambda lib, g: lib.mask_edges(g, "ab", g.edge_sets["ab"]["scalar"]),
    "mask by a matrix": lambda lib, g: lib.mask_edges(g, "ab", g.edge_sets["ab"]["vector"] > 0),
    "mask into its name": lambda lib, g: lib.mask_edges(g, "ab", g.edge_sets["ab"]["count"] > 1, "aa"),
    "reorder": lambda lib, g: lib.reorder_nodes(g, {"a": turned(g.node_sets["a"])}),
    "reorder both": lambda lib, g: lib.reorder_nodes(
        g, {"a": turned(g.node_sets["a"]), "b": turned(g.node_sets["b"])}, validate=False
    ),
    "reorder over components": lambda lib, g: lib.reorder_nodes(g, {"a": upside_down(g.node_sets["a"])}),
    "reorder unknown": lambda lib, g: lib.reorder_nodes(g, {"zz": tf.constant([0])}),
    "reorder by one": lambda lib, g: lib.reorder_nodes(g, {"a": tf.zeros([99], tf.int64)}),
    "reorder by strings": lambda lib, g: lib.reorder_nodes(g, {"a": tf.constant(["x"])}),
    "loops at other nodes": lambda lib, g: lib.add_self_loops(g, "ab"),
    "loops unknown": lambda lib, g: lib.add_self_loops(g, "zz"),
    "shuffled spec": lambda lib, g: lib.shuffle_nodes(g).spec,
    "shuffled some": lambda lib, g: lib.shuffle_nodes(g, node_sets=["b"], seed=3).node_sets["a"],
    "shuffled unknown": lambda lib, g: lib.shuffle_nodes(g, node_sets=["zz"]),
    "shuffled values": lambda lib, g: tf.sort(lib.shuffle_nodes(g).node_sets["a"]["scalar"]),
    "shuffled sums": lambda lib, g: lib.pool_nodes_to_context(lib.shuffle_nodes(g), "a", feature_name="vector"),
    "shuffled features": lambda lib, g: tf.sort(lib.shuffle_features_globally(g).node_sets["a"]["scalar"]),
    "shuffled features spec": lambda lib, g: lib.shuffle_features_globally(dense(g)).spec,
    "shuffled segments": lambda lib, g: tf.gather(
        segments(g), lib.experimental.segment_random_index_shuffle(segment_ids=segments(g))
    ),
}


def segments(graph):
    sizes = graph.node_sets["a"].sizes
    return tf.repeat(tf.range(tf.size(sizes)), sizes)


def dense(graph):
    """Leaves the features that are not ragged; theirs shuffles no others."""

    def names(piece):
        return [name for name, value in piece.features.items() if fields.is_ragged(value)]

    return graph.remove_features(
        context=names(graph.context),
        node_sets={name: names(piece) for name, piece in graph.node_sets.items()},
        edge_sets={name: names(piece) for name, piece in graph.edge_sets.items()},
    )


def test_edits(agree, graph_plans):
    agree(
        EDITS,
        graph_plans(min_components=1, min_nodes=1, lean=True),
        num_examples=2,
        only_eager=["spec", "over components", "by one", "shuffled", "matrix", "by strings"],
        refuses_otherwise=["by numbers", "by strings", "matrix"],
        refuses=[
            *("loops at other nodes", "loops unknown", "mask by a matrix", "mask by numbers", "mask into its name"),
            *("mask unknown", "reorder by one", "reorder by strings", "reorder unknown", "shuffled unknown"),
        ],
    )


def test_self_loops(agree, graph_plans):
    agree(
        {"loops": lambda lib, g: lib.add_self_loops(dense(g), "aa")},
        graph_plans(min_components=1, min_nodes=1, lean=True),
        num_examples=6,
        # Theirs cannot extend an edge set without edges.
        answers_more=["loops"],
        traced=False,
    )


def test_line_graphs(agree, graph_plans):
    def only(graph, lib, *edge_sets):
        return lib.GraphTensor.from_pieces(
            graph.context, dict(graph.node_sets), {name: graph.edge_sets[name] for name in edge_sets}
        )

    operations = {}
    for start in ("SOURCE", "TARGET"):
        for end in ("SOURCE", "TARGET"):
            for backtracking in (False, True):
                operations[f"{start} {end} {backtracking}"] = (
                    lambda lib, g, start=start, end=end, backtracking=backtracking: lib.convert_to_line_graph(
                        only(g, lib, "ab", "ba"),
                        connect_from=getattr(lib, start),
                        connect_to=getattr(lib, end),
                        non_backtracking=backtracking,
                    )
                )
    operations["with nodes"] = lambda lib, g: lib.convert_to_line_graph(
        only(g, lib, "ab", "aa"), connect_with_original_nodes=True
    )
    operations["with node features"] = lambda lib, g: lib.convert_to_line_graph(
        only(g, lib, "ab", "ba"), use_node_features_as_line_graph_edge_features=True
    )
    agree(operations, graph_plans(min_components=1, lean=True), num_examples=2, traced=False)

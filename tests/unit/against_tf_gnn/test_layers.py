"""Layers with the same weights compute what those of tensorflow-gnn compute, and describe it alike."""

import math

import pytest
import tensorflow as tf
import tf_keras
from hypothesis import given

import tfx_gnn

#: How many examples each layer sees; a model is built for each library and layer.
NUM_EXAMPLES = 1


def spread(shape, dtype=None):
    """Initial weights that tell all places apart, the same for both libraries."""
    size = math.prod(shape)
    return tf.cast(tf.reshape(tf.cos(tf.range(float(size))), shape), dtype or tf.float32)


def dense(units=2, **options):
    return tf_keras.layers.Dense(units, kernel_initializer=spread, **options)


def with_states(graph):
    """Gives all sets a hidden state."""

    def state(piece):
        return {**piece.get_features_dict(), "hidden_state": piece["vector"]}

    return graph.replace_features(
        context=state(graph.context),
        node_sets={name: state(graph.node_sets[name]) for name in ("a", "b")},
        edge_sets={name: state(graph.edge_sets[name]) for name in ("ab", "ba", "aa")},
    )


def map_states(inputs, **_):
    return {"hidden_state": dense(3)(inputs["vector"]), "name": inputs["name"]}


def keras_layers(lib):
    return lib.keras.layers


LAYERS = {
    "map": lambda lib: keras_layers(lib).MapFeatures(
        context_fn=map_states,
        node_sets_fn=lambda n, node_set_name: map_states(n) if node_set_name != "latent" else None,
    ),
    "map bare": lambda lib: keras_layers(lib).MapFeatures(
        node_sets_fn=lambda n, node_set_name: dense(3)(n["vector"]) if node_set_name == "a" else None
    ),
    "map ragged": lambda lib: keras_layers(lib).MapFeatures(
        edge_sets_fn=lambda e, edge_set_name: {"r": e["ragged"], "n": e["name"]} if edge_set_name == "ab" else None
    ),
    "map latent": lambda lib: keras_layers(lib).MapFeatures(
        node_sets_fn=lambda n, node_set_name: (
            {"empty": keras_layers(lib).MakeEmptyFeature()(n)} if node_set_name == "latent" else None
        )
    ),
    "empty": lambda lib: lambda g: keras_layers(lib).MakeEmptyFeature(dtype=tf.int32)(g.node_sets["latent"]),
    "empty edges": lambda lib: lambda g: keras_layers(lib).MakeEmptyFeature()(g.edge_sets["al"]),
    "empty context": lambda lib: lambda g: keras_layers(lib).MakeEmptyFeature()(g.context),
    "readout context": lambda lib: keras_layers(lib).Readout(from_context=True, feature_name="count"),
    "readout nodes": lambda lib: keras_layers(lib).Readout(node_set_name="a", feature_name="ragged"),
    "readout edges": lambda lib: keras_layers(lib).Readout(edge_set_name="ab"),
    "first node": lambda lib: keras_layers(lib).ReadoutFirstNode(node_set_name="a"),
    "structured": lambda lib: keras_layers(lib).StructuredReadout("seed", feature_name="vector"),
    "named": lambda lib: keras_layers(lib).ReadoutNamed("seed"),
    "structured into": lambda lib: keras_layers(lib).StructuredReadoutIntoFeature(
        "seed", feature_name="count", new_feature_name="y", remove_input_feature=True
    ),
    "named into": lambda lib: keras_layers(lib).ReadoutNamedIntoFeature("seed", feature_name="vector"),
    "add readout": lambda lib: keras_layers(lib).AddReadoutFromFirstNode("other", node_set_name="b"),
    "pad": lambda lib: keras_layers(lib).PadToTotalSizes(budget(lib)),
    "pad without mask": lambda lib: lambda g: keras_layers(lib).PadToTotalSizes(budget(lib), validate=False)(g)[0],
    "dropout": lambda lib: lambda g: keras_layers(lib).ItemDropout(0.5)(g.node_sets["a"]["vector"], training=False),
    "no dropout": lambda lib: lambda g: keras_layers(lib).ItemDropout(0.0)(g.node_sets["a"]["vector"], training=True),
    "broadcast": lambda lib: keras_layers(lib).Broadcast(lib.SOURCE, edge_set_name="ab", feature_name="name"),
    "broadcast at call": lambda lib: lambda g: keras_layers(lib).Broadcast(lib.CONTEXT)(g, node_set_name="latent"),
    "broadcast several": lambda lib: keras_layers(lib).Broadcast(lib.CONTEXT, node_set_name=["a", "b"]),
    "broadcast otherwise": lambda lib: (
        lambda g: keras_layers(lib).Broadcast(lib.SOURCE, edge_set_name="ab")(g, tag=lib.TARGET)
    ),
    "pool": lambda lib: keras_layers(lib).Pool(lib.TARGET, "mean", edge_set_name="ab", feature_name="ragged"),
    "pool several": lambda lib: keras_layers(lib).Pool(lib.CONTEXT, "max|sum", node_set_name=["a", "b"]),
    "pool at call": lambda lib: lambda g: keras_layers(lib).Pool(lib.CONTEXT)(g, reduce_type="sum", node_set_name="a"),
    "pool without type": lambda lib: keras_layers(lib).Pool(lib.CONTEXT, node_set_name="a"),
    "conv": lambda lib: (
        lambda g: keras_layers(lib).SimpleConv(dense(), "max|sum", receiver_tag=lib.TARGET)(g, edge_set_name="ab")
    ),
    "conv to source": lambda lib: (
        lambda g: keras_layers(lib).SimpleConv(dense(), "mean", receiver_tag=lib.SOURCE, sender_edge_feature="scalar2")(
            with_scalar2(g), edge_set_name="aa"
        )
    ),
    "conv to context": lambda lib: (
        lambda g: keras_layers(lib).SimpleConv(dense(), receiver_tag=lib.CONTEXT, combine_type="sum")(
            g, node_set_name="b"
        )
    ),
    "conv without receiver": lambda lib: (
        lambda g: keras_layers(lib).SimpleConv(
            dense(activation="relu"), receiver_feature=None, receiver_tag=lib.TARGET
        )(g, edge_set_name="ba")
    ),
    "nodes": lambda lib: (
        lambda g: keras_layers(lib).NodeSetUpdate(
            {"ba": convolution(lib), "aa": convolution(lib)}, next_state(lib), context_input_feature="hidden_state"
        )(g, node_set_name="a")
    ),
    "nodes from one": lambda lib: (
        lambda g: keras_layers(lib).NodeSetUpdate({"ab": convolution(lib)}, keras_layers(lib).SingleInputNextState())(
            g, node_set_name="b"
        )
    ),
    "nodes residual": lambda lib: (
        lambda g: keras_layers(lib).NodeSetUpdate(
            {"ab": convolution(lib)}, keras_layers(lib).ResidualNextState(residual_block=dense(), activation="relu")
        )(g, node_set_name="b")
    ),
    "edges": lambda lib: (
        lambda g: keras_layers(lib).EdgeSetUpdate(
            next_state(lib), edge_input_feature=["hidden_state", "matrix2"], context_input_feature="hidden_state"
        )(with_matrix2(g), edge_set_name="ab")
    ),
    "context": lambda lib: keras_layers(lib).ContextUpdate(
        {"a": keras_layers(lib).Pool(lib.CONTEXT, "mean")},
        next_state(lib),
        edge_set_inputs={"ab": keras_layers(lib).Pool(lib.CONTEXT, "sum")},
    ),
    "graph": lambda lib: keras_layers(lib).GraphUpdate(
        edge_sets={"ab": keras_layers(lib).EdgeSetUpdate(next_state(lib))},
        node_sets={
            "b": keras_layers(lib).NodeSetUpdate({"ab": keras_layers(lib).Pool(lib.TARGET, "sum")}, next_state(lib)),
            "a": keras_layers(lib).NodeSetUpdate({"aa": convolution(lib)}, next_state(lib)),
        },
        context=keras_layers(lib).ContextUpdate({"b": keras_layers(lib).Pool(lib.CONTEXT, "sum")}, next_state(lib)),
    ),
    "builder": lambda lib: lib.keras.ConvGNNBuilder(
        lambda edge_set_name, receiver_tag=None: convolution(lib, receiver_tag),  # noqa: ARG005
        lambda node_set_name: next_state(lib),  # noqa: ARG005
    ).Convolve({"a", "b"}),
    "builder of a few": lambda lib: lib.keras.ConvGNNBuilder(
        lambda edge_set_name, receiver_tag=None: convolution(lib, receiver_tag),  # noqa: ARG005
        lambda node_set_name: next_state(lib),  # noqa: ARG005
        receiver_tag=lib.SOURCE,
    ).Convolve(["b"]),
    "loops": lambda lib: lambda g: keras_layers(lib).AddSelfLoops("aa")(without_ragged(g)),
    "initializer": lambda lib: lambda g: dense_like(lib)(g.node_sets["a"]["vector"]),
    "conv to nowhere": lambda lib: keras_layers(lib).SimpleConv(dense()),
    "conv to both": lambda lib: (
        lambda g: keras_layers(lib).SimpleConv(dense())(g, edge_set_name="ab", node_set_name="a")
    ),
    "readout of nothing": lambda lib: keras_layers(lib).Readout(),
    "readout of two": lambda lib: keras_layers(lib).Readout(from_context=True, node_set_name="a"),
    "readout conflict": lambda lib: lambda g: keras_layers(lib).Readout(node_set_name="a")(g, node_set_name="b"),
    "update without name": lambda lib: keras_layers(lib).NodeSetUpdate({}, next_state(lib)),
    "update of unknown": lambda lib: keras_layers(lib).GraphUpdate(
        node_sets={"zz": keras_layers(lib).NodeSetUpdate({}, next_state(lib))}
    ),
    "single of many": lambda lib: (
        lambda g: keras_layers(lib).NodeSetUpdate(
            {"ab": convolution(lib), "aa": convolution(lib)}, keras_layers(lib).SingleInputNextState()
        )(g, node_set_name="b")
    ),
}


REFUSED = (
    *("pool without type", "conv to nowhere", "conv to both", "readout of nothing", "readout of two"),
    *("readout conflict", "broadcast otherwise", "update without name", "update of unknown", "single of many"),
)


def convolution(lib, receiver_tag=None):
    receiver_tag = lib.TARGET if receiver_tag is None else receiver_tag
    return lib.keras.layers.SimpleConv(dense(), "sum", receiver_tag=receiver_tag)


def next_state(lib):
    return lib.keras.layers.NextStateFromConcat(dense(activation="relu"))


def dense_like(lib):
    return tf_keras.layers.Dense(2, kernel_initializer=lib.keras.clone_initializer(spread))


def budget(lib):
    return lib.SizeConstraints(
        total_num_components=5,
        total_num_nodes={"a": 16, "b": 16, "latent": 16, "_readout": 16},
        total_num_edges={"ab": 20, "ba": 20, "aa": 20, "al": 20, "_readout/seed": 16},
    )


def with_scalar2(graph):
    features = graph.edge_sets["aa"].get_features_dict()
    return graph.replace_features(edge_sets={"aa": {**features, "scalar2": features["vector"] * 2.0}})


def with_matrix2(graph):
    features = graph.edge_sets["ab"].get_features_dict()
    return graph.replace_features(edge_sets={"ab": {**features, "matrix2": features["vector"] - 1.0}})


def without_ragged(graph):
    return graph.replace_features(edge_sets={"aa": {"vector": graph.edge_sets["aa"]["vector"]}})


@pytest.fixture(scope="module")
def graphs(oracle, few, graph_plans):
    """Graphs of both libraries, drawn once."""
    drawn = []

    @few(NUM_EXAMPLES)
    # Theirs cannot add self loops to an edge set without edges.
    @given(
        plan=graph_plans(kind="readout", min_components=1, min_nodes=1, lean=True).filter(
            lambda plan: any(plan.edge_sizes["aa"])
        )
    )
    def draw(plan):
        drawn.append([(library, with_states(plan.build(library))) for library in (tfx_gnn, oracle)])

    draw()
    return drawn[-NUM_EXAMPLES:]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(graphs, agreement, name):
    def results(library, graph):
        function = LAYERS[name](library)
        eager = function(graph)
        inputs = tf_keras.Input(type_spec=graph.spec.relax(num_components=True, num_nodes=True, num_edges=True))
        outputs = LAYERS[name](library)(inputs)
        model = tf_keras.Model(inputs, outputs)
        described = tf.nest.map_structure(lambda output: output.type_spec, outputs)
        return {"eager": eager, "model": model(graph), "types": described}

    for ours, theirs in graphs:
        agreement(results, ours, theirs, answers=name not in REFUSED)


@pytest.mark.parametrize("name", ["ParseExample", "ParseSingleExample"])
def test_parsing_layers(oracle, few, graph_plans, agreement, name):
    def results(library, plan):
        # Theirs forgets how many components a graph has where their features are ragged.
        graph = plan.build(library).remove_features(context=["ragged"])
        layer = getattr(library.keras.layers, name)(graph.spec.relax(num_nodes=True, num_edges=True))
        serialized = library.write_example(graph).SerializeToString()
        shape = [None] if name == "ParseExample" else []
        inputs = tf_keras.Input(type_spec=tf.TensorSpec(shape, tf.string))
        model = tf_keras.Model(inputs, layer(inputs))
        values = tf.constant([serialized] * 2 if shape else serialized)
        return {"eager": layer(values), "model": model(values), "type": model.output.type_spec}

    @few(1)
    @given(plan=graph_plans(min_components=1, lean=True))
    def check(plan):
        agreement(
            results,
            *((library, plan) for library in (tfx_gnn, oracle)),
        )

    check()


def test_subclasses_of_convolutions(graphs, agreement):
    def results(library, graph):
        class Sum(library.keras.layers.AnyToAnyConvolutionBase):
            def convolve(self, *, sender_node_input, broadcast_from_sender_node, pool_to_receiver, **_):
                return pool_to_receiver(broadcast_from_sender_node(sender_node_input), reduce_type="sum")

        layer = Sum(receiver_tag=library.TARGET)
        return [layer(graph, edge_set_name="ab"), layer.takes_receiver_input, layer.takes_sender_edge_input]

    for ours, theirs in graphs:
        agreement(results, ours, theirs)

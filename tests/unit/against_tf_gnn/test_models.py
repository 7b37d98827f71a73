"""Convolutions with the same weights compute what those of tensorflow-gnn's models compute."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.models.convolutions import GATv2Conv, GCNConv, HGTGraphUpdate, MPNNConv, SAGEConv
from tfx_gnn.models.relations import relations_of
from tfx_gnn.models.state_blocks import NextStateFromConvolutions

NUM_NODES, NUM_EDGES, WIDTH = 12, 40, 5
BOTH_TAGS = pytest.mark.parametrize("tag", [tfx_gnn.SOURCE, tfx_gnn.TARGET], ids=["source", "target"])


@pytest.fixture
def their_models(oracle):
    """Makes a module of tensorflow-gnn's models available by its name."""
    assert oracle
    return lambda name: importlib.import_module(f"tensorflow_gnn.models.{name}")


def make_graph(library):
    """Nodes "a" and "b"; edges within "a", some of them twice, and from "a" to "b". Some nodes have no edges."""
    random = np.random.default_rng(0)

    def nodes():
        states = random.standard_normal([NUM_NODES, WIDTH]).astype(np.float32)
        return library.NodeSet.from_fields(sizes=[NUM_NODES], features={"hidden_state": tf.constant(states)})

    def edges(target):
        ends = [tf.constant(random.integers(0, NUM_NODES - 2, NUM_EDGES), tf.int32) for _ in range(2)]
        features = {
            "weight": tf.constant(random.uniform(0.1, 3.0, [NUM_EDGES]), tf.float32),
            "vector": tf.constant(random.standard_normal([NUM_EDGES, 3]), tf.float32),
        }
        adjacency = library.Adjacency.from_indices(("a", ends[0]), (target, ends[1]))
        return library.EdgeSet.from_fields(sizes=[NUM_EDGES], features=features, adjacency=adjacency)

    return library.GraphTensor.from_pieces(
        node_sets={"a": nodes(), "b": nodes()}, edge_sets={"aa": edges("a"), "ab": edges("b")}
    )


def by_name(layer):
    """Weights by their names, without that of the layer itself and the number of its instance."""
    return {weight.name.split("/", 1)[-1].removesuffix(":0"): weight for weight in layer.weights}


def agree(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@BOTH_TAGS
@pytest.mark.parametrize("loops", [False, True], ids=["bare", "loops"])
@pytest.mark.parametrize("normalization", ["none", "in", "out", "in_out", "in_in"])
def test_gcn(oracle, their_models, normalization, loops, tag):
    for weight in (None, "weight"):
        options = {
            "receiver_tag": tag,
            "add_self_loops": loops,
            "degree_normalization": normalization,
            "edge_weight_feature_name": weight,
            "activation": "tanh",
        }
        theirs = their_models("gcn").GCNConv(4, **options)
        expected = theirs(make_graph(oracle), edge_set_name="aa")
        ours = GCNConv(4, **options)
        ours(make_graph(tfx_gnn), edge_set_name="aa")
        kernel, bias = theirs.get_weights()
        ours.set_weights([bias, kernel])

        agree(ours(make_graph(tfx_gnn), edge_set_name="aa"), expected)


@BOTH_TAGS
@pytest.mark.parametrize(("aggregator", "reduce_type"), [("mean", "mean"), ("sum", "sum"), ("max", "max_no_inf")])
def test_sage_aggregators(oracle, their_models, aggregator, reduce_type, tag):
    theirs = their_models("graph_sage").GraphSAGEAggregatorConv(units=4, reduce_type=reduce_type, receiver_tag=tag)
    expected = theirs(make_graph(oracle), edge_set_name="ab")
    ours = SAGEConv(4, aggregator=aggregator, receiver_tag=tag)
    ours(make_graph(tfx_gnn), edge_set_name="ab")
    ours.set_weights(theirs.get_weights())

    agree(ours(make_graph(tfx_gnn), edge_set_name="ab"), expected)


def test_sage_pooling(oracle, their_models):
    theirs = their_models("graph_sage").GraphSAGEPoolingConv(units=4, hidden_units=6, receiver_tag=tfx_gnn.TARGET)
    expected = theirs(make_graph(oracle), edge_set_name="ab")
    ours = SAGEConv(4, aggregator="pool", hidden_units=6)
    ours(make_graph(tfx_gnn), edge_set_name="ab")
    ours.set_weights(theirs.get_weights())

    agree(ours(make_graph(tfx_gnn), edge_set_name="ab"), expected)


@pytest.mark.parametrize("combine_type", ["sum", "concat"])
@pytest.mark.parametrize("l2", [False, True], ids=["plain", "l2"])
def test_sage_next_state(oracle, their_models, combine_type, l2):
    assert oracle
    inputs = (tf.random.normal([7, 3]), {"x": tf.random.normal([7, 4]), "y": tf.random.normal([7, 4])}, {})
    theirs = their_models("graph_sage").GraphSAGENextState(units=4, l2_normalize=l2, combine_type=combine_type)
    expected = theirs(inputs)["hidden_state"]
    ours = NextStateFromConvolutions(4, combine_type=combine_type, normalization="l2" if l2 else "none")
    ours(inputs)
    ours.set_weights(theirs.get_weights())

    agree(ours(inputs), expected)


@BOTH_TAGS
@pytest.mark.parametrize("merge", ["concat", "mean"])
@pytest.mark.parametrize("edge_feature", [None, "vector"])
def test_gat_v2(oracle, their_models, edge_feature, merge, tag):
    options = {
        "num_heads": 2,
        "per_head_channels": 3,
        "receiver_tag": tag,
        "sender_edge_feature": edge_feature,
        "heads_merge_type": merge,
    }
    theirs = their_models("gat_v2").GATv2Conv(**options)
    expected = theirs(make_graph(oracle), edge_set_name="ab")
    ours = GATv2Conv(**options)
    ours(make_graph(tfx_gnn), edge_set_name="ab")
    weights = by_name(theirs)
    for name, weight in by_name(ours).items():
        weight.assign(weights["attn_logits/kernel" if name == "attention_logits" else name])

    agree(ours(make_graph(tfx_gnn), edge_set_name="ab"), expected)


@BOTH_TAGS
@pytest.mark.parametrize("reduce_type", ["sum", "mean"])
def test_messages_of_mt_albis(oracle, their_models, reduce_type, tag):
    theirs = their_models("mt_albis.layers").MtAlbisSimpleConv(
        4, receiver_tag=tag, reduce_type=reduce_type, edge_feature_name="vector"
    )
    expected = theirs(make_graph(oracle), edge_set_name="ab")
    ours = MPNNConv([4], reduce_type, receiver_tag=tag, edge_feature="vector")
    ours(make_graph(tfx_gnn), edge_set_name="ab")
    kernel, bias = theirs.get_weights()
    edge, sender, receiver = np.split(kernel, [3, 3 + WIDTH])
    source, target = (sender, receiver) if tag == tfx_gnn.TARGET else (receiver, sender)
    values = {"source/kernel": source, "target/kernel": target, "edge/kernel": edge, "bias": bias}
    for weight in ours.weights:
        parts = weight.name.removesuffix(":0").split("/")
        weight.assign(values[parts[-1] if parts[-1] == "bias" else "/".join(parts[-2:])])

    agree(ours(make_graph(tfx_gnn), edge_set_name="ab"), expected)


@BOTH_TAGS
@pytest.mark.parametrize("skip", ["weighted", "sum"])
def test_hgt(oracle, their_models, skip, tag):
    heads, channels = 5, 1
    theirs = their_models("hgt").HGTGraphUpdate(
        num_heads=heads,
        per_head_channels=channels,
        receiver_tag=tag,
        use_weighted_skip=skip == "weighted",
        dropout_rate=0.0,
    )
    theirs(make_graph(oracle))
    graph = make_graph(tfx_gnn)
    relations = relations_of(graph.spec, [tag])
    ours = HGTGraphUpdate(
        num_heads=heads,
        per_head_channels=channels,
        node_sets=sorted({relation.receiver for relation in relations}),
        relations=relations,
        skip=skip,
        dropout_rate=0.0,
    )
    ours(graph)
    weights = by_name(theirs)
    for name, weight in by_name(ours).items():
        kind, _, rest = name.partition("_")
        theirs_name = {
            "key": f"key_node_{rest}",
            "message": f"message_node_{rest}",
            "query": f"query_node_{rest}",
            "output": f"aggr_node_{rest}",
            "norm": f"normalization_{rest}",
            "attention": f"attention_edge_{rest[:2]}/kernel",
            "prior": f"priors_{rest[:2]}",
            "skip": name,
        }[kind]
        if kind == "message" and "/" not in name:
            theirs_name = f"message_edge_{rest[:2]}/kernel"
        random = tf.random.normal(weight.shape)
        weights[theirs_name].assign(random)
        weight.assign(random)
    expected = theirs(make_graph(oracle))
    updated = ours(graph)

    for name in {relation.receiver for relation in relations}:
        np.testing.assert_allclose(
            updated.node_sets[name]["hidden_state"], expected.node_sets[name]["hidden_state"], rtol=1e-4, atol=1e-4
        )

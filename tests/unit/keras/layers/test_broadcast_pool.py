import numpy as np
import pytest
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import Broadcast, Pool

SOURCE, TARGET, CONTEXT = tfx_gnn.SOURCE, tfx_gnn.TARGET, tfx_gnn.CONTEXT


def test_edges_are_pooled(graph):
    assert Pool(TARGET, "sum")(graph, edge_set_name="ab").numpy().tolist() == [[3.0], [3.0]]
    assert Pool()(graph, tag=SOURCE, reduce_type="max", edge_set_name="ab").numpy().tolist() == [[1.0], [2.0], [3.0]]


def test_sets_are_pooled_to_the_context(graph):
    pooled = Pool(CONTEXT, "sum", node_set_name=["a", "b"])(graph)

    assert pooled.numpy().tolist() == [[3.0, 6.0], [7.0, 9.0]]
    assert Pool(CONTEXT, "mean|sum", edge_set_name="ab")(graph).numpy().tolist() == [[1.5, 3.0], [3.0, 3.0]]


def test_nodes_and_context_are_broadcast(graph):
    assert Broadcast(SOURCE, edge_set_name="ab", feature_name="x")(graph).numpy().tolist() == [[1.0], [2.0], [3.0]]
    assert Broadcast(CONTEXT)(graph, node_set_name="a").numpy().tolist() == [[10.0], [10.0], [20.0]]
    both = Broadcast(CONTEXT, node_set_name=["a", "b"])(graph)
    assert [values.shape.as_list() for values in both] == [[3, 1], [2, 1]]


@pytest.mark.parametrize(
    ("at_init", "at_call", "message"),
    [
        ({"reduce_type": "sum"}, {"edge_set_name": "ab"}, "Pool layer requires `tag=` to be set at init or call time"),
        ({"tag": TARGET}, {"edge_set_name": "ab"}, "Pool layer requires reduce_type to be set at init or call time"),
        (
            {"tag": TARGET, "reduce_type": "sum"},
            {},
            "with tag SOURCE or TARGET requires edge_set_name but not node_set_name",
        ),
        (
            {"tag": CONTEXT, "reduce_type": "sum"},
            {},
            "with tag CONTEXT requires exactly one of edge_set_name and node_set_name",
        ),
        ({"tag": TARGET, "reduce_type": "sum"}, {"node_set_name": "a"}, "requires edge_set_name but not node_set_name"),
        (
            {"tag": TARGET, "reduce_type": "sum", "edge_set_name": "ab"},
            {"edge_set_name": "ba"},
            "initialized with edge_set_name='ab' but called with edge_set_name='ba'",
        ),
        ({"tag": TARGET, "reduce_type": "sum"}, {"tag": SOURCE}, "initialized with tag=1 but called with tag=0"),
        (
            {"tag": TARGET, "reduce_type": "sum"},
            {"reduce_type": "max", "edge_set_name": "ab"},
            "initialized with reduce_type=sum but called",
        ),
        (
            {"tag": TARGET, "reduce_type": "sum", "feature_name": "x", "edge_set_name": "ab"},
            {"feature_name": "y"},
            "initialized with feature_name=x but called",
        ),
    ],
)
def test_missing_and_contradicting_arguments_are_refused(graph, at_init, at_call, message):
    with pytest.raises(ValueError, match=message):
        Pool(**at_init)(graph, **at_call)


@pytest.mark.parametrize(
    ("at_init", "message"),
    [
        (
            {"tag": CONTEXT, "edge_set_name": "ab", "node_set_name": "a"},
            "at most one of edge_set_name and node_set_name",
        ),
        ({"tag": TARGET, "node_set_name": "a"}, "requires edge_set_name but not node_set_name"),
        ({"tag": "nodes"}, "requires tag to be one of"),
    ],
)
@pytest.mark.parametrize("layer", [Broadcast, Pool])
def test_impossible_arguments_are_refused_at_once(layer, at_init, message):
    with pytest.raises(ValueError, match=f"The {layer.__name__} layer.*{message}"):
        layer(**at_init)


def test_properties_tell_the_arguments():
    pool = Pool(CONTEXT, "sum", node_set_name=["a", "b"], feature_name="x")

    assert (pool.tag, pool.reduce_type, pool.feature_name) == (CONTEXT, "sum", "x")
    assert {name: list(value) for name, value in pool.location.items()} == {"node_set_name": ["a", "b"]}
    assert Broadcast(SOURCE).location == {}


@pytest.mark.parametrize(
    "layer",
    [
        Pool(CONTEXT, "mean", node_set_name=["a", "b"]),
        Pool(TARGET, "sum|max", edge_set_name="ab"),
        Broadcast(CONTEXT, edge_set_name="ab"),
    ],
)
def test_a_model_is_made_again(graph, spec, again, layer):
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, layer(inputs))

    np.testing.assert_array_equal(again(model)(graph), layer(graph))

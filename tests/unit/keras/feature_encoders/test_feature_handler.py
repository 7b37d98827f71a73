import types

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn import graphlearn
from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.feature_spec import FeatureSpec
from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets, table_rows
from tfx_gnn.keras.feature_encoders.embedding_columns import EmbeddingColumn
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler, FeatureHandlers

#: The six attributes "28:0:0.2:Hangzhou:1,5,12:1000008" of the document.
USER = Decoder(
    attr_types=[("int", 100), ("int", 50), "float", ("string", 30), ("string", 20, True), "int"],
    attr_dims=[12, 12, None, 8, 6, 4],
)


@pytest.mark.parametrize(
    ("attr_types", "attr_dims", "dimension"),
    [
        (["float"] * 20, None, 20),
        (["float", "int", "int"], None, 3),
        (["float", "int", ("int", 1000)], [None, None, 16], 18),
        ([("string", 10), ("string", 20), ("int", 1000)], [8, 12, 16], 36),
        ([("string", 500), ("string", 800, True)], [8, 12], 20),
        (USER.attr_types, USER.attr_dims, 43),
    ],
    ids=["floats", "numbers", "hashed", "texts", "multival", "user"],
)
@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "single"])
def test_the_width_is_that_of_the_feature_spec(attr_types, attr_dims, dimension, fuse):
    decoder = Decoder(attr_types=attr_types, attr_dims=attr_dims or ())
    handler = FeatureHandler("user", decoder.feature_spec, fuse, num_buckets=100)
    data = {
        "float_attrs": tf.zeros([3, decoder.float_attr_num]),
        "int_attrs": tf.zeros([3, decoder.int_attr_num], tf.int64),
        "string_attrs": tf.fill([3, decoder.string_attr_num], "1,5,12"),
    }

    assert handler(data).shape == (3, dimension)
    assert handler.dimension == dimension


def test_encodings_stand_in_the_order_of_graphlearn():
    """Floats, integers that are not fused, fused ones by dimension as these come first, strings."""
    decoder = Decoder(
        attr_types=[("string", 5), ("int", 4), "int", ("string", 6), ("string", 7), ("string", 3, True), "float"],
        attr_dims=[2, 2, None, 3, 2, 2, None],
    )
    handler = FeatureHandler("item", decoder.feature_spec)
    # Stored as: ints (bucket of 5, to hash to 4, number, bucket of 6, bucket of 7), strings (several), floats.
    data = types.SimpleNamespace(
        int_attrs=tf.constant([[4, 9, 70, 5, 6]], tf.int64),
        float_attrs=tf.constant([[0.5]]),
        string_attrs=tf.constant([["x"]]),
    )

    encoded = handler.forward(data).numpy()[0]

    tables = {tuple(weight.shape): weight.numpy() for weight in handler.weights}
    # One lookup for each dimension: buckets 5, to hash 4, 7 and several 3 below each other, hashed or not.
    assert sorted(tables) == [(6, 3), (19, 2)]
    hashed = int(hash_to_buckets(tf.constant("9"), 4))
    several = int(hash_to_buckets(tf.constant("x"), 3))
    two, three = tables[19, 2], tables[6, 3]
    expected = [[0.5], two[5 + hashed], [70.0], two[4], two[9 + 6], three[5], two[16 + several]]
    np.testing.assert_array_equal(encoded, np.concatenate(expected))


def test_unfused_integers_stand_in_their_order():
    decoder = Decoder(attr_types=[("string", 5), "int"], attr_dims=[2, None])
    data = {"int_attrs": tf.constant([[3, 7]], tf.int64)}

    fused = FeatureHandler("item", decoder.feature_spec)(data).numpy()
    single = FeatureHandler("item", decoder.feature_spec, fuse_embedding=False)(data).numpy()

    assert fused[0, 0] == 7.0
    assert single[0, 2] == 7.0


def test_the_part_for_accelerators_has_no_texts():
    """Strings go to the input pipeline; what is left compiles with static shapes, and trains."""
    handler = FeatureHandler("user", USER.feature_spec, num_buckets=64, max_values=3)
    data = {
        "float_attrs": tf.constant([[0.2], [0.3]]),
        "int_attrs": tf.constant([[28, 0, 7, 1000008], [3, 1, 2, 5]], tf.int64),
        "string_attrs": tf.constant([["1,5,12"], [""]]),
    }
    batch = tf.data.Dataset.from_tensors(data).map(handler.prepare).get_single_element()

    def step(prepared):
        with tf.GradientTape() as tape:
            encoded = handler.encode(prepared)
            loss = tf.reduce_sum(encoded**2)
        return encoded, tape.gradient(loss, handler.trainable_weights)

    expected = handler(data)
    compiled = tf.function(step, jit_compile=True)
    concrete = compiled.get_concrete_function(batch)
    encoded, gradients = compiled(batch)

    np.testing.assert_allclose(encoded, expected, rtol=1e-6)
    assert all(tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients)
    dtypes = {
        output.dtype
        for graph in [concrete.graph, *(f.graph for f in concrete.graph._functions.values() if hasattr(f, "graph"))]
        for operation in graph.get_operations()
        for output in operation.outputs
    }
    assert tf.string not in dtypes


def test_source_and_neighbors_of_one_type_share_tables():
    """One handler a name, for the source and all hops."""
    user = Decoder(attr_types=[("string", 10)], attr_dims=[4]).feature_spec
    item = Decoder(attr_types=["float", ("string", 10)], attr_dims=[None, 4]).feature_spec
    handlers = FeatureHandlers()
    users = {"int_attrs": tf.constant([[3], [9]], tf.int64)}
    items = {"int_attrs": tf.constant([[3]], tf.int64), "float_attrs": tf.constant([[0.5]])}

    source, items_of_source, neighbors = handlers.encode(
        [("user", user), ("item", item), ("user", user)], [users, items, users]
    )

    assert sorted(handlers.handlers) == ["item", "user"]
    assert [len(handler.weights) for handler in handlers.handlers.values()] == [1, 1]
    np.testing.assert_array_equal(source, neighbors)
    assert not np.array_equal(source[0], items_of_source[0, 1:])


def test_a_type_has_one_feature_spec():
    handlers = FeatureHandlers()
    handlers.get("user", USER.feature_spec)

    assert handlers.get("user", USER.feature_spec) is handlers.handlers["user"]
    with pytest.raises(ValueError, match="`feature_spec` must be the same wherever a type is encoded; got another for"):
        handlers.get("user", Decoder(attr_types=["int"]).feature_spec)
    with pytest.raises(ValueError, match="`node_schema` must have one item for the source and one for each hop; got 1"):
        handlers.encode([("user", USER.feature_spec)], [])


def test_dynamic_categories_have_vocabularies_by_attribute():
    decoder = Decoder(attr_types=["int", ("string", None, True), "string"], attr_dims=[2, 3, 4])
    handler = FeatureHandler(
        "user", decoder.feature_spec, vocabularies={"string_0": ["x", "y"], "int_0": ["7"]}, num_buckets=16
    )

    prepared = handler.prepare(
        {"int_attrs": tf.constant([[7], [8]]), "string_attrs": tf.constant([["y,z", "a"], ["x", "b"]])}
    )

    assert prepared["int_0"].numpy().tolist() == [0, 1]
    assert prepared["string_0"].to_list() == [[1, 2], [0]]
    assert table_rows(prepared["string_1"], 16).numpy().tolist() == prepared["string_1"].numpy().tolist()
    assert handler.encode(prepared).shape == (2, 9)
    with pytest.raises(ValueError, match=r"`vocabularies` must name dynamic categories; got \['string_9'\]"):
        FeatureHandler("user", decoder.feature_spec, vocabularies={"string_9": ["x"]})


def test_missing_attributes_are_refused():
    with pytest.raises(ValueError, match="must have the 4 attributes of the feature spec; got 0 of 'int_attrs' for 'u"):
        FeatureHandler("user", USER.feature_spec)({"float_attrs": tf.constant([[0.2]])})


def test_an_equal_handler_is_made_of_the_config():
    handler = FeatureHandler("user", USER.feature_spec, fuse_embedding=False, combiner="sum", num_buckets=8)

    again = FeatureHandler.from_config(handler.get_config())

    assert again.get_config() == handler.get_config()
    assert again.has_spec(USER.feature_spec)


@pytest.mark.parametrize("fuse", [True, False])
def test_an_integer_beyond_its_bucket_is_refused_or_has_a_row(fuse):
    spec = FeatureSpec(2)
    spec.append_sparse(10, 4)
    spec.append_sparse(5, 4, need_hash=True)
    data = {"int_attrs": tf.constant([[10, 99]])}

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`int_0 of user` must have integers in \[0, 10\).*got 10"
    ):
        FeatureHandler("user", spec, fuse)(data)
    handler = FeatureHandler("user", spec, fuse, out_of_range="oov")
    handler(data)
    assert sum(weight.shape[0] for weight in handler.weights) == 10 + 1 + 5
    assert FeatureHandler.from_config(handler.get_config())(data).shape == [1, 8]
    handlers = FeatureHandlers(fuse, out_of_range="hash")
    assert handlers.get("user", spec)(data).shape == [1, 8]
    assert FeatureHandlers.from_config(handlers.get_config()).out_of_range == "hash"


def test_columns_are_reached_from_graphlearn():
    assert graphlearn.EmbeddingColumn is EmbeddingColumn
    assert graphlearn.FeatureHandler is FeatureHandler

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import ParseExample, ParseSingleExample


def record(prefix="", **more):
    features = {
        "nodes/a.#size": tf.train.Feature(int64_list=tf.train.Int64List(value=[2])),
        "nodes/a.x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0])),
        **more,
    }
    example = tf.train.Example(
        features=tf.train.Features(feature={prefix + key: value for key, value in features.items()})
    )
    return example.SerializeToString()


@pytest.fixture
def parsed_spec():
    return tfx_gnn.create_graph_spec_from_schema_pb(
        tfx_gnn.parse_schema('node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }')
    )


def test_one_or_many_examples_are_read(parsed_spec):
    batch = ParseExample(parsed_spec)(tf.constant([record(), record()]))
    single = ParseSingleExample(parsed_spec)(tf.constant(record()))

    assert batch.shape == [2]
    assert batch.node_sets["a"]["x"].to_list() == [[1.0, 2.0], [1.0, 2.0]]
    assert single.shape == []
    assert single.node_sets["a"]["x"].numpy().tolist() == [1.0, 2.0]


def test_graphs_are_told_apart_by_prefix(parsed_spec):
    single = ParseSingleExample(parsed_spec, prefix="query/")(tf.constant(record("query/")))

    assert single.node_sets["a"]["x"].numpy().tolist() == [1.0, 2.0]


def test_labels_may_be_absent_where_there_is_a_default():
    spec = tfx_gnn.create_graph_spec_from_schema_pb(
        tfx_gnn.parse_schema(
            'node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } }'
            ' features { key: "label" value { dtype: DT_STRING } } } }'
        )
    )

    with_default = ParseExample(spec, default_values={"nodes/a.label": b"?"})(tf.constant([record()]))

    assert with_default.node_sets["a"]["label"].to_list() == [[b"?", b"?"]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
        ParseExample(spec)(tf.constant([record()]))


@pytest.mark.parametrize("layer_type", [ParseExample, ParseSingleExample])
def test_a_model_is_made_again(parsed_spec, again, layer_type):
    shape = [] if layer_type is ParseExample else None
    inputs = (
        tf_keras.Input(shape=[], dtype=tf.string, name="examples")
        if shape is not None
        else tf_keras.Input(type_spec=tf.TensorSpec([], tf.string))
    )
    layer = layer_type(parsed_spec, prefix="g/", default_values={"nodes/a.x": 0.0})
    model = tf_keras.Model(inputs, layer(inputs).node_sets["a"].sizes)
    value = tf.constant(record("g/")) if layer_type is ParseSingleExample else tf.constant([record("g/")])

    np.testing.assert_array_equal(again(model)(value), model(value))


@pytest.mark.parametrize("layer_type", [ParseExample, ParseSingleExample])
def test_a_sequential_model_is_saved(parsed_spec, tmp_path, layer_type):
    value = tf.constant(record()) if layer_type is ParseSingleExample else tf.constant([record()])
    model = tf_keras.Sequential([layer_type(parsed_spec)])
    model(value)
    model.save(str(tmp_path / "model"), save_format="tf", save_traces=False)

    loaded = tf_keras.models.load_model(str(tmp_path / "model"))

    features = [m(value).node_sets["a"]["x"] for m in (model, loaded)]
    tf.debugging.assert_equal(*(x if layer_type is ParseSingleExample else x.to_tensor() for x in features))


def test_a_serving_model_takes_examples(parsed_spec, tmp_path):
    inputs = tf_keras.Input(shape=[], dtype=tf.string, name="examples")
    graph = ParseExample(parsed_spec)(inputs).merge_batch_to_components()
    outputs = tfx_gnn.keras.layers.Pool(tfx_gnn.CONTEXT, "sum", node_set_name="a", feature_name="x")(graph)
    tf_keras.Model(inputs, {"total": outputs}).export(str(tmp_path / "export"))

    serve = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"]

    assert serve(examples=tf.constant([record(), record()]))["total"].numpy().tolist() == [3.0, 3.0]

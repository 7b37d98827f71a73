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


READOUT_SCHEMA = """
node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value {
  features { key: "class_id" value { dtype: DT_INT64 } }
  features { key: "name" value { dtype: DT_STRING } }
  features { key: "price" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }
"""


def readout_record(**labels):
    ints = {"nodes/_readout.#size": 1, "edges/_readout/seed.#size": 1}
    ints |= {"edges/_readout/seed.#source": 1, "edges/_readout/seed.#target": 0}
    given = {key: tf.train.Feature(int64_list=tf.train.Int64List(value=[value])) for key, value in ints.items()}
    return record(**given, **{f"nodes/_readout.{name}": value for name, value in labels.items()})


def test_readouts_without_labels_are_read_with_what_is_no_label():
    spec = tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.parse_schema(READOUT_SCHEMA))
    labelled = readout_record(
        class_id=tf.train.Feature(int64_list=tf.train.Int64List(value=[3])),
        name=tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n"])),
        price=tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0])),
    )

    readout = ParseExample(spec)(tf.constant([readout_record(), labelled])).node_sets["_readout"]
    given = ParseExample(spec, default_values={"nodes/_readout.class_id": 7})(tf.constant([readout_record()]))
    single = ParseSingleExample(spec)(tf.constant(readout_record())).node_sets["_readout"]

    assert readout["class_id"].to_list() == [[-1], [3]]
    assert readout["name"].to_list() == [[b""], [b"n"]]
    np.testing.assert_array_equal(readout["price"].to_list(), [[[np.nan, np.nan]], [[1.0, 2.0]]])
    assert given.node_sets["_readout"]["class_id"].to_list() == [[7]]
    assert (single["class_id"].numpy().tolist(), single["name"].numpy().tolist()) == ([-1], [b""])


def test_readout_features_that_have_no_value_for_missing_are_required():
    spec = tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.parse_schema(READOUT_SCHEMA.replace("DT_INT64", "DT_BOOL")))

    with pytest.raises(tf.errors.InvalidArgumentError, match="class_id"):
        ParseExample(spec)(tf.constant([readout_record()]))


def test_a_missing_label_does_not_pass_for_a_class():
    spec = tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.parse_schema(READOUT_SCHEMA))
    labels = ParseSingleExample(spec)(tf.constant(readout_record())).node_sets["_readout"]["class_id"]
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    with pytest.raises(tf.errors.InvalidArgumentError, match="label value of -1"):
        loss(labels, tf.zeros([1, 2]))


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

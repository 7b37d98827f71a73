"""TF-GNN's input pipeline guide, "The big picture: training, export and inference"."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

import tfx_gnn as tfgnn
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

BATCH_SIZE = 4


@pytest.fixture(scope="module")
def trained(my_graph, data):
    """The guide's outline, from files to a trained model."""
    tmp = my_graph()

    # Read the dataset of tf.Example protos for training.
    dataset = tf.data.TFRecordDataset(filenames=[f"{tmp}/data.tfrecord"])
    dataset = dataset.shuffle(100, seed=1).prefetch(2)  # Shuffle, repeat and prefetch as appropriate.
    dataset = dataset.batch(BATCH_SIZE)  # Expected before preprocessing.

    # Parse the GraphTensor values.
    graph_schema = tfgnn.read_schema(f"{tmp}/graph_schema.pbtxt")
    example_input_spec = tfgnn.create_graph_spec_from_schema_pb(graph_schema)
    dataset = dataset.map(tfgnn.keras.layers.ParseExample(example_input_spec))
    preproc_input_spec = dataset.element_spec

    # Define and apply the preprocessing model.
    preproc_input = tf_keras.layers.Input(type_spec=preproc_input_spec)
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=data.node_sets_fn)(preproc_input)
    graph = graph.merge_batch_to_components()
    labels = tfgnn.keras.layers.Readout(node_set_name="_readout", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"_readout": ["class_id"]})
    preproc_model = tf_keras.Model(preproc_input, (graph, labels))
    dataset = dataset.map(preproc_model)

    # Define and train the main model.
    tf_keras.utils.set_random_seed(2)
    model_input_spec, _ = dataset.element_spec  # Drop the spec for the labels.
    model_input = tf_keras.layers.Input(type_spec=model_input_spec)
    logits = data.gnn_logits(model_input)
    model = tf_keras.Model(model_input, logits)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    history = model.fit(dataset, epochs=4, verbose=0)

    return types.SimpleNamespace(
        example_input_spec=example_input_spec,
        dataset=dataset,
        preproc_model=preproc_model,
        model=model,
        history=history.history,
    )


@pytest.fixture(scope="module")
def examples(data):
    return tf.constant([data.record(i) for i in range(5)])


@pytest.fixture(scope="module")
def expected_logits(trained, examples):
    """What the two models say, one after the other."""
    graph, _ = trained.preproc_model(tfgnn.parse_example(trained.example_input_spec, examples))
    return trained.model(graph).numpy()


def served_logits(folder, examples):
    """What a server answers that knows the exported folder only."""
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    assert serve.structured_input_signature[1] == {"examples": tf.TensorSpec([None], tf.string, name="examples")}
    answer = serve(examples=examples)
    assert list(answer) == ["logits"]
    return answer["logits"].numpy()


def test_the_dataset_yields_merged_graphs_and_labels(trained):
    graph, labels = next(iter(trained.dataset))

    assert graph.shape.as_list() == []
    assert graph.num_components == BATCH_SIZE
    assert set(labels.numpy()) <= {0, 1}
    assert graph.node_sets["_readout"].features == {}


def test_the_model_learns(trained):
    assert trained.history["loss"][-1] < 0.5 * trained.history["loss"][0]
    assert trained.history["accuracy"][-1] == 1.0


@pytest.fixture
def fast_tracing():
    with libraries_traced_as_written():
        yield


@pytest.mark.usefixtures("fast_tracing")
@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue with type tfx_gnn")
def test_a_saved_keras_model_serves(trained, examples, expected_logits, tmp_path):
    """The way of TensorFlow before 2.13, with the output named by a last layer."""
    preproc_model, model = trained.preproc_model, trained.model
    example_input_spec = trained.example_input_spec

    # Export the combined SavedModel for serving.
    serving_input = tf_keras.layers.Input(
        shape=[],  # The batch dim is implied.
        dtype=tf.string,
        name="examples",
    )
    preproc_input = tfgnn.keras.layers.ParseExample(example_input_spec)(serving_input)
    serving_model_input, _ = preproc_model(preproc_input)  # Drop labels.
    serving_logits = model(serving_model_input)
    serving_output = {"logits": tf_keras.layers.Layer(name="logits")(serving_logits)}
    exported_model = tf_keras.Model(serving_input, serving_output)
    exported_model.save(str(tmp_path / "exported_keras_model"), include_optimizer=False, save_format="tf")

    np.testing.assert_allclose(served_logits(tmp_path / "exported_keras_model", examples), expected_logits, rtol=1e-5)
    loaded = tf_keras.models.load_model(str(tmp_path / "exported_keras_model"), compile=False)
    np.testing.assert_allclose(loaded(examples)["logits"], expected_logits, rtol=1e-5)


def test_an_exported_model_serves(trained, examples, expected_logits, tmp_path):
    """The way of TensorFlow 2.13 and later."""
    preproc_model, model = trained.preproc_model, trained.model
    example_input_spec = trained.example_input_spec

    # Export the combined SavedModel for serving.
    serving_input = tf_keras.layers.Input(
        shape=[],  # The batch dim is implied.
        dtype=tf.string,
        name="examples",
    )
    preproc_input = tfgnn.keras.layers.ParseExample(example_input_spec)(serving_input)
    serving_model_input, _ = preproc_model(preproc_input)  # Drop labels.
    serving_logits = model(serving_model_input)
    serving_output = {"logits": serving_logits}
    exported_model = tf_keras.Model(serving_input, serving_output)
    exported_model.export(str(tmp_path / "my_exported_model"))

    np.testing.assert_allclose(served_logits(tmp_path / "my_exported_model", examples), expected_logits, rtol=1e-5)


def test_an_export_holds_vocabularies_and_operations_of_tensorflow_alone(trained, examples, tmp_path):
    serving_input = tf_keras.layers.Input(shape=[], dtype=tf.string, name="examples")
    graph = tfgnn.keras.layers.ParseExample(trained.example_input_spec)(serving_input)
    words = tf_keras.layers.StringLookup(vocabulary=["graph", "neural"])(graph.node_sets["docs"]["words"])
    tf_keras.Model(serving_input, {"sums": tf.reduce_sum(words, axis=[1, 2])}).export(str(tmp_path / "export"))

    sums = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"](examples=examples[:2])["sums"]
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "export" / "saved_model.pb").read_bytes())

    library = saved.meta_graphs[0].graph_def.library
    functions = {function.signature.name for function in library.function}
    operations = {node.op for function in library.function for node in function.node_def} - functions
    assert sums.numpy().tolist() == [2 * (1 + 2), 2 * (1 + 2)]
    assert operations
    assert {name for name in operations if not hasattr(tf.raw_ops, name)} == set()


@pytest.fixture(scope="module")
def unlabeled(data):
    return tf.constant([data.record(i, label_on=None) for i in range(5)])


def test_labels_are_required_by_the_function(trained, unlabeled):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"nodes/_readout\.class_id"):
        tfgnn.parse_example(trained.example_input_spec, unlabeled)


def test_the_recipe_serves_examples_without_labels(trained, unlabeled, expected_logits, tmp_path):
    serving_input = tf_keras.layers.Input(shape=[], dtype=tf.string, name="examples")
    preproc_input = tfgnn.keras.layers.ParseExample(trained.example_input_spec)(serving_input)
    serving_model_input, _ = trained.preproc_model(preproc_input)  # Drop labels.
    exported_model = tf_keras.Model(serving_input, {"logits": trained.model(serving_model_input)})
    exported_model.export(str(tmp_path / "export"))

    np.testing.assert_allclose(served_logits(tmp_path / "export", unlabeled), expected_logits, rtol=1e-5)


def test_preprocessing_rebuilt_without_labels_serves_too(trained, data, unlabeled, expected_logits, tmp_path):
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(data.schema_text(label_on=None)))
    serving_input = tf_keras.layers.Input(shape=[], dtype=tf.string, name="examples")
    graph = tfgnn.keras.layers.ParseExample(spec)(serving_input)
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=data.node_sets_fn)(graph)
    graph = graph.merge_batch_to_components()
    exported_model = tf_keras.Model(serving_input, {"logits": trained.model(graph)})
    exported_model.export(str(tmp_path / "export"))

    np.testing.assert_allclose(served_logits(tmp_path / "export", unlabeled), expected_logits, rtol=1e-5)

"""TFX's own components take what ours make."""

from __future__ import annotations

import json

import pytest
from tfx.types import standard_artifacts

# tf_keras draws seeds from a range of floats; TFX 1.21 calls what protobuf 6 renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning",
    r"ignore:label\(\) is deprecated:DeprecationWarning",
)


@pytest.fixture
def take(finished_tasks):
    """An output of a finished task as the artifact that another component gets."""

    def make(kind, task, output):
        artifact = kind()
        artifact.uri = str(finished_tasks[task].uris[output])
        for name, value in finished_tasks[task].metadata[output].items():
            if name in (kind.PROPERTIES or {}):
                setattr(artifact, name, value)
            elif isinstance(value, str):
                artifact.set_string_custom_property(name, value)
            elif isinstance(value, float):
                artifact.set_int_custom_property(name, int(value))
        return artifact

    return make


def test_statistics_gen_reads_examples_and_schema(take, tmp_path):
    from tensorflow_metadata.proto.v0 import statistics_pb2
    from tfx.components.statistics_gen import executor

    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri = str(tmp_path)

    executor.Executor().Do(
        {
            "examples": [take(standard_artifacts.Examples, "SubgraphExampleGen", "examples")],
            "schema": [take(standard_artifacts.Schema, "GraphSchemaGen", "schema")],
        },
        {"statistics": [statistics]},
        {"exclude_splits": "[]"},
    )

    content = (tmp_path / "Split-train" / "FeatureStats.pb").read_bytes()
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
    features = {feature.path.step[0]: feature for feature in dataset.features}
    assert dataset.num_examples == 15
    assert features["nodes/_readout.topic"].string_stats.unique == 3
    assert features["nodes/paper.score"].num_stats.common_stats.avg_num_values == pytest.approx(3.0)


def test_pusher_pushes_our_blessed_model(take, tmp_path):
    from tfx.components.pusher import executor

    pushed = standard_artifacts.PushedModel()
    pushed.uri = str(tmp_path / "artifact")

    executor.Executor().Do(
        {
            "model": [take(standard_artifacts.Model, "GraphTrainer", "model")],
            "model_blessing": [take(standard_artifacts.ModelBlessing, "GraphEvaluator", "blessing")],
            "infra_blessing": [take(standard_artifacts.InfraBlessing, "GraphSkewValidator", "infra_blessing")],
        },
        {"pushed_model": [pushed]},
        {"push_destination": json.dumps({"filesystem": {"base_directory": str(tmp_path / "serving")}})},
    )

    (version,) = (tmp_path / "serving").iterdir()
    assert pushed.get_int_custom_property("pushed") == 1
    assert (version / "saved_model.pb").exists()


def test_bulk_inferrer_reads_examples_and_asks_the_network(take, tmp_path):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2
    from tfx.components.bulk_inferrer import executor

    ours = take(standard_artifacts.Model, "GraphTrainer", "model")
    numbers_only, result = standard_artifacts.Model(), standard_artifacts.InferenceResult()
    numbers_only.uri, result.uri = str(tmp_path / "model"), str(tmp_path / "result")
    root = tf.Module()
    root.model = tf.saved_model.load(f"{ours.uri}/Format-Serving")
    serve = root.model.signatures["serving_default"]
    root.serve = tf.function(
        # BulkInferrer cannot write a string per example, only numbers and vectors.
        lambda examples: {"logits": serve(examples=examples)["logits"]},
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
    )
    tf.saved_model.save(root, f"{numbers_only.uri}/Format-Serving", signatures={"serving_default": root.serve})

    executor.Executor().Do(
        {
            "examples": [take(standard_artifacts.Examples, "SubgraphExampleGen", "examples")],
            "model": [numbers_only],
        },
        {"inference_result": [result]},
        {
            "data_spec": json.dumps({"example_splits": ["test"]}),
            "model_spec": json.dumps({"model_signature_name": ["serving_default"]}),
        },
    )

    files = [str(path) for path in (tmp_path / "result").rglob("*") if path.is_file()]
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log
        for record in tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()
    ]
    assert len(logs) == 6
    for log in logs:
        (example,) = log.request.inputs["examples"].string_val
        expected = serve(examples=tf.constant([example]))["logits"].numpy()
        assert tf.make_ndarray(log.response.outputs["logits"]) == pytest.approx(expected, abs=1e-4)

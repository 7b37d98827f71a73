"""A pipeline of TFX's own components and ours: each takes what the other makes."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# tf_keras draws seeds from a range of floats; TFX 1.21 calls what protobuf 6 renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning",
    r"ignore:label\(\) is deprecated:DeprecationWarning",
)

PROJECT = Path(__file__).parents[1] / "components" / "tiny_project"
TABLES = PROJECT / "tables"
PAPERS = {row["id"]: row for row in csv.DictReader((TABLES / "papers.csv").read_text().splitlines())}
GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "stock_components.md"
COMPONENTS = (
    *("tables", "tables_schema", "subgraphs", "imported", "statistics", "schema", "validator", "graph_schema"),
    *("flat_transform", "transform", "learner", "trainer", "evaluator", "inferrer", "pusher"),
)
MODULE_FILE = """
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    return {"score": tft.scale_to_z_score(inputs["nodes/paper.score"])}
"""


def build_components(folder: Path) -> list[Any]:
    """Runs the code of the guide; `folder` holds graph tf.Examples without a graph schema, and a module."""
    from tiny_project.task import TASK

    names: dict[str, Any] = {
        "tables_dir": str(TABLES),
        "examples_dir": str(folder / "examples"),
        "module_file": str(folder / "stock_module.py"),
        "serving_dir": str(folder / "serving"),
        "plan": TASK.plan,
        "preprocessing_fn": TASK.preprocessing_fn,
        "model_fn": TASK.model_fn,
        "task": TASK.prediction,
        "least_accuracy": 0.0,
    }
    exec("\n".join(re.findall(r"```python.*?\n(.*?)```", GUIDE.read_text(), re.DOTALL)), names)  # noqa: S102
    return [names[name] for name in COMPONENTS]


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """What the pipeline left behind.

    Attributes:
        folder: the folder that it was built for.
        uris: folder of each output, by component and name.
        pushed: properties of the pushed model.
    """

    folder: Path
    uris: Mapping[tuple[str, str], Path]
    pushed: Mapping[str, Any]

    def records(self, component: str, split: str) -> list[bytes]:
        files = sorted(map(str, (self.uris[component, "examples"] / f"Split-{split}").iterdir()))
        return list(tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator())


def forget_project() -> None:
    """Other tests import copies of the project under its name."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PROJECT.name]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    """Runs the pipeline once."""
    folder = tmp_path_factory.mktemp("stock")
    sys.path.insert(0, str(PROJECT.parent))
    forget_project()
    from ml_metadata.metadata_store import metadata_store
    from tfx.orchestration import metadata
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner
    from tfx.orchestration.pipeline import Pipeline
    from tiny_project.task import TASK

    from tfx_gnn.components import SubgraphExampleGenOptions, generate_subgraph_examples

    generate_subgraph_examples(
        tables_dir=str(TABLES),
        examples_dir=str(folder / "examples"),
        options=SubgraphExampleGenOptions(plan=TASK.plan, num_shards=1),
    )
    (folder / "examples" / "graph_schema.pbtxt").unlink()
    (folder / "stock_module.py").write_text(MODULE_FILE)
    connection = metadata.sqlite_metadata_connection_config(str(folder / "metadata.sqlite"))
    LocalDagRunner().run(
        Pipeline(
            pipeline_name="stock",
            pipeline_root=str(folder / "root"),
            components=build_components(folder),
            metadata_connection_config=connection,
            enable_cache=False,
        )
    )
    store = metadata_store.MetadataStore(connection)
    uris, pushed = {}, {}
    for artifact in store.get_artifacts():
        component, output, _ = Path(artifact.uri).parts[-3:]
        uris[component, output] = Path(artifact.uri)
        if (component, output) == ("Pusher", "pushed_model"):
            pushed = {name: value.string_value or value.int_value for name, value in artifact.custom_properties.items()}
    yield FinishedRun(folder=folder, uris=uris, pushed=pushed)
    sys.path.remove(str(PROJECT.parent))
    forget_project()


@pytest.fixture(scope="module")
def serve(finished: FinishedRun) -> Callable[[list[bytes]], dict[str, Any]]:
    """The pushed model."""
    loaded = tf.saved_model.load(str(finished.pushed["pushed_destination"]))

    def call(records: list[bytes]) -> dict[str, Any]:
        answers = loaded.signatures["serving_default"](examples=tf.constant(records))
        return {name: value.numpy() for name, value in answers.items()}

    return call


def features_of(record: bytes) -> dict[str, list[Any]]:
    found = tf.train.Example.FromString(record).features.feature
    return {name: list(getattr(one, one.WhichOneof("kind") or "int64_list").value) for name, one in found.items()}


def read_gzip(folder: Path) -> list[bytes]:
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    return list(tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator())


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_csv_example_gen_feeds_the_sampler(finished, split):
    """Hops take all edges there are, so the order of rows, which CsvExampleGen mixes, changes no subgraph."""
    keys = ("nodes/paper.#id", "nodes/paper.score", "nodes/author.#id", "edges/cites.#size", "nodes/_readout.topic")

    def by_seed(records):
        return {
            (one := features_of(record))["nodes/paper.#id"][0]: {key: sorted(one[key]) for key in keys}
            for record in records
        }

    sampled = by_seed(finished.records("SubgraphExampleGen", split))

    assert sampled == by_seed(finished.records("ImportExampleGen", split))
    assert sorted(sampled) == sorted(name.encode() for name, row in PAPERS.items() if row["split"] == split)


def test_stock_statistics_schema_and_anomalies_are_those_of_the_examples(finished):
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

    content = (finished.uris["StatisticsGen", "statistics"] / "Split-train" / "FeatureStats.pb").read_bytes()
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
    schema = (finished.uris["SchemaGen", "schema"] / "schema.pbtxt").read_text()
    anomalies = finished.uris["ExampleValidator", "anomalies"] / "Split-val" / "SchemaDiff.pb"

    features = {feature.path.step[0]: feature for feature in dataset.features}
    assert dataset.num_examples == 15
    assert features["nodes/_readout.topic"].string_stats.unique == 3
    assert features["nodes/paper.score"].num_stats.common_stats.avg_num_values == pytest.approx(3.0)
    declared = {feature.name for feature in text_format.Parse(schema, schema_pb2.Schema()).feature}
    assert declared == set(features)
    assert "nodes/_readout.topic" not in anomalies_pb2.Anomalies.FromString(anomalies.read_bytes()).anomaly_info


def test_stock_transform_installs_its_module_file_and_reads_our_schema(finished):
    import tensorflow_transform as tft

    output = tft.TFTransformOutput(str(finished.uris["Transform", "transform_graph"]))
    examples = finished.uris["Transform", "transformed_examples"] / "Split-train"

    (name,) = output.transformed_feature_spec()
    scores = [score for record in read_gzip(examples) for score in features_of(record)[f"{name}$ragged_values"]]
    assert (np.mean(scores), np.std(scores)) == (pytest.approx(0.0, abs=1e-5), pytest.approx(1.0, abs=1e-5))


def test_stock_evaluator_knows_labels_by_the_names_of_the_classes(finished, serve):
    import tensorflow_model_analysis as tfma

    result = tfma.load_eval_result(str(finished.uris["Evaluator", "evaluation"]))

    records = finished.records("ImportExampleGen", "test")
    answers = serve(records)
    pairs = answers["id"], answers["label"]
    right = [PAPERS[name.decode()]["topic"] == label.decode() for name, label in zip(*pairs, strict=True)]
    metrics = {name: value["doubleValue"] for name, value in result.get_metrics_for_slice().items()}
    assert metrics["example_count"] == len(records) == 6
    assert metrics["sparse_categorical_accuracy"] == pytest.approx(np.mean(right))


def test_stock_bulk_inferrer_writes_what_the_pushed_model_answers(finished, serve):
    from tensorflow_serving.apis import prediction_log_pb2

    logs = [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log
        for record in read_gzip(finished.uris["BulkInferrer", "inference_result"])
    ]

    asked = [log.request.inputs["examples"].string_val[0] for log in logs]
    assert sorted(asked) == sorted(finished.records("ImportExampleGen", "test"))
    for record, log in zip(asked, logs, strict=True):
        answers = serve([record])
        assert sorted(log.response.outputs) == sorted(answers)
        for name, expected in answers.items():
            found = tf.make_ndarray(log.response.outputs[name]).reshape(expected.shape)
            if expected.dtype == object:
                assert found.tolist() == expected.tolist(), name
            else:
                np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=name)


def test_stock_pusher_pushes_what_the_stock_evaluator_blessed(finished):
    (version,) = (finished.folder / "serving").iterdir()

    assert (finished.uris["Evaluator", "blessing"] / "BLESSED").exists()
    assert finished.pushed["pushed"] == 1
    assert finished.pushed["pushed_destination"] == str(version)
    assert (version / "saved_model.pb").exists()
    assert json.loads((version / "assets.extra" / "served_task.json").read_text())["roots"] == ["seed"]

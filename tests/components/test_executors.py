"""Every executor, run by its container command on the tiny tables; values in its artifacts are compared.

Stock components of TFX are asked here, too, so that one process runs the containers once.
Topics go round in threes, paper i cites i+3 and i+6, author i mod 6 writes paper i.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tfx.types import standard_artifacts

from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.records import examples_folder
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn_pipelines.assembly import COMPONENTS
from tfx_gnn_pipelines.bulk_inference import BulkInferenceOptions
from tfx_gnn_pipelines.compilation import compile_pipeline, write_pipeline
from tfx_gnn_pipelines.compiled_pipeline import read_compiled, run_parameters
from tfx_gnn_pipelines.custom_job import CustomJob
from tfx_gnn_pipelines.emulator.run import run_compiled
from tfx_gnn_pipelines.resources import ComponentResources, Resources
from tfx_gnn_pipelines.services import Service

# tf_keras draws seeds from a range of floats; TFX 1.21 calls what protobuf 6 renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning",
    r"ignore:label\(\) is deprecated:DeprecationWarning",
)

PAPERS = {
    row["id"]: row
    for row in csv.DictReader(
        (Path(__file__).parent / "tiny_project" / "tables" / "papers.csv").read_text().splitlines()
    )
}


def read_examples(folder: Path, split: str) -> list[dict]:
    """Examples of a split: feature name to list of values."""
    examples = []
    for record in examples_folder.read_split(str(folder), split).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        examples.append(
            {
                name: list(getattr(value, value.WhichOneof("kind") or "int64_list").value)
                for name, value in features.items()
            }
        )
    return examples


def seed_of(example: dict) -> str:
    return example["nodes/paper.#id"][0].decode()


def raw_records(finished_tasks, split: str) -> list[bytes]:
    folder = finished_tasks["SubgraphExampleGen"].uris["examples"]
    return list(examples_folder.read_split(str(folder), split).as_numpy_iterator())


@pytest.fixture(scope="module")
def serve(finished_tasks):
    """The trained model's serving function."""
    loaded = tf.saved_model.load(str(finished_tasks["GraphTrainer"].uris["model"] / "Format-Serving"))
    signature = loaded.signatures["serving_default"]

    def call(records):
        # The signature lives as long as what it was loaded with.
        assert loaded is not None
        return {name: value.numpy() for name, value in signature(examples=tf.constant(records, tf.string)).items()}

    return call


def test_every_task_ran(finished_tasks):
    assert sorted(finished_tasks) == sorted(COMPONENTS)


def test_open_parameter_reaches_the_stage(finished_tasks):
    summary = json.loads((finished_tasks["GraphTrainer"].uris["model_run"] / "training_summary.json").read_text())

    assert len(summary["epochs"]) == 7


def test_each_paper_is_the_seed_of_one_example_of_its_split(finished_tasks):
    task = finished_tasks["SubgraphExampleGen"]

    seeds = {
        split: sorted(seed_of(example) for example in read_examples(task.uris["examples"], split))
        for split in ("train", "val", "test")
    }

    for split, names in seeds.items():
        assert names == sorted(name for name, row in PAPERS.items() if row["split"] == split)
    assert json.loads(task.metadata["examples"]["split_names"]) == ["test", "train", "val"]
    assert task.metadata["examples"]["payload_format"] == "FORMAT_TF_EXAMPLE"
    assert task.metadata["examples"]["file_format"] == "tfrecords_gzip"


def test_example_holds_the_seed_its_citations_and_the_label_only_at_the_readout(finished_tasks):
    examples = read_examples(finished_tasks["SubgraphExampleGen"].uris["examples"], "train")
    example = next(example for example in examples if seed_of(example) == "paper-04")

    assert sorted(example["nodes/paper.#id"]) == [b"paper-04", b"paper-07", b"paper-10"]
    assert example["nodes/paper.score"] == pytest.approx(
        [float(PAPERS[name.decode()]["score"]) for name in example["nodes/paper.#id"]]
    )
    assert sorted(example["nodes/author.#id"]) == [b"author-1", b"author-4"]
    assert example["nodes/_readout.topic"] == [b"networks"]
    assert not [name for name in example if name.startswith("nodes/paper.topic")]


def test_both_schemas_describe_the_examples(finished_tasks):
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    task = finished_tasks["GraphSchemaGen"]

    schema = graph_schema.read_schema(str(task.uris["graph_schema"] / "graph_schema.pbtxt"))
    flat = text_format.Parse((task.uris["schema"] / "schema.pbtxt").read_text(), schema_pb2.Schema())

    assert sorted(schema.node_sets) == ["_readout", "author", "paper"]
    assert sorted(schema.node_sets["paper"].features) == ["#id", "pages", "score"]
    assert schema.edge_sets["writes"].source == "author"
    assert {"nodes/paper.score", "edges/cites.#source", "nodes/_readout.topic"} <= {f.name for f in flat.feature}


def test_transform_scales_by_statistics_in_which_every_paper_counts_once(finished_tasks):
    raw = read_examples(finished_tasks["SubgraphExampleGen"].uris["examples"], "train")
    task = finished_tasks["GraphTransform"]
    by_id = {
        name: score
        for example in raw
        for name, score in zip(example["nodes/paper.#id"], example["nodes/paper.score"], strict=True)
    }
    mean, deviation = np.mean(list(by_id.values())), np.std(list(by_id.values()))

    transformed = read_examples(task.uris["transformed_examples"], "train")

    assert [example["nodes/paper.score"] for example in transformed] == [
        pytest.approx([(by_id[name] - mean) / deviation for name in example["nodes/paper.#id"]], abs=1e-5)
        for example in raw
    ]
    assert json.loads(task.metadata["transformed_examples"]["split_names"]) == ["test", "train", "val"]
    schema = graph_schema.read_schema(str(task.uris["transformed_graph_schema"] / "graph_schema.pbtxt"))
    assert list(schema.node_sets["paper"].features) == ["score"]


def test_budgets_hold_any_five_graphs_and_the_padding(finished_tasks):
    folder = finished_tasks["SizeConstraintLearner"].uris["size_constraints"]

    content = json.loads((folder / "size_constraints.json").read_text())

    # Three papers, up to three authors and two citations a subgraph; one more component for the padding.
    budget = content["budgets"]["tight_5"]
    assert budget["batch_size"] == 5
    assert budget["total_num_components"] == 6
    assert budget["total_num_nodes"]["paper"] == 5 * 3 + 1
    assert budget["total_num_nodes"]["_readout"] >= 5
    assert budget["total_num_edges"]["cites"] == 5 * 2


def test_budgets_of_three_kinds_are_explained_by_topic(finished_tasks):
    folder = finished_tasks["SizeConstraintLearner"].uris["size_constraints"]

    budgets = json.loads((folder / "size_constraints.json").read_text())["budgets"]

    assert sorted(budget["kind"] for budget in budgets.values()) == ["fit_or_skip", "packing", "tight"]
    (fit_or_skip,) = [budget for budget in budgets.values() if budget["kind"] == "fit_or_skip"]
    topics = {loss["value"] for loss in fit_or_skip["losses"] if loss["slicing"] == "label"}
    assert topics == {row["topic"] for row in PAPERS.values()}
    assert "networks" in (folder / "report.html").read_text()


def test_transform_leaves_statistics_of_both_sides(finished_tasks):
    from tensorflow_metadata.proto.v0 import statistics_pb2

    task = finished_tasks["GraphTransform"]
    means = {}
    for name in ("pre_transform_stats", "post_transform_stats"):
        content = (task.uris[name] / "Split-train" / "FeatureStats.pb").read_bytes()
        (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
        means[name] = {f.path.step[0]: f.num_stats.mean for f in dataset.features if f.HasField("num_stats")}

    assert means["pre_transform_stats"]["nodes/paper.score"] != pytest.approx(0.0, abs=1e-3)
    assert means["post_transform_stats"]["nodes/paper.score"] == pytest.approx(0.0, abs=1e-5)


def test_model_answers_raw_examples_with_topic_and_id(finished_tasks, serve):
    records = raw_records(finished_tasks, "test")

    answers = serve(records)

    names = [name.decode() for name in answers["id"]]
    assert sorted(names) == sorted(name for name, row in PAPERS.items() if row["split"] == "test")
    assert [label.decode() for label in answers["label"]] == [PAPERS[name]["topic"] for name in names]
    assert answers["probabilities"].sum(axis=1) == pytest.approx(np.ones(len(names)), abs=1e-5)


def test_training_leaves_logs_for_tensorboard(finished_tasks):
    logs = finished_tasks["GraphTrainer"].uris["model_run"] / "logs"

    assert list(logs.rglob("events.out.tfevents.*"))


def test_metrics_are_those_of_the_served_answers(finished_tasks, serve):
    task = finished_tasks["GraphEvaluator"]
    answers = serve(raw_records(finished_tasks, "test"))
    right = [
        label.decode() == PAPERS[name.decode()]["topic"]
        for name, label in zip(answers["id"], answers["label"], strict=True)
    ]

    metrics = json.loads((task.uris["evaluation"] / "metrics.json").read_text())

    assert metrics["num_examples"] == len(right)
    assert metrics["accuracy"] == pytest.approx(np.mean(right))
    assert metrics["majority_baseline"]["accuracy"] == pytest.approx(1 / 3)


def test_blessing_says_so_in_a_file_and_to_stock_components(finished_tasks):
    task = finished_tasks["GraphEvaluator"]

    assert (task.uris["blessing"] / "BLESSED").exists()
    assert task.metadata["blessing"]["blessed"] == 1
    assert task.metadata["blessing"]["current_model"] == str(finished_tasks["GraphTrainer"].uris["model"])


def test_training_and_serving_see_the_same(finished_tasks):
    task = finished_tasks["GraphSkewValidator"]
    report = json.loads((task.uris["skew"] / "skew.json").read_text())

    assert report["largest_difference"] == 0.0
    assert report["num_examples"] == {"test": 6, "train": 15, "val": 3}
    assert {feature["key"] for feature in report["features"]} >= {"nodes/paper.score", "edges/cites.#source"}
    assert task.metadata["skew"]["largest_difference"] == 0.0
    assert (task.uris["infra_blessing"] / "INFRA_BLESSED").exists()
    assert task.metadata["infra_blessing"]["blessed"] == 1


def test_blessed_model_is_version_1_of_the_destination(finished_tasks, push_destination):
    task = finished_tasks["GraphPusher"]
    version = push_destination / "1"

    assert (version / "saved_model.pb").exists()
    assert task.metadata["pushed_model"]["pushed"] == 1
    assert task.metadata["pushed_model"]["pushed_destination"] == str(version)
    assert task.metadata["pushed_model"]["pushed_version"] == "1"


# TFX's own components take what ours make.


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


@pytest.mark.usefixtures("finished_tasks")
def test_the_trainer_trains_as_a_custom_job_of_two_replicas(
    remote_config, tasks_folder, tiny_project, this_process, monkeypatch
):
    given = ComponentResources(custom_job=CustomJob(machine_type="n1-highmem-8", replicas=2, spot=True))
    config = dataclasses.replace(remote_config, runtime_parameters=("GraphTrainer.training_seed",))
    job = compile_pipeline(
        config,
        service=Service.VERTEX,
        image="registry/image:tag",
        resources=Resources(components={"GraphTrainer": given}),
    )
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    for name in ("GraphEvaluator", "GraphSkewValidator", "GraphPusher"):
        del tasks[name]
    path = tasks_folder / "replicas.json"
    write_pipeline(job, str(path))
    pipeline = read_compiled(str(path))
    # The replicas are processes of their own.
    monkeypatch.setenv("PYTHONPATH", str(tiny_project))

    results = run_compiled(
        pipeline,
        service=Service.VERTEX,
        folder=str(tasks_folder / "run"),
        parameters=run_parameters(pipeline, {"num_epochs": "1"}),
        engine=this_process,
    )

    trainer = next(result for result in results if result.task == "GraphTrainer")
    assert trainer.state == "done", Path(trainer.log).read_text()
    assert {result.state for result in results if result is not trainer} == {"cached"}
    run = Path(trainer.artifacts["model_run"]["uri"])
    summary = json.loads((run / "training_summary.json").read_text())
    assert (summary["strategy"], summary["num_replicas"]) == ("multi_worker_mirrored", 2)
    assert len(summary["epochs"]) == 1
    loaded = tf.saved_model.load(str(Path(trainer.artifacts["model"]["uri"]) / "Format-Serving"))
    assert "serving_default" in loaded.signatures
    logs = [path.read_text() for path in sorted(Path(trainer.log).parent.glob("custom_job_1_*.log"))]
    assert [" as chief 0 reads" in logs[0], " as worker 0 reads" in logs[1]] == [True, True]


def test_every_paper_is_answered_as_the_model_serves_it(
    finished_tasks, remote_config, tasks_folder, this_process, serve
):
    config = dataclasses.replace(
        remote_config,
        runtime_parameters=("GraphTrainer.training_seed",),
        graph_bulk_inferrer=BulkInferenceOptions(num_shards=1, outputs=("predictions", "embeddings")),
    )
    path = tasks_folder / "bulk.json"
    job = compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")
    # The answers do not wait for the push.
    del job["pipelineSpec"]["root"]["dag"]["tasks"]["GraphPusher"]
    write_pipeline(job, str(path))
    pipeline = read_compiled(str(path))

    results = run_compiled(
        pipeline,
        service=Service.VERTEX,
        folder=str(tasks_folder / "run"),
        parameters=run_parameters(pipeline, {"num_epochs": "7"}),
        engine=this_process,
    )

    served_task = read_served_task(str(finished_tasks["GraphTrainer"].uris["model"] / "Format-Serving"))
    done = {result.task: result for result in results if result.state == "done"}
    assert sorted(done) == ["GraphBulkInferrer", "InferenceExampleGen"]
    inference = done["GraphBulkInferrer"].artifacts["inference"]
    assert (inference["metadata"]["blessed"], inference["metadata"]["num_rows"]) == (1.0, float(len(PAPERS)))
    rows = pq.read_table(Path(inference["uri"]) / "Split-all" / "predictions-00000-of-00001.parquet").to_pylist()
    assert sorted(row["id"] for row in rows) == sorted(PAPERS)
    examples = done["InferenceExampleGen"].artifacts["examples"]["uri"]
    served = serve(list(examples_folder.read_split(examples, "all").as_numpy_iterator()))
    assert [row["label"].encode() for row in rows] == served["label"].tolist()
    assert [row["score"] for row in rows] == pytest.approx(served["score"].tolist(), abs=1e-6)
    assert {len(row["embedding"]) for row in rows} == {served_task.embedding_dimensions["embedding"]}

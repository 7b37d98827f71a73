from __future__ import annotations

import dataclasses

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

import tfx_gnn
from tfx_gnn.components.parameters import tables_contents
from tfx_gnn.io import options_json
from tfx_gnn.models import tasks
from tfx_gnn_pipelines.assembly import COMPONENTS, build_components
from tfx_gnn_pipelines.compilation import compile_pipeline, compile_to, mounted_path

TOPIC = tasks.NodeClassification(label_feature="topic", class_vocabulary="topic")
WIRING = {
    "SubgraphExampleGen": {},
    "GraphSchemaGen": {"examples": "SubgraphExampleGen.examples"},
    "GraphExampleValidator": {"examples": "SubgraphExampleGen.examples", "graph_schema": "GraphSchemaGen.graph_schema"},
    "GraphTransform": {"examples": "SubgraphExampleGen.examples", "graph_schema": "GraphSchemaGen.graph_schema"},
    "SizeConstraintLearner": {
        "examples": "GraphTransform.transformed_examples",
        "graph_schema": "GraphTransform.transformed_graph_schema",
        "transform_graph": "GraphTransform.transform_graph",
    },
    "GraphTrainer": {
        "transformed_examples": "GraphTransform.transformed_examples",
        "transform_graph": "GraphTransform.transform_graph",
        "graph_schema": "GraphSchemaGen.graph_schema",
        "transformed_graph_schema": "GraphTransform.transformed_graph_schema",
        "size_constraints": "SizeConstraintLearner.size_constraints",
        "blessing": "GraphExampleValidator.blessing",
        "examples": "SubgraphExampleGen.examples",
    },
    "GraphEvaluator": {"examples": "SubgraphExampleGen.examples", "model": "GraphTrainer.model"},
    "GraphSkewValidator": {
        "examples": "SubgraphExampleGen.examples",
        "transformed_examples": "GraphTransform.transformed_examples",
        "model": "GraphTrainer.model",
        "model_run": "GraphTrainer.model_run",
    },
    "GraphPusher": {
        "model": "GraphTrainer.model",
        "blessing": "GraphEvaluator.blessing",
        "examples": "SubgraphExampleGen.examples",
        "infra_blessing": "GraphSkewValidator.infra_blessing",
    },
}


@pytest.fixture(scope="module")
def spec(compiled_job):
    return json_format.ParseDict(compiled_job["pipelineSpec"], pipeline_spec_pb2.PipelineSpec())


def constants(spec, task):
    parameters = spec.root.dag.tasks[task].inputs.parameters
    return {
        name: json_format.MessageToDict(source.runtime_value.constant)
        for name, source in parameters.items()
        if source.HasField("runtime_value")
    }


def test_compiled_spec_is_a_pipeline_spec_of_schema_2_1(spec):
    assert spec.schema_version == "2.1.0"
    assert spec.pipeline_info.name == "tiny"


def test_tasks_are_the_components_in_any_order(spec):
    assert sorted(spec.root.dag.tasks) == sorted(COMPONENTS)


def test_components_are_listed_in_the_order_in_which_they_run(tiny_config):
    assert tuple(component.id for component in build_components(tiny_config)) == COMPONENTS


@pytest.mark.parametrize("task", COMPONENTS)
def test_every_input_comes_from_the_output_it_should(spec, task):
    inputs = spec.root.dag.tasks[task].inputs.artifacts

    assert {
        name: f"{source.task_output_artifact.producer_task}.{source.task_output_artifact.output_artifact_key}"
        for name, source in inputs.items()
    } == WIRING[task]


@pytest.mark.parametrize("task", COMPONENTS)
def test_every_task_runs_its_executor_in_the_image(spec, task):
    label = spec.components[spec.root.dag.tasks[task].component_ref.name].executor_label
    executor = json_format.MessageToDict(spec.deployment_spec)["executors"][label]["container"]

    assert executor["image"] == "image:tag"
    module = executor["args"][executor["args"].index("--executor_class_path") + 1]
    assert module.startswith("tfx_gnn.components.")
    assert module.endswith(".executor.Executor")


def test_options_arrive_as_typed_constants(spec, tiny_config):
    expected = {
        "splits": "[]",
        "max_examples": 512,
        "batch_size": 32,
        "max_float_difference": 1e-6,
        "max_rounding_difference": 1e-4,
        "refuses_nonfinite_answers": "false",
        "max_output_difference": 1e-4,
        "library_version": tfx_gnn.__version__,
    }
    assert constants(spec, "GraphSkewValidator") == expected
    learner = constants(spec, "SizeConstraintLearner")
    assert (learner["batch_size"], learner["label_feature"], learner["class_vocabulary"]) == (5, "topic", "topic")
    trainer = constants(spec, "GraphTrainer")
    assert trainer["model_fn"] == "tiny_project.model:model_fn"
    assert options_json.from_json(trainer["task"], tasks.Task) == TOPIC
    assert options_json.from_json(constants(spec, "GraphEvaluator")["task"], tasks.Task) == TOPIC
    assert constants(spec, "GraphPusher")["push_destination"] == tiny_config.push_destination


def test_fingerprints_are_in_the_spec_so_that_its_cache_sees_edits(spec):
    assert len(constants(spec, "GraphTransform")["code_fingerprint"]) == 64
    assert len(constants(spec, "GraphTrainer")["code_fingerprint"]) == 64
    assert len(tables_contents(constants(spec, "SubgraphExampleGen"))) == 64
    assert all(spec.root.dag.tasks[task].caching_options.enable_cache for task in COMPONENTS)


def test_open_parameter_is_an_input_of_the_pipeline_with_the_configs_value(spec, compiled_job):
    source = spec.root.dag.tasks["GraphTrainer"].inputs.parameters["num_epochs"]

    assert source.component_input_parameter == "graph_trainer_num_epochs"
    declared = spec.root.input_definitions.parameters
    assert list(declared) == ["graph_trainer_num_epochs"]
    assert declared["graph_trainer_num_epochs"].parameter_type == pipeline_spec_pb2.ParameterType.NUMBER_INTEGER
    assert compiled_job["runtimeConfig"]["parameterValues"] == {"graph_trainer_num_epochs": 8}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("num_epochs", "must have the form 'Component.parameter'"),
        ("Trainer.num_epochs", "with a component among .*'GraphTrainer'.*; got 'Trainer.num_epochs'"),
        (
            "GraphTrainer.epochs",
            "must name a parameter of GraphTrainer among .*'num_epochs'.*; got 'GraphTrainer.epochs'",
        ),
        ("GraphTrainer.task", "`runtime_parameters` must override one of .*; got 'task'"),
        ("GraphTrainer.model_fn", "`runtime_parameters` must override one of .*; got 'model_fn'"),
    ],
)
def test_parameter_that_cannot_be_left_open_is_refused(tiny_config, name, message):
    with pytest.raises(ValueError, match=message):
        build_components(dataclasses.replace(tiny_config, runtime_parameters=(name,)))


def test_remote_data_is_not_read_to_compile(tiny_config):
    config = dataclasses.replace(
        tiny_config,
        tables_dir="gs://bucket/tables",
        tables_fingerprint="2026-11-20",
        root="gs://bucket/root",
        push_destination="/gcs/bucket/serving",
    )

    job = compile_pipeline(config, image="image:tag", display_name="tiny")

    spec = json_format.ParseDict(job["pipelineSpec"], pipeline_spec_pb2.PipelineSpec())
    parameters = constants(spec, "SubgraphExampleGen")
    assert parameters["tables_dir"] == "gs://bucket/tables"
    assert parameters["tables_fingerprint"] == "2026-11-20"
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/root"


def test_compilation_gives_the_same_file_every_time(tiny_config, tmp_path):
    compile_to(tiny_config, str(tmp_path / "one.json"), image="image:tag")
    compile_to(tiny_config, str(tmp_path / "two.json"), image="image:tag")

    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "two.json"]


def test_yaml_holds_the_bare_spec_as_kubeflows_client_takes_it(tiny_config, tmp_path):
    compile_to(tiny_config, str(tmp_path / "tiny.yaml"), image="image:tag")

    spec = json_format.ParseDict(yaml.safe_load((tmp_path / "tiny.yaml").read_text()), pipeline_spec_pb2.PipelineSpec())
    assert sorted(spec.root.dag.tasks) == sorted(COMPONENTS)


def test_vertex_mounts_cloud_storage_under_gcs():
    assert mounted_path("gs://bucket/root/serving") == "/gcs/bucket/root/serving"
    with pytest.raises(ValueError, match="`uri` must be on Cloud Storage; got 's3://bucket'"):
        mounted_path("s3://bucket")


def test_object_store_is_no_push_destination(tiny_config):
    with pytest.raises(
        ValueError, match=r"`push_destination` must be a folder of a local or mounted disk.*gs://b/serving"
    ):
        dataclasses.replace(tiny_config, push_destination="gs://b/serving")


def test_pipeline_name_that_kubeflow_refuses_is_refused_first(tiny_config):
    with pytest.raises(ValueError, match=r"`pipeline_name` must be made of lower-case.*got 'My_pipeline'"):
        dataclasses.replace(tiny_config, pipeline_name="My_pipeline")

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import kfp.components
import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

import tfx_gnn
from tfx_gnn.components import GraphLayerwiseInferrerOptions, LatestBlessedModelResolverOptions
from tfx_gnn.components.parameters import tables_contents
from tfx_gnn.io import options_json
from tfx_gnn.models import tasks
from tfx_gnn.training.options import CheckpointOptions
from tfx_gnn_pipelines.assembly import COMPONENTS, build_components
from tfx_gnn_pipelines.bulk_inference import BulkInferenceOptions
from tfx_gnn_pipelines.compilation import compile_pipeline, compile_to
from tfx_gnn_pipelines.container import Contract
from tfx_gnn_pipelines.emulator.driver import is_triggered
from tfx_gnn_pipelines.services import Service

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
    container = json_format.MessageToDict(spec.deployment_spec)["executors"][label]["container"]

    assert container["image"] == "registry/image:tag"
    assert container["command"] == ["python", "-m", "tfx_gnn_pipelines.container"]
    given = dict(zip(container["args"][::2], container["args"][1::2], strict=True))
    assert given.keys() == {"--executor", "--contract", "--storage", "--executor-input"}
    assert given["--executor"].startswith("tfx_gnn.components.")
    assert given["--executor"].endswith(".executor.Executor")
    assert (given["--storage"], given["--executor-input"]) == ("direct", "{{$}}")
    assert Contract.from_json(given["--contract"]).inputs.keys() == WIRING[task].keys()


def test_contract_has_the_types_that_kubeflow_does_not_send(spec):
    container = json_format.MessageToDict(spec.deployment_spec)["executors"]["SizeConstraintLearner_executor"][
        "container"
    ]
    contract = Contract.from_json(container["args"][3])

    assert contract.inputs == {
        "examples": "tfx.types.standard_artifacts.Examples",
        "graph_schema": "tfx_gnn.components.artifacts.GraphSchemaArtifact",
        "transform_graph": "tfx.types.standard_artifacts.TransformGraph",
    }
    assert contract.outputs == {"size_constraints": "tfx_gnn.components.artifacts.SizeConstraintsArtifact"}
    assert contract.parameters["batch_size"] == "int"
    assert contract.parameters["label_feature"] == "str"


def test_options_arrive_as_typed_constants(spec):
    expected = {
        "splits": "[]",
        "max_examples": 512,
        "batch_size": 32,
        "max_float_difference": 1e-6,
        "max_rounding_difference": 1e-4,
        "refuses_nonfinite_answers": "false",
        "asks_server": "false",
        "max_served_by_id": 64,
        "max_output_difference": 1e-4,
        "library_version": tfx_gnn.__version__,
    }
    assert constants(spec, "GraphSkewValidator") == expected
    learner = constants(spec, "SizeConstraintLearner")
    assert (learner["label_feature"], learner["class_vocabulary"]) == ("topic", "topic")
    trainer = constants(spec, "GraphTrainer")
    assert trainer["model_fn"] == "tiny_project.model:model_fn"
    assert options_json.from_json(trainer["task"], tasks.Task) == TOPIC
    assert options_json.from_json(constants(spec, "GraphEvaluator")["task"], tasks.Task) == TOPIC


def test_fingerprints_are_in_the_spec_so_that_its_cache_sees_edits(spec):
    assert len(constants(spec, "GraphTransform")["code_fingerprint"]) == 64
    assert len(constants(spec, "GraphTrainer")["code_fingerprint"]) == 64
    version = spec.root.input_definitions.parameters["tables_version"].default_value.string_value
    assert len(tables_contents({"tables_fingerprint": version})) == 64
    assert all(spec.root.dag.tasks[task].caching_options.enable_cache for task in COMPONENTS)


def test_latest_blessed_model_is_resolved_in_every_run_at_the_destination_of_that_run(remote_config):
    config = dataclasses.replace(remote_config, latest_blessed_model_resolver=LatestBlessedModelResolverOptions())

    tasks_of_spec = compile_pipeline(config, service=Service.KUBEFLOW, image="registry/image:tag")["pipelineSpec"][
        "root"
    ]["dag"]["tasks"]

    resolver = tasks_of_spec["LatestBlessedModelResolver"]
    assert not resolver["cachingOptions"].get("enableCache", False)
    assert resolver["inputs"]["parameters"]["push_destination"] == {"componentInputParameter": "push_destination"}
    blessed = tasks_of_spec["GraphEvaluator"]["inputs"]["artifacts"]["blessed_model"]["taskOutputArtifact"]
    assert blessed == {"producerTask": "LatestBlessedModelResolver", "outputArtifactKey": "blessed_model"}


def test_window_of_spans_takes_what_was_counted_from_the_latest_blessed_model(remote_config):
    config = dataclasses.replace(
        remote_config,
        tables_dir="gs://bucket/{DATE}",
        tables_fingerprint="spans",
        subgraph_example_gen=dataclasses.replace(remote_config.subgraph_example_gen, num_spans=3),
        latest_blessed_model_resolver=LatestBlessedModelResolverOptions(),
    )

    job = compile_pipeline(config, service=Service.KUBEFLOW, image="registry/image:tag")

    tasks_of_spec = job["pipelineSpec"]["root"]["dag"]["tasks"]
    made = tasks_of_spec["SubgraphExampleGen"]["inputs"]["parameters"]["num_spans"]
    assert made == {"runtimeValue": {"constant": 3}}
    sources = {
        name: tasks_of_spec[name]["inputs"]["artifacts"][taken]["taskOutputArtifact"]
        for name, taken in (("GraphTransform", "blessed_model"), ("GraphPusher", "analyzer_cache"))
    }
    assert sources == {
        "GraphTransform": {"producerTask": "LatestBlessedModelResolver", "outputArtifactKey": "blessed_model"},
        "GraphPusher": {"producerTask": "GraphTransform", "outputArtifactKey": "updated_analyzer_cache"},
    }
    with pytest.raises(ValueError, match=r"`num_spans` must be 1, unless .*; got 3 for 'gs://bucket/tables'"):
        dataclasses.replace(config, tables_dir="gs://bucket/tables")


def test_newest_span_is_found_in_every_run(remote_config):
    config = dataclasses.replace(remote_config, tables_dir="gs://bucket/{DATE}", tables_fingerprint="spans")

    def example_gen(**changes):
        compiled = compile_pipeline(
            dataclasses.replace(config, **changes), service=Service.KUBEFLOW, image="registry/image:tag"
        )
        return compiled["pipelineSpec"]["root"]["dag"]["tasks"]["SubgraphExampleGen"]

    task = example_gen()
    assert not task["cachingOptions"].get("enableCache", False)
    assert task["inputs"]["parameters"]["span"] == {"componentInputParameter": "span"}
    assert example_gen(span="2026-01-31")["cachingOptions"] == {"enableCache": True}


def test_what_changes_from_run_to_run_is_open_with_the_configs_values(spec, compiled_job):
    values = {
        "tables_dir": "package://tiny_project/tables",
        "span": "",
        "push_destination": "gs://bucket/serving",
        "num_epochs": 8,
        "batch_size": 5,
        "graph_trainer_training_seed": 0,
    }
    declared = spec.root.input_definitions.parameters

    assert {name: json_format.MessageToDict(kind.default_value) for name, kind in declared.items()} == values | {
        "tables_version": declared["tables_version"].default_value.string_value
    }
    assert compiled_job["runtimeConfig"]["parameterValues"].keys() == declared.keys()
    assert declared["num_epochs"].parameter_type == pipeline_spec_pb2.ParameterType.NUMBER_INTEGER
    sources = {
        f"{task}.{name}": source.component_input_parameter
        for task in COMPONENTS
        for name, source in spec.root.dag.tasks[task].inputs.parameters.items()
        if source.component_input_parameter
    }
    assert sources == {
        "SubgraphExampleGen.tables_dir": "tables_dir",
        "SubgraphExampleGen.span": "span",
        "SubgraphExampleGen.tables_fingerprint": "tables_version",
        "GraphTrainer.num_epochs": "num_epochs",
        "GraphTrainer.training_seed": "graph_trainer_training_seed",
        "SizeConstraintLearner.batch_size": "batch_size",
        "GraphPusher.push_destination": "push_destination",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("epochs", "must have the form 'Component.parameter'"),
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


def test_model_is_pushed_only_if_both_verdicts_are_good(spec):
    def pushes(blessed, infra_blessed):
        artifacts = {
            name: {"artifacts": [{"metadata": {"blessed": float(verdict)}}]}
            for name, verdict in (("blessing", blessed), ("infra_blessing", infra_blessed))
        }
        message = {"inputs": {"artifacts": artifacts, "parameterValues": {}}}
        return is_triggered("GraphPusher", spec.root.dag.tasks["GraphPusher"].trigger_policy.condition, message)

    assert [pushes(*verdicts) for verdicts in ((1, 1), (1, 0), (0, 1), (0, 0))] == [True, False, False, False]
    assert [task for task in COMPONENTS if spec.root.dag.tasks[task].trigger_policy.condition] == ["GraphPusher"]


def test_answers_in_bulk_are_only_of_a_blessed_model_and_read_the_tables_of_the_run(remote_config):
    config = dataclasses.replace(remote_config, graph_bulk_inferrer=BulkInferenceOptions())

    job = compile_pipeline(config, service=Service.KUBEFLOW, image="registry/image:tag")

    tasks_of_spec = job["pipelineSpec"]["root"]["dag"]["tasks"]
    asked, inferrer = tasks_of_spec["InferenceExampleGen"], tasks_of_spec["GraphBulkInferrer"]
    assert inferrer["triggerPolicy"] == tasks_of_spec["GraphPusher"]["triggerPolicy"]
    assert asked["dependentTasks"] == ["GraphEvaluator", "SubgraphExampleGen"]
    same_span = asked["inputs"]["artifacts"]["same_span_as"]["taskOutputArtifact"]
    assert same_span == {"producerTask": "SubgraphExampleGen", "outputArtifactKey": "examples"}
    assert asked["inputs"]["parameters"]["tables_dir"] == {"componentInputParameter": "tables_dir"}
    assert asked["inputs"]["parameters"]["tables_fingerprint"] == {"componentInputParameter": "tables_version"}


@pytest.mark.parametrize("service", Service)
def test_answers_layer_by_layer_are_only_of_a_blessed_model_and_index_the_tables_of_the_run(remote_config, service):
    trainer = remote_config.graph_trainer
    export = dataclasses.replace(trainer.export, layerwise_inference=True)
    config = dataclasses.replace(
        remote_config,
        graph_trainer=dataclasses.replace(trainer, export=export),
        graph_layerwise_inferrer=GraphLayerwiseInferrerOptions(),
        runtime_parameters=("GraphLayerwiseInferrer.batch_edges",),
    )

    job = compile_pipeline(config, service=service, image="registry/image:tag")

    tasks_of_spec = job["pipelineSpec"]["root"]["dag"]["tasks"]
    indexer, inferrer = tasks_of_spec["GraphIndexer"], tasks_of_spec["GraphLayerwiseInferrer"]
    assert inferrer["triggerPolicy"] == tasks_of_spec["GraphPusher"]["triggerPolicy"]
    index = inferrer["inputs"]["artifacts"]["graph_index"]["taskOutputArtifact"]
    assert index == {"producerTask": "GraphIndexer", "outputArtifactKey": "graph_index"}
    assert indexer["dependentTasks"] == ["GraphEvaluator", "SubgraphExampleGen"]
    for name, opened in (("tables_dir", "tables_dir"), ("span", "span"), ("tables_fingerprint", "tables_version")):
        assert indexer["inputs"]["parameters"][name] == {"componentInputParameter": opened}
    assert job["runtimeConfig"]["parameterValues"]["graph_layerwise_inferrer_batch_edges"] == 500_000


@pytest.mark.parametrize("service", Service)
def test_index_for_the_skew_gate_waits_for_the_examples_alone(remote_config, service):
    skew = dataclasses.replace(remote_config.graph_skew_validator, asks_server=True)
    config = dataclasses.replace(remote_config, graph_skew_validator=skew)

    job = compile_pipeline(config, service=service, image="registry/image:tag")

    tasks_of_spec = job["pipelineSpec"]["root"]["dag"]["tasks"]
    index = tasks_of_spec["GraphSkewValidator"]["inputs"]["artifacts"]["graph_index"]["taskOutputArtifact"]
    assert index == {"producerTask": "GraphIndexer", "outputArtifactKey": "graph_index"}
    assert tasks_of_spec["GraphIndexer"]["dependentTasks"] == ["SubgraphExampleGen"]
    assert tasks_of_spec["GraphPusher"]["triggerPolicy"]


def test_remote_data_is_not_read_to_compile(remote_config):
    config = dataclasses.replace(remote_config, tables_dir="gs://bucket/tables", tables_fingerprint="2026-11-20")

    job = compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")

    assert job["runtimeConfig"]["parameterValues"]["tables_dir"] == "gs://bucket/tables"
    assert job["runtimeConfig"]["parameterValues"]["tables_version"] == "2026-11-20"
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/root"


def test_two_components_that_read_tables_share_their_parameters(remote_config):
    transform = dataclasses.replace(remote_config.graph_transform, analyze="tables")
    config = dataclasses.replace(remote_config, graph_transform=transform)

    spec = compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")["pipelineSpec"]

    inputs = spec["root"]["dag"]["tasks"]["GraphTransform"]["inputs"]["parameters"]
    assert inputs["tables_dir"] == {"componentInputParameter": "tables_dir"}
    assert inputs["tables_fingerprint"] == {"componentInputParameter": "tables_version"}


def test_parameter_that_is_open_anyway_is_not_opened_again(remote_config):
    config = dataclasses.replace(remote_config, runtime_parameters=("GraphTrainer.num_epochs",))

    with pytest.raises(ValueError, match=r"got GraphTrainer.num_epochs twice. Leave 'GraphTrainer.num_epochs' out"):
        compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")


@pytest.mark.parametrize("service", Service)
def test_compilation_gives_the_same_file_every_time(remote_config, tmp_path, service):
    compile_to(remote_config, str(tmp_path / "one.json"), service=service, image="registry/image:tag")
    compile_to(remote_config, str(tmp_path / "two.json"), service=service, image="registry/image:tag")

    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "two.json"]


@pytest.mark.parametrize("service", Service)
def test_file_has_no_path_of_this_machine(remote_config, tiny_project, tmp_path, service):
    compile_to(remote_config, str(tmp_path / "tiny.json"), service=service, image="registry/image:tag")

    text = (tmp_path / "tiny.json").read_text()
    for place in (tiny_project, tmp_path, Path.cwd(), Path.home(), Path(sys.prefix), Path(tfx_gnn.__file__).parent):
        assert f"{place}/" not in text


def test_files_of_the_services_differ_in_who_moves_artifacts(remote_config):
    jobs = {
        service: compile_pipeline(remote_config, service=service, image="registry/image:tag") for service in Service
    }

    texts = {service: json.dumps(job, sort_keys=True) for service, job in jobs.items()}
    assert texts[Service.KUBEFLOW].replace('"launcher"', '"direct"') == texts[Service.VERTEX]
    assert texts[Service.KUBEFLOW] != texts[Service.VERTEX]


def test_yaml_holds_all_that_kubeflow_needs_to_start_a_run(remote_config, tmp_path):
    compile_to(remote_config, str(tmp_path / "tiny.yaml"), service=Service.KUBEFLOW, image="registry/image:tag")

    spec = json_format.ParseDict(yaml.safe_load((tmp_path / "tiny.yaml").read_text()), pipeline_spec_pb2.PipelineSpec())
    assert sorted(spec.root.dag.tasks) == sorted(COMPONENTS)
    assert spec.default_pipeline_root == "gs://bucket/root"
    assert spec.root.input_definitions.parameters["num_epochs"].default_value.number_value == 8
    kfp.components.load_component_from_file(str(tmp_path / "tiny.yaml"))


def test_root_of_kubeflow_may_be_left_to_the_cluster(remote_config):
    config = dataclasses.replace(remote_config, root="")

    job = compile_pipeline(config, service=Service.KUBEFLOW, image="registry/image:tag")

    assert "defaultPipelineRoot" not in job["pipelineSpec"]
    assert "gcsOutputDirectory" not in job["runtimeConfig"]


@pytest.mark.parametrize(
    ("service", "change", "message"),
    [
        ("kubeflow", {"root": "/root"}, r"`root` must be on an object store.*got '/root'\. Give .* or leave it out"),
        ("vertex", {"root": ""}, r"`root` must be on an object store on Vertex AI.*got ''\. Give --root as gs://BUCK"),
        ("vertex", {"root": "gs://"}, r"`root` must name a bucket, .*got 'gs://'\. Write it as gs://BUCKET/FOLDER"),
        ("vertex", {"root": "gs://my bucket/x"}, r"`root` must name a bucket, .*got 'gs://my bucket/x'"),
        ("vertex", {"push_destination": "gs:///x"}, r"`push_destination` must name a bucket, .*got 'gs:///x'"),
        ("vertex", {"root": "s3://bucket/root"}, r"got 's3://bucket/root'\. Give --root as gs://BUCKET/FOLDER\."),
        ("kubeflow", {"push_destination": "/models"}, r"`push_destination` must outlive the container.*got '/models'"),
        (
            "vertex",
            {"push_destination": ""},
            r"`push_destination` must be given on Vertex AI.*--push-to as gs://BUCKET",
        ),
        ("kubeflow", {"push_destination": "s3://bucket/m"}, r"`push_destination` must be where .*got 's3://bucket/m'"),
        (
            "kubeflow",
            {"tables_dir": "s3://bucket/tables"},
            r"`tables_dir` must be on Cloud Storage or inside a package.*",
        ),
        (
            "vertex",
            {"tables_dir": "/data"},
            r"`tables_dir` must be where .*; got '/data'.* packages \['tiny_project'\]",
        ),
    ],
)
def test_place_that_no_container_reaches_is_refused(remote_config, service, change, message):
    config = dataclasses.replace(remote_config, **change)

    with pytest.raises(ValueError, match=message):
        compile_pipeline(config, service=Service(service), image="registry/image:tag")


def test_checkpoints_that_are_lost_with_the_container_are_refused(remote_config):
    trainer = dataclasses.replace(remote_config.graph_trainer, checkpoints=CheckpointOptions(directory="/checkpoints"))
    config = dataclasses.replace(remote_config, graph_trainer=trainer)

    with pytest.raises(ValueError, match="`checkpoint_dir` must outlive the container on Vertex AI; got '/check"):
        compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")


@pytest.mark.parametrize("image", ["", "tfx-gnn:0.2", "Registry/Name:tag", "registry/name tag", "registry/name:"])
def test_image_that_cannot_be_pulled_is_refused(remote_config, image):
    with pytest.raises(ValueError, match=r"`image` must .*REGISTRY/NAME:TAG"):
        compile_pipeline(remote_config, service=Service.VERTEX, image=image)


@pytest.mark.parametrize(
    "image",
    [
        "europe-docker.pkg.dev/project/repository/name:1.0",
        "localhost:5000/name",
        "user/name@sha256:" + "0" * 64,
        "registry.example.org/a/b_c/d-e:tag@sha256:" + "f" * 64,
    ],
)
def test_names_of_images_with_a_registry_are_taken(remote_config, image):
    assert compile_pipeline(remote_config, service=Service.VERTEX, image=image)


def test_pipeline_name_that_kubeflow_refuses_is_refused_first(tiny_config):
    with pytest.raises(ValueError, match=r"`pipeline_name` must be made of lower-case.*got 'My_pipeline'"):
        dataclasses.replace(tiny_config, pipeline_name="My_pipeline")

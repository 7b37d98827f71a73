import kfp.compiler
import pytest
import yaml
from google.protobuf import json_format
from kfp import dsl
from kfp.pipeline_spec import pipeline_spec_pb2

from tfx_gnn_pipelines.assembly import COMPONENTS
from tfx_gnn_pipelines.compilation import compile_pipeline
from tfx_gnn_pipelines.resources import ComponentResources, Resources, Secret
from tfx_gnn_pipelines.services import Service

ADDRESS = "https://hooks.example/T1"


def compiled(config, service=Service.VERTEX, **options):
    return compile_pipeline(config, service=service, image="registry/image:tag", **options)


@pytest.fixture(scope="module")
def job(remote_config):
    return compiled(remote_config, report_to=ADDRESS)


@dsl.container_component
def report(status: dsl.PipelineTaskFinalStatus, report_to: str):
    return dsl.ContainerSpec(image="registry/image:tag", command=["python"], args=[status, report_to])


@dsl.container_component
def work(tables_dir: str):
    return dsl.ContainerSpec(image="registry/image:tag", command=["python"], args=[tables_dir])


@pytest.fixture(scope="module")
def of_kfp(tmp_path_factory):
    """What kfp's own compiler makes of one task with an exit handler."""

    @dsl.pipeline(name="with-handler")
    def with_handler(tables_dir: str = "tables", report_to: str = ""):
        with dsl.ExitHandler(report(report_to=report_to)):
            work(tables_dir=tables_dir)

    path = tmp_path_factory.mktemp("kfp") / "pipeline.yaml"
    kfp.compiler.Compiler().compile(with_handler, str(path))
    return yaml.safe_load(path.read_text())


def test_handler_has_the_form_that_kfp_gives_it(job, of_kfp):
    ours, theirs = job["pipelineSpec"]["root"]["dag"]["tasks"], of_kfp["root"]["dag"]["tasks"]
    handler, expected = ours["RunReport"], theirs["report"]

    assert ours.keys() - {"RunReport"} == theirs.keys() - {"report"}
    assert {name: handler[name] for name in ("triggerPolicy", "dependentTasks")} == {
        name: expected[name] for name in ("triggerPolicy", "dependentTasks")
    }
    assert handler["inputs"]["parameters"].items() >= expected["inputs"]["parameters"].items()
    assert (
        job["pipelineSpec"]["components"]["RunReport"]["inputDefinitions"]["parameters"].items()
        >= of_kfp["components"]["comp-report"]["inputDefinitions"]["parameters"].items()
    )


def test_all_other_tasks_get_the_parameters_of_the_run(job):
    spec = job["pipelineSpec"]
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    inner = spec["components"]["comp-exit-handler-1"]
    passed_on = spec["root"]["dag"]["tasks"]["exit-handler-1"]["inputs"]["parameters"]
    used = {
        source["componentInputParameter"]
        for task in inner["dag"]["tasks"].values()
        for source in task["inputs"].get("parameters", {}).values()
        if "componentInputParameter" in source
    }

    assert sorted(inner["dag"]["tasks"]) == sorted(COMPONENTS)
    assert used == passed_on.keys() == inner["inputDefinitions"]["parameters"].keys()
    assert used == {"tables_dir", "span", "tables_version", "push_destination", "num_epochs", "batch_size"}
    assert all(source == {"componentInputParameter": name} for name, source in passed_on.items())
    assert job["runtimeConfig"]["parameterValues"]["report_to"] == ADDRESS


def test_without_an_address_there_is_no_handler(remote_config):
    spec = compiled(remote_config)["pipelineSpec"]

    assert sorted(spec["root"]["dag"]["tasks"]) == sorted(COMPONENTS)
    assert "report_to" not in spec["root"]["inputDefinitions"]["parameters"]


def test_handler_and_nested_tasks_have_their_resources(remote_config):
    secret = Secret(name="hooks", variables={"REPORT_URL": "url"})
    resources = Resources(
        components={"RunReport": ComponentResources(secrets=(secret,)), "GraphTrainer": ComponentResources(retries=2)}
    )

    job = compiled(remote_config, Service.KUBEFLOW, report_to="variable:REPORT_URL", resources=resources)

    tasks = job["pipelineSpec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert tasks["GraphTrainer"]["retryPolicy"]["maxRetryCount"] == 2
    assert job["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["RunReport_executor"]["secretAsEnv"]
    with pytest.raises(ValueError, match=r"`components` must name components of the pipeline, .* got 'RunReport'"):
        compiled(remote_config, Service.KUBEFLOW, resources=resources)

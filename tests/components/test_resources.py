from __future__ import annotations

import dataclasses
import json

import kfp.components
import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from tfx_gnn.components import LatestBlessedModelResolverOptions
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn_pipelines.compilation import compile_pipeline, compile_to
from tfx_gnn_pipelines.compiled_pipeline import read_compiled
from tfx_gnn_pipelines.custom_job import COORDINATOR_COMMAND, CustomJob
from tfx_gnn_pipelines.resources import Accelerator, ComponentResources, Resources, Volume, read_resources
from tfx_gnn_pipelines.services import Service

FILE = """
defaults:
  cpu: 2
  memory_gb: 8
  retries: 1
components:
  GraphTrainer:
    image: registry/gpu:tag
    memory_gb: 64.5
    accelerator: {kind: nvidia.com/gpu, count: 2}
    retries: 3
    retry_seconds: 5
    environment: {TF_FORCE_GPU_ALLOW_GROWTH: "true"}
    timeout_seconds: 7200
    labels: {team: graphs}
    node_selector: {pool: gpu}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  GraphPusher:
    cache: false
    volumes: [{claim: models, path: /models}]
    secrets: [{name: store, variables: {KEY_ID: id, KEY: key}}]
"""


@pytest.fixture
def resources(tmp_path):
    (tmp_path / "resources.yaml").write_text(FILE)
    return read_resources(str(tmp_path / "resources.yaml"))


def test_what_a_component_names_replaces_the_default(resources):
    trainer, pusher = resources.of("GraphTrainer"), resources.of("GraphPusher")

    assert (trainer.cpu, trainer.memory_gb, trainer.retries) == (2, 64.5, 3)
    assert (pusher.cpu, pusher.memory_gb, pusher.retries, pusher.cache) == (2, 8, 1, False)
    assert resources.of("GraphEvaluator") == resources.defaults


def test_specification_has_machines_retries_and_images(remote_config, resources):
    job = compile_pipeline(remote_config, service=Service.KUBEFLOW, image="registry/cpu:tag", resources=resources)

    spec = json_format.ParseDict(job["pipelineSpec"], pipeline_spec_pb2.PipelineSpec())
    executors = job["pipelineSpec"]["deploymentSpec"]["executors"]
    trainer = executors["GraphTrainer_executor"]["container"]
    assert trainer["image"] == "registry/gpu:tag"
    assert trainer["resources"] == {
        "cpuLimit": 2.0,
        "cpuRequest": 2.0,
        "memoryLimit": 64.5,
        "memoryRequest": 64.5,
        "accelerator": {"type": "nvidia.com/gpu", "count": "2"},
    }
    assert trainer["env"] == [{"name": "TF_FORCE_GPU_ALLOW_GROWTH", "value": "true"}]
    assert executors["GraphEvaluator_executor"]["container"]["image"] == "registry/cpu:tag"
    assert "accelerator" not in executors["GraphEvaluator_executor"]["container"]["resources"]
    policy = spec.root.dag.tasks["GraphTrainer"].retry_policy
    assert (policy.max_retry_count, policy.backoff_duration.seconds, policy.backoff_factor) == (3, 5, 2.0)
    assert spec.root.dag.tasks["GraphEvaluator"].retry_policy.backoff_duration.seconds == 60
    assert spec.root.dag.tasks["GraphEvaluator"].caching_options.enable_cache
    assert not spec.root.dag.tasks["GraphPusher"].caching_options.enable_cache
    deployment = json_format.ParseDict(
        job["pipelineSpec"]["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig()
    )
    assert deployment.executors["GraphTrainer_executor"].container.resources.accelerator.count == 2


def trainer_as(remote_config, *, strategy="default", count=0, kind="NVIDIA_TESLA_T4", defaults=None, **job):
    """The trainer's container and the default of its strategy, with a custom job."""
    given = ComponentResources(
        image="registry/gpu:tag",
        environment={"A": "b"},
        accelerator=Accelerator(kind=kind, count=count) if count else None,
        custom_job=CustomJob(**{"machine_type": "n1-highmem-8", **job}),
    )
    trainer = dataclasses.replace(remote_config.graph_trainer, strategy=StrategyOptions(kind=strategy))
    compiled = compile_pipeline(
        dataclasses.replace(remote_config, graph_trainer=trainer),
        service=Service.VERTEX,
        image="registry/cpu:tag",
        resources=Resources(defaults=defaults or ComponentResources(), components={"GraphTrainer": given}),
    )
    spec = compiled["pipelineSpec"]
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    values = spec["root"]["dag"]["tasks"]["GraphTrainer"]["inputs"]["parameters"]
    container = spec["deploymentSpec"]["executors"]["GraphTrainer_executor"]["container"]
    return container, values["strategy"]["runtimeValue"]["constant"], values["tpu"]["runtimeValue"]["constant"]


def test_a_custom_job_is_started_by_a_coordinator_in_the_same_image(remote_config):
    plain = compile_pipeline(remote_config, service=Service.VERTEX, image="registry/gpu:tag")["pipelineSpec"]
    defaults = ComponentResources(cpu=2, memory_gb=8, accelerator=Accelerator(kind="NVIDIA_L4"))

    container, _, _ = trainer_as(remote_config, replicas=3, count=1, defaults=defaults)

    original = plain["deploymentSpec"]["executors"]["GraphTrainer_executor"]["container"]
    arguments = container["args"]
    pools = json.loads(arguments[1])["workerPoolSpecs"]
    assert (container["image"], container["command"]) == ("registry/gpu:tag", list(COORDINATOR_COMMAND))
    assert arguments[arguments.index("--") + 1 :] == original["args"]
    # What the replicas have, the coordinator need not have.
    assert container.keys() == {"image", "command", "args"}
    assert [(pool["replicaCount"], pool["machineSpec"]["acceleratorType"]) for pool in pools] == [
        ("1", "NVIDIA_TESLA_T4"),
        ("2", "NVIDIA_TESLA_T4"),
    ]
    assert pools[1]["containerSpec"] == {
        "imageUri": "registry/gpu:tag",
        "command": original["command"],
        "env": [{"name": "A", "value": "b"}],
    }


def test_a_job_names_its_account_and_network_or_takes_those_of_the_run(remote_config):
    account, network = "a@shop.iam.gserviceaccount.com", "projects/7/global/networks/inner"

    taken, _, _ = trainer_as(remote_config)
    named, _, _ = trainer_as(remote_config, service_account=account, network=network)

    spec = json.loads(named["args"][1])
    assert (spec["serviceAccount"], spec["network"]) == (account, network)
    assert "{{$.pipeline_service_account}}" in taken["args"]
    assert "--service-account" not in named["args"]
    assert "--network" not in named["args"]


@pytest.mark.parametrize(
    ("given", "strategy", "tpu"),
    [
        ({}, "default", ""),
        ({"count": 1}, "default", ""),
        ({"count": 4}, "mirrored", ""),
        ({"replicas": 2, "count": 4}, "multi_worker_mirrored", ""),
        ({"strategy": "multi_worker_mirrored", "replicas": 2}, "multi_worker_mirrored", ""),
        ({"strategy": "one_device", "count": 4}, "one_device", ""),
        ({"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"}, "tpu", "local"),
        ({"machine_type": "cloud-tpu", "count": 8, "kind": "TPU_V3"}, "tpu", "local"),
    ],
)
def test_the_trainers_strategy_fits_the_machines(remote_config, given, strategy, tpu):
    assert trainer_as(remote_config, **given)[1:] == (strategy, tpu)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"strategy": "mirrored", "replicas": 2},
            r"`strategy` of GraphTrainer must be 'multi_worker_mirrored' for 2 r",
        ),
        ({"strategy": "parameter_server", "replicas": 2}, "got 'parameter_server'. Leave it at 'default', or give"),
        ({"strategy": "tpu"}, r"must be 'tpu' on a TPU, and there alone; got 'tpu' with no TPU in `custom_job` \(n1-h"),
        ({"strategy": "mirrored", "tpu_topology": "2x2"}, "and there alone; got 'mirrored' with a TPU"),
        ({"replicas": 2, "tpu_topology": "2x2"}, "`replicas` must be 1 with a TPU"),
    ],
)
def test_a_strategy_that_does_not_fit_the_machines_is_refused(remote_config, given, message):
    with pytest.raises(ValueError, match=message):
        trainer_as(remote_config, **given)


def test_kubeflow_gets_a_second_document(remote_config, resources, tmp_path):
    compile_to(
        remote_config,
        str(tmp_path / "tiny.yaml"),
        service=Service.KUBEFLOW,
        image="registry/cpu:tag",
        resources=resources,
    )

    _, platforms = yaml.safe_load_all((tmp_path / "tiny.yaml").read_text())
    assert platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"] == {
        "GraphTrainer_executor": {
            "activeDeadlineSeconds": "7200",
            "podMetadata": {"labels": {"team": "graphs"}},
            "nodeSelector": {"labels": {"pool": "gpu"}},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "GraphPusher_executor": {
            "pvcMount": [{"constant": "models", "mountPath": "/models"}],
            "secretAsEnv": [
                {
                    "secretName": "store",
                    "keyToEnv": [{"secretKey": "key", "envVar": "KEY"}, {"secretKey": "id", "envVar": "KEY_ID"}],
                }
            ],
        },
    }
    kfp.components.load_component_from_file(str(tmp_path / "tiny.yaml"))
    assert read_compiled(str(tmp_path / "tiny.yaml")).name == "tiny"


def test_json_has_no_place_for_the_second_document(remote_config, resources, tmp_path):
    with pytest.raises(ValueError, match=r"`output` must end in .yaml .*got .*tiny.json"):
        compile_to(
            remote_config,
            str(tmp_path / "tiny.json"),
            service=Service.KUBEFLOW,
            image="registry/cpu:tag",
            resources=resources,
        )


def test_models_and_tables_may_be_on_volumes(remote_config):
    volumes = (Volume(claim="data", path="/data"),)
    resources = Resources(defaults=ComponentResources(volumes=volumes))
    config = dataclasses.replace(remote_config, push_destination="/data/serving", tables_dir="/data/tables")

    job = compile_pipeline(
        dataclasses.replace(config, tables_fingerprint="2026-11"),
        service=Service.KUBEFLOW,
        image="registry/cpu:tag",
        resources=resources,
    )

    values = job["runtimeConfig"]["parameterValues"]
    assert (values["push_destination"], values["tables_dir"]) == ("/data/serving", "/data/tables")
    with pytest.raises(ValueError, match=r"`tables_fingerprint` must be given for tables on a vol.*--tables-version"):
        compile_pipeline(config, service=Service.KUBEFLOW, image="registry/cpu:tag", resources=resources)
    with pytest.raises(ValueError, match=r"`push_destination` must outlive the container.*got '/database'"):
        compile_pipeline(
            dataclasses.replace(remote_config, push_destination="/database"),
            service=Service.KUBEFLOW,
            image="registry/cpu:tag",
            resources=resources,
        )
    resolves = LatestBlessedModelResolverOptions()
    with pytest.raises(
        ValueError, match=r"on a volume of LatestBlessedModelResolver, too; got '/data/serving' on one of"
    ):
        compile_pipeline(
            dataclasses.replace(
                remote_config, push_destination="/data/serving", latest_blessed_model_resolver=resolves
            ),
            service=Service.KUBEFLOW,
            image="registry/cpu:tag",
            resources=Resources(components={"GraphPusher": ComponentResources(volumes=volumes)}),
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: {cpus: 2}", "cpus"),
        ("defaults: {cpu: many}", r"cpu.*got 'many'"),
        ("defaults: {cpu: 0}", "`cpu` must be above 0 and finite; got 0"),
        ("defaults: {cpu: .inf}", "cpu"),
        ("defaults: {memory_gb: -1}", r"`memory_gb` must be above 0 and finite; got -1"),
        ("defaults: {accelerator: {kind: ''}}", "`kind` must name an accelerator; got none"),
        ("defaults: {environment: {A B: x}}", "must have letters, digits and underscores; got 'A B'"),
        ("defaults: {tolerations: [{operator: Exist}]}", r"operator.*got 'Exist'"),
        ("defaults: {volumes: [{claim: '', path: /a}]}", "`claim` must name a persistent volume claim; got ''"),
        ("defaults: {volumes: [{claim: a, path: /}]}", "`path` must be absolute, and below the root; got '/'"),
        ("defaults: {volumes: [{claim: a, path: /a}, {claim: b, path: /a}]}", "`volumes` must have different paths"),
        ("defaults: {labels: {d: !!binary aGk=}}", r"must hold texts, numbers, lists and mappings; .*Put it in quotes"),
        ("defaults: {retries: 101}", r"`retries` must be in \[0, 100\]; got 101"),
        ("defaults: {retry_seconds: -1}", "`retry_seconds` must be at least 0; got -1"),
        ("defaults: {accelerator: {kind: x, count: 0}}", "`count` must be at least 1; got 0"),
        (
            "defaults: {volumes: [{claim: a, path: models}]}",
            "`path` must be absolute, .*got 'models'.*/a",
        ),
        ("defaults: {custom_job: {machine_type: n1-highmem-8}}", "`custom_job` must be given to components by name"),
        ("components: {A: {custom_job: {}}}", "machine_type"),
        ("components: {A: {custom_job: {machine_type: N1}}}", "`machine_type` must name a machine type of .*got 'N1'"),
        (
            "components: {A: {custom_job: {machine_type: n1-a, replicas: 0}}}",
            r"`replicas` must be in \[1, 1000\]; g",
        ),
        ("components: {A: {custom_job: {machine_type: n1-a, replicas: two}}}", "replicas.*got 'two'"),
        ("components: {A: {custom_job: {machine_type: n1-a, timeout_seconds: 0}}}", "`timeout_seconds` must be at lea"),
        (
            "components: {A: {custom_job: {machine_type: n1-a, boot_disk_gb: 99}}}",
            "`boot_disk_gb` must be at least 1",
        ),
        ("components: {A: {custom_job: {machine_type: n1-a, tpu_topology: 2}}}", "tpu_topology"),
        ("components: {A: {custom_job: {machine_type: n1-a, tpu_topology: 2x0}}}", "`tpu_topology` must be two or thr"),
        ("components: {A: {custom_job: {machine_type: n1-a, network: inner}}}", "`network` must be projects/NUMBER/gl"),
        (
            "components: {A: {custom_job: {machine_type: n1-a, service_account: me}}}",
            "`service_account` must be the",
        ),
        ("- a", "an object with fields of a Resources"),
        ("a: [", "must be YAML"),
    ],
)
def test_file_that_does_not_fit_is_refused(tmp_path, text, message):
    (tmp_path / "resources.yaml").write_text(text)

    with pytest.raises(ValueError, match=message):
        read_resources(str(tmp_path / "resources.yaml"))


def test_empty_file_leaves_everything_to_the_service(tmp_path):
    (tmp_path / "resources.yaml").write_text("# nothing\n")

    assert read_resources(str(tmp_path / "resources.yaml")) == Resources()


@pytest.mark.parametrize(
    ("service", "resources", "message"),
    [
        (
            "kubeflow",
            Resources(components={"Trainer": ComponentResources(cpu=1)}),
            "`components` must name components of the pipeline, .*got 'Trainer'",
        ),
        (
            "vertex",
            Resources(defaults=ComponentResources(labels={"a": "b"})),
            "`labels` must be left out on Vertex AI, which has no pods; got it for SubgraphExampleGen",
        ),
        (
            "vertex",
            Resources(defaults=ComponentResources(accelerator=Accelerator(kind="nvidia.com/gpu"))),
            "such as NVIDIA_TESLA_T4; got 'nvidia.com/gpu' for SubgraphExampleGen",
        ),
        (
            "vertex",
            Resources(components={"GraphTrainer": ComponentResources(image="gpu")}),
            "`image` must be a name that Vertex AI can pull, with its registry; got 'gpu'",
        ),
    ],
)
def test_resources_that_the_service_does_not_know_are_refused(remote_config, service, resources, message):
    with pytest.raises(ValueError, match=message):
        compile_pipeline(remote_config, service=Service(service), image="registry/cpu:tag", resources=resources)

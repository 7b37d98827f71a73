"""Compiles a pipeline into the specification (schema 2.1) that Kubeflow Pipelines and Vertex AI run."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner

from tfx_gnn.distribution.options import DEFAULT, MIRRORED, MULTI_WORKER_MIRRORED, TPU, StrategyOptions
from tfx_gnn.tables.spans import has_span
from tfx_gnn_pipelines.assembly import STANDARD_PARAMETERS, build_pipeline, component_ids, open_values
from tfx_gnn_pipelines.bulk_inference import INFERENCE_EXAMPLE_GEN
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.container import Contract, container_arguments
from tfx_gnn_pipelines.exit_handler import REPORT_PARAMETER, REPORT_TASK, add_report_task, report_after_all_tasks
from tfx_gnn_pipelines.portability import check_portable, portable_tables
from tfx_gnn_pipelines.resources import NO_RESOURCES, Resources, apply_resources, check_resources, has_tpu
from tfx_gnn_pipelines.run_report import check_address
from tfx_gnn_pipelines.services import Service

_COMMAND = ("python", "-m", "tfx_gnn_pipelines.container")


def compile_to(
    config: PipelineConfig,
    output: str,
    *,
    service: Service,
    image: str,
    resources: Resources = NO_RESOURCES,
    report_to: str = "",
) -> dict[str, Any]:
    """Compiles a pipeline for a service, writes it and returns it; see `compile_pipeline` and `write_pipeline`."""
    job = compile_pipeline(config, service=service, image=image, resources=resources, report_to=report_to)
    write_pipeline(job, output)
    return job


def compile_pipeline(
    config: PipelineConfig,
    *,
    service: Service,
    image: str,
    resources: Resources = NO_RESOURCES,
    report_to: str = "",
) -> dict[str, Any]:
    """Compiles a pipeline into a PipelineJob as plain JSON values.

    Tables, their span and version, the push destination, epochs and batch size are parameters of the run, beside those
    that `config` leaves open; all of them have the values of `config` as defaults. The file holds no path of this
    machine.

    Args:
        config: the pipeline. An empty root is left to the cluster on Kubeflow.
        service: where the pipeline will run; the files for the two services differ.
        image: container image in which this project and the user's code are installed.
        resources: what each component gets.
        report_to: address to which a task RunReport posts how the run ended, as `run_report.check_address` takes it;
            empty: there is no such task.

    Returns:
        The job: the specification is under "pipelineSpec", the root and the values of parameters under "runtimeConfig".
        If Kubeflow needs a platform document for the resources, that is under "platforms".

    Raises:
        ValueError: if the containers of the service cannot reach a place of `config`, an image cannot be pulled, or the
            service does not know a resource.
    """
    check_resources(resources, [*component_ids(config), *([REPORT_TASK] if report_to else [])], service)
    if report_to:
        check_address(report_to)
    check_portable(config, service, image, resources)
    config = fit_strategy(config, resources)
    config = portable_tables(config, resources)
    config = dataclasses.replace(config, runtime_parameters=(*STANDARD_PARAMETERS, *config.runtime_parameters))
    pipeline = build_pipeline(config, sqlite_metadata=False)
    runner = kubeflow_v2_dag_runner.KubeflowV2DagRunner(
        config=kubeflow_v2_dag_runner.KubeflowV2DagRunnerConfig(
            display_name=config.pipeline_name,
            default_image=image,
            default_commands=list(_COMMAND),
            use_pipeline_spec_2_1=True,
        )
    )
    values = open_values(config)
    job: dict[str, Any] = runner.run(pipeline, parameter_values=values, write_out=False)
    _use_own_entrypoint(job["pipelineSpec"], pipeline.components, service)
    _add_defaults(job["pipelineSpec"], values, config.root)
    _run_only_if_blessed(job["pipelineSpec"])
    _resolve_in_every_run(job["pipelineSpec"], finds_span=has_span(config.tables_dir) and not str(config.span))
    _check_executors(job["pipelineSpec"], service)
    if report_to:
        add_report_task(job["pipelineSpec"], image=image, report_to=report_to)
        job["runtimeConfig"]["parameterValues"][REPORT_PARAMETER] = report_to
    job.update(apply_resources(job["pipelineSpec"], resources))
    if report_to:
        report_after_all_tasks(job["pipelineSpec"])
    return job


def fit_strategy(config: PipelineConfig, resources: Resources) -> PipelineConfig:
    """Chooses the strategy of a trainer that runs as a custom job, unless the config names one.

    That is "multi_worker_mirrored" for several machines, "tpu" for a TPU, and "mirrored" for several accelerators.

    Raises:
        ValueError: if the strategy that the config names cannot use the machines.
    """
    given = resources.of("GraphTrainer")
    if given.custom_job is None:
        return config
    replicas, num_accelerators = given.custom_job.replicas, given.accelerator.count if given.accelerator else 0
    strategy = config.graph_trainer.strategy
    if strategy.kind == DEFAULT:
        if replicas > 1:
            strategy = StrategyOptions(kind=MULTI_WORKER_MIRRORED)
        elif has_tpu(given):
            strategy = StrategyOptions(kind=TPU, tpu="local")
        elif num_accelerators > 1:
            strategy = StrategyOptions(kind=MIRRORED)
        trainer = dataclasses.replace(config.graph_trainer, strategy=strategy)
        return dataclasses.replace(config, graph_trainer=trainer)
    if replicas > 1 and strategy.kind != MULTI_WORKER_MIRRORED:
        raise ValueError(
            f"`strategy` of GraphTrainer must be {MULTI_WORKER_MIRRORED!r} for {replicas} replicas; got "
            f"{strategy.kind!r}. Leave it at {DEFAULT!r}, or give `custom_job` one replica."
        )
    if has_tpu(given) is not (strategy.kind == TPU):
        found = "a TPU" if has_tpu(given) else f"no TPU in `custom_job` ({given.custom_job.machine_type})"
        raise ValueError(
            f"`strategy` of GraphTrainer must be {TPU!r} on a TPU, and there alone; got {strategy.kind!r} with "
            f"{found}. Leave it at {DEFAULT!r}, or choose another `machine_type`."
        )
    return config


def write_pipeline(job: Mapping[str, Any], output: str) -> None:
    """Writes a compiled pipeline atomically.

    If the name ends in `.yaml` or `.yml`, only the pipeline specification is written, as Kubeflow's user interface and
    client expect it, with the platform document after it; otherwise the whole job is written as JSON, as Vertex AI
    expects it.
    """
    if output.endswith("/") or os.path.isdir(output):
        raise ValueError(
            f"`output` must name a file; got the folder {output!r}. Add a name that ends in .json or .yaml."
        )
    platforms = {"platforms": job["platforms"]} if "platforms" in job else {}
    if output.endswith((".yaml", ".yml")):
        text = yaml.safe_dump_all([job["pipelineSpec"], *([platforms] if platforms else [])], sort_keys=True)
    elif platforms:
        raise ValueError(
            f"`output` must end in .yaml if resources name volumes, secrets or the like; got {output!r}. Kubeflow "
            "reads these from a second document of that file."
        )
    else:
        text = json.dumps(job, indent=2, sort_keys=True) + "\n"
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    partial = f"{output}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, output)


def _use_own_entrypoint(spec: dict[str, Any], components: Sequence[BaseComponent], service: Service) -> None:
    """Replaces the arguments of TFX's entrypoint by those of ours."""
    executors = spec["deploymentSpec"]["executors"]
    for component in components:
        label = spec["components"][component.id]["executorLabel"]
        container = executors[label].get("container", {})
        if tuple(container.get("command", ())) != _COMMAND:
            continue  # A component that brings a container of its own.
        given = dict(zip(container["args"][0:6:2], container["args"][1:6:2], strict=True))
        container["args"] = container_arguments(
            given["--executor_class_path"],
            _contract(component),
            uses_launcher=service is Service.KUBEFLOW,
            beam_args=container["args"][6:],
        )


def _contract(component: BaseComponent) -> Contract:
    return Contract(
        inputs={name: _import_path(channel.type) for name, channel in component.inputs.items()},
        outputs={name: _import_path(channel.type) for name, channel in component.outputs.items()},
        parameters={
            name: _kind(component.spec.PARAMETERS[name].type)
            for name, value in component.exec_properties.items()
            if value is not None
        },
    )


def _import_path(artifact_type: type) -> str:
    return f"{artifact_type.__module__}.{artifact_type.__qualname__}"


def _kind(declared: Any) -> str:
    # Messages and other objects travel as JSON.
    return declared.__name__ if declared in (int, float) else "str"


def _add_defaults(spec: dict[str, Any], values: Mapping[str, Any], root: str) -> None:
    """Writes what only the job would hold into the specification, too: `.yaml` files have no job."""
    declared = spec["root"]["inputDefinitions"]["parameters"]
    for name, value in values.items():
        declared[name]["defaultValue"] = value
    if root:
        spec["defaultPipelineRoot"] = root


def _run_only_if_blessed(spec: dict[str, Any]) -> None:
    """Makes the service skip what needs a blessed model, instead of starting a container that refuses the model."""
    tasks = spec["root"]["dag"]["tasks"]
    for task in (
        tasks[name] for name in ("GraphPusher", "GraphBulkInferrer", "GraphLayerwiseInferrer") if name in tasks
    ):
        verdicts = [name for name in ("blessing", "infra_blessing") if name in task["inputs"]["artifacts"]]
        # A float, because services store every number as one, and CEL does not compare it with an integer.
        conditions = [f"inputs.artifacts['{name}'].artifacts[0].metadata['blessed'] == 1.0" for name in verdicts]
        task["triggerPolicy"] = {"condition": " && ".join(conditions)}


def _resolve_in_every_run(spec: dict[str, Any], *, finds_span: bool) -> None:
    """Keeps what a run has to find out of the cache: the service does not see that a version or a span was added."""
    tasks = spec["root"]["dag"]["tasks"]
    readers = ("SubgraphExampleGen", INFERENCE_EXAMPLE_GEN, "GraphIndexer") if finds_span else ()
    for name in ("LatestBlessedModelResolver", *readers):
        if name in tasks:
            tasks[name]["cachingOptions"] = {}


def _check_executors(spec: Mapping[str, Any], service: Service) -> None:
    resolvers = [name for name, executor in spec["deploymentSpec"]["executors"].items() if "resolver" in executor]
    if resolvers and service is Service.KUBEFLOW:
        raise ValueError(
            f"The pipeline must have no resolver on Kubeflow, whose compiler has none; got {sorted(resolvers)}. Find "
            "earlier results by a component instead."
        )

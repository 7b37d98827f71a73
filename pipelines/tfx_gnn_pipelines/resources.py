"""What each component of a compiled pipeline gets from its service: image, machine, retries, volumes and the like."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfx_gnn.io import options_json
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn_pipelines.custom_job import COORDINATOR_COMMAND, CustomJob, coordinator_arguments, job_spec
from tfx_gnn_pipelines.services import Service
from tfx_gnn_pipelines.yaml_files import read_yaml

_MAX_RETRIES = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESOURCE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""Name of a Kubernetes object."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accelerator:
    """Accelerators of a container.

    Attributes:
        kind: on Kubeflow the name of the cluster's resource, such as "nvidia.com/gpu"; on Vertex AI the type of its
            machines, such as "NVIDIA_TESLA_T4".
        count: how many; at least 1.
    """

    kind: str
    count: int = 1

    def __post_init__(self) -> None:
        if not self.kind:
            raise ValueError("`kind` must name an accelerator; got none. Write, for example, nvidia.com/gpu.")
        if self.count < 1:
            raise ValueError(f"`count` must be at least 1; got {self.count}. Leave `accelerator` out for none.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toleration:
    """A taint of nodes that a component tolerates, in Kubernetes' words.

    Attributes:
        key: the taint's key; empty: all taints.
        operator: "Equal" or "Exists".
        value: the taint's value, with "Equal".
        effect: "NoSchedule", "PreferNoSchedule" or "NoExecute"; empty: all.
    """

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Volume:
    """A persistent volume claim that is mounted into the container.

    Attributes:
        claim: name of the claim, in the namespace of the run.
        path: absolute path of the mount.
    """

    claim: str
    path: str

    def __post_init__(self) -> None:
        if not _RESOURCE_NAME.fullmatch(self.claim):
            raise ValueError(f"`claim` must name a persistent volume claim; got {self.claim!r}. Write its name.")
        if not self.path.startswith("/") or not self.path.strip("/"):
            raise ValueError(
                f"`path` must be absolute, and below the root; got {self.path!r}. Write, for example, /{self.claim}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Secret:
    """A Kubernetes secret whose values become environment variables.

    Attributes:
        name: name of the secret, in the namespace of the run.
        variables: key of the secret, by environment variable.
    """

    name: str
    variables: dict[str, str]

    def __post_init__(self) -> None:
        if not _RESOURCE_NAME.fullmatch(self.name):
            raise ValueError(f"`name` must name a secret; got {self.name!r}. Write its name.")
        for variable in self.variables:
            _check_variable(variable)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComponentResources:
    """Resources of one component. What is None is taken from the defaults, or left to the service.

    Attributes:
        image: container image instead of the pipeline's.
        cpu: processors; above 0.
        memory_gb: memory in GB; above 0.
        accelerator: GPUs or TPUs.
        retries: how often a task that failed is started again, in [0, 100].
        retry_seconds: wait before the first retry; each further wait is twice as long, at most an hour.
        cache: whether the task may be taken from an earlier run.
        environment: environment variables.
        custom_job: machines of a custom job that runs the component, whose image, accelerator and environment are then
            those of each machine; Vertex AI only.
        timeout_seconds: longest time of the container; Kubeflow only.
        labels: labels of the pod; Kubeflow only.
        node_selector: labels that the node must have; Kubeflow only.
        tolerations: taints that the pod tolerates; Kubeflow only.
        volumes: persistent volume claims; Kubeflow only.
        secrets: secrets that become environment variables; Kubeflow only.
    """

    image: str | None = None
    cpu: float | None = None
    memory_gb: float | None = None
    accelerator: Accelerator | None = None
    retries: int | None = None
    retry_seconds: int | None = None
    cache: bool | None = None
    environment: dict[str, str] | None = None
    custom_job: CustomJob | None = None
    timeout_seconds: int | None = None
    labels: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    secrets: tuple[Secret, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("cpu", "memory_gb", "timeout_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(
                    f"`{name}` must be above 0 and finite; got {value}. Leave it out for the service's default."
                )
        if self.retries is not None and not 0 <= self.retries <= _MAX_RETRIES:
            raise ValueError(f"`retries` must be in [0, {_MAX_RETRIES}]; got {self.retries}. Choose another number.")
        if self.retry_seconds is not None and self.retry_seconds < 0:
            raise ValueError(f"`retry_seconds` must be at least 0; got {self.retry_seconds}. Choose another number.")
        for name in self.environment or ():
            _check_variable(name)
        paths = [volume.path for volume in self.volumes or ()]
        if len(set(paths)) < len(paths):
            raise ValueError(
                f"`volumes` must have different paths; got {paths}. Mount each volume at a place of its own."
            )


def _check_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"An environment variable must have letters, digits and underscores; got {name!r}. Rename it.")


_KUBEFLOW_ONLY = ("timeout_seconds", "labels", "node_selector", "tolerations", "volumes", "secrets")
_DISTRIBUTED = "GraphTrainer"
"""The component that can use several machines together."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources of a pipeline.

    Attributes:
        defaults: for every component.
        components: for some components, by name; a field that is given here replaces the default. The default machine
            is not that of a custom job.
    """

    defaults: ComponentResources = dataclasses.field(default_factory=ComponentResources)
    components: dict[str, ComponentResources] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.defaults.custom_job is not None:
            raise ValueError(
                "`custom_job` must be given to components by name, because each costs machines of its own; got it in "
                "`defaults`. Move it below `components`."
            )

    def of(self, component: str) -> ComponentResources:
        """Returns the resources of a component, defaults included."""
        own = self.components.get(component, ComponentResources())
        given = {
            field.name: value for field in dataclasses.fields(own) if (value := getattr(own, field.name)) is not None
        }
        defaults = self.defaults
        if own.custom_job is not None:
            defaults = dataclasses.replace(defaults, cpu=None, memory_gb=None, accelerator=None)
        return dataclasses.replace(defaults, **given)


NO_RESOURCES = Resources()
"""Everything is left to the service."""


def read_resources(path: str) -> Resources:
    """Reads a `resources.yaml`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a key is unknown or a value does not fit; the message names it.
    """
    text = json.dumps(read_yaml(path, option="--resources"))
    try:
        return options_json.from_json(text, Resources, name=path)
    except ValueError as error:
        # The checks of a value do not know the file.
        raise error if path in str(error) else ValueError(f"{path}: {error}") from error


def check_components(resources: Resources, components: Sequence[str]) -> None:
    """Checks that the components exist."""
    unknown = sorted(resources.components.keys() - set(components))
    if unknown:
        raise ValueError(
            f"`components` must name components of the pipeline, among {sorted(components)}; got {unknown[0]!r}. "
            f"{did_you_mean(unknown[0], components)}"
        )


def check_resources(resources: Resources, components: Sequence[str], service: Service) -> None:
    """Checks that the components exist and that the service knows what they ask for."""
    check_components(resources, components)
    for component in components:
        _check_custom_job(component, resources.of(component), service)
        accelerator = resources.of(component).accelerator
        if accelerator is not None and ("/" in accelerator.kind) is (service is Service.VERTEX):
            example = "NVIDIA_TESLA_T4" if service is Service.VERTEX else "nvidia.com/gpu"
            raise ValueError(
                f"`kind` must be the service's name of an accelerator, such as {example}; got {accelerator.kind!r} "
                f"for {component}. Keep a file of resources for each service."
            )
        for name in _KUBEFLOW_ONLY if service is Service.VERTEX else ():
            if getattr(resources.of(component), name) is not None:
                raise ValueError(
                    f"`{name}` must be left out on Vertex AI, which has no pods; got it for {component}. Keep a file "
                    "of resources for each service."
                )


def _check_custom_job(component: str, given: ComponentResources, service: Service) -> None:
    custom_job = given.custom_job
    if custom_job is None:
        return
    if service is Service.KUBEFLOW:
        raise ValueError(
            f"`custom_job` must be left out on Kubeflow Pipelines, where a task is one pod; got it for {component}. "
            "Give `cpu`, `memory_gb` and `accelerator` instead, and choose nodes, spot nodes too, by `node_selector` "
            "and `tolerations`."
        )
    for name in ("cpu", "memory_gb"):
        if getattr(given, name) is not None:
            raise ValueError(
                f"`{name}` must be left out beside `custom_job`, whose `machine_type` says it; got "
                f"{getattr(given, name)} for {component}. Choose a machine type that has it."
            )
    if custom_job.replicas > 1 and component != _DISTRIBUTED:
        raise ValueError(
            f"`replicas` must be 1 for {component}, which runs on one machine; got {custom_job.replicas}. Choose a "
            f"larger `machine_type`; only {_DISTRIBUTED} uses several."
        )
    if custom_job.replicas > 1 and has_tpu(given):
        raise ValueError(
            f"`replicas` must be 1 with a TPU, whose cores are trained on from one machine; got {custom_job.replicas} "
            f"for {component}. Choose a machine type with more cores."
        )


def has_tpu(given: ComponentResources) -> bool:
    """Tells whether a custom job asks for a TPU, by its topology, its accelerator or its type of machine."""
    custom_job = given.custom_job
    if custom_job is None:
        return False
    is_tpu_machine = custom_job.machine_type.startswith(("ct", "cloud-tpu", "tpu"))
    has_tpu_kind = given.accelerator is not None and given.accelerator.kind.startswith("TPU_")
    return bool(custom_job.tpu_topology) or is_tpu_machine or has_tpu_kind


def apply_resources(spec: dict[str, Any], resources: Resources) -> dict[str, Any]:
    """Writes resources into a compiled specification.

    Returns:
        The platform document that belongs to it on Kubeflow; empty if nothing needs one.
    """
    executors = spec["deploymentSpec"]["executors"]
    pods = {}
    for name, task in spec["root"]["dag"]["tasks"].items():
        given = resources.of(name)
        label = spec["components"][task["componentRef"]["name"]]["executorLabel"]
        if "container" not in executors[label]:
            continue
        _fill_container(executors[label]["container"], given)
        if given.custom_job is not None:
            _run_as_custom_job(executors[label]["container"], given, given.custom_job)
        if given.retries:
            task["retryPolicy"] = {
                "maxRetryCount": given.retries,
                "backoffDuration": f"{given.retry_seconds if given.retry_seconds is not None else 60}s",
                "backoffFactor": 2.0,
                "backoffMaxDuration": "3600s",
            }
        if given.cache is not None:
            task["cachingOptions"] = {"enableCache": given.cache}
        if pod := _pod(given):
            pods[label] = pod
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": pods}}}} if pods else {}


def is_on_volume(path: str, resources: Resources, component: str) -> bool:
    """Tells whether a component sees a path on a persistent volume."""
    volumes = resources.of(component).volumes or ()
    return any(os.path.join(path, "").startswith(os.path.join(volume.path, "")) for volume in volumes)


def _fill_container(container: dict[str, Any], given: ComponentResources) -> None:
    if given.image is not None:
        container["image"] = given.image
    limits: dict[str, Any] = {}
    # As request, too: a pod that may use more than it asked for is moved when its node is full.
    if given.cpu is not None:
        limits |= {"cpuLimit": given.cpu, "cpuRequest": given.cpu}
    if given.memory_gb is not None:
        limits |= {"memoryLimit": given.memory_gb, "memoryRequest": given.memory_gb}
    if given.accelerator is not None and given.custom_job is None:
        limits["accelerator"] = {"type": given.accelerator.kind, "count": str(given.accelerator.count)}
    if limits:
        container["resources"] = limits
    if given.environment:
        container["env"] = [{"name": name, "value": value} for name, value in sorted(given.environment.items())]


def _run_as_custom_job(container: dict[str, Any], given: ComponentResources, custom_job: CustomJob) -> None:
    """Replaces a container by the coordinator of a custom job that runs it."""
    accelerator = given.accelerator
    spec = job_spec(
        custom_job,
        image=container["image"],
        command=container["command"],
        environment=given.environment or {},
        accelerator=(accelerator.kind, accelerator.count) if accelerator is not None else None,
    )
    container["args"] = coordinator_arguments(spec, container["args"])
    container["command"] = list(COORDINATOR_COMMAND)
    # The replicas have it; libraries of the coordinator need none of it.
    container.pop("env", None)


def _pod(given: ComponentResources) -> dict[str, Any]:
    pod: dict[str, Any] = {}
    if given.volumes:
        pod["pvcMount"] = [{"constant": volume.claim, "mountPath": volume.path} for volume in given.volumes]
    if given.secrets:
        pod["secretAsEnv"] = [
            {
                "secretName": secret.name,
                "keyToEnv": [
                    {"secretKey": key, "envVar": variable} for variable, key in sorted(secret.variables.items())
                ],
            }
            for secret in given.secrets
        ]
    if given.node_selector:
        pod["nodeSelector"] = {"labels": given.node_selector}
    if given.tolerations:
        pod["tolerations"] = [_without_blanks(dataclasses.asdict(toleration)) for toleration in given.tolerations]
    if given.labels:
        pod["podMetadata"] = {"labels": given.labels}
    if given.timeout_seconds is not None:
        pod["activeDeadlineSeconds"] = str(given.timeout_seconds)
    return pod


def _without_blanks(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}

"""Custom jobs of Vertex AI: what a component asks for, the job's specification, and the arguments of its coordinator.

A task of Vertex AI Pipelines is one container on one machine. A component that needs several machines, spot machines or
a TPU is therefore a small task, the coordinator, that starts a custom job with the component's own container and
follows it: see `submission.custom_jobs`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

COORDINATOR_COMMAND = ("python", "-m", "tfx_gnn_pipelines.submission.custom_jobs")
"""Command of the container that starts and follows a custom job."""
ENDPOINT_VARIABLE = "TFX_GNN_CUSTOM_JOBS_ENDPOINT"
"""Environment variable for trials: address of a service that imitates Vertex AI's, which is used without login."""
LOCAL_PROJECT, LOCAL_REGION = "local", "here"
"""Project and region of this machine, where Vertex AI is imitated."""

_MACHINE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_TOPOLOGY = re.compile(r"[1-9][0-9]*x[1-9][0-9]*(x[1-9][0-9]*)?")
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_MAX_REPLICAS = 1000
_MIN_DISK_GB = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class CustomJob:
    """The custom job that a component runs as on Vertex AI.

    Attributes:
        machine_type: machine of each replica, such as "n1-highmem-8".
        replicas: number of machines, in [1, 1000]; the first one is the chief.
        spot: whether the machines may be taken away at any time, for a lower price.
        timeout_seconds: longest time that the job may run; None for the service's own limit of 7 days.
        restart_on_worker_restart: whether all replicas start again if the machine of one was replaced; None: if there
            are several.
        tpu_topology: chips of a TPU, such as "2x2", where the machine type does not say it.
        service_account: account that the replicas run as; empty for that of the pipeline.
        network: full name of the VPC network of the replicas; empty for that of the pipeline.
        boot_disk_gb: size of the disk of each replica, at least 100; None for the service's default.
    """

    machine_type: str
    replicas: int = 1
    spot: bool = False
    timeout_seconds: int | None = None
    restart_on_worker_restart: bool | None = None
    tpu_topology: str = ""
    service_account: str = ""
    network: str = ""
    boot_disk_gb: int | None = None

    def __post_init__(self) -> None:
        if not _MACHINE.fullmatch(self.machine_type):
            raise ValueError(
                f"`machine_type` must name a machine type of Vertex AI; got {self.machine_type!r}. Write, for example, "
                "n1-highmem-8."
            )
        if not 1 <= self.replicas <= _MAX_REPLICAS:
            raise ValueError(
                f"`replicas` must be in [1, {_MAX_REPLICAS}]; got {self.replicas}. Use 1 for a single machine."
            )
        if self.timeout_seconds is not None and self.timeout_seconds < 1:
            raise ValueError(
                f"`timeout_seconds` must be at least 1; got {self.timeout_seconds}. Leave it out for the service's "
                "limit of 7 days."
            )
        if self.boot_disk_gb is not None and self.boot_disk_gb < _MIN_DISK_GB:
            raise ValueError(
                f"`boot_disk_gb` must be at least {_MIN_DISK_GB}; got {self.boot_disk_gb}. Leave it out for the "
                "service's default."
            )
        for name, pattern, form in (
            ("tpu_topology", _TOPOLOGY, "two or three numbers of chips, as in 2x2 or 2x2x4"),
            ("service_account", _ACCOUNT, "the address of an account, as in trainer@PROJECT.iam.gserviceaccount.com"),
            ("network", _NETWORK, "projects/NUMBER/global/networks/NAME"),
        ):
            value = getattr(self, name)
            if value and not pattern.fullmatch(value):
                raise ValueError(f"`{name}` must be {form}; got {value!r}. Correct it.")


def job_spec(
    custom_job: CustomJob,
    *,
    image: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    accelerator: tuple[str, int] | None,
) -> dict[str, Any]:
    """Returns the specification of a job (CustomJobSpec) as JSON values, without the arguments of its containers.

    Args:
        custom_job: what the component asks for.
        image: container image of all replicas.
        command: their command.
        environment: their environment variables.
        accelerator: type and number of the accelerators of each replica, if there are any.
    """
    machine: dict[str, Any] = {"machineType": custom_job.machine_type}
    if accelerator is not None:
        machine |= {"acceleratorType": accelerator[0], "acceleratorCount": accelerator[1]}
    if custom_job.tpu_topology:
        machine["tpuTopology"] = custom_job.tpu_topology
    pool: dict[str, Any] = {
        "machineSpec": machine,
        "containerSpec": {
            "imageUri": image,
            "command": list(command),
            "env": [{"name": name, "value": value} for name, value in sorted(environment.items())],
        },
    }
    if custom_job.boot_disk_gb is not None:
        # The size counts only together with the type, whose default is this one.
        pool["diskSpec"] = {"bootDiskType": "pd-ssd", "bootDiskSizeGb": custom_job.boot_disk_gb}
    num_workers = custom_job.replicas - 1
    # The first pool has the chief alone, and the second one the workers.
    pools = [{**pool, "replicaCount": "1"}, *([{**pool, "replicaCount": str(num_workers)}] if num_workers else [])]
    restarts = custom_job.restart_on_worker_restart
    scheduling: dict[str, Any] = {"restartJobOnWorkerRestart": num_workers > 0 if restarts is None else restarts}
    if custom_job.spot:
        scheduling["strategy"] = "SPOT"
    if custom_job.timeout_seconds is not None:
        scheduling["timeout"] = f"{custom_job.timeout_seconds}s"
    spec: dict[str, Any] = {"workerPoolSpecs": pools, "scheduling": scheduling}
    if custom_job.service_account:
        spec["serviceAccount"] = custom_job.service_account
    if custom_job.network:
        spec["network"] = custom_job.network
    return spec


def coordinator_arguments(spec: Mapping[str, Any], container_arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of a coordinator; the service replaces what is in double braces.

    Args:
        spec: the job, as `job_spec` returns it.
        container_arguments: those of the component's own container.
    """
    arguments = [
        *("--job", json.dumps(spec, sort_keys=True)),
        *("--project", "{{$.pipeline_google_cloud_project_id}}"),
        *("--location", "{{$.pipeline_google_cloud_location}}"),
        *("--run", "{{$.pipeline_job_resource_name}}"),
        *("--task", "{{$.pipeline_task_name}}"),
        *("--encryption-key", "{{$.pipeline_encryption_key_name}}"),
    ]
    if "serviceAccount" not in spec:
        arguments += ["--service-account", "{{$.pipeline_service_account}}"]
    if "network" not in spec:
        arguments += ["--network", "{{$.pipeline_network}}"]
    return [*arguments, "--", *container_arguments]

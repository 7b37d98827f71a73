"""The machines of a plan: how much memory a step may use, and what an hour of its machines costs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os

from tfx_gnn.io import options_json
from tfx_gnn_pipelines.custom_job import CustomJob
from tfx_gnn_pipelines.resources import ComponentResources, Resources
from tfx_gnn_pipelines.yaml_files import read_yaml

GB = 10**9
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachinePrice:
    """Price and memory of a type of machine.

    Attributes:
        per_hour: price of an hour, without accelerators; at least 0.
        spot_per_hour: price of an hour as a spot machine; None if it is not used as one.
        memory_gb: memory in GB; None: not compared with what a step needs.
    """

    per_hour: float
    spot_per_hour: float | None = None
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        _check_prices(self, "per_hour", "spot_per_hour", "memory_gb")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prices:
    """What machines cost; each field is needed only if the resources use it.

    Attributes:
        currency: the unit of all prices, such as "EUR".
        machines: by machine type of custom jobs.
        accelerators: price of an hour of one accelerator, by its kind.
        cpu_per_hour: price of an hour of one processor, for components with `cpu`.
        memory_gb_per_hour: price of an hour of one GB, for components with `memory_gb`.
        default_per_hour: price of an hour of the service's own machine, for components that ask for no processor,
            memory, accelerator or custom job.
    """

    currency: str
    machines: dict[str, MachinePrice] = dataclasses.field(default_factory=dict)
    accelerators: dict[str, float] = dataclasses.field(default_factory=dict)
    cpu_per_hour: float | None = None
    memory_gb_per_hour: float | None = None
    default_per_hour: float | None = None

    def __post_init__(self) -> None:
        _check_prices(self, "cpu_per_hour", "memory_gb_per_hour", "default_per_hour")
        for kind, price in self.accelerators.items():
            if not 0 <= price < math.inf:
                raise ValueError(f"`accelerators.{kind}` must be at least 0 and finite; got {price}. Give a price.")


def _check_prices(prices: object, *names: str) -> None:
    for name in names:
        value = getattr(prices, name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"`{name}` must be at least 0 and finite; got {value}. Give a price per hour.")


def read_prices(path: str) -> Prices:
    """Reads a file of prices.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a key is unknown or a value does not fit; the message names it.
    """
    text = json.dumps(read_yaml(path, option="--prices"))
    try:
        return options_json.from_json(text, Prices, name=path)
    except ValueError as error:
        # The checks of a value do not know the file.
        raise error if path in str(error) else ValueError(f"{path}: {error}") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepMachines:
    """The machines that run a step.

    Attributes:
        name: what they are, in words.
        count: how many.
        memory_bytes: memory of each; None if unknown.
        per_hour: price of an hour of all of them; None without prices.
    """

    name: str
    count: int
    memory_bytes: int | None
    per_hour: float | None


def this_machine() -> StepMachines:
    """Describes the machine that this process runs on; a limit of its container counts."""
    num_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            num_bytes = min(num_bytes, int(file.read()))
    return StepMachines(name="this machine", count=1, memory_bytes=num_bytes, per_hour=None)


def machines_of(component: str, resources: Resources, prices: Prices | None) -> StepMachines:
    """Finds the machines of a component.

    Raises:
        ValueError: if `prices` lacks a price of theirs.
    """
    given = resources.of(component)
    job = given.custom_job
    price = None if prices is None else _price_per_hour(component, given, prices)
    if job is None:
        words = [] if given.cpu is None else [f"{given.cpu:g} CPU"]
        words += [] if given.memory_gb is None else [f"{given.memory_gb:g} GB"]
        words += [] if given.accelerator is None else [f"{given.accelerator.count} {given.accelerator.kind}"]
        memory = None if given.memory_gb is None else int(given.memory_gb * GB)
        return StepMachines(name=", ".join(words) or "the service's own", count=1, memory_bytes=memory, per_hour=price)
    known = prices.machines.get(job.machine_type) if prices is not None else None
    memory_gb = known.memory_gb if known is not None else None
    return StepMachines(
        name=f"{job.replicas} x {job.machine_type}{' (spot)' if job.spot else ''}",
        count=job.replicas,
        memory_bytes=None if memory_gb is None else int(memory_gb * GB),
        per_hour=price,
    )


def _price_per_hour(component: str, given: ComponentResources, prices: Prices) -> float:
    accelerators = 0.0
    if given.accelerator is not None:
        kind = given.accelerator.kind
        accelerators = given.accelerator.count * _known(
            prices.accelerators.get(kind), f"accelerators.{kind}", component
        )
    if given.custom_job is not None:
        return given.custom_job.replicas * (_price_of_machine(component, given.custom_job, prices) + accelerators)
    if given.cpu is None and given.memory_gb is None and given.accelerator is None:
        return _known(prices.default_per_hour, "default_per_hour", component)
    price = accelerators
    if given.cpu is not None:
        price += given.cpu * _known(prices.cpu_per_hour, "cpu_per_hour", component)
    if given.memory_gb is not None:
        price += given.memory_gb * _known(prices.memory_gb_per_hour, "memory_gb_per_hour", component)
    return price


def _price_of_machine(component: str, job: CustomJob, prices: Prices) -> float:
    key = f"machines.{job.machine_type}"
    machine = prices.machines.get(job.machine_type)
    if job.spot:
        return _known(machine.spot_per_hour if machine else None, f"{key}.spot_per_hour", component)
    return _known(machine.per_hour if machine else None, f"{key}.per_hour", component)


def _known(price: float | None, key: str, component: str) -> float:
    if price is None:
        raise ValueError(
            f"`{key}` must be given in the file of --prices, because {component} uses it; got none. Add the price of "
            "an hour."
        )
    return price

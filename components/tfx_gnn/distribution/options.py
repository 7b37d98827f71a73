"""Options of distributed training: the strategy, and how files are divided."""

from __future__ import annotations

import dataclasses

from tfx_gnn.io.option_groups import check_choices, choice_option

DEFAULT, ONE_DEVICE, MIRRORED = "default", "one_device", "mirrored"
MULTI_WORKER_MIRRORED, PARAMETER_SERVER, TPU = "multi_worker_mirrored", "parameter_server", "tpu"
STRATEGIES_OF_ONE_PROCESS = (DEFAULT, ONE_DEVICE, MIRRORED)
"""Strategies that do not connect to other machines."""
STRATEGIES = (*STRATEGIES_OF_ONE_PROCESS, MULTI_WORKER_MIRRORED, PARAMETER_SERVER, TPU)

AUTO, FILE, DATA, OFF = "auto", "file", "data", "off"
SHARDINGS = (AUTO, FILE, DATA, OFF)
"""How files are divided among the processes that read them."""
HINT = "hint"
"""How a dataset with placeholders for the worker is divided; files have none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StrategyOptions:
    """The devices and machines that training runs on.

    Attributes:
        kind: "default": the strategy in scope, normally one device; "one_device"; "mirrored": several devices
            of this machine; "multi_worker_mirrored": synchronous training on the workers of `TF_CONFIG`, or on
            this machine's devices without it; "parameter_server": asynchronous training with the workers and
            parameter servers of `TF_CONFIG`; "tpu".
        devices: devices of "one_device" (one) or "mirrored" (several), such as "GPU:0". If empty,
            "one_device" uses the first GPU and "mirrored" all GPUs; without GPUs, both use the CPU.
        tpu: name or address of a Cloud TPU, or "local" for the TPU of this machine; if empty, it is taken
            from the environment.
        num_parameter_partitions: maximum number of parts that large tables are divided into under
            "parameter_server"; 0: one for each parameter server.
    """

    kind: str = choice_option(DEFAULT, STRATEGIES, flat_name="strategy")
    devices: tuple[str, ...] = ()
    tpu: str = ""
    num_parameter_partitions: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        if self.devices and self.kind not in (ONE_DEVICE, MIRRORED):
            raise ValueError(
                f"`devices` must be empty for strategy {self.kind!r}; got {self.devices}. Only {ONE_DEVICE!r} and "
                f"{MIRRORED!r} take devices."
            )
        if self.kind == ONE_DEVICE and len(self.devices) > 1:
            raise ValueError(
                f"`devices` must name at most one device for strategy {ONE_DEVICE!r}; got {self.devices}. Choose "
                f"{MIRRORED!r} for several."
            )
        if self.tpu and self.kind != TPU:
            raise ValueError(f"`tpu` must be empty for strategy {self.kind!r}; got {self.tpu!r}. Choose {TPU!r}.")
        if self.num_parameter_partitions < 0 or (self.num_parameter_partitions and self.kind != PARAMETER_SERVER):
            raise ValueError(
                "`num_parameter_partitions` must be at least 0, and 0 for other strategies than "
                f"{PARAMETER_SERVER!r}; got {self.num_parameter_partitions} for {self.kind!r}. Leave it at 0."
            )

"""Reads a project that is to run, and makes the seeds of its prediction task before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from tfx_gnn_pipelines.config import PipelineConfig


def read_run_config(reference: str, changes: Mapping[str, Any], console: Console, *, is_remote: bool) -> PipelineConfig:
    """Reads a project as `read_config` does; before, makes the seeds of its prediction task anew, if it has one.

    The tables may have changed since. The same seeds leave their file as it is, so that steps stay cached.

    Args:
        reference: the project; see `read_project`, whose other arguments are `changes`.
        changes: options that change the project.
        console: where to say how many seeds there are.
        is_remote: whether the pipeline is compiled for a service, where the seeds lie beside the tables already.

    Returns:
        The config of the pipeline.
    """
    from tfx_gnn_pipelines.project import make_seeds, read_config, read_prediction_task

    found = None if is_remote else read_prediction_task(reference, **changes)
    if found is not None:
        seeds = make_seeds(found)
        by_split = ", ".join(f"{split.num_seeds:,} {split.split}" for split in seeds.splits)
        console.print(f"Seeds of the task: {by_split}", highlight=False, markup=False, soft_wrap=True)
        for remark in seeds.remarks:
            console.print(remark, style="yellow", highlight=False, markup=False, soft_wrap=True)
    return read_config(reference, is_remote=is_remote, **changes)

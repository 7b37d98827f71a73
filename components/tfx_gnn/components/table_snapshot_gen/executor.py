"""Executor of TableSnapshotGen: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import parameters
from tfx_gnn.components.table_snapshot_gen import stage
from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions


class Executor(base_executor.BaseExecutor):
    """Runs `snapshot_tables` on the source."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Takes the snapshot; see the component for names and types."""
        stage.snapshot_tables(
            source=exec_properties["source"],
            snapshot_dir=artifact_utils.get_single_uri(output_dict["snapshot"]),
            options=parameters.from_exec_properties(TableSnapshotGenOptions, exec_properties),
        )

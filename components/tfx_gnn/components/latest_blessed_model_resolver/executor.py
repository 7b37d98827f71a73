"""Executor of LatestBlessedModelResolver: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import parameters
from tfx_gnn.components.latest_blessed_model_resolver import stage
from tfx_gnn.components.latest_blessed_model_resolver.options import LatestBlessedModelResolverOptions


class Executor(base_executor.BaseExecutor):
    """Runs `resolve_latest_blessed_model` on the push destination."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Copies the model; see the component for names and types."""
        stage.resolve_latest_blessed_model(
            push_destination=exec_properties["push_destination"],
            blessed_model_dir=artifact_utils.get_single_uri(output_dict["blessed_model"]),
            latest_version=exec_properties["latest_version"],
            options=parameters.from_exec_properties(LatestBlessedModelResolverOptions, exec_properties),
        )

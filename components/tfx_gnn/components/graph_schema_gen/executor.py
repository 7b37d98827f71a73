"""Executor of GraphSchemaGen: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_schema_gen import stage
from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `generate_graph_schema` on the examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes both schemas; see the component for names and types."""
        stage.generate_graph_schema(
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            graph_schema_dir=artifact_utils.get_single_uri(output_dict["graph_schema"]),
            schema_dir=artifact_utils.get_single_uri(output_dict["schema"]),
            declared_schema_dir=artifacts.optional_uri(input_dict.get("declared_graph_schema")),
            options=parameters.from_exec_properties(GraphSchemaGenOptions, exec_properties),
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )

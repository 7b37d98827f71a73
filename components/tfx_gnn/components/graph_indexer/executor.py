"""Executor of GraphIndexer: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters, table_inputs
from tfx_gnn.components.graph_indexer import stage
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `build_graph_index` on the tables."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Builds the index; see the component for names and types."""
        options = parameters.from_exec_properties(GraphIndexerOptions, exec_properties)
        tables_dir, options = table_inputs.tables_of_run(input_dict, exec_properties, options, self._get_tmp_dir)
        stage.build_graph_index(
            tables_dir=tables_dir,
            graph_index_dir=artifact_utils.get_single_uri(output_dict["graph_index"]),
            tables_contents=parameters.tables_contents(exec_properties),
            span=exec_properties["span"],
            same_span_as=artifacts.optional_uri(input_dict.get("same_span_as")),
            options=options,
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )

"""Executor of GraphBulkInferrer: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_bulk_inferrer import stage
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `infer_in_bulk` on raw examples and the exported model."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Asks the model about the examples; see the component for names and types."""
        inference = artifact_utils.get_single_instance(output_dict["inference"])
        found = stage.infer_in_bulk(
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            model_dir=artifact_utils.get_single_uri(input_dict["model"]),
            inference_dir=inference.uri,
            blessing_dir=artifacts.optional_uri(input_dict.get("blessing")),
            infra_blessing_dir=artifacts.optional_uri(input_dict.get("infra_blessing")),
            options=parameters.from_exec_properties(GraphBulkInferrerOptions, exec_properties),
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )
        artifacts.describe_inference(inference, blessed=found.blessed, num_rows=sum(found.num_rows.values()))

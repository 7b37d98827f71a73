"""Executor of GraphLayerwiseInferrer: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_layerwise_inferrer import stage
from tfx_gnn.components.graph_layerwise_inferrer.options import GraphLayerwiseInferrerOptions


class Executor(base_executor.BaseExecutor):
    """Runs `infer_layerwise` on a graph index and the exported model."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Asks the model about all nodes; see the component for names and types."""
        inference = artifact_utils.get_single_instance(output_dict["inference"])
        found = stage.infer_layerwise(
            graph_index_dir=artifact_utils.get_single_uri(input_dict["graph_index"]),
            model_dir=artifact_utils.get_single_uri(input_dict["model"]),
            inference_dir=inference.uri,
            blessing_dir=artifacts.optional_uri(input_dict.get("blessing")),
            infra_blessing_dir=artifacts.optional_uri(input_dict.get("infra_blessing")),
            options=parameters.from_exec_properties(GraphLayerwiseInferrerOptions, exec_properties),
        )
        artifacts.describe_inference(inference, blessed=found.blessed, num_rows=sum(found.num_rows.values()))

"""Executor of GraphTuner: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_tuner import stage
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions


class Executor(base_executor.BaseExecutor):
    """Runs `tune_graph_model` on the transformed examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Searches hyperparameters; see the component for names and types."""
        options = parameters.from_exec_properties(GraphTunerOptions, exec_properties)
        parameters.check_code_is_unchanged(options.model_fn, exec_properties)
        stage.tune_graph_model(
            transformed_examples_dir=artifact_utils.get_single_uri(input_dict["transformed_examples"]),
            transform_graph_dir=artifact_utils.get_single_uri(input_dict["transform_graph"]),
            graph_schema_dir=artifact_utils.get_single_uri(input_dict["graph_schema"]),
            transformed_graph_schema_dir=artifact_utils.get_single_uri(input_dict["transformed_graph_schema"]),
            size_constraints_dir=artifacts.optional_uri(input_dict.get("size_constraints")),
            best_hyperparameters_dir=artifact_utils.get_single_uri(output_dict["best_hyperparameters"]),
            blessing_dir=artifacts.optional_uri(input_dict.get("blessing")),
            options=options,
        )

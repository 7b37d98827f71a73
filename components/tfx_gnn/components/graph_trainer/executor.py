"""Executor of GraphTrainer: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_trainer import stage
from tfx_gnn.training.options import GraphTrainerOptions


class Executor(base_executor.BaseExecutor):
    """Runs `train_graph_model` on the transformed examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Trains and exports the model; see the component for names and types."""
        options = parameters.from_exec_properties(GraphTrainerOptions, exec_properties)
        parameters.check_code_is_unchanged(options.model_fn, exec_properties)
        stage.train_graph_model(
            transformed_examples_dir=artifact_utils.get_single_uri(input_dict["transformed_examples"]),
            transform_graph_dir=artifact_utils.get_single_uri(input_dict["transform_graph"]),
            graph_schema_dir=artifact_utils.get_single_uri(input_dict["graph_schema"]),
            transformed_graph_schema_dir=artifact_utils.get_single_uri(input_dict["transformed_graph_schema"]),
            size_constraints_dir=artifacts.optional_uri(input_dict.get("size_constraints")),
            model_dir=artifact_utils.get_single_uri(output_dict["model"]),
            model_run_dir=artifact_utils.get_single_uri(output_dict["model_run"]),
            blessing_dir=artifacts.optional_uri(input_dict.get("blessing")),
            examples_dir=artifacts.optional_uri(input_dict.get("examples")),
            best_hyperparameters_dir=artifacts.optional_uri(input_dict.get("best_hyperparameters")),
            blessed_model_dir=artifacts.optional_uri(input_dict.get("blessed_model")),
            options=options,
        )

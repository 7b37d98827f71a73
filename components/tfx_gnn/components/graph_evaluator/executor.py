"""Executor of GraphEvaluator: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_evaluator import stage
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.records.blessing import is_blessed


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `evaluate_graph_model` on raw examples and the exported model."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Evaluates the model; see the component for names and types."""
        model = artifact_utils.get_single_instance(input_dict["model"])
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        stage.evaluate_graph_model(
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            model_dir=model.uri,
            evaluation_dir=artifact_utils.get_single_uri(output_dict["evaluation"]),
            blessing_dir=blessing.uri,
            blessed_model_dir=artifacts.optional_uri(input_dict.get("blessed_model")),
            options=parameters.from_exec_properties(GraphEvaluatorOptions, exec_properties),
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )
        artifacts.describe_blessing(blessing, model, blessed=is_blessed(blessing.uri))

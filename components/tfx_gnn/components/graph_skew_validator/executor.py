"""Executor of GraphSkewValidator: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_skew_validator import stage
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions


class Executor(base_executor.BaseExecutor):
    """Runs `validate_skew` on examples before and after the transform, and on the exported model."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Compares training and serving; see the component for names and types."""
        model = artifact_utils.get_single_instance(input_dict["model"])
        skew = artifact_utils.get_single_instance(output_dict["skew"])
        infra_blessing = artifact_utils.get_single_instance(output_dict["infra_blessing"])
        report = stage.validate_skew(
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            transformed_examples_dir=artifact_utils.get_single_uri(input_dict["transformed_examples"]),
            model_dir=model.uri,
            model_run_dir=artifact_utils.get_single_uri(input_dict["model_run"]),
            skew_dir=skew.uri,
            infra_blessing_dir=infra_blessing.uri,
            graph_index_dir=artifacts.optional_uri(input_dict.get("graph_index")),
            options=parameters.from_exec_properties(GraphSkewValidatorOptions, exec_properties),
        )
        artifacts.describe_skew(skew, report.largest_difference)
        artifacts.describe_blessing(infra_blessing, model, blessed=report.blessed)

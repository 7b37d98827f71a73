"""Executor of SizeConstraintLearner: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.size_constraint_learner import stage
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `learn_size_constraints` on the examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Learns the budgets; see the component for names and types."""
        stage.learn_size_constraints(
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            graph_schema_dir=artifact_utils.get_single_uri(input_dict["graph_schema"]),
            size_constraints_dir=artifact_utils.get_single_uri(output_dict["size_constraints"]),
            transform_graph_dir=artifacts.optional_uri(input_dict.get("transform_graph")),
            options=parameters.from_exec_properties(SizeConstraintLearnerOptions, exec_properties),
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )

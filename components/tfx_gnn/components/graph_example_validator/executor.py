"""Executor of GraphExampleValidator: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_example_validator import stage
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `validate_graph_examples` on raw examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Validates the examples; see the component for names and types."""
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        anomalies = artifact_utils.get_single_instance(output_dict["anomalies"])
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        validation = stage.validate_graph_examples(
            examples_dir=examples.uri,
            graph_schema_dir=artifact_utils.get_single_uri(input_dict["graph_schema"]),
            statistics_dir=statistics.uri,
            anomalies_dir=anomalies.uri,
            blessing_dir=blessing.uri,
            blessed_model_dir=artifacts.optional_uri(input_dict.get("blessed_model")),
            baseline_statistics_dir=artifacts.optional_uri(input_dict.get("baseline_statistics")),
            options=parameters.from_exec_properties(GraphExampleValidatorOptions, exec_properties),
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )
        artifacts.describe_statistics(statistics, examples, list(validation.num_examples))
        artifacts.describe_anomalies(anomalies, examples, validation.blessed_splits)
        artifacts.describe_examples_blessing(blessing, examples, blessed=validation.blessed)

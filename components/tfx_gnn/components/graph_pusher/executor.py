"""Executor of GraphPusher: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters
from tfx_gnn.components.graph_pusher import stage
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions


class Executor(base_executor.BaseExecutor):
    """Runs `push_graph_model` on the exported model."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model if it is blessed; see the component for names and types."""
        pushed_model = artifact_utils.get_single_instance(output_dict["pushed_model"])
        pushed = stage.push_graph_model(
            model_dir=artifact_utils.get_single_uri(input_dict["model"]),
            blessing_dir=artifact_utils.get_single_uri(input_dict["blessing"]),
            examples_dir=artifact_utils.get_single_uri(input_dict["examples"]),
            infra_blessing_dir=artifacts.optional_uri(input_dict.get("infra_blessing")),
            statistics_dir=artifacts.optional_uri(input_dict.get("statistics")),
            analyzer_cache_dir=artifacts.optional_uri(input_dict.get("analyzer_cache")),
            push_destination=exec_properties["push_destination"],
            pushed_model_dir=pushed_model.uri,
            options=parameters.from_exec_properties(GraphPusherOptions, exec_properties),
        )
        artifacts.describe_pushed_model(pushed_model, pushed.path, pushed.version, identical_to=pushed.identical_to)

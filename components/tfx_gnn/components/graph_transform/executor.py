"""Executor of GraphTransform: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters, table_inputs
from tfx_gnn.components.graph_transform import stage
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.records.examples_folder import split_names


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `transform_graphs` on the examples."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Transforms the graphs; see the component for names and types."""
        options = parameters.from_exec_properties(GraphTransformOptions, exec_properties)
        parameters.check_code_is_unchanged(options.preprocessing_fn, exec_properties)
        tables_dir, options = table_inputs.tables_of_run(input_dict, exec_properties, options, self._get_tmp_dir)
        *earlier, latest = artifacts.sort_by_span(input_dict["examples"])
        transformed_examples = artifact_utils.get_single_instance(output_dict["transformed_examples"])
        pre_transform_stats = artifact_utils.get_single_instance(output_dict["pre_transform_stats"])
        post_transform_stats = artifact_utils.get_single_instance(output_dict["post_transform_stats"])
        stage.transform_graphs(
            examples_dir=latest.uri,
            graph_schema_dir=artifact_utils.get_single_uri(input_dict["graph_schema"]),
            transform_graph_dir=artifact_utils.get_single_uri(output_dict["transform_graph"]),
            transformed_examples_dir=transformed_examples.uri,
            transformed_graph_schema_dir=artifact_utils.get_single_uri(output_dict["transformed_graph_schema"]),
            options=options,
            tables_dir=tables_dir,
            tables_contents=parameters.tables_contents(exec_properties),
            earlier_examples_dirs=[examples.uri for examples in earlier],
            blessed_model_dir=artifacts.optional_uri(input_dict.get("blessed_model")),
            analyzer_cache_dir=artifacts.optional_uri(input_dict.get("analyzer_cache")),
            updated_analyzer_cache_dir=artifacts.optional_uri(output_dict.get("updated_analyzer_cache")),
            pre_transform_stats_dir=pre_transform_stats.uri,
            post_transform_stats_dir=post_transform_stats.uri,
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )
        artifacts.describe_examples(transformed_examples, split_names(transformed_examples.uri))
        transformed_examples.span = latest.span
        artifacts.describe_statistics(pre_transform_stats, latest, options.analyze_splits)
        artifacts.describe_statistics(post_transform_stats, latest, options.analyze_splits)

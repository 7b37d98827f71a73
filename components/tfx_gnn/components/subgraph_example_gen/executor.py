"""Executor of SubgraphExampleGen: maps artifacts to paths and calls the stage."""

from __future__ import annotations

from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact, artifact_utils

from tfx_gnn.components import artifacts, parameters, table_inputs
from tfx_gnn.components.subgraph_example_gen import stage
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.records.examples_folder import split_names


class Executor(base_beam_executor.BaseBeamExecutor):
    """Runs `generate_subgraph_examples` on the tables."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Samples the subgraphs; see the component for names and types."""
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        options = parameters.from_exec_properties(SubgraphExampleGenOptions, exec_properties)
        tables_dir, options = table_inputs.tables_of_run(input_dict, exec_properties, options, self._get_tmp_dir)
        report = stage.generate_subgraph_examples(
            tables_dir=tables_dir,
            examples_dir=examples.uri,
            tables_contents=parameters.tables_contents(exec_properties),
            span=exec_properties["span"],
            same_span_as=artifacts.optional_uri(input_dict.get("same_span_as")),
            options=options,
            beam_args=[str(arg) for arg in self._beam_pipeline_args],
        )
        artifacts.describe_examples(examples, split_names(examples.uri))
        artifacts.describe_span(examples, report.tables_span)
        artifacts.take_over_span(examples, input_dict.get(table_inputs.TABLES))

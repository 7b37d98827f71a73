"""The TFX component GraphIndexer and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters, table_inputs
from tfx_gnn.components.artifacts import GraphIndexArtifact
from tfx_gnn.components.graph_indexer import executor
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.tables.graph_tables import list_table_files


class GraphIndexerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphIndexer."""

    PARAMETERS = {
        "tables_dir": ExecutionParameter(type=str),
        **parameters.execution_parameters(GraphIndexerOptions, parameters.TABLES_FINGERPRINT, parameters.SPAN),
    }
    INPUTS = {
        "same_span_as": ChannelParameter(type=standard_artifacts.Examples, optional=True),
        **table_inputs.table_inputs(),
    }
    OUTPUTS = {"graph_index": ChannelParameter(type=GraphIndexArtifact)}
    TYPE_ANNOTATION = system_executions.Process


class GraphIndexer(base_beam_component.BaseBeamComponent):
    """Builds an index of a whole graph from tables, from which subgraphs are sampled without reading the tables again.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | same_span_as | Examples | optional: examples whose span is read, if `tables_dir` is a pattern |
    | input | tables | Examples | optional: tables instead of `tables_dir`, as for SubgraphExampleGen |
    | input | tables_schema | tfx_gnn.GraphSchemaArtifact | optional: schema of `tables` that do not hold one |
    | output | graph_index | tfx_gnn.GraphIndexArtifact | ids, features and edges by node, to be mapped into memory |
    | parameter | tables_dir | str | folder with `graph_schema.pbtxt` and its tables, or a pattern such as data/{SPAN} |
    | parameter | rules | JSON | what to do with rows that break a rule |
    | parameter | extra_columns | JSON | columns to put into the index as text, by set or table |
    | parameter | edge_times | JSON | integer feature that tells repeated edges apart, by edge set |
    | parameter | access | JSON | alternative file name of the tables' schema, and which files may be read |
    | parameter | execution | JSON | "in_memory" or "beam" |
    | parameter | tables_fingerprint | str | hash of the tables |
    | parameter | span | str | number or date of the span, if `tables_dir` is a pattern; empty for the newest |
    | parameter | library_version | str | version of this library |

    Args:
        tables_dir: folder of the tables, empty if `tables` are given; any path or URI that TensorFlow reads. In a
            pattern such as "data/{SPAN}" or "data/{DATE}", the executor looks for the span when it runs.
        options: what to do with bad rows, which columns to add, and where to build.
        tables: channel of the tables, instead of `tables_dir`; see SubgraphExampleGen.
        tables_schema: channel of the schema of `tables`, if they hold no `graph_schema.pbtxt`.
        span: number or date of the span to read, if `tables_dir` is a pattern; empty for the newest.
        same_span_as: examples whose span and version of the tables are read, if `tables_dir` is a pattern: a newer span
            may have arrived since they were made.
        tables_fingerprint: text that changes whenever the tables change. If it is empty, the tables are
            hashed, so they must be readable when the pipeline is built, and the executor refuses others.
        runtime_parameters: name of `tables_dir` or of a scalar option to the
            parameter that sets it when a compiled pipeline runs.

    Raises:
        ValueError: if the tables are to be hashed and a file is missing, or if both or neither of `tables_dir` and
            `tables` are given.
    """

    SPEC_CLASS = GraphIndexerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        tables_dir: str = "",
        options: GraphIndexerOptions,
        tables: BaseChannel | None = None,
        tables_schema: BaseChannel | None = None,
        span: str = "",
        same_span_as: BaseChannel | None = None,
        tables_fingerprint: str = "",
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        given = {
            "span": span,
            "same_span_as": same_span_as,
            "tables_fingerprint": tables_fingerprint,
            "runtime_parameters": "tables_dir" in (runtime_parameters or {}),
        }
        table_inputs.check_table_inputs(tables_dir, tables, tables_schema, given)
        if tables_dir and not tables_fingerprint:
            files = list_table_files(parameters.tables_folder_now(tables_dir, span), access=options.access)
            tables_fingerprint = parameters.fingerprint_tables(files, runtime_parameters=runtime_parameters)
        super().__init__(
            spec=parameters.fill_spec(
                GraphIndexerSpec,
                options,
                runtime_parameters,
                tables_dir=tables_dir,
                span=span,
                same_span_as=same_span_as,
                tables=tables,
                tables_schema=tables_schema,
                tables_fingerprint=tables_fingerprint,
            )
        )

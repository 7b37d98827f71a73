"""The TFX component GraphIndexer and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters
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
    INPUTS = {"same_span_as": ChannelParameter(type=standard_artifacts.Examples, optional=True)}
    OUTPUTS = {"graph_index": ChannelParameter(type=GraphIndexArtifact)}
    TYPE_ANNOTATION = system_executions.Process


class GraphIndexer(base_beam_component.BaseBeamComponent):
    """Builds an index of a whole graph from tables, from which subgraphs are sampled without reading the tables again.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | same_span_as | Examples | optional: examples whose span is read, if `tables_dir` is a pattern |
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
        tables_dir: folder of the tables; any path or URI that TensorFlow reads. In a pattern such as "data/{SPAN}" or
            "data/{DATE}", the executor looks for the span when it runs.
        options: what to do with bad rows, which columns to add, and where to build.
        span: number or date of the span to read, if `tables_dir` is a pattern; empty for the newest.
        same_span_as: examples whose span and version of the tables are read, if `tables_dir` is a pattern: a newer span
            may have arrived since they were made.
        tables_fingerprint: text that changes whenever the tables change. If it is empty, the tables are
            hashed, so they must be readable when the pipeline is built, and the executor refuses others.
        runtime_parameters: name of `tables_dir` or of a scalar option to the
            parameter that sets it when a compiled pipeline runs.

    Raises:
        ValueError: if the tables are to be hashed and a file is missing.
    """

    SPEC_CLASS = GraphIndexerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        tables_dir: str,
        options: GraphIndexerOptions,
        span: str = "",
        same_span_as: BaseChannel | None = None,
        tables_fingerprint: str = "",
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphIndexerSpec,
                options,
                runtime_parameters,
                tables_dir=tables_dir,
                span=span,
                same_span_as=same_span_as,
                tables_fingerprint=tables_fingerprint
                or parameters.fingerprint_tables(
                    list_table_files(parameters.tables_folder_now(tables_dir, span), access=options.access),
                    runtime_parameters=runtime_parameters,
                ),
            )
        )

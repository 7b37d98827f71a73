"""The TFX component GraphTransform and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters, table_inputs
from tfx_gnn.components.artifacts import GraphSchemaArtifact
from tfx_gnn.components.graph_transform import executor
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.tables.graph_tables import list_table_files


class GraphTransformSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphTransform."""

    PARAMETERS = {
        "tables_dir": ExecutionParameter(type=str),
        **parameters.execution_parameters(
            GraphTransformOptions, parameters.TABLES_FINGERPRINT, parameters.CODE_FINGERPRINT
        ),
    }
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "analyzer_cache": ChannelParameter(type=standard_artifacts.TransformCache, optional=True),
        "blessed_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
        **table_inputs.table_inputs(),
    }
    OUTPUTS = {
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "transformed_graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "pre_transform_stats": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "post_transform_stats": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "updated_analyzer_cache": ChannelParameter(type=standard_artifacts.TransformCache, optional=True),
    }
    TYPE_ANNOTATION = system_executions.Transform


class GraphTransform(base_beam_component.BaseBeamComponent):
    """Applies the user's `preprocessing_fn` to every graph, with statistics from a full pass over the data.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples; one artifact per span |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | schema of the examples |
    | input | analyzer_cache | TransformCache | optional: statistics of earlier spans |
    | input | blessed_model | Model | optional: the latest blessed model, with which such statistics were pushed |
    | input | tables | Examples | optional: tables instead of `tables_dir`, as for SubgraphExampleGen |
    | input | tables_schema | tfx_gnn.GraphSchemaArtifact | optional: schema of `tables` that do not hold one |
    | output | transform_graph | TransformGraph | the transform, for training and serving |
    | output | transformed_examples | Examples | transformed graph tf.Examples, in the same splits |
    | output | transformed_graph_schema | tfx_gnn.GraphSchemaArtifact | schema after the transform |
    | output | pre_transform_stats | ExampleStatistics | of the raw features, each item counted once |
    | output | post_transform_stats | ExampleStatistics | of the transformed features of the same items |
    | output | updated_analyzer_cache | TransformCache | statistics of these spans, for the next run; on request |
    | parameter | tables_dir | str | tables that the examples were sampled from, for analyze="tables"; else empty |
    | parameter | preprocessing_fn | str | the user's function, "package.module:function"; empty: see `features` |
    | parameter | features | JSON | how columns become features, without a `preprocessing_fn` |
    | parameter | analyze_splits | JSON | splits that statistics are computed from |
    | parameter | analyze | JSON | what statistics count: "unique_items", "tables" or "as_sampled" |
    | parameter | rules | JSON | what to do with rows of the tables that break a rule |
    | parameter | access | JSON | alternative file name of the tables' schema, and which files may be read |
    | parameter | nonfinite_features | JSON | transformed features that may be NaN or infinite |
    | parameter | tables_fingerprint | str | hash of the tables; empty without tables |
    | parameter | code_fingerprint | str | hash of the user's code |
    | parameter | library_version | str | version of this library |

    Statistics cover all spans, in the order of their numbers; an item is counted in the first span
    that has it. Only the span with the largest number is transformed and described by the statistics
    outputs. If one artifact holds a rolling window of spans, as SubgraphExampleGen makes it with `num_spans`, all of it
    is transformed, and an item is counted in each span that has it.

    Args:
        examples: channel of Examples.
        graph_schema: channel of GraphSchemaArtifact.
        options: what to apply.
        analyzer_cache: channel of TransformCache, the `updated_analyzer_cache` of an earlier run; TFX's
            Resolver finds that run. Spans in the cache are not read again.
        blessed_model: channel of Model, from LatestBlessedModelResolver, instead of `analyzer_cache`; on every runner.
        keep_analyzer_cache: whether there is an output `updated_analyzer_cache`.
        tables_dir: folder of the tables that the examples were sampled from, or a pattern such as "data/{SPAN}", of
            which the span of the examples is read; only for `analyze="tables"`.
        tables: channel of the tables that the examples were sampled from, instead of `tables_dir`; see
            SubgraphExampleGen.
        tables_schema: channel of the schema of `tables`, if they hold no `graph_schema.pbtxt`.
        tables_fingerprint: text that changes whenever the tables change. If it is empty, the tables are
            hashed, so they must be readable when the pipeline is built, and the executor refuses others.
        runtime_parameters: name of `tables_dir` or of a scalar option to the parameter
            that sets it when a compiled pipeline runs.

    Raises:
        ModuleNotFoundError: if the user's module cannot be found.
        ValueError: if the tables are to be hashed and a file is missing, or if both `tables_dir` and `tables` are
            given.
    """

    SPEC_CLASS = GraphTransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        graph_schema: BaseChannel,
        options: GraphTransformOptions,
        analyzer_cache: BaseChannel | None = None,
        blessed_model: BaseChannel | None = None,
        keep_analyzer_cache: bool = False,
        tables_dir: str = "",
        tables: BaseChannel | None = None,
        tables_schema: BaseChannel | None = None,
        tables_fingerprint: str = "",
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        given = {
            "tables_fingerprint": tables_fingerprint,
            "runtime_parameters": "tables_dir" in (runtime_parameters or {}),
        }
        table_inputs.check_table_inputs(tables_dir, tables, tables_schema, given, required=False)
        if tables_dir and not tables_fingerprint:
            files = list_table_files(parameters.tables_folder_now(tables_dir), access=options.access)
            tables_fingerprint = parameters.fingerprint_tables(files, runtime_parameters=runtime_parameters)
        unwanted = {} if keep_analyzer_cache else {"updated_analyzer_cache": None}
        super().__init__(
            spec=parameters.fill_spec(
                GraphTransformSpec,
                options,
                runtime_parameters,
                code="preprocessing_fn",
                examples=examples,
                graph_schema=graph_schema,
                analyzer_cache=analyzer_cache,
                blessed_model=blessed_model,
                tables_dir=tables_dir,
                tables=tables,
                tables_schema=tables_schema,
                tables_fingerprint=tables_fingerprint,
                **unwanted,
            )
        )

"""The TFX component SubgraphExampleGen and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters, table_inputs
from tfx_gnn.components.subgraph_example_gen import executor
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import list_input_files


class SubgraphExampleGenSpec(ComponentSpec):
    """Inputs, outputs and parameters of SubgraphExampleGen."""

    PARAMETERS = {
        "tables_dir": ExecutionParameter(type=str),
        **parameters.execution_parameters(SubgraphExampleGenOptions, parameters.TABLES_FINGERPRINT, parameters.SPAN),
    }
    INPUTS = {
        "same_span_as": ChannelParameter(type=standard_artifacts.Examples, optional=True),
        **table_inputs.table_inputs(),
    }
    OUTPUTS = {"examples": ChannelParameter(type=standard_artifacts.Examples)}
    TYPE_ANNOTATION = system_executions.Process


class SubgraphExampleGen(base_beam_component.BaseBeamComponent):
    """Samples a subgraph around every seed of a graph given as tables, or converts whole small graphs to examples.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | same_span_as | Examples | optional: examples whose span is read, if `tables_dir` is a pattern |
    | input | tables | Examples | optional: tables instead of `tables_dir`, each as a split or as files in a folder |
    | input | tables_schema | tfx_gnn.GraphSchemaArtifact | optional: schema of `tables` that do not hold one |
    | output | examples | Examples | graph tf.Examples by split, with their `graph_schema.pbtxt` |
    | parameter | tables_dir | str | folder with `graph_schema.pbtxt` and its tables, or a pattern such as data/{SPAN} |
    | parameter | plan | JSON | seeds, hops, fan-outs, labels and splits; null for graph-level examples |
    | parameter | graph_level_examples | JSON | how tables of many graphs become examples; null for a plan |
    | parameter | sampling_seed | int | seed of every random choice |
    | parameter | num_shards | int | files per split |
    | parameter | rules | JSON | what to do with rows that break a rule |
    | parameter | access | JSON | alternative file name of the tables' schema, and which files may be read |
    | parameter | execution | JSON | "in_memory" or "beam" |
    | parameter | num_partitions | int | partitions of the graph on Beam |
    | parameter | hub_degree | int | degree above which a node is spread over partitions on Beam |
    | parameter | num_spans | int | spans of the tables, up to the newest, that the first split has examples of |
    | parameter | tables_fingerprint | str | hash of the tables |
    | parameter | span | str | number or date of the span, if `tables_dir` is a pattern; empty for the newest |
    | parameter | library_version | str | version of this library |

    Args:
        tables_dir: folder of the tables, empty if `tables` are given; any path or URI that TensorFlow reads. In a
            pattern such as "data/{SPAN}" or "data/{DATE}", the executor looks for the span when it runs.
        options: what to sample.
        tables: channel of the tables, instead of `tables_dir`. In the output of TFX's own ExampleGens, such as
            CsvExampleGen, each table is a split that is named after the file in the schema, as in
            `Input.Split(name="papers", pattern="papers.csv")`. An Importer of Examples brings a folder of tables.
        tables_schema: channel of the schema of `tables`, as an Importer provides it; it is required if `tables` hold
            no `graph_schema.pbtxt`.
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

    SPEC_CLASS = SubgraphExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        tables_dir: str = "",
        options: SubgraphExampleGenOptions,
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
            "num_spans": options.num_spans if options.num_spans > 1 else 0,
            "tables_fingerprint": tables_fingerprint,
            "runtime_parameters": "tables_dir" in (runtime_parameters or {}),
        }
        table_inputs.check_table_inputs(tables_dir, tables, tables_schema, given)
        if tables_dir and not tables_fingerprint:
            folders = parameters.tables_folders_now(tables_dir, span, num_spans=options.num_spans)
            files = [list_input_files(folder, options) for folder in folders]
            tables_fingerprint = parameters.fingerprint_tables(*files, runtime_parameters=runtime_parameters)
        super().__init__(
            spec=parameters.fill_spec(
                SubgraphExampleGenSpec,
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

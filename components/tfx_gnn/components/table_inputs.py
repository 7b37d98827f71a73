"""Tables as an input artifact of a component, in place of a folder that a parameter names.

Such an artifact is a folder with tables and their `graph_schema.pbtxt`, as an Importer provides it, or the output of
TFX's own ExampleGens, where each table is a split that is named after the table's file.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import tensorflow as tf
from tfx.types import artifact, standard_artifacts
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import FILE_FORMAT_PROPERTY, PAYLOAD_FORMAT_PROPERTY, GraphSchemaArtifact
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema, Metadata
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.io.folder_listing import list_entries
from tfx_gnn.records.examples_folder import graph_schema_path

TABLES = "tables"
"""Input of components that read tables."""
TABLES_SCHEMA = "tables_schema"
"""Input with the graph schema of tables that do not hold one."""

_SPLIT = "Split-"
_AFTER_STEM = re.compile(r"[-_]?\*|[.@]|-(\?{5}|\d{5})-of-")
_EXTRA_OF_TEXT_FILES = ("format", "delimiter")
_EXAMPLE_FORMATS = {PAYLOAD_FORMAT_PROPERTY: ("", "FORMAT_TF_EXAMPLE"), FILE_FORMAT_PROPERTY: ("", "tfrecords_gzip")}


_Options = TypeVar("_Options", SubgraphExampleGenOptions, GraphTransformOptions, GraphIndexerOptions)


def table_inputs() -> dict[str, ChannelParameter]:
    """Declares the inputs, both of them optional."""
    return {
        TABLES: ChannelParameter(type=standard_artifacts.Examples, optional=True),
        TABLES_SCHEMA: ChannelParameter(type=GraphSchemaArtifact, optional=True),
    }


def check_table_inputs(
    tables_dir: str,
    tables: BaseChannel | None,
    tables_schema: BaseChannel | None,
    others: Mapping[str, object],
    *,
    required: bool = True,
) -> None:
    """Checks where a component's tables come from.

    Args:
        tables_dir: folder of the tables, or empty.
        tables: channel of the tables, or None.
        tables_schema: channel of their schema, or None.
        others: arguments by name that only make sense with `tables_dir`; a false value stands for none.
        required: whether the component needs tables.

    Raises:
        ValueError: if both, or neither although they are required, are given, or an argument does not fit.
    """
    if tables is None:
        if tables_schema is not None:
            raise ValueError(
                "`tables_schema` must be the schema of `tables`; got no `tables`. Give the channel of the tables, or "
                f"put {GRAPH_SCHEMA_FILE} into `tables_dir`."
            )
        if required and not tables_dir:
            raise ValueError("`tables_dir` or `tables` must be given; got neither. Name a folder, or give a channel.")
        return
    if tables_dir:
        raise ValueError(f"`tables_dir` must be empty if `tables` is given; got {tables_dir!r}. Give one of them.")
    for name, value in others.items():
        if value:
            raise ValueError(
                f"`{name}` must be left out if `tables` is given, which is one span of tables; got {value!r}. Let the "
                "component that makes the tables choose the span, or give `tables_dir` as a pattern."
            )


def tables_of_run(
    input_dict: Mapping[str, list[artifact.Artifact]],
    exec_properties: Mapping[str, Any],
    options: _Options,
    make_tmp_dir: Callable[[], str],
) -> tuple[str, _Options]:
    """Finds the tables of a run.

    Args:
        input_dict: inputs of the executor.
        exec_properties: its parameters.
        options: its options.
        make_tmp_dir: makes a folder that all workers reach, for the schema of tables that are splits.

    Returns:
        Folder of the tables, and the options with which they are read.

    Raises:
        ValueError: if the artifacts hold no tables.
    """
    given = input_dict.get(TABLES)
    if not given:
        return parameters.tables_folder(exec_properties), options
    if len(given) > 1:
        raise ValueError(
            f"`{TABLES}` must be one artifact; got {len(given)}. Make all tables by one component, each as a split."
        )
    folder = given[0].uri
    splits = [name.rstrip("/").removeprefix(_SPLIT) for name in list_entries(folder) if name.startswith(_SPLIT)]
    schema_path = options.access.schema_path(folder)
    if input_dict.get(TABLES_SCHEMA):
        schema_path = graph_schema_path(input_dict[TABLES_SCHEMA][0].uri)
    if not tf.io.gfile.exists(schema_path):
        raise ValueError(
            f"`{TABLES_SCHEMA}` must be given for tables without a {GRAPH_SCHEMA_FILE}; got none at {schema_path!r}. "
            "Import a folder that holds one by an Importer of GraphSchemaArtifact."
        )
    if splits:
        _check_formats(given[0])
        schema = graph_schema.read_schema(schema_path)
        for place, metadata in _tables(schema):
            _name_split(metadata, splits, place)
        schema_path = os.path.join(make_tmp_dir(), GRAPH_SCHEMA_FILE)
        graph_schema.write_schema(schema, schema_path)
        options = _name_other_splits(options, splits)
    return folder, dataclasses.replace(options, access=dataclasses.replace(options.access, schema_file=schema_path))


def _check_formats(tables: artifact.Artifact) -> None:
    for name, readable in _EXAMPLE_FORMATS.items():
        found = tables.get_string_custom_property(name)
        if found not in readable:
            raise ValueError(
                f"`{TABLES}` must be gzipped TFRecord files of tf.Examples; got {name} {found!r} in {tables.uri!r}. "
                "Set the output format of the component that makes them."
            )


def _tables(schema: GraphSchema) -> Iterator[tuple[str, Metadata]]:
    """Yields what declares each table of files."""
    for kind, sets in (("node set", schema.node_sets), ("edge set", schema.edge_sets)):
        for name in sorted(sets):
            is_table = get_aux_type_prefix(name) is None or sets[name].HasField("metadata")
            if is_table and not sets[name].metadata.HasField("bigquery"):
                yield f"{kind} {name!r}", sets[name].metadata
    if schema.context.metadata.filename:
        yield "the context", schema.context.metadata


def _name_split(metadata: Metadata, splits: Collection[str], place: str) -> None:
    metadata.filename = _files_of_split(metadata.filename, splits, place)
    kept = [(entry.key, entry.value) for entry in metadata.extra if entry.key not in _EXTRA_OF_TEXT_FILES]
    del metadata.extra[:]
    for key, value in kept:
        metadata.extra.add(key=key, value=value)


def _name_other_splits(options: _Options, splits: Collection[str]) -> _Options:
    """Names the splits of tables that the options, not the schema, declare."""
    if not isinstance(options, SubgraphExampleGenOptions):
        return options
    # mypy narrows the variable type to classes that do not exist.
    sampled: Any = options
    plan, graphs = sampled.plan, sampled.graph_level_examples
    if plan is not None and plan.seed_table is not None:
        filename = _files_of_split(plan.seed_table.filename, splits, "the plan's seed table")
        plan = dataclasses.replace(plan, seed_table=dataclasses.replace(plan.seed_table, filename=filename))
    if graphs is not None and graphs.pairs is not None:
        filename = _files_of_split(graphs.pairs.filename, splits, "the table of pairs")
        graphs = dataclasses.replace(graphs, pairs=dataclasses.replace(graphs.pairs, filename=filename))
    return dataclasses.replace(sampled, plan=plan, graph_level_examples=graphs)


def _files_of_split(filename: str, splits: Collection[str], place: str) -> str:
    """Returns the record files of the split that is named after a table's file."""
    name = os.path.basename(filename)
    stem = _AFTER_STEM.split(name, maxsplit=1)[0]
    if stem not in splits:
        raise ValueError(
            f"`{TABLES}` must have a split for each table, named after its file; got splits {sorted(splits)}, none of "
            f"them {stem!r} for the file {filename!r} of {place}. Give the ExampleGen an `input_config` with "
            f"Input.Split(name={stem!r}, pattern={name!r}) for it."
        )
    return f"{_SPLIT}{stem}/*-?????-of-?????.gz"

"""The verb `schema`: what do the examples hold?"""

from __future__ import annotations

from typing import Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.tables.table_access import SCHEMA_FILE


def schema(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema, checked against the examples.")
    ],
    schema_dir: Annotated[str, arguments.folder("Where to write the standard TensorFlow Metadata schema.")],
    splits: arguments.Splits = None,
    schema_file: Annotated[
        str,
        typer.Option(help="Name of the graph schema beside the splits, if there is one.", metavar="FILE"),
    ] = SCHEMA_FILE,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the examples and write the schema of their graphs."""
    from tfx_gnn.stages.graph_schema_gen import GraphSchemaGenOptions, generate_graph_schema

    generate_graph_schema(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        schema_dir=schema_dir,
        options=GraphSchemaGenOptions(splits=tuple(splits or ()), schema_file=schema_file),
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(graph_schema=graph_schema_dir, schema=schema_dir)

"""Verbs from examples to what a batch of them needs: schema, sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from tfx_gnn.cli import arguments


def schema(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema, checked against the examples.")
    ],
    schema_dir: Annotated[str, arguments.folder("Where to write the standard TensorFlow Metadata schema.")],
    splits: arguments.Splits = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the examples and write the schema of their graphs."""
    from tfx_gnn.stages.graph_schema_gen import GraphSchemaGenOptions, generate_graph_schema

    generate_graph_schema(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        schema_dir=schema_dir,
        options=GraphSchemaGenOptions(splits=tuple(splits or ())),
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(graph_schema=graph_schema_dir, schema=schema_dir)


def sizes(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Where to write the padding budgets.")],
    batch_size: Annotated[int, typer.Option(help="Graphs in a batch.")] = 32,
    splits: arguments.Splits = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Learn how large a batch of graphs must be padded, in one pass over the sizes."""
    from tfx_gnn.stages.size_constraint_learner import SizeConstraintLearnerOptions, learn_size_constraints

    learn_size_constraints(
        examples_dir=transformed_examples_dir,
        graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        options=SizeConstraintLearnerOptions(batch_size=batch_size, splits=tuple(splits or ())),
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(size_constraints=size_constraints_dir)

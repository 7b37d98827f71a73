"""The verb `transform`: from raw to transformed graphs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.tables.table_access import SCHEMA_FILE, TableAccess

_TABLES, _SPANS = "Statistics from tables", "Statistics of several spans"


def transform(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: arguments.GraphSchema,
    preprocessing_fn: Annotated[
        str,
        typer.Option(
            help="Your feature transform over a graph view, as 'package.module:function'; tf.Transform's analyzers "
            "may be used in it.",
            show_default=False,
        ),
    ],
    transform_graph_dir: Annotated[str, arguments.folder("Where to write the transform, for training and serving.")],
    transformed_examples_dir: Annotated[str, arguments.folder("Where to write the transformed examples.")],
    transformed_graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema after the transform.")
    ],
    analyze_splits: Annotated[
        list[str] | None,
        typer.Option(
            "--analyze-split", help="Split that statistics are taken from; repeat for several.", show_default="train"
        ),
    ] = None,
    analyze: Annotated[
        str,
        typer.Option(
            help="What statistics count: `unique_items` (every node and edge of the examples once), `tables` (every "
            "row of --tables) or `as_sampled` (every occurrence in an example)."
        ),
    ] = "unique_items",
    tables_dir: Annotated[
        str,
        typer.Option(
            "--tables",
            help="Folder of the tables that the examples were sampled from.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_TABLES,
        ),
    ] = "",
    invalid_rows: Annotated[
        str, typer.Option(help="As for `sample`: `refuse` or `drop`.", rich_help_panel=_TABLES)
    ] = "refuse",
    duplicate_nodes: Annotated[
        str, typer.Option(help="As for `sample`: `refuse` or `keep_first`.", rich_help_panel=_TABLES)
    ] = "refuse",
    duplicate_edges: Annotated[
        str, typer.Option(help="As for `sample`: `keep`, `refuse` or `keep_first`.", rich_help_panel=_TABLES)
    ] = "keep",
    dangling_edges: Annotated[
        str, typer.Option(help="As for `sample`: `refuse` or `drop`.", rich_help_panel=_TABLES)
    ] = "refuse",
    max_dropped_share: Annotated[
        float | None, typer.Option(help="As for `sample`.", show_default=False, rich_help_panel=_TABLES)
    ] = None,
    schema_file: arguments.SchemaFile = SCHEMA_FILE,
    allow_outside_files: arguments.AllowOutsideFiles = False,
    max_record_mib: arguments.MaxRecordMib = 16,
    earlier_examples_dirs: Annotated[
        list[str] | None,
        typer.Option(
            "--earlier-examples-dir",
            help="Raw graph tf.Examples of an earlier span, of which statistics are taken too; repeat for several, in "
            "order.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
    ] = None,
    analyzer_cache_dir: Annotated[
        str,
        typer.Option(
            help="What an earlier run wrote to its --updated-analyzer-cache-dir: spans in it are not read.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
    ] = "",
    updated_analyzer_cache_dir: Annotated[
        str,
        typer.Option(
            help="Where to keep the statistics of these spans for the next run.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
    ] = "",
    pre_transform_stats_dir: Annotated[
        str,
        typer.Option(
            help="Where to write statistics of the raw features, every item once.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    post_transform_stats_dir: Annotated[
        str,
        typer.Option(
            help="Where to write statistics of the transformed features, every item once.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    nonfinite_features: Annotated[
        list[str] | None,
        typer.Option(
            "--nonfinite-feature",
            help="Transformed feature, as 'nodes/item.x', that may be NaN or infinite; repeat for several.",
            show_default=False,
        ),
    ] = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Transform features by full-pass statistics in which every node and edge counts once."""
    from tfx_gnn.components.graph_transform.options import GraphTransformOptions
    from tfx_gnn.components.graph_transform.stage import transform_graphs
    from tfx_gnn.tables.row_rules import RowRules

    arguments.check_dropped_share(max_dropped_share, invalid_rows, dangling_edges)
    access = TableAccess(
        schema_file=schema_file, allow_outside_files=allow_outside_files, max_record_mib=max_record_mib
    )
    if access != TableAccess() and not tables_dir:
        raise ValueError(
            "`--schema-file`, `--allow-outside-files` and `--max-record-mib` must go with `--tables`, which they are "
            f"about; got {schema_file}, {allow_outside_files} and {max_record_mib} alone. Add it, or leave them out."
        )
    # Whether a text is one of the choices is checked by the options, as for every caller.
    rules: dict[str, Any] = {
        "invalid_rows": invalid_rows,
        "duplicate_nodes": duplicate_nodes,
        "duplicate_edges": duplicate_edges,
        "dangling_edges": dangling_edges,
    }
    how: dict[str, Any] = {"analyze": analyze}
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        transform_graph_dir=transform_graph_dir,
        transformed_examples_dir=transformed_examples_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        options=GraphTransformOptions(
            preprocessing_fn=preprocessing_fn,
            analyze_splits=tuple(analyze_splits or ("train",)),
            rules=RowRules(max_dropped_share=max_dropped_share, **rules),
            access=access,
            nonfinite_features=tuple(nonfinite_features or ()),
            **how,
        ),
        tables_dir=tables_dir,
        earlier_examples_dirs=tuple(earlier_examples_dirs or ()),
        analyzer_cache_dir=analyzer_cache_dir,
        updated_analyzer_cache_dir=updated_analyzer_cache_dir,
        pre_transform_stats_dir=pre_transform_stats_dir,
        post_transform_stats_dir=post_transform_stats_dir,
        beam_args=tuple(beam_args or ()),
    )
    more = {
        "pre_transform_stats": pre_transform_stats_dir,
        "post_transform_stats": post_transform_stats_dir,
        "updated_analyzer_cache": updated_analyzer_cache_dir,
    }
    arguments.say_written(
        transform_graph=transform_graph_dir,
        transformed_examples=transformed_examples_dir,
        transformed_graph_schema=transformed_graph_schema_dir,
        **{name: folder for name, folder in more.items() if folder},
    )

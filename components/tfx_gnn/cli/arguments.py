"""Options that several verbs share, and how verbs report what they wrote."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

console = Console(highlight=False)
"""Where verbs print their results."""


_TABLES = "Files of the tables"


def folder(help_text: str) -> Any:
    """Declares an option that names a folder."""
    return typer.Option(help=help_text, show_default=False, metavar="FOLDER")


Examples = Annotated[str, folder("Raw graph tf.Examples: the output of `sample`.")]
TransformedExamples = Annotated[str, folder("Transformed graph tf.Examples: an output of `transform`.")]
GraphSchema = Annotated[
    str, folder("Folder of `graph_schema.pbtxt` before the transform: made by `schema`; or a file.")
]
TransformedGraphSchema = Annotated[str, folder("Folder of `graph_schema.pbtxt` after the transform; or a file.")]
Model = Annotated[str, folder("Trained model: an output of `train`.")]
Splits = Annotated[
    list[str] | None,
    typer.Option("--split", help="Split to read; repeat for several. All if not given.", show_default=False),
]
BeamArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--beam-arg",
        help="Argument of Apache Beam, such as `--beam-arg=--runner=DataflowRunner`; repeat for several.",
        show_default=False,
    ),
]

SchemaFile = Annotated[
    str,
    typer.Option(
        "--schema-file",
        help="Name of the schema of the tables, relative to their folder.",
        metavar="FILE",
        rich_help_panel=_TABLES,
    ),
]
AllowOutsideFiles = Annotated[
    bool,
    typer.Option(
        "--allow-outside-files",
        help="Let the schema name files outside of the tables folder: by an absolute path, `..` or a symbolic link.",
        rich_help_panel=_TABLES,
    ),
]
MaxRecordMib = Annotated[
    int,
    typer.Option(
        "--max-record-mib",
        help="Most that one record of a table may hold, in MiB; bounds the memory of reading.",
        rich_help_panel=_TABLES,
    ),
]

TaskKind = Annotated[
    str,
    typer.Option(
        help="What is predicted: 'node_classification', 'graph_classification', 'node_regression', "
        "'graph_regression' or 'link_prediction'."
    ),
]
LabelFeature = Annotated[
    str,
    typer.Option(
        help="Label feature of node set `_readout`, or of the context for tasks about graphs.", show_default=False
    ),
]
ClassVocabulary = Annotated[
    str,
    typer.Option(help="`vocab_filename` of the vocabulary that made the class index of the label.", show_default=False),
]


def say_written(**folders: str) -> None:
    """Prints where the outputs of a verb are."""
    for name, path in folders.items():
        console.print(f"{name:<25} {path}", markup=False, soft_wrap=True)


def check_dropped_share(share: float | None, invalid_rows: str, dangling_edges: str) -> None:
    """Refuses a share of rows that may be dropped where nothing is; None if none was given."""
    if share and "drop" not in (invalid_rows, dangling_edges):
        raise ValueError(
            "`--max-dropped-share` must go with `--dangling-edges drop` or `--invalid-rows drop`, which say what may "
            f"be dropped; got {share} alone. Add one of them."
        )

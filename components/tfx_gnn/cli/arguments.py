"""Options that several verbs share, and how they report what they wrote."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

console = Console(highlight=False)
"""Where verbs print their results."""


def folder(help_text: str) -> Any:
    """Declares an option that names a folder.

    Args:
        help_text: what the folder holds, or will hold.

    Returns:
        The option, for an `Annotated` parameter.
    """
    return typer.Option(help=help_text, show_default=False, metavar="FOLDER")


Examples = Annotated[str, folder("Raw graph tf.Examples: the output of `sample`.")]
TransformedExamples = Annotated[str, folder("Transformed graph tf.Examples: an output of `transform`.")]
GraphSchema = Annotated[str, folder("Folder of `graph_schema.pbtxt` before the transform: an output of `schema`.")]
TransformedGraphSchema = Annotated[str, folder("Folder of `graph_schema.pbtxt` after the transform.")]
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
    """Prints where the outputs of a verb are.

    Args:
        **folders: path by name of the output.
    """
    for name, path in folders.items():
        console.print(f"{name:<25} {path}", markup=False, soft_wrap=True)

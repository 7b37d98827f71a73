"""The command `embed`: embeddings of examples as files for nearest-neighbor search."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.io.progress import progress


def embed(
    *,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version is used), a trained model, or a SavedModel.")
    ],
    examples: Annotated[
        str,
        typer.Option(
            help="Raw graph tf.Examples: a TFRecord file, or the folder of a split such as examples/Split-test.",
            show_default=False,
            metavar="PATH",
        ),
    ],
    embeddings_dir: Annotated[str, arguments.folder("Where to write the embeddings.")],
    output: Annotated[
        str,
        typer.Option(
            help="Which embeddings, if the model has several: 'source_embedding' or 'target_embedding' of links; "
            "'TASK/embedding' of several tasks.",
            show_default=False,
        ),
    ] = "",
    file_format: Annotated[
        str, typer.Option("--format", help="'npy' (embeddings.npy and ids.npy) or 'parquet' (embeddings.parquet).")
    ] = "npy",
    limit: Annotated[int, typer.Option(help="Examples to embed; 0 for all.", min=0)] = 0,
) -> None:
    """Write the embeddings of examples with their original ids, as FAISS and ScaNN take them."""
    from tfx_gnn.serving.embedding_files import write_embeddings
    from tfx_gnn.serving.prediction import read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    records = itertools.islice(read_records(examples), limit or None)
    with progress("embedding", unit="examples") as advance:
        manifest = write_embeddings(
            saved_model_dir, _counted(records, advance), embeddings_dir, output=output, file_format=file_format
        )
    arguments.console.print(
        f"{manifest.num_embeddings} embeddings of width {manifest.dimension}, normalization "
        f"'{manifest.normalization}'; {manifest.num_repeated} more of the same ids were left out",
        markup=False,
    )
    arguments.say_written(embeddings=embeddings_dir)


def _counted(records: Iterable[bytes], advance: Callable[[], None]) -> Iterator[bytes]:
    for record in records:
        yield record
        advance()

"""The command `serve`: a pushed model over HTTP."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.serving.server.options import ServerOptions


@flags_of_options(ServerOptions, shown=("host", "port", "model_name", "token_file", "access_log"))
def serve(
    *,
    model_dir: Annotated[
        str,
        arguments.folder("A push destination, whose new versions take over when they appear; or a single model."),
    ],
    graph_index_dir: Annotated[
        str,
        arguments.folder(
            "A graph index, the output of `index`, or a folder of numbered ones, the newest of which answers: requests "
            "may then name nodes by their ids, and their subgraphs are sampled by the plan of the training."
        ),
    ] = "",
    overlay: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="File of nodes and edges on top of the graph index, begun if there is none; it moves to the next "
            "index that is built from it. With it, whoever has a token for writing may add to the graph; without "
            "`--token-file`, whoever reaches the server.",
        ),
        FOLDED,
    ] = "",
    embeddings_dir: Annotated[
        str,
        arguments.folder(
            "Stored embeddings, the output of `embed`, or a folder of numbered ones, the newest of which answers: by "
            "id, without the model, and which nodes are nearest."
        ),
    ] = "",
    options: ServerOptions,
) -> None:
    """Serve a model over HTTP, in the protocols of KServe (Open Inference) and TensorFlow Serving.

    Describes itself at /docs. Runs until SIGTERM or Ctrl-C.
    """
    from tfx_gnn.serving.server.process import log_to_stderr, serve_model

    log_to_stderr(access_log=options.access_log)
    serve_model(
        model_dir,
        options=options,
        graph_index_dir=graph_index_dir,
        overlay=overlay,
        embeddings_dir=embeddings_dir,
        started=lambda url: typer.echo(f"serving model '{options.model_name}' at {url}; see {url}/docs"),
        suggested=lambda line: typer.echo(f"ask it:\n{line}"),
    )
    # All requests are answered. The interpreter would now wait for the thread that loads a version, to the end of the
    # load, and for TensorFlow to free its models: many seconds, in which nothing is written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

"""`tfx-gnn`: every stage from the shell, and predictions from a pushed model.

Each command is a thin wrapper around one stage, which it imports only when it
runs: `tfx-gnn predict` needs TensorFlow but not Beam.
"""

try:
    import rich as _rich  # noqa: F401
    import typer as _typer  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"`tfx-gnn` must have {error.name!r} installed; got none. Install tfx-gnn with its extra 'cli'.",
        name=error.name,
    ) from error

from tfx_gnn.cli.app import app, main

__all__ = ["app", "main"]

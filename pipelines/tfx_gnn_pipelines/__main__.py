"""`python -m tfx_gnn_pipelines` is `tfx-gnn run`."""

import sys

from tfx_gnn.io.quiet_libraries import quiet_start

# Must run before the imports that print messages.
if "--debug" not in sys.argv:
    quiet_start()

try:
    from tfx_gnn.io.plain_console import escape_what_cannot_be_encoded
    from tfx_gnn_pipelines.command import app
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"`tfx_gnn_pipelines` must have {error.name!r} installed; got none. Install tfx-gnn with its extra 'tfx'.",
        name=error.name,
    ) from error

if __name__ == "__main__":
    escape_what_cannot_be_encoded()
    app(prog_name="python -m tfx_gnn_pipelines")

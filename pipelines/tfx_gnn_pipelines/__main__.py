"""`python -m tfx_gnn_pipelines TASK`: see `--help`."""

import sys

from tfx_gnn.cli.quiet_start import quiet_start

# Before the imports that make the messages.
if "--debug" not in sys.argv:
    quiet_start()

from tfx_gnn_pipelines.command import app

if __name__ == "__main__":
    app(prog_name="python -m tfx_gnn_pipelines")

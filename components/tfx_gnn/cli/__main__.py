"""`python -m tfx_gnn.cli` is `tfx-gnn`."""

from tfx_gnn.cli.app import main

main()

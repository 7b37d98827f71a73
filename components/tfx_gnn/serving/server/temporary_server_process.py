"""Serves a model by the ids of a graph index until stdin ends: when the process that started this one says so, or dies.

`temporary_server` runs this file as a script, in a new interpreter. The first line of output is the URL.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

MODEL_NAME = "model"
ANSWER_SECONDS = 300.0
"""Longest time for an answer. The first may need compilation, and the machine may be busy."""


def main(argv: Sequence[str]) -> None:
    """Serves the model in the first argument with the graph index in the second."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    from tfx_gnn.serving.server.options import ServerOptions
    from tfx_gnn.serving.server.process import log_to_stderr, serve_model

    model_dir, graph_index_dir = argv
    log_to_stderr(access_log=False)
    options = ServerOptions(
        port=0, model_name=MODEL_NAME, num_versions=1, poll_seconds=3600.0, timeout_seconds=ANSWER_SECONDS
    )
    try:
        serve_model(model_dir, options=options, graph_index_dir=graph_index_dir, started=_say)
    except (OSError, ValueError) as error:
        sys.exit(f"{error}")  # Without a traceback: the log's end is shown to a person.


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    # Not by `sys.stdin`, whose lock the end of the interpreter would wait for.
    while os.read(0, 1):
        pass
    # At once: nobody waits for an answer.
    os._exit(0)


if __name__ == "__main__":
    # An isolated interpreter finds installed packages alone, but this one may be elsewhere.
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    main(sys.argv[1:])

"""Runs a script as the tasks of a cluster; what it imports is imported once, before the tasks are forked.

Argument: JSON with `script`, `arguments`, `environments` by name of task, `waited_for` (names), and `folder`, which
gets `<name>.out` and `<name>.err`. Prints how each task ended as JSON by name; none, if it had to be killed.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from fault_processes import ForkedProcess
from tensorflow.python.eager import context

_POLL_SECONDS = 0.05


def _run(script: str, arguments: list[str], out: Path) -> None:
    with out.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def main(task: dict[str, Any]) -> dict[str, int | None]:
    """Runs the tasks until those have ended that are waited for, or one of them has failed."""
    script, folder = task["script"], Path(task["folder"])
    sys.path.insert(0, str(Path(script).parent))
    importlib.import_module(Path(script).stem)
    if context.context()._initialized:
        raise RuntimeError(f"`script` must run no operation on import: its threads are lost in a fork; got {script!r}.")
    # As in conftest.py: tracing makes many objects that live on, and those of the imports do in every task.
    gc.set_threshold(500_000, 20, 20)
    gc.freeze()
    processes = {
        name: ForkedProcess(
            name,
            functools.partial(_run, script, task["arguments"], folder / f"{name}.out"),
            env,
            folder / f"{name}.err",
        )
        for name, env in task["environments"].items()
    }
    try:
        for process in processes.values():
            process.start()
        waited_for = [processes[name] for name in task["waited_for"]]
        while True:
            is_running = [process.is_running for process in waited_for]
            if not any(is_running) or any(process.exit_code for process in waited_for):
                break
            time.sleep(_POLL_SECONDS)
        codes = {name: None if process.is_running else process.exit_code for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.end()
    return codes


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")

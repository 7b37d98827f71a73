"""Moves an overlay to the next index in processes, each of which is killed before another change of the disk.

Argument: a folder with the overlay `overlay.log` of the index `1`, and with `2`, which was built from both. A process
works in a copy of the overlay, `<kind of move>-<number of changes>/overlay.log`, until it is killed there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay

CHANGES = ("fsync", "pwrite", "link", "replace", "remove", "ftruncate")
"""Functions of `os` that change the disk, or make a change last."""
MORE = {"b.c/d": {"#id": [900]}}


def _die_before(number: int) -> None:
    """Ends this process before its n-th change from now on, counted from 0."""
    left = number

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return function(*args, **kwargs)

        return change

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


def move_while_open(folder: str, path: str, number: int) -> None:
    """Moves an overlay that is open, and adds a node."""
    with open_graph_overlay(open_graph_index(os.path.join(folder, "1")), path) as overlay:
        _die_before(number)
        overlay.move_to(open_graph_index(os.path.join(folder, "2")))
        overlay.add(nodes=MORE)


def move_at_opening(folder: str, path: str, number: int) -> None:
    """Opens the overlay with the next index, and adds a node."""
    _die_before(number)
    with open_graph_overlay(open_graph_index(os.path.join(folder, "2")), path) as overlay:
        overlay.add(nodes=MORE)


def main(folder: str) -> None:
    """Forks one process for each change; nothing may have started threads before."""
    # First, all files of the next index are flushed, and their folder.
    num_flushes = len(os.listdir(os.path.join(folder, "2"))) + 1
    for move in (move_while_open, move_at_opening):
        number, status = -1, signal.SIGKILL
        while status:
            number += 1
            path = os.path.join(folder, f"{move.__name__}-{number}", "overlay.log")
            os.mkdir(os.path.dirname(path))
            shutil.copy(os.path.join(folder, "overlay.log"), path)
            child = os.fork()
            if child == 0:
                move(folder, path, num_flushes + number)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if status not in (0, signal.SIGKILL):
                raise RuntimeError(f"`{path}` must be left by a process that ends or is killed; got status {status}.")


if __name__ == "__main__":
    main(*sys.argv[1:])

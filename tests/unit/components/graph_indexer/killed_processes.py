"""Builds a graph index and adds to an overlay, each time in a process that is killed at another point.

Arguments: the folder of tables, a whole index of them, and a folder. A build that is killed at a point writes
`<point>/index` there. Adding nodes writes `<point>.log`, and those that were acknowledged to `<point>.acknowledged`.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

from tfx_gnn.components.graph_indexer import stage
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.io import atomic_folder
from tfx_gnn.sampling.index import files, index_writer
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay import overlay_log
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay

BUILDS: dict[str, tuple[Any, str, bool]] = {
    "tables_are_read": (index_writer, "write_adjacency", False),
    "edges_are_sorted": (index_writer, "write_adjacency", True),
    "manifest_is_not_there": (files, "write_manifest", False),
    "manifest_is_there": (files, "write_manifest", True),
    "folder_has_no_name": (atomic_folder, "commit_folders", False),
    "folder_has_its_name": (atomic_folder, "commit_folders", True),
}
"""Where a function is, its name, and whether it is called before the process dies."""

ADDS = ("half_written", "before_the_flush", "after_the_flush")
_FATAL_FLUSH = 6


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def build(tables_dir: str, index_dir: str, point: str) -> None:
    """Builds an index until a function is reached."""
    place, name, calls_it = BUILDS[point]
    function: Callable[..., Any] = getattr(place, name)

    def die(*args: Any, **kwargs: Any) -> None:
        if calls_it:
            function(*args, **kwargs)
        _die()

    setattr(place, name, die)
    stage.build_graph_index(tables_dir=tables_dir, graph_index_dir=index_dir, options=GraphIndexerOptions())


def add(index_dir: str, path: str, when: str) -> None:
    """Adds nodes until an entry is half written, or written and not yet acknowledged."""
    flushes = 0

    def write(descriptor: int, data: bytes, place: int) -> int:
        if when == "half_written" and flushes == _FATAL_FLUSH:
            os.pwrite(descriptor, data[: len(data) // 2], place)
            _die()
        return os.pwrite(descriptor, data, place)

    def flush(descriptor: int) -> None:
        nonlocal flushes
        if when == "before_the_flush" and flushes == _FATAL_FLUSH:
            _die()
        os.fsync(descriptor)
        if when == "after_the_flush" and flushes == _FATAL_FLUSH:
            _die()
        flushes += 1

    overlay_log.os = types.SimpleNamespace(**{**vars(os), "pwrite": write, "fsync": flush})  # type: ignore[assignment, attr-defined]
    with (
        open_graph_overlay(open_graph_index(index_dir), f"{path}.log") as overlay,
        open(f"{path}.acknowledged", "a", buffering=1) as acknowledged,
    ):
        for node in range(100, 200):
            overlay.add(nodes={"item": {"#id": [node], "price": [0.5]}})
            acknowledged.write(f"{node}\n")


def main(tables_dir: str, index_dir: str, folder: str) -> None:
    """Forks one process for each point; nothing may have started threads before."""
    tasks = {
        point: functools.partial(build, tables_dir, os.path.join(folder, point, "index"), point) for point in BUILDS
    } | {when: functools.partial(add, index_dir, os.path.join(folder, when), when) for when in ADDS}
    for point, task in tasks.items():
        if point in BUILDS:
            os.mkdir(os.path.join(folder, point))
        child = os.fork()
        if child == 0:
            task()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"`{point}` must be reached; got exit status {status}. Look at what is called.")


if __name__ == "__main__":
    main(*sys.argv[1:])

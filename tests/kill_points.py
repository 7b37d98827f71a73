"""Ends a process, or interrupts it, at a chosen call that changes names in the file system.

Each of these calls is a point where a kill leaves another state on the disk. `KillPoints` replaces the functions in
`os`, by which everything else in Python renames and removes files, and TensorFlow's renaming, if that is loaded.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

RENAMES = ("rename", "replace", "link")
REMOVALS = ("remove", "unlink", "rmdir")
WRITES = ("mkdir", "fsync")


def kill() -> None:
    """Ends this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class KillPoints:
    """Counts calls, and acts at one of them.

    Args:
        number: of the call, from 1; 0 to count only.
        when: "before" or "after".
        act: what happens there.
        names: of functions of `os`.
    """

    def __init__(self, number: int, when: str, act: Callable[[], None] = kill, names: Sequence[str] = RENAMES) -> None:
        self.calls: list[str] = []
        self._number, self._when, self._act = number, when, act
        self._replaced: list[tuple[Any, str, Any]] = []
        places: list[tuple[Any, str]] = [(os, name) for name in names]
        if "rename" in names and "tensorflow" in sys.modules:
            places.append((sys.modules["tensorflow"].io.gfile, "rename"))
        for module, name in places:
            self._replaced.append((module, name, getattr(module, name)))
            setattr(module, name, self._counted(name, getattr(module, name)))

    def disarm(self) -> None:
        """Puts the functions back."""
        for module, name, function in self._replaced:
            setattr(module, name, function)

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(f"{name} {args[0]}")
            is_it = len(self.calls) == self._number
            if is_it and self._when == "before":
                self._act()
            result = function(*args, **kwargs)
            if is_it and self._when == "after":
                self._act()
            return result

        return call

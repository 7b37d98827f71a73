"""Hides what native code writes to stderr. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def hidden_stderr(*, show_on_error: bool = True) -> Iterator[None]:
    """Keeps what this process writes to its standard error off the terminal while the context lasts.

    It silences other threads too, so keep it short. What was hidden is shown if an exception leaves the context,
    unless `show_on_error` is False.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            if show_on_error:
                hidden.seek(0)
                with os.fdopen(os.dup(terminal), "wb") as shown:
                    shutil.copyfileobj(hidden, shown)
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)

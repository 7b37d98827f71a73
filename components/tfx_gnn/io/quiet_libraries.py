"""Hides other libraries' messages that users can do nothing about. Imports nothing heavy, because it runs first."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_NOISE = (
    "You are using a non-supported Python version",
    "grpcio <",
    "Support for google-cloud-storage",
    "pkg_resources is deprecated",
)
"""Beginnings of warnings that users of this project can do nothing about."""


def quiet_start() -> None:
    """Silences start-up messages of TensorFlow, TFX, Beam and Google's clients.

    Environment variables that the user set are unchanged.
    """
    # TensorFlow 2.21 writes messages on import that no setting turns off.
    sys.meta_path.insert(0, QuietImport("tensorflow"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for message in _NOISE:
        warnings.filterwarnings("ignore", message=message)
    # Beam workers are separate processes.
    os.environ.setdefault("PYTHONWARNINGS", ",".join(f"ignore:{message}" for message in _NOISE))
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Beam logs an error with its traceback and then raises it.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)


def quiet_first_compilation() -> None:
    """Compiles once with XLA while stderr is hidden, because XLA writes its start-up messages once per process.

    This initializes TensorFlow's devices, so call it after any code that configures them.
    """
    import tensorflow as tf

    with hidden_stderr(), tf.device("CPU"):
        tf.function(lambda: tf.zeros([]), jit_compile=True, autograph=False)()


class QuietImport(importlib.abc.MetaPathFinder):
    """Hides what native code writes to stderr while one module is imported for the first time.

    If the import fails, what was written is shown.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds the module as usual, and wraps its execution."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_quietly(module: ModuleType) -> None:
                with hidden_stderr():
                    execute(module)

            spec.loader.exec_module = execute_quietly  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def hidden_stderr(*, show_on_error: bool = True) -> Iterator[None]:
    """Hides what this process writes to its standard error while the context lasts.

    It also silences other threads, so keep it short. If an exception leaves the context, the hidden output is shown
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

"""A terminal without other people's messages. Imports nothing heavy: it must come first."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import sys
import tempfile
import warnings

_NOISE = (
    "You are using a non-supported Python version",
    "grpcio <",
    "Support for google-cloud-storage",
    "pkg_resources is deprecated",
)
"""Beginnings of warnings that a user of this project can do nothing about."""


def quiet_start() -> None:
    """Silences start-up messages of TensorFlow, TFX, Beam and Google's clients.

    Environment variables that the user set stay as they are.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for message in _NOISE:
        warnings.filterwarnings("ignore", message=message)
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Beam logs an error with its traceback and then raises it.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)


def import_quietly(module: str) -> None:
    """Imports a module without what its native code writes to stderr meanwhile.

    TensorFlow 2.21 writes start-up messages that no setting silences.

    Args:
        module: name of the module.

    Raises:
        Exception: whatever the import raises; what was written is then shown.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            importlib.import_module(module)
        except BaseException:
            os.dup2(terminal, 2)
            hidden.seek(0)
            with os.fdopen(os.dup(terminal), "wb") as shown:
                shutil.copyfileobj(hidden, shown)
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)

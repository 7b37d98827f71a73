"""The versions that are served: which they are, and how a new one takes over."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import time
import weakref

import tensorflow as tf

from tfx_gnn.serving.model_interface import SAVED_MODEL_FILE
from tfx_gnn.serving.server.ids_input import SeedInput
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.refusals import Refusal, shown
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.serving.server.served_version import ServedVersion
from tfx_gnn.serving.versions import complete_versions

_LOG = logging.getLogger(__name__)

_SECONDS_BEFORE_RETRY = 60.0
"""A version that failed is tried again after that: the reason may have been a store or a lack of memory."""


class ModelVersions:
    """The newest versions of a folder that load, at most `num_versions`; the newest is the current one.

    With a graph, a version loads only if it can be asked by ids of its nodes.

    `refresh` follows the folder. A newer version takes over when it is loaded and warmed up; the one before stays as
    the previous one, and older ones are dropped. A version that fails is skipped. A version whose folder is removed is
    dropped, so the newest of the rest is current again. While the folder is empty or unreadable, nothing changes.

    Requests hold the version that they ask, which is freed when the last of them is answered. Attributes may be read
    from any thread; only one thread may call `refresh`.
    """

    def __init__(
        self, model_dir: str, num_versions: int, metrics: ServerMetrics, *, graph: ServedGraph | None = None
    ) -> None:
        self._model_dir, self._num_versions, self._metrics, self._graph = model_dir, num_versions, metrics, graph
        self._failed: dict[int, tuple[object, float, str]] = {}
        self._dropped: list[weakref.ref[object]] = []
        self._has_garbage = False
        self.served: tuple[ServedVersion, ...] = ()
        """Versions from the newest to the oldest; replaced as a whole."""

    @property
    def failures(self) -> dict[int, str]:
        """Why versions of the folder could not be loaded."""
        return {version: message for version, (_, _, message) in self._failed.items()}

    def find(self, version: str | None) -> ServedVersion:
        """Finds a version by the text of its number; None for the current one.

        Raises:
            Refusal: if it is not served.
        """
        served = self.served
        for one in served:
            if version is None or str(one.version) == version:
                return one
        raise Refusal(
            404,
            "unknown_version",
            f"The version must be one of {[one.version for one in served]}; got {shown(version)}. Name one of these, "
            "or none for the newest.",
        )

    def refresh(self) -> None:
        """Loads and drops versions until those served are those of the folder; blocks meanwhile."""
        self._follow_folder()
        self._free_dropped()

    def _free_dropped(self) -> None:
        """Frees versions that were dropped, or failed to load, unless requests still hold them.

        What TensorFlow loads is full of reference cycles, which wait for a full collection. Python makes one when the
        new objects are a quarter of the old ones, that is after several versions of some ten megabytes each.
        """
        if self._has_garbage or any(reference() is not None for reference in self._dropped):
            gc.collect()
            _give_memory_back()
        self._has_garbage = False
        self._dropped = [reference for reference in self._dropped if reference() is not None]

    def _follow_folder(self) -> None:
        try:
            folders = complete_versions(self._model_dir)
            identities = {version: _identity(folder) for version, folder in folders.items()}
        except (OSError, ValueError, tf.errors.OpError) as error:
            self._metrics.watch_failures.inc()
            _LOG.error("`%s` cannot be searched for versions; nothing changes: %s", self._model_dir, error)
            return
        if not folders and self.served:
            self._metrics.watch_failures.inc()
            _LOG.error("`%s` holds no version any more; nothing changes.", self._model_dir)
            return
        self._failed = {number: failure for number, failure in self._failed.items() if number in folders}
        kept = {one.version: one for one in self.served if identities.get(one.version) == one.identity}
        wanted: list[ServedVersion] = []
        for number in sorted(folders, reverse=True):
            version = kept.get(number) or self._load(number, folders[number], identities[number])
            if version is not None:
                wanted.append(version)
                # It answers at once, before older ones are loaded.
                self._serve([*wanted, *(one for one in self.served if one.version < number)])
            if len(wanted) == self._num_versions:
                break
        if wanted:
            self._serve(wanted)

    def _load(self, number: int, folder: str, identity: object) -> ServedVersion | None:
        failed_identity, failed_at, _ = self._failed.get(number, (None, 0.0, ""))
        if failed_identity == identity and time.monotonic() < failed_at + _SECONDS_BEFORE_RETRY:
            return None
        start = time.monotonic()
        try:
            seeds = None if self._graph is None else SeedInput(self._graph, folder, self._metrics)
            version = ServedVersion(folder, version=number, identity=identity, seeds=seeds)
        except Exception as error:  # noqa: BLE001 - whatever a damaged model raises, the others go on.
            self._metrics.load_failures.inc()
            self._has_garbage = True
            message = f"{type(error).__name__}: {error}"
            # Replaced as a whole, since requests read it meanwhile.
            self._failed = {**self._failed, number: (identity, time.monotonic(), message)}
            _LOG.error("Version %d cannot be loaded from `%s`: %s", number, folder, message)
            return None
        self._failed = {other: failure for other, failure in self._failed.items() if other != number}
        self._metrics.load_seconds.set(time.monotonic() - start)
        _LOG.info("Version %d is loaded from `%s`.", number, folder)
        return version

    def _serve(self, versions: list[ServedVersion]) -> None:
        old, before = self.served, self.served[0] if self.served else None
        self.served = tuple(versions[: self._num_versions])
        self._dropped += [one.graph for one in old if one not in self.served]
        current = self.served[0]
        self._metrics.current_version.set(current.version)
        self._metrics.versions.set(len(self.served))
        if current is not before:
            if before is not None:
                self._metrics.swaps.inc()
            _LOG.info("Version %d answers from now on%s.", current.version, f", not {before.version}" if before else "")


def _give_memory_back() -> None:
    """Gives freed memory to the system, where the C library keeps it otherwise, as glibc does in each thread's heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _identity(folder: str) -> object:
    """Distinguishes a version from one with the same number that was pushed after it was removed."""
    found = tf.io.gfile.stat(os.path.join(folder, SAVED_MODEL_FILE))
    return found.length, found.mtime_nsec

"""Answers from embeddings that were stored before, for as long as their age is within its bound.

    POST /v1/models/shop:embed     {"ids": ["u1", "u2"]}
    POST /v1/models/shop:nearest   {"id": "u1", "k": 2}, or {"embedding": [0.5, ...], "k": 2}

are answered by

    {"embeddings": [[0.5, ...], [0.1, ...]], "output": "embedding", "model_version": "3", "created_at": "2026-..."}
    {"nearest": [{"id": "u7", "score": 0.98}, {"id": "u4", "score": 0.91}], ...}

Scores are inner products with all stored embeddings. Nothing is sampled, and no model is called.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving.embedding_files import MANIFEST_FILE, EmbeddingManifest, read_embeddings
from tfx_gnn.serving.server.ids_input import read_id
from tfx_gnn.serving.server.json_values import plain_rows, read_object
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed, shown
from tfx_gnn.serving.server.served_version import ServedVersion
from tfx_gnn.serving.server.watched_folder import WatchedFolder

_LOG = logging.getLogger(__name__)
_NUM_NEAREST = 10
_LARGEST = float(np.finfo(np.float32).max)
_CLOCK_SECONDS = 60.0
"""How far the clock of the machine that made embeddings may be ahead."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredVectors:
    """Embeddings of one folder, with the rows of ids in order."""

    manifest: EmbeddingManifest
    created_at: dt.datetime
    ids: npt.NDArray[Any]
    vectors: npt.NDArray[np.float32]
    order: npt.NDArray[np.int64]

    @property
    def age_seconds(self) -> float:
        """Time since they were begun; negative if that is ahead of this machine's clock."""
        return (dt.datetime.now(dt.timezone.utc) - self.created_at).total_seconds()

    def row_of(self, value: Any, place: str, max_id_bytes: int) -> int:
        """Finds the row of an id in a request."""
        is_integer = self.ids.dtype.kind != "U"
        wanted = read_id(value, is_integer=is_integer, max_bytes=max_id_bytes, place=place, owner="the embeddings")
        # NumPy would make all ids as long as the one that is looked for.
        is_longer = isinstance(wanted, str) and len(wanted) > self.ids.dtype.itemsize // np.dtype("U1").itemsize
        position = len(self.ids) if is_longer else int(np.searchsorted(self.ids, wanted, sorter=self.order))
        row = int(self.order[position]) if position < len(self.order) else -1
        if row < 0 or self.ids[row] != wanted:
            raise Refusal(
                404,
                "unknown_id",
                f"`{place}` must be an id with a stored embedding; got {shown(wanted)}. Correct it, or ask the model "
                "itself, by `signature_name` 'embeddings'.",
            )
        return row

    def nearest(
        self, vector: npt.NDArray[np.float32], count: int, *, without: int, place: str
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Returns the rows with the largest inner products, except one if it is not -1, and these."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.vectors @ vector
        if not np.isfinite(scores).all():
            raise malformed(
                f"`{place}` must have finite inner products with all stored embeddings; got one beyond float32. Scale "
                "the vector down."
            )
        if without >= 0:
            scores[without] = -np.inf
        best = _largest(scores, min(count, len(scores) - (without >= 0)))
        return best, scores[best]

    def ids_of_nearest(self, vector: npt.NDArray[np.float32], count: int) -> list[str | int]:
        """Returns the ids with the largest inner products with the embedding of a source."""
        best, _ = self.nearest(vector, count, without=-1, place="source")
        found: list[str | int] = self.ids[best].tolist()
        return found


class StoredEmbeddings:
    """The newest embeddings of a folder, which are followed by `refresh`.

    They answer only while a version of the model that made them is served, and they are not older than the bound.
    """

    def __init__(self, path: str, options: ServerOptions, metrics: ServerMetrics) -> None:
        """Takes a folder of embeddings, or one of numbered ones."""
        self._path, self._options, self._metrics = path, options, metrics
        self._folder = WatchedFolder(path, MANIFEST_FILE, what="embeddings", metrics=metrics)
        self._stored: StoredVectors | None = None

    def refresh(self, versions: Sequence[ServedVersion]) -> None:
        """Reads the newest folder that can be read, if it is another one; blocks meanwhile."""
        try:
            for version in versions:
                _ = version.fingerprint  # Now: the folder may be removed while the version is served.
        except Exception as error:  # noqa: BLE001 - whatever the file system raises, the server goes on.
            self._metrics.watch_failures.inc()
            _LOG.error("The embeddings in `%s` cannot be compared with a version: %s", self._path, error)
            return
        self._folder.take_newest(self._take)

    def _take(self, folder: str) -> None:
        self._stored = stored = _read_stored(folder)
        self._metrics.embeddings_created.set(stored.created_at.timestamp())
        _LOG.info("%d embeddings of `%s` answer from now on.", len(stored.ids), folder)

    def check(self, versions: Sequence[ServedVersion]) -> tuple[StoredVectors, ServedVersion]:
        """Returns the embeddings and the version that made them.

        Raises:
            Refusal: if there are none, they are too old or from the future, or another model made them.
        """
        stored, bound = self._stored, self._options.max_embedding_age_seconds
        if stored is None:
            raise _unavailable(f"The server must have embeddings; got none in {self._path!r}. Embed the examples.")
        age = stored.age_seconds
        if age > bound:
            raise _unavailable(
                f"Stored embeddings must be at most {bound:g} s old; got some of {stored.manifest.created_at}, "
                f"{age:.0f} s ago. Embed the examples again, or raise `--max-embedding-age-seconds`."
            )
        if age < -_CLOCK_SECONDS:
            raise _unavailable(
                f"Stored embeddings must be from the past, so that their age is known; got some of "
                f"{stored.manifest.created_at}, {-age:.0f} s ahead. Set the clocks of both machines, and embed the "
                "examples again."
            )
        for version in versions:
            if version.fingerprint == stored.manifest.model_fingerprint:
                return stored, version
        raise _unavailable(
            f"Stored embeddings must be of one of the versions {[one.version for one in versions]}, which are served; "
            f"got those of model {stored.manifest.model_fingerprint[:12]}. Embed the examples with the newest version."
        )

    def describe(self, versions: Sequence[ServedVersion]) -> dict[str, Any]:
        """Says which embeddings these are, how old, and whether they answer; if not, why."""
        stored, found = self._stored, {}
        if stored is not None:
            found = {
                "count": len(stored.ids),
                "dimension": stored.manifest.dimension,
                "output": stored.manifest.output,
                "model_fingerprint": stored.manifest.model_fingerprint,
                "created_at": stored.manifest.created_at,
                "age_seconds": round(stored.age_seconds),
            }
        try:
            self.check(versions)
        except Refusal as refusal:
            return {"ready": False, "reason": refusal.message, **found}
        return {"ready": True, **found}

    def embed(self, body: bytes, versions: Sequence[ServedVersion]) -> dict[str, Any]:
        """Answers `:embed`."""
        stored, version = self.check(versions)
        content = _fields(body, {"ids"}, {"ids"})
        ids = content["ids"]
        if not isinstance(ids, list) or not 1 <= len(ids) <= self._options.max_examples:
            raise malformed(
                f"`ids` must be a list of 1 to {self._options.max_examples} ids; got {shown(ids)}. Name those whose "
                "embeddings you want, in several requests if there are more."
            )
        rows = [stored.row_of(value, f"ids[{number}]", self._options.max_id_bytes) for number, value in enumerate(ids)]
        return {"embeddings": plain_rows(stored.vectors[rows]), **origin_of(stored, version)}

    def nearest(self, body: bytes, versions: Sequence[ServedVersion]) -> dict[str, Any]:
        """Answers `:nearest`: the ids with the largest inner products; a node is not near itself."""
        stored, version = self.check(versions)
        content = _fields(body, {"id", "embedding", "k"}, set())
        if ("id" in content) == ("embedding" in content):
            raise malformed(
                f"The body must have 'id' or 'embedding'; got {sorted(content)}. Name a node, or give a vector."
            )
        count = content.get("k", min(_NUM_NEAREST, self._options.max_examples))
        if type(count) is not int or not 1 <= count <= self._options.max_examples:
            raise malformed(
                f"`k` must be an integer in [1, {self._options.max_examples}]; got {shown(count)}. Say how many."
            )
        own = stored.row_of(content["id"], "id", self._options.max_id_bytes) if "id" in content else -1
        asked = stored.vectors[own] if own >= 0 else _vector(content["embedding"], stored.manifest.dimension)
        best, scores = stored.nearest(asked, count, without=own, place="embedding" if own < 0 else "id")
        found = [
            {"id": node_id, "score": score}
            for node_id, score in zip(stored.ids[best].tolist(), plain_rows(scores), strict=True)
        ]
        return {"nearest": found, **origin_of(stored, version)}


def _read_stored(folder: str) -> StoredVectors:
    found = read_embeddings(folder)
    if not np.isfinite(found.vectors).all():
        row = int(np.flatnonzero(~np.isfinite(found.vectors).all(axis=1))[0])
        raise ValueError(
            f"`{folder}` must hold finite embeddings; got NaN or infinity for {found.ids[row].item()!r}. Train the "
            "model so that it gives none, and embed the examples again."
        )
    order = np.argsort(found.ids, kind="stable")
    repeated = np.flatnonzero(found.ids[order][1:] == found.ids[order][:-1])
    if len(repeated):
        raise ValueError(
            f"`{folder}` must hold one embedding for each id; got two for {found.ids[order][repeated[0]].item()!r}. "
            "Embed the examples again."
        )
    return StoredVectors(
        manifest=found.manifest,
        created_at=dt.datetime.fromisoformat(found.manifest.created_at),
        ids=found.ids,
        vectors=found.vectors,
        order=order,
    )


def _largest(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """Returns the rows of the largest scores, and among equal ones the first, without sorting all."""
    if count == 0:
        return np.zeros([0], np.int64)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    rows = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


def _fields(body: bytes, allowed: set[str], needed: set[str]) -> dict[str, Any]:
    content = read_object(body)
    if not needed <= set(content) <= allowed:
        raise malformed(f"The body must have keys among {sorted(allowed)}; got {sorted(content)[:10]}. See /docs.")
    return content


def _vector(value: Any, dimension: int) -> npt.NDArray[np.float32]:
    is_vector = (
        isinstance(value, list)
        and len(value) == dimension
        and all(type(one) in (int, float) and abs(one) <= _LARGEST for one in value)
    )
    if not is_vector:
        raise malformed(f"`embedding` must be a list of {dimension} finite numbers; got {shown(value)}. Correct it.")
    return np.asarray(value, np.float32)


def origin_of(stored: StoredVectors, version: ServedVersion) -> dict[str, Any]:
    """Says of an answer which embeddings it is from."""
    return {
        "output": stored.manifest.output,
        "model_version": str(version.version),
        "created_at": stored.manifest.created_at,
    }


def _unavailable(message: str) -> Refusal:
    return Refusal(503, "no_embeddings", message)

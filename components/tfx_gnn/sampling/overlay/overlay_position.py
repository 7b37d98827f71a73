"""Which rows of an overlay an index contains, and so which index an overlay can move to.

The header of a log names the index to which its rows belong. The manifest of an index that was built from an overlay
names the log, and the position up to which it contains the rows.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from tfx_gnn.sampling.index.files import OverlayPosition
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.overlay.overlay_log import LogReader

_FORMAT_VERSION = 1
_NUM_DIGITS = 12


def header_of(index: GraphIndex) -> bytes:
    """Returns the header of the log of an index."""
    header: dict[str, Any] = {"format_version": _FORMAT_VERSION, "fingerprint": index.fingerprint}
    if index.manifest.overlay is not None:
        header["index_has_added_rows"] = True
    return json.dumps(header).encode()


def is_log_of(log: LogReader, index: GraphIndex) -> bool:
    """Returns whether the rows of a log belong to an index."""
    return _header(log, index)["fingerprint"] == index.fingerprint


def position_of_end(log: LogReader) -> OverlayPosition:
    """Returns the position behind all entries of a log."""
    return OverlayPosition(
        fingerprint=json.loads(log.header)["fingerprint"],
        num_entries=log.num_entries,
        num_bytes=log.num_bytes,
        sha256=log.digest(log.num_bytes),
    )


def kept_path(log: LogReader) -> str:
    """Names the file that keeps a log after its overlay moved to another index."""
    return f"{log.path}.{json.loads(log.header)['fingerprint'][:_NUM_DIGITS]}"


def check_overlay_fits(index: GraphIndex, path: str) -> None:
    """Checks that `open_graph_overlay` opens an overlay with an index, as far as the index decides; changes nothing.

    Raises:
        ValueError: if the index lacks rows of the overlay, and does not say which; or the log is damaged.
    """
    if os.path.isfile(path):
        with contextlib.closing(LogReader(path)) as log:
            if log.header:
                start_of_missing(log, index)


def start_of_missing(log: LogReader, index: GraphIndex) -> int:
    """Returns the position in a log where the rows begin that an index lacks.

    Raises:
        ValueError: if the log is that of another index, of which this one is no successor.
    """
    header, contained = _header(log, index), index.manifest.overlay
    if header["fingerprint"] == index.fingerprint:
        return log.first
    if (
        contained is not None
        and contained.fingerprint == header["fingerprint"]
        and contained.num_bytes <= log.num_bytes
        and contained.sha256 == log.digest(contained.num_bytes)
    ):
        return contained.num_bytes
    if not log.num_entries and "index_has_added_rows" not in header:
        return log.first
    how = "from tables" if contained is None else f"from an overlay of index {contained.fingerprint[:_NUM_DIGITS]}"
    raise ValueError(
        f"`path` must be an overlay of the graph index {index.fingerprint[:_NUM_DIGITS]}, or one whose rows that index "
        f"contains; got {log.path!r}, the overlay of index {header['fingerprint'][:_NUM_DIGITS]}, while "
        f"{index.index_dir!r} was built {how}: rows that were added would be lost. Name the index of the "
        "overlay, or one that was built from both by `tfx-gnn index --base-index-dir INDEX --overlay FILE`; or begin "
        "with another overlay."
    )


def _header(log: LogReader, index: GraphIndex) -> dict[str, Any]:
    if not log.header:
        raise ValueError(
            f"`path` must be an overlay of a graph index, which begins with its header; got {log.path!r}, which does "
            "not. Name the file that `serve --overlay` writes."
        )
    header: dict[str, Any] = json.loads(log.header)
    if header["format_version"] != _FORMAT_VERSION:
        raise ValueError(
            f"`path` must be an overlay of the graph index {index.fingerprint[:_NUM_DIGITS]} in format "
            f"{_FORMAT_VERSION}; got {log.path!r}, one of {header['fingerprint'][:_NUM_DIGITS]} in format "
            f"{header['format_version']}. Open it by the version of the library that wrote it."
        )
    return header

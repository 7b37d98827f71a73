"""Content fingerprints: equal if and only if the bytes are equal."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import tensorflow as tf

_CHUNK_BYTES = 1 << 22


def fingerprint_files(paths: Iterable[str], *, base_name: str = "") -> str:
    """Hashes base names and contents of files, whatever the order they are given in, to 64 hexadecimal digits.

    `base_name` counts instead of the base name of each.
    """
    ordered = sorted(paths, key=lambda path: (os.path.basename(path), path))
    if not ordered:
        raise ValueError("`paths` must name at least one file; got none. Name the data to fingerprint.")
    digest = hashlib.sha256()
    for path in ordered:
        digest.update((base_name or os.path.basename(path)).encode() + b"\0")
        digest.update(_file_digest(path))
    return digest.hexdigest()


def fingerprint_folders(folders: Sequence[str]) -> str:
    """Hashes the files of folders as if these were one: their paths in it, and their contents.

    A folder that does not exist holds nothing. A file that is in several counts as it is in the first of them.
    """
    files: dict[str, str] = {}
    for folder in folders:
        for path, _, names in tf.io.gfile.walk(folder) if tf.io.gfile.exists(folder) else ():
            for name in names:
                place = os.path.join(path, name)
                files.setdefault(os.path.relpath(place, folder), place)
    digest = hashlib.sha256()
    for relative, place in sorted(files.items()):
        digest.update(relative.encode() + b"\0")
        digest.update(_file_digest(place))
    return digest.hexdigest()


def fingerprint_text(text: str) -> str:
    """Hashes a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: str) -> bytes:
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()

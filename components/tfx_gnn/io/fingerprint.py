"""Fingerprints of files: of their contents, or of metadata that change whenever a file does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from typing import IO, Any

from tfx_gnn.io.text_files import check_regular_file

_CHUNK_BYTES = 1 << 22


def fingerprint_files(paths: Iterable[str], *, base_name: str = "") -> str:
    """Hashes the base names and contents of files, in any order, to 64 hexadecimal digits.

    `base_name`, if given, replaces the base name of each file.
    """
    ordered = sorted(paths, key=lambda path: (os.path.basename(path), path))
    if not ordered:
        raise ValueError("`paths` must name at least one file; got none. Name the data to fingerprint.")
    digest = hashlib.sha256()
    for path in ordered:
        digest.update((base_name or os.path.basename(path)).encode() + b"\0")
        digest.update(_file_digest(path))
    return digest.hexdigest()


def fingerprint_folders(folders: Sequence[str], *, without: Collection[str] = ()) -> str:
    """Hashes the relative paths and contents of the files in folders, as if these were merged into one folder.

    A folder that does not exist counts as empty. If a file is in several folders, the first one's counts. Relative
    paths in `without` do not count. Pipes and devices raise a ValueError.
    """
    from tfx_gnn.io.folder_listing import list_all_files

    files: dict[str, str] = {}
    for folder in folders:
        for name in list_all_files(folder):
            files.setdefault(name, os.path.join(folder, name))
    digest = hashlib.sha256()
    for relative, place in sorted(files.items()):
        if relative in without:
            continue
        digest.update(relative.encode() + b"\0")
        digest.update(_file_digest(place))
    return digest.hexdigest()


def describe_file_version(path: str) -> str:
    """Describes a file so that a later file with other bytes has another description; seldom reads the file.

    The description has the size and the modification time, which object stores set themselves; on local and mounted
    disks also the inode and its change time. So a file that was only moved, copied or restored there counts as changed.
    """
    if (local := path.removeprefix("file://")) != path or "://" not in path:
        found = os.stat(local)
        # `cp -p`, `rsync -t`, image layers and SOURCE_DATE_EPOCH set the modification time, and a table may keep its
        # size when values in it change. Only the kernel sets ctime, at each write and rename. The device is left out:
        # its number may change after a reboot, or if another machine mounts the disk.
        told = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        # Whole seconds are too coarse, or come from a disk image (squashfs, iso9660), whose maker sets the ctime.
        return told if found.st_ctime_ns % 10**9 else f"{told} {_file_digest(local).hex()}"
    # Local files need no TensorFlow.
    import tensorflow as tf

    stored = tf.io.gfile.stat(path)
    return f"{stored.length} {stored.mtime_nsec}"


def describe_folder_version(folder: str, *, without: Collection[str] = ()) -> str:
    """Hashes the relative paths and the versions of all files in a local folder; seldom reads them.

    A later folder with other files, or other bytes in one, has another hash: see `describe_file_version`. Files and
    folders whose names are in `without` do not count, at any depth.

    Raises:
        NotADirectoryError: if there is no such folder.
        ValueError: if a folder inside is a link, behind which there may be anything.
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"`folder` must be a local folder; got {folder!r}, which is none. Check the path.")
    lines = []
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if name not in without]
        for name in folders:
            if os.path.islink(os.path.join(parent, name)):
                raise ValueError(
                    f"`folder` must hold its folders itself; got {folder!r} with the link {name!r} in {parent!r}. Put "
                    "the folder in its place."
                )
        paths = [os.path.join(parent, name) for name in files if name not in without]
        lines += [f"{os.path.relpath(path, folder)}\0{describe_file_version(path)}" for path in paths]
    return fingerprint_text("\n".join(sorted(lines)))


def _raise(error: OSError) -> None:
    raise error


def fingerprint_text(text: str) -> str:
    """Hashes a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: str) -> str:
    """Hashes the contents of a file, to 64 hexadecimal digits (SHA-256)."""
    return _file_digest(path).hex()


def _file_digest(path: str) -> bytes:
    check_regular_file(path)
    digest = hashlib.sha256()
    with _open(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()


def _open(path: str) -> IO[bytes] | Any:
    if (local := path.removeprefix("file://")) != path or "://" not in path:
        return open(local, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")

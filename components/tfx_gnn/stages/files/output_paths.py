"""Where outputs go: checked before any work starts, by the names that the user gave them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

from tfx_gnn.stages.files.process_lock import has_locks


def resolve_outputs(outputs: Mapping[str, str]) -> dict[str, str]:
    """Finds the folders that outputs are to become, following links, and checks that they can be made.

    A link to a folder stands for that folder: it is the folder behind it that is written, and the link stays. Paths
    on object stores are only compared.

    Args:
        outputs: folders to be made, by the names that the user knows them by; none is empty.

    Returns:
        By the same names, the places without links; absolute on local disks.

    Raises:
        ValueError: if an output lies in another one, or is a link to nothing or a place where a disk
            is mounted.
        FileExistsError: if it is a file, or the current folder.
        NotADirectoryError: if a file is where one of its parent folders should be.
        PermissionError: if the folder around it cannot be written.
    """
    places = {name: _resolve_output(name, path) for name, path in outputs.items()}
    for (name, place), (other, other_place) in itertools.combinations(places.items(), 2):
        if _lies_in(place, other_place) or _lies_in(other_place, place):
            raise ValueError(
                f"`{name}` and `{other}` must be two folders, none in the other; got {outputs[name]!r} and "
                f"{outputs[other]!r}. Each appears whole at the end: put them side by side."
            )
    return places


def check_absent_or_empty(path: str, *, name: str = "path") -> None:
    """Refuses to write where files are already.

    Args:
        path: folder to create.
        name: what it is called in an error.

    Raises:
        FileExistsError: if `path` holds files, or is one.
    """
    if has_locks(path):
        _check_is_no_file(path, path, name)
        found = os.listdir(path) if os.path.isdir(path) else []
    else:
        # Local outputs need no TensorFlow.
        import tensorflow as tf

        found = tf.io.gfile.listdir(path) if tf.io.gfile.exists(path) else []
    if found:
        raise FileExistsError(
            f"`{name}` must be absent or an empty folder; got {path!r}, which holds {sorted(found)[:3]}. Choose "
            "another folder or remove this one."
        )


def _resolve_output(name: str, path: str) -> str:
    if not has_locks(path):
        return path.rstrip("/")
    place = os.path.realpath(path)
    nearest = os.path.abspath(path)
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.exists(nearest):
        raise ValueError(
            f"`{name}` must be a folder, or a link to one; got {path!r}, where {nearest!r} is a link to nothing. Make "
            "the folder that it leads to, or remove the link."
        )
    _check_is_no_file(path, place, name)
    if not os.path.isdir(nearest):
        raise NotADirectoryError(
            f"`{name}` must be in a folder; got {path!r}, where {nearest!r} is a file. Name another place."
        )
    if place == os.getcwd():
        raise FileExistsError(
            f"`{name}` must be another folder than the current one; got {path!r}. Go to its parent folder and name it "
            "from there."
        )
    if os.path.ismount(place):
        raise ValueError(
            f"`{name}` must be a folder whose name a finished one can take; got {path!r}, where a disk is mounted. "
            "Name a folder in it."
        )
    around = os.path.realpath(nearest if os.path.realpath(nearest) != place else os.path.dirname(place))
    if not os.access(around, os.W_OK | os.X_OK):
        raise PermissionError(
            f"`{name}` must be in a folder that can be written; got {path!r} in {around!r}, which cannot. Name another "
            "place, or get the right to write there."
        )
    return place


def _check_is_no_file(path: str, place: str, name: str) -> None:
    if os.path.exists(place) and not os.path.isdir(place):
        raise FileExistsError(
            f"`{name}` must be absent or an empty folder; got {path!r}, which is a file. Choose another folder."
        )


def _lies_in(place: str, folder: str) -> bool:
    return os.path.join(place, "").startswith(os.path.join(folder.rstrip("/"), ""))

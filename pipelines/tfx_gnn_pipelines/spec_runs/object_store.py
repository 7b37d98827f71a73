"""A folder that stands for an object store, and copies between it and the folders of Kubeflow's launcher."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def copy_objects(source: Path, target: Path) -> int:
    """Copies a file, or the files of a folder; empty folders are no objects. Returns the number of files."""
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return 1
    copied = 0
    for folder, _, names in os.walk(source):
        inside = target / Path(folder).relative_to(source)
        for name in names:
            inside.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder, name), inside / name)
            copied += 1
    return copied

"""The file that says how examples were sampled; it travels from the examples to the model that is trained on them."""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import read_json
from tfx_gnn.sampling.plan.plan import SamplingPlan

_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedPlan:
    """How examples were sampled. With the same tables, it gives the same examples.

    Attributes:
        plan: what was sampled around each seed.
        sampling_seed: seed of all random choices, in [0, 2**63).
    """

    plan: SamplingPlan
    sampling_seed: int

    def write(self, path: str) -> None:
        """Writes the file `path`, in an existing folder."""
        content = {"format_version": _FORMAT_VERSION, **json.loads(options_json.to_json(self))}
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(json.dumps(content, indent=2) + "\n")


def read_recorded_plan(path: str) -> RecordedPlan | None:
    """Reads the file; None if there is none: the examples were not sampled by a plan, or by an earlier version.

    Raises:
        ValueError: if it is damaged, or of another version.
    """
    if not tf.io.gfile.exists(path):
        return None
    content = read_json(path)
    version = content.pop("format_version", None) if isinstance(content, dict) else None
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"`{path}` must be a sampling plan of format version {_FORMAT_VERSION}; got {version!r}. Use the version "
            "of the library that wrote it."
        )
    return options_json.from_json(json.dumps(content), RecordedPlan, name=path)


def copy_recorded_plan(source: str, target: str) -> None:
    """Copies the file, if there is one, and makes its folder."""
    if tf.io.gfile.exists(source):
        tf.io.gfile.makedirs(os.path.dirname(target))
        tf.io.gfile.copy(source, target, overwrite=True)

"""What GraphTransform notes beside its outputs, so that later stages know which of them belong together.

The note lies in the transform graph and beside the transformed examples. Outputs of releases that wrote none are
taken as they are.
"""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

from tfx_gnn.graph.text_files import read_json

TRANSFORM_RECORD_FILE = "graph_transform.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformRecord:
    """One call of GraphTransform.

    Attributes:
        transform: fingerprint of the transform graph; every run makes another, as its program holds names of functions
            that are counted in each process.
        raw_examples: `fingerprint_examples_folder` of the examples before the transform.
        nonfinite_features: tf.Example keys of transformed features that may be NaN or infinite.
    """

    transform: str
    raw_examples: str
    nonfinite_features: tuple[str, ...] = ()

    def write(self, folder: str) -> None:
        """Writes the note.

        Args:
            folder: existing folder.
        """
        with tf.io.gfile.GFile(os.path.join(folder, TRANSFORM_RECORD_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read_transform_record(folder: str) -> TransformRecord | None:
    """Reads the note.

    Args:
        folder: a transform graph, or transformed examples.

    Returns:
        The note; None if there is none.

    Raises:
        ValueError: if the file holds something else.
    """
    path = os.path.join(folder, TRANSFORM_RECORD_FILE)
    if not tf.io.gfile.exists(path):
        return None
    found = read_json(path)
    try:
        return TransformRecord(
            transform=str(found["transform"]),
            raw_examples=str(found["raw_examples"]),
            nonfinite_features=tuple(map(str, found["nonfinite_features"])),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"`{path}` must be a note of GraphTransform; got something else. Transform the examples again."
        ) from error


def check_transformed_by(transformed_examples_dir: str, transform_graph_dir: str) -> None:
    """Refuses examples that another transform made.

    Args:
        transformed_examples_dir: transformed examples.
        transform_graph_dir: the transform that is to be exported with the model.

    Raises:
        ValueError: if both have notes and these name different transforms.
    """
    examples, graph = map(read_transform_record, (transformed_examples_dir, transform_graph_dir))
    if examples and graph and examples.transform != graph.transform:
        raise ValueError(
            f"`transform_graph_dir` must hold the transform that made the examples; got {transform_graph_dir!r}, "
            f"which did not make {transformed_examples_dir!r}. Name two outputs of the same run of GraphTransform: "
            "the model would see other features when it is served."
        )

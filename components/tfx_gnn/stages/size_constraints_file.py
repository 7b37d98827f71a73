"""Padding budgets as a file: what they are, and what data they were learned from."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.size_constraints import SizeConstraints
from tfx_gnn.stages import examples_folder, options_json
from tfx_gnn.stages.fingerprint import fingerprint_files
from tfx_gnn.stages.record_files import record_files

FORMAT_VERSION = 1
SIZE_CONSTRAINTS_FILE = "size_constraints.json"
TIGHT = "tight"
"""Name of the budget that every batch of the data fits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What a padded batch holds.

    Attributes:
        batch_size: number of graphs the budget is for.
        total_num_components: graph components, padding included.
        total_num_nodes: nodes by node set, padding included.
        total_num_edges: edges by edge set, padding included.
        min_nodes_per_component: nodes by node set that each component has at least.
    """

    batch_size: int
    total_num_components: int
    total_num_nodes: dict[str, int]
    total_num_edges: dict[str, int]
    min_nodes_per_component: dict[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}. Learn the budget again.")

    @property
    def constraints(self) -> SizeConstraints:
        """The budget as padding takes it."""
        return SizeConstraints(
            total_num_components=self.total_num_components,
            total_num_nodes=dict(self.total_num_nodes),
            total_num_edges=dict(self.total_num_edges),
            min_nodes_per_component=dict(self.min_nodes_per_component),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetSizes:
    """How many items one set has.

    Attributes:
        total: over all graphs.
        mean: per graph.
        minimum: of one graph.
        maximum: of one graph.
    """

    total: int
    mean: float
    minimum: int
    maximum: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeConstraintsFile:
    """The content of `size_constraints.json`.

    Attributes:
        data_fingerprint: `fingerprint_examples` of the data that the budgets were learned from.
        graph_schema_fingerprint: `fingerprint_graph_schema` of their schema.
        options: the learner's options as plain JSON values.
        num_graphs: graphs read.
        node_sets: sizes by node set.
        edge_sets: sizes by edge set.
        budgets: budgets by name; "tight" fits every batch of the data.
        tfx_gnn_version: version of the library that wrote the file.
        format_version: version of this form.
    """

    data_fingerprint: str
    graph_schema_fingerprint: str
    options: dict[str, Any]
    num_graphs: int
    node_sets: dict[str, SetSizes]
    edge_sets: dict[str, SetSizes]
    budgets: dict[str, Budget]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION

    def check_matches(self, *, data_fingerprint: str, graph_schema_fingerprint: str) -> None:
        """Refuses budgets that were learned from something else.

        Args:
            data_fingerprint: `fingerprint_examples` of the data at hand, with the splits of `options`.
            graph_schema_fingerprint: `fingerprint_graph_schema` of their schema.

        Raises:
            ValueError: if either differs.
        """
        for name, expected, what in (
            ("data_fingerprint", data_fingerprint, "examples"),
            ("graph_schema_fingerprint", graph_schema_fingerprint, "graph schema"),
        ):
            found = getattr(self, name)
            if found != expected:
                raise ValueError(
                    f"`size_constraints_dir` must hold budgets learned from the same {what}; got {name} "
                    f"{found[:12]}..., the {what} at hand have {expected[:12]}.... "
                    "Run SizeConstraintLearner on the transformed examples that are trained on."
                )

    def budget(self, name: str = TIGHT) -> Budget:
        """Finds a budget.

        Args:
            name: its name.

        Returns:
            The budget.

        Raises:
            ValueError: if there is none of that name.
        """
        if name not in self.budgets:
            raise ValueError(
                f"`name` must be one of {sorted(self.budgets)}; got {name!r}. Choose a budget that was learned."
            )
        return self.budgets[name]


def write_size_constraints(content: SizeConstraintsFile, size_constraints_dir: str) -> None:
    """Writes `size_constraints.json`.

    Args:
        content: what to write.
        size_constraints_dir: existing folder.
    """
    text = json.dumps(json.loads(options_json.to_json(content)), indent=2, sort_keys=True)
    with tf.io.gfile.GFile(os.path.join(size_constraints_dir, SIZE_CONSTRAINTS_FILE), "w") as file:
        file.write(text + "\n")


def read_size_constraints(size_constraints_dir: str) -> SizeConstraintsFile:
    """Reads `size_constraints.json`.

    Args:
        size_constraints_dir: output of SizeConstraintLearner.

    Returns:
        Its content.

    Raises:
        ValueError: if there is no such file, or it has another format version, or is damaged.
    """
    path = os.path.join(size_constraints_dir, SIZE_CONSTRAINTS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`size_constraints_dir` must hold {SIZE_CONSTRAINTS_FILE}; got {size_constraints_dir!r}. "
            "Point at an output of SizeConstraintLearner."
        )
    with tf.io.gfile.GFile(path, "r") as file:
        text = file.read()
    version = _format_version(text, path)
    if version != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {version!r} in {path!r}. "
            "Run SizeConstraintLearner of this version of tfx_gnn again."
        )
    return options_json.from_json(text, SizeConstraintsFile)


def fingerprint_examples(examples_dir: str, splits: Sequence[str] = ()) -> str:
    """Fingerprints the records of some splits.

    Args:
        examples_dir: folder with `Split-<name>` folders.
        splits: names of splits; empty for all.

    Returns:
        64 hexadecimal digits.

    Raises:
        ValueError: if a split is missing or empty.
    """
    return fingerprint_files(file.path for file in record_files(examples_dir, splits))


def fingerprint_graph_schema(graph_schema_dir: str) -> str:
    """Fingerprints the graph schema of a folder.

    Args:
        graph_schema_dir: folder that holds `graph_schema.pbtxt`.

    Returns:
        64 hexadecimal digits.
    """
    return fingerprint_files([examples_folder.graph_schema_path(graph_schema_dir)])


def _format_version(text: str, path: str) -> object:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"`size_constraints_dir` must hold a whole {SIZE_CONSTRAINTS_FILE}; got text that is no JSON in {path!r}. "
            "Run SizeConstraintLearner again."
        ) from error
    return content.get("format_version") if isinstance(content, Mapping) else None

"""The file of padding budgets (TF-GNN's `SizeConstraints`) and statistics of the data they were learned from."""

from __future__ import annotations

import dataclasses
import json
import numbers
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.batching.size_constraints import SizeConstraints, sizes_that_leave_room
from tfx_gnn.io import options_json
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.io.text_files import parse_json
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import record_files

FORMAT_VERSION = 2
SIZE_CONSTRAINTS_FILE = "size_constraints.json"

TIGHT = "tight"
"""Kind of budget that every batch of the data fits: for evaluation, which must not skip a graph."""
FIT_OR_SKIP = "fit_or_skip"
"""Kind of budget that a stated fraction of random batches fits; other batches are skipped."""
PACKING = "packing"
"""Kind of budget that `pack_batches` fills; nothing is skipped."""
KINDS = (TIGHT, FIT_OR_SKIP, PACKING)

_MAX_SIZE = 2**31 - 1
"""Sizes and indices of padded batches may be int32."""

BY_LABEL = "label"
BY_DEGREE = "degree"
SLICINGS = (BY_LABEL, BY_DEGREE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceLoss:
    """The graphs of a slice of the training split that a budget skips.

    Attributes:
        slicing: "label" or "degree".
        value: the label class, or the range of the seed's degree, such as "4-7".
        num_graphs: graphs in the slice.
        lost_share: expected fraction of these graphs that are in skipped batches, in [0, 1].
    """

    slicing: str
    value: str
    num_graphs: int
    lost_share: float

    def __post_init__(self) -> None:
        if self.slicing not in SLICINGS:
            raise ValueError(
                f"`slicing` must be one of {list(SLICINGS)}; got {self.slicing!r}. Learn the budget again."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """A padding budget: the sizes of a padded batch, with its expected statistics.

    Attributes:
        kind: "tight", "fit_or_skip" or "packing".
        batch_size: graphs in a batch; for packing, the intended mean.
        total_num_components: graph components, including padding.
        total_num_nodes: nodes by node set, including padding.
        total_num_edges: edges by edge set, including padding.
        min_nodes_per_component: least number of nodes of each component, by node set.
        success_ratio: requested fraction of random batches that fit; 1 except for fit-or-skip.
        achieved_success_ratio: fraction of random batches of held-out graphs of the training split that fit.
        window: look-ahead of `pack_batches` that the budget was chosen for; 0 except for packing.
        graphs_per_batch: expected number of graphs in a batch.
        fill: expected fraction of a padded batch's nodes and edges that are real, all sets together.
        fill_by_set: the same fraction for each set, by prefix such as "nodes/package"; 0 for a set without room.
        bytes_per_batch: size of a padded batch in bytes: dense features, edge ends and sizes, in the dtypes of
            the schema. Strings count as pointers, and the values of ragged features are left out.
        losses: graphs skipped from slices of the training split.
        padded_node_sets: node sets of which every batch has a padding node, because features hold indices of them.
    """

    kind: str
    batch_size: int
    total_num_components: int
    total_num_nodes: dict[str, int]
    total_num_edges: dict[str, int]
    min_nodes_per_component: dict[str, int] = dataclasses.field(default_factory=dict)
    success_ratio: float = 1.0
    achieved_success_ratio: float = 1.0
    window: int = 0
    graphs_per_batch: float
    fill: float
    fill_by_set: dict[str, float]
    bytes_per_batch: int
    losses: tuple[SliceLoss, ...] = ()
    padded_node_sets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"`kind` must be one of {list(KINDS)}; got {self.kind!r}. Learn the budget again.")
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}. Learn the budget again.")
        sizes = {"total_num_components": self.total_num_components, "window": self.window}
        for name in ("total_num_nodes", "total_num_edges", "min_nodes_per_component"):
            sizes |= {f"{name}[{key!r}]": size for key, size in getattr(self, name).items()}
        for name, size in sizes.items():
            if not isinstance(size, numbers.Integral) or isinstance(size, bool) or not 0 <= size <= _MAX_SIZE:
                raise ValueError(
                    f"`{name}` must be an integer in [0, {_MAX_SIZE}]; got {size!r}. Learn the budget again."
                )

    @property
    def name(self) -> str:
        """The budget's key in the file, such as "tight_32" or "fit_or_skip_32_0.99"."""
        ratio = f"_{self.success_ratio}" if self.kind == FIT_OR_SKIP else ""
        return f"{self.kind}_{self.batch_size}{ratio}"

    @property
    def constraints(self) -> SizeConstraints:
        """The budget in the form that padding takes."""
        return SizeConstraints(
            total_num_components=self.total_num_components,
            total_num_nodes=dict(self.total_num_nodes),
            total_num_edges=dict(self.total_num_edges),
            min_nodes_per_component=dict(self.min_nodes_per_component),
        )

    @property
    def batch_constraints(self) -> SizeConstraints:
        """What graphs are batched by: `constraints`, less one padding component with nodes of `padded_node_sets`."""
        if not self.padded_node_sets:
            return self.constraints
        return sizes_that_leave_room(self.constraints, padded_node_sets=self.padded_node_sets)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetSizes:
    """Numbers of items of one set in the graphs of a split.

    Attributes:
        total: number of items in all graphs together.
        mean: mean over graphs.
        minimum: smallest number in a graph.
        maximum: largest number in a graph.
        quantiles: "p50", "p90", "p99" and "p999": the smallest size that this fraction of graphs does not
            exceed; from a sample if the split has very many different graphs.
        histogram_bounds: 0, 1, 2, 4, 8, ...
        histogram_counts: one fewer than bounds; the i-th is the number of graphs with a size of at least the i-th
            bound and below the next.
    """

    total: int
    mean: float
    minimum: int
    maximum: int
    quantiles: dict[str, float]
    histogram_bounds: tuple[int, ...]
    histogram_counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """The sizes of the graphs of one split.

    Attributes:
        num_graphs: graphs read.
        node_sets: sizes by node set.
        edge_sets: sizes by edge set.
    """

    num_graphs: int
    node_sets: dict[str, SetSizes]
    edge_sets: dict[str, SetSizes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeConstraintsFile:
    """The content of `size_constraints.json`.

    Attributes:
        data_fingerprint: `fingerprint_examples` of the data that the budgets were learned from.
        graph_schema_fingerprint: `fingerprint_graph_schema` of the data's schema.
        options: the learner's options as plain JSON values.
        splits: sizes of graphs by split.
        budgets: budgets by `Budget.name`.
        warnings: what to look at before training.
        tfx_gnn_version: version of the library that wrote the file.
        format_version: version of this file format.
    """

    data_fingerprint: str
    graph_schema_fingerprint: str
    options: dict[str, Any]
    splits: dict[str, SplitSizes]
    budgets: dict[str, Budget]
    warnings: tuple[str, ...] = ()
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION

    def check_matches(self, *, data_fingerprint: str, graph_schema_fingerprint: str) -> None:
        """Refuses budgets that were learned from other data or another schema.

        Args:
            data_fingerprint: `fingerprint_examples` of the data at hand, with the splits of `options`.
            graph_schema_fingerprint: `fingerprint_graph_schema` of the data's schema.

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

    def check_covers(self, splits: Collection[str]) -> None:
        """Refuses splits that the budgets were not learned from.

        Args:
            splits: names of the splits to read.

        Raises:
            ValueError: if one of them was left out when the budgets were learned.
        """
        learned = [str(split) for split in self.options["splits"]]
        missing = set(splits) - set(learned) if learned else set()
        if missing:
            raise ValueError(
                f"`size_constraints_dir` must hold budgets learned from every split that is read; got {learned}, not "
                f"{sorted(missing)}. Graphs of those splits may not fit: learn budgets from them, too."
            )

    def find(self, kind: str, batch_size: int | None = None, success_ratio: float | None = None) -> Budget:
        """Finds a budget.

        Args:
            kind: "tight", "fit_or_skip" or "packing".
            batch_size: graphs in a batch; None for the learner's own batch size.
            success_ratio: fraction of random batches that fit, for fit-or-skip; None for the learner's first one.

        Returns:
            The budget.

        Raises:
            ValueError: if there is no such budget.
        """
        size = int(self.options["batch_size"]) if batch_size is None else batch_size
        of_kind = [budget for budget in self.budgets.values() if budget.kind == kind and budget.batch_size == size]
        if kind == FIT_OR_SKIP:
            ratio = next(iter(self.options["success_ratios"]), None) if success_ratio is None else success_ratio
            of_kind = [budget for budget in of_kind if budget.success_ratio == ratio]
            kind += f" with success_ratio={ratio}"
        if not of_kind:
            raise ValueError(
                f"`size_constraints_dir` must hold the budget that is asked for, {kind} with batch_size={size}; got "
                f"{sorted(self.budgets)}. Choose one of these, or run SizeConstraintLearner with that batch size and "
                "success ratio."
            )
        return of_kind[0]


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
        ValueError: if there is no such file, or it is damaged or has another format version.
    """
    path = os.path.join(size_constraints_dir, SIZE_CONSTRAINTS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`size_constraints_dir` must hold {SIZE_CONSTRAINTS_FILE}; got {size_constraints_dir!r}. "
            "Point at an output of SizeConstraintLearner."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    version = _format_version(data, path)
    if version != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {version!r} in {path!r}. "
            "Run SizeConstraintLearner of this version of tfx_gnn again."
        )
    try:
        return options_json.from_json(data.decode(), SizeConstraintsFile)
    except ValueError as error:
        raise ValueError(
            f"`size_constraints_dir` must hold budgets as SizeConstraintLearner writes them; got others in {path!r}. "
            f"Run SizeConstraintLearner again. Cause: {error.__cause__ or error}"
        ) from error


def fingerprint_examples(examples_dir: str, splits: Sequence[str] = ()) -> str:
    """Fingerprints the records of some splits, or of all."""
    return fingerprint_files(file.path for file in record_files(examples_dir, splits))


def fingerprint_graph_schema(graph_schema_dir: str) -> str:
    """Fingerprints the graph schema in a folder, or a schema file; the file's name does not count."""
    path = examples_folder.graph_schema_path(graph_schema_dir)
    return fingerprint_files([path], base_name=GRAPH_SCHEMA_FILE)


def _format_version(data: bytes, path: str) -> object:
    try:
        content = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"`size_constraints_dir` must hold a whole {SIZE_CONSTRAINTS_FILE}; got text that is not its JSON in "
            f"{path!r}: {error}. Run SizeConstraintLearner again."
        ) from error
    return content.get("format_version") if isinstance(content, Mapping) else None

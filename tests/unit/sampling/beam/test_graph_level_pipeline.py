"""Beam writes whole graphs as the files that tables in memory give, byte for byte."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tfx_gnn.records import examples_folder
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.graph_level_pipeline import write_graph_level_examples_with_beam
from tfx_gnn.sampling.engine.seeds import shard_bounds
from tfx_gnn.sampling.examples.graph_level_conversion import convert_graph_level_examples
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_pairs import GraphPairs
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules

SCHEMA = """
context { features { key: "toxic" value { dtype: DT_INT64 } } metadata { filename: "molecules.csv" } }
node_sets { key: "atom" value {
  features { key: "charge" value { dtype: DT_FLOAT } } metadata { filename: "atoms-*.csv" } } }
edge_sets { key: "bond" value { source: "atom" target: "atom"
  features { key: "order" value { dtype: DT_INT64 } } metadata { filename: "bonds.csv" } } }
"""
SPEC = GraphLevelExamples(label_features=("toxic",), splits=SplitPlan(weights={"train": 3, "val": 1}))
BY_PART = GraphLevelExamples(label_features=("toxic",), splits=SplitPlan(column="part"))
PAIRS = GraphLevelExamples(
    pairs=GraphPairs(filename="pairs-*.csv", features={"alike": "int64"}),
    label_features=("alike",),
    splits=SplitPlan(weights={"train": 3, "val": 1}),
)
PAIRS_BY_PART = dataclasses.replace(
    PAIRS,
    pairs=GraphPairs(filename="pairs-*.csv", split_by="graph"),
    label_features=(),
    splits=SplitPlan(column="part"),
)


def _write(folder, *, extra_bonds=(), extra_pairs=()):
    """Forty molecules of up to eight atoms, in mixed order over two files; `val` is nobody's part."""
    draw = np.random.default_rng(0)
    atoms, bonds = [], []
    for graph in range(40):
        size = int(draw.integers(1, 9))
        atoms += [f"m{graph},a{i},{draw.integers(0, 9)}" for i in range(size)]
        bonds += [f"m{graph},a{draw.integers(0, size)},a{draw.integers(0, size)},{i}" for i in range(size)]
    draw.shuffle(atoms)
    draw.shuffle(bonds)
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    (folder / "molecules.csv").write_text(
        "\n".join(["graph_id,toxic,part", *(f"m{i},{i % 2},{'test' if i % 5 else 'train'}" for i in range(40))])
    )
    for part, rows in enumerate((atoms[:70], atoms[70:])):
        (folder / f"atoms-{part}.csv").write_text("\n".join(["graph_id,id,charge", *rows]) + "\n")
    (folder / "bonds.csv").write_text("\n".join(["graph_id,source,target,order", *bonds, *extra_bonds]) + "\n")
    # 150 pairs in two files, some of them twice.
    pairs = [f"m{draw.integers(0, 40)},m{draw.integers(0, 40)},{i % 2}" for i in range(150)]
    for part, rows in enumerate((pairs[:50], [*pairs[50:], *pairs[:9], *extra_pairs])):
        (folder / f"pairs-{part}.csv").write_text("\n".join(["left,right,alike", *rows]) + "\n")
    return str(folder)


def _in_memory(tables_dir, examples_dir, spec, num_shards, rules=None):
    converter, report = convert_graph_level_examples(tables_dir, read_tables_schema(tables_dir), spec, rules=rules)
    for split in report.num_graphs:
        records = [record for batch in converter.convert(split) for record in batch.records]
        bounds = shard_bounds(converter.keys_of(split), num_shards).tolist()
        for shard in range(num_shards):
            of_shard = records[bounds[shard] : bounds[shard + 1]]
            examples_folder.write_split_shard(examples_dir, split, shard, num_shards, of_shard)
    return report


def _on_beam(tables_dir, examples_dir, spec, num_shards, **options):
    return write_graph_level_examples_with_beam(
        make_pipeline=make_pipeline,
        tables_dir=tables_dir,
        tables_schema=read_tables_schema(tables_dir),
        examples_dir=examples_dir,
        spec=spec,
        num_shards=num_shards,
        **options,
    )


def _files(folder: Path):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.gz"))}


@pytest.mark.parametrize(
    ("spec", "num_shards", "num_chunks"),
    [
        pytest.param(SPEC, 1, 0, id="hash, one chunk"),
        pytest.param(BY_PART, 2, 8, id="column"),
        pytest.param(SPEC, 7, 7, id="hash"),
        pytest.param(PAIRS, 1, 0, id="pairs, one chunk"),
        pytest.param(PAIRS, 7, 7, id="pairs"),
        pytest.param(PAIRS_BY_PART, 2, 8, id="pairs by column of graphs"),
    ],
)
def test_files_and_report_are_those_of_tables_in_memory(tmp_path, spec, num_shards, num_chunks):
    (tmp_path / "tables").mkdir()
    tables_dir = _write(tmp_path / "tables")

    report = _on_beam(tables_dir, str(tmp_path / "beam"), spec, num_shards, num_chunks=num_chunks)

    assert report == _in_memory(tables_dir, str(tmp_path / "memory"), spec, num_shards)
    assert _files(tmp_path / "beam") == _files(tmp_path / "memory")


def test_dropped_rows_are_counted_wherever_they_are_found(tmp_path):
    (tmp_path / "tables").mkdir()
    tables_dir = _write(tmp_path / "tables", extra_bonds=["m1,a0,a77,1", "m99,a0,a0,1", "m2,a0,a0,many"])
    rules = RowRules(invalid_rows="drop", dangling_edges="drop", max_dropped_share=0.5)

    report = _on_beam(tables_dir, str(tmp_path / "beam"), SPEC, 2, num_chunks=6, rules=rules)

    expected = _in_memory(tables_dir, str(tmp_path / "memory"), SPEC, 2, rules)
    assert report.tables == expected.tables
    assert sum(report.tables["edges/bond"].dropped.values()) == 3
    assert sorted(map(str, report.problems)) == sorted(map(str, expected.problems))
    assert _files(tmp_path / "beam") == _files(tmp_path / "memory")


def test_pairs_of_unknown_graphs_are_dropped_and_counted(tmp_path):
    (tmp_path / "tables").mkdir()
    tables_dir = _write(
        tmp_path / "tables",
        extra_bonds=["m1,a0,a77,1", "m99,a0,a0,1"],
        extra_pairs=["m1,m99,0", "m98,m2,0", "m98,m99,1", "m1,m1,x"],
    )
    rules = RowRules(invalid_rows="drop", dangling_edges="drop", duplicate_edges="keep_first")

    report = _on_beam(tables_dir, str(tmp_path / "beam"), PAIRS, 2, num_chunks=6, rules=rules)

    expected = _in_memory(tables_dir, str(tmp_path / "memory"), PAIRS, 2, rules)
    assert report.tables == expected.tables
    assert report.tables["pairs"].dropped["unknown_graph"] == 3
    assert report.num_graphs == expected.num_graphs
    assert sorted(map(str, report.problems)) == sorted(map(str, expected.problems))
    assert _files(tmp_path / "beam") == _files(tmp_path / "memory")


def test_too_many_dropped_rows_are_refused(tmp_path):
    (tmp_path / "tables").mkdir()
    tables_dir = _write(tmp_path / "tables", extra_bonds=["m99,a0,a0,1"] * 9)
    rules = RowRules(dangling_edges="drop", max_dropped_share=0.01)

    with pytest.raises(ValueError, match="max_dropped_share"):
        _on_beam(tables_dir, str(tmp_path / "beam"), SPEC, 1, rules=rules)


def test_chunks_that_shards_cannot_share_are_refused(tmp_path):
    tables_dir = _write(tmp_path)

    with pytest.raises(ValueError, match="`num_chunks` must be a multiple of `num_shards`"):
        _on_beam(tables_dir, str(tmp_path / "beam"), SPEC, 2, num_chunks=3)

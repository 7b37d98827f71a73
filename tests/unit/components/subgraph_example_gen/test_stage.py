import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import (
    generate_subgraph_examples,
    list_input_files,
)
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.records import examples_folder
from tfx_gnn.records.example_gen_report import (
    read_num_seeds,
    read_table_rows,
    read_tables_span,
)
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_pairs import GraphPairs
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan, read_recorded_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.csv_table import CsvFormat
from tfx_gnn.tables.row_rules import RowRules

NUM_NODES = 60

SCHEMA = """
node_sets { key: "n" value {
  features { key: "label" value { dtype: DT_STRING } }
  features { key: "x" value { dtype: DT_FLOAT } }
  metadata { filename: "n.csv" } } }
edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.csv" } } }
"""

PLAN = SamplingPlan(
    seed_node_set="n",
    hops=(Hop(edge_set="e", fan_out=2), Hop(edge_set="e", fan_out=3, inputs=("e",), direction="backward")),
    label_features=("label",),
    splits=SplitPlan(column="part"),
)
DROPPING = RowRules(invalid_rows="drop", dangling_edges="drop", max_dropped_share=0.1)


@pytest.fixture
def ring_dir(tmp_path):
    """A ring of nodes, each with an edge to the next four; every tenth is in the split "test"."""
    folder = tmp_path / "tables"
    folder.mkdir()
    nodes = [
        f"n{i:02d},{'odd' if i % 2 else 'even'},{i / 4},{'test' if i % 10 == 9 else 'train'}" for i in range(NUM_NODES)
    ]
    edges = [f"n{i:02d},n{(i + step) % NUM_NODES:02d}" for i in range(NUM_NODES) for step in (1, 2, 3, 4)]
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    (folder / "n.csv").write_text("\n".join(["id,label,x,part", *nodes]) + "\n")
    (folder / "e.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return str(folder)


def _generate(ring_dir, tmp_path, name="examples", **options):
    examples_dir = str(tmp_path / name)
    options = SubgraphExampleGenOptions(**{"plan": PLAN, **options})
    return examples_dir, generate_subgraph_examples(tables_dir=ring_dir, examples_dir=examples_dir, options=options)


def _records(examples_dir):
    return {
        split: list(examples_folder.read_split(examples_dir, split).as_numpy_iterator())
        for split in examples_folder.split_names(examples_dir)
    }


def _values(record, key):
    feature = tf.train.Example.FromString(record).features.feature[key]
    return list(getattr(feature, feature.WhichOneof("kind")).value)


def test_every_seed_gets_one_record_in_its_split(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path)

    seeds = {
        split: {_values(r, "nodes/n.#id")[0] for r in records} for split, records in _records(examples_dir).items()
    }
    assert seeds == {
        "test": {f"n{i:02d}".encode() for i in range(9, NUM_NODES, 10)},
        "train": {f"n{i:02d}".encode() for i in range(NUM_NODES) if i % 10 != 9},
    }


def test_examples_say_of_which_span_of_the_tables_they_are(ring_dir, tmp_path):
    for name in ("v7", "v8"):
        shutil.copytree(ring_dir, tmp_path / "spans" / name)
    pattern = f"{tmp_path}/spans/v{{SPAN}}"

    _, newest = _generate(pattern, tmp_path, "newest")
    examples_dir = str(tmp_path / "named")
    generate_subgraph_examples(
        tables_dir=pattern, examples_dir=examples_dir, options=SubgraphExampleGenOptions(plan=PLAN), span="7"
    )

    assert newest.tables_span is not None
    assert (newest.tables_span.folder, newest.tables_span.span) == (str(tmp_path / "spans" / "v8"), 8)
    assert read_tables_span(examples_dir).folder == str(tmp_path / "spans" / "v7")


def test_examples_of_a_plain_tables_folder_are_of_no_span(ring_dir, tmp_path):
    examples_dir, report = _generate(ring_dir, tmp_path)

    assert report.tables_span is None
    assert read_tables_span(examples_dir) is None
    assert read_num_seeds(examples_dir) == report.num_seeds
    assert read_table_rows(examples_dir) == {label: table.rows_used for label, table in report.tables.items()}


def test_records_hold_the_seeds_label_and_edges_of_the_graph(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path)

    for record in _records(examples_dir)["train"]:
        ids = [int(node_id[1:]) for node_id in _values(record, "nodes/n.#id")]
        assert _values(record, "nodes/_readout.label") == [b"odd" if ids[0] % 2 else b"even"]
        assert _values(record, "nodes/n.x") == [node_id / 4 for node_id in ids]
        ends = zip(_values(record, "edges/e.#source"), _values(record, "edges/e.#target"), strict=True)
        pairs = [(ids[source], ids[target]) for source, target in ends]
        rows = _values(record, "edges/e.#id")
        assert pairs == [(row // 4, (row // 4 + row % 4 + 1) % NUM_NODES) for row in rows]
        assert sum(source == ids[0] for source, _ in pairs) >= 2


def test_plan_and_seed_are_beside_the_records(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path, sampling_seed=7)

    recorded = read_recorded_plan(os.path.join(examples_dir, "sampling_plan.json"))
    assert recorded == RecordedPlan(plan=PLAN, sampling_seed=7)


def test_the_schema_beside_the_records_lists_their_keys(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path)

    schema = graph_schema.read_schema(examples_folder.graph_schema_path(examples_dir))
    keys = {f"nodes/{name}.#size" for name in schema.node_sets}
    keys |= {f"edges/{name}.{part}" for name in schema.edge_sets for part in ("#size", "#source", "#target")}
    keys |= {f"nodes/{name}.{feature}" for name, node_set in schema.node_sets.items() for feature in node_set.features}
    keys |= {f"edges/{name}.{feature}" for name, edge_set in schema.edge_sets.items() for feature in edge_set.features}
    for record in _records(examples_dir)["test"]:
        assert set(tf.train.Example.FromString(record).features.feature) == keys
    assert "part" not in schema.node_sets["n"].features
    assert "label" not in schema.node_sets["n"].features


@pytest.mark.parametrize("num_shards", [1, 7, 100])
def test_records_do_not_depend_on_the_number_of_shards(ring_dir, tmp_path, num_shards):
    two_shards, _ = _generate(ring_dir, tmp_path, "two")

    examples_dir, _ = _generate(ring_dir, tmp_path, num_shards=num_shards)

    assert _records(examples_dir) == _records(two_shards)
    assert len(examples_folder.split_files(examples_dir, "test")) == num_shards
    assert len(examples_folder.split_files(examples_dir, "train")) == num_shards


def test_shards_are_about_even(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path, num_shards=4)

    files = examples_folder.split_files(examples_dir, "train")
    sizes = [sum(1 for _ in tf.data.TFRecordDataset(file, compression_type="GZIP")) for file in files]
    assert sum(sizes) == 54
    assert min(sizes) > 5
    assert max(sizes) < 25


def _break_tables(ring_dir):
    """One node without a number, whose eight edges then dangle, and an edge to nowhere."""
    for name, old, new in (("n.csv", "n07,odd,1.75", "n07,odd,much"), ("e.csv", "n20,n21", "n20,n99")):
        path = os.path.join(ring_dir, name)
        with open(path, encoding="utf-8") as source:
            text = source.read()
        with open(path, "w", encoding="utf-8") as target:
            target.write(text.replace(old, new, 1))


def test_dropped_rows_are_counted_and_kept_as_dead_letters(ring_dir, tmp_path):
    _break_tables(ring_dir)

    examples_dir, report = _generate(ring_dir, tmp_path, rules=DROPPING)

    nodes, edges = report.tables["nodes/n"], report.tables["edges/e"]
    assert (nodes.rows_read, nodes.rows_used, nodes.dropped) == (NUM_NODES, NUM_NODES - 1, {"finite": 1})
    assert (edges.rows_read, edges.rows_used) == (4 * NUM_NODES, 4 * NUM_NODES - 9)
    assert edges.dropped == {"dangling_source": 4, "dangling_target": 5}
    assert sum(report.num_seeds.values()) == NUM_NODES - 1
    with open(os.path.join(examples_dir, "dead_letters", "nodes.n.jsonl"), encoding="utf-8") as file:
        [letter] = map(json.loads, file)
    assert (letter["row"], letter["rule"], letter["column"]) == (9, "finite", "x")
    with open(os.path.join(examples_dir, "dead_letters", "edges.e.jsonl"), encoding="utf-8") as file:
        assert len(file.readlines()) == 9


def test_more_bad_rows_than_allowed_are_an_error(ring_dir, tmp_path):
    _break_tables(ring_dir)

    with pytest.raises(ValueError, match=r"`max_dropped_share` must cover the rows .* got 0.01 for 1 of 60 rows"):
        _generate(ring_dir, tmp_path, rules=dataclasses.replace(DROPPING, max_dropped_share=0.01))

    assert os.listdir(tmp_path) == ["tables"]


def test_an_interrupted_run_is_taken_up(ring_dir, tmp_path, monkeypatch):
    whole_dir, whole = _generate(ring_dir, tmp_path, "whole", num_shards=3)
    write, written = examples_folder.write_split_shard, []

    def write_or_fail(folder, split, shard, *arguments):
        if len(written) == 4:
            raise OSError("no space left")
        written.append((split, shard))
        return write(folder, split, shard, *arguments)

    monkeypatch.setattr(examples_folder, "write_split_shard", write_or_fail)
    with pytest.raises(OSError, match="no space left"):
        _generate(ring_dir, tmp_path, num_shards=3)
    [unfinished] = set(os.listdir(tmp_path)) - {"tables", "whole"}
    first, written[:] = list(written), []

    examples_dir, report = _generate(ring_dir, tmp_path, num_shards=3)

    assert unfinished.startswith(".unfinished-")
    assert len(first) == 4
    assert len(written) == 2
    assert not set(first) & set(written)
    assert report == whole
    assert _files(examples_dir) == _files(whole_dir)
    assert set(os.listdir(tmp_path)) == {"tables", "whole", "examples"}


def test_shards_of_an_older_table_of_equal_size_and_time_are_not_taken_up(ring_dir, tmp_path, monkeypatch):
    write, path = examples_folder.write_split_shard, os.path.join(ring_dir, "n.csv")
    os.utime(path, ns=(10**18, 10**18))

    def write_once(folder, split, shard, *arguments):
        if shard:
            raise OSError("no space left")
        return write(folder, split, shard, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(examples_folder, "write_split_shard", write_once)
        with pytest.raises(OSError, match="no space left"):
            _generate(ring_dir, tmp_path, num_shards=3)
    text = Path(path).read_text()
    Path(path).write_text(text.replace(",even,", ",EVEN,"))
    os.utime(path, ns=(10**18, 10**18))
    whole_dir, whole = _generate(ring_dir, tmp_path, "whole", num_shards=3)

    examples_dir, report = _generate(ring_dir, tmp_path, num_shards=3)

    assert report == whole
    assert _files(examples_dir) == _files(whole_dir)


@pytest.mark.parametrize("execution", ["in_memory", "beam"])
@pytest.mark.parametrize(("tables", "table"), [("ring_dir", "n.csv"), ("molecules_dir", "atoms.csv")])
def test_tables_that_change_while_they_are_read_are_refused(request, tmp_path, execution, tables, table):
    monkeypatch, tables_dir = request.getfixturevalue("monkeypatch"), request.getfixturevalue(tables)
    options = {"plan": None, "graph_level_examples": MOLECULES_AS_THEY_ARE} if table == "atoms.csv" else {}
    read, path = CsvFormat.read_raw_blocks, os.path.join(tables_dir, table)

    def read_and_replace(reader, file, unit, column_names):
        yield from read(reader, file, unit, column_names)
        if file == path:
            shutil.copy(path, f"{path}.new")
            os.replace(f"{path}.new", path)

    monkeypatch.setattr(CsvFormat, "read_raw_blocks", read_and_replace)

    with pytest.raises(
        ValueError, match=rf"{table}` must stay as it is while the tables are read; got a file that has changed since"
    ):
        _generate(tables_dir, tmp_path, execution=execution, rules=DROPPING, **options)

    assert os.listdir(tmp_path) == [os.path.basename(tables_dir)]


def test_tables_that_change_once_they_are_read_change_nothing(ring_dir, tmp_path, monkeypatch):
    whole_dir, whole = _generate(ring_dir, tmp_path, "whole")
    write = examples_folder.write_split_shard

    def write_after_a_change(*arguments):
        Path(ring_dir, "n.csv").write_text("id,label,x,part\nn00,even,7,train\n")
        return write(*arguments)

    monkeypatch.setattr(examples_folder, "write_split_shard", write_after_a_change)
    examples_dir, report = _generate(ring_dir, tmp_path)

    assert report == whole
    assert _files(examples_dir) == _files(whole_dir)


def test_other_tables_than_those_that_are_meant_are_refused(ring_dir, tmp_path):
    options = SubgraphExampleGenOptions(plan=PLAN)
    meant = fingerprint_files(list_input_files(ring_dir, options))
    Path(ring_dir, "n.csv").write_text(Path(ring_dir, "n.csv").read_text().replace("n07,odd,1.75", "n07,odd,1.5"))

    with pytest.raises(ValueError, match=rf"`tables_dir` must hold the tables that .* fingerprint {meant[:12]}; got"):
        generate_subgraph_examples(
            tables_dir=ring_dir, examples_dir=str(tmp_path / "out"), options=options, tables_contents=meant
        )


def test_run_that_is_ended_while_all_is_put_on_the_disk_is_taken_up(ring_dir, tmp_path, monkeypatch):
    def interrupt(file):
        if os.readlink(f"/proc/self/fd/{file}").endswith("statistics.json"):
            raise KeyboardInterrupt
        sync(file)

    write, written, sync = examples_folder.write_split_shard, [], os.fsync
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            _generate(ring_dir, tmp_path)

    def write_and_note(*arguments):
        written.append(arguments)
        return write(*arguments)

    monkeypatch.setattr(examples_folder, "write_split_shard", write_and_note)
    examples_dir, _ = _generate(ring_dir, tmp_path)

    assert written == []
    assert ".finished_shards" not in os.listdir(examples_dir)


LINK_HOPS = (
    Hop(edge_set="e", fan_out=2, inputs=("source",)),
    Hop(edge_set="e", fan_out=2, inputs=("target",), direction="backward"),
)
LINK_PLAN = SamplingPlan(
    seed_edge_set="e", hops=LINK_HOPS, splits=SplitPlan(weights={"train": 3, "test": 1}, disjoint_train_share=0.3)
)
KEPT_EDGE_PLAN = SamplingPlan(
    seed_edge_set="e", hops=LINK_HOPS, keeps_seed_edge=True, splits=SplitPlan(weights={"train": 1})
)


@pytest.mark.parametrize("plan", [PLAN, LINK_PLAN, KEPT_EDGE_PLAN], ids=["nodes", "links", "kept edges"])
def test_beam_writes_the_same_folder(ring_dir, tmp_path, plan):
    _break_tables(ring_dir)
    options = {"plan": plan, "rules": DROPPING, "num_shards": 3}
    memory_dir, in_memory = _generate(ring_dir, tmp_path, "memory", **options)

    beam_dir, on_beam = _generate(
        ring_dir, tmp_path, "beam", execution="beam", num_partitions=2, hub_degree=3, **options
    )

    assert on_beam == in_memory
    assert _files(beam_dir) == _files(memory_dir)
    assert set(os.listdir(tmp_path)) == {"tables", "memory", "beam"}


@pytest.mark.parametrize("own_subgraphs", [False, True], ids=["shared", "own"])
def test_both_executions_count_negatives_and_those_that_could_not_be_drawn(ring_dir, tmp_path, own_subgraphs):
    """Of 61 nodes, one has an edge to each of the others: nothing can be drawn for it."""
    with open(os.path.join(ring_dir, "n.csv"), "a", encoding="utf-8") as file:
        file.write("hub,odd,1.0,train\n")
    with open(os.path.join(ring_dir, "e.csv"), "a", encoding="utf-8") as file:
        file.writelines(f"hub,n{i:02d}\n" for i in range(NUM_NODES))
    negatives = Negatives(num_per_positive=2, num_draws=20, own_subgraphs=own_subgraphs)
    links = SamplingPlan(seed_edge_set="e", negatives=negatives)

    memory_dir, in_memory = _generate(ring_dir, tmp_path, "memory", plan=links)
    beam_dir, on_beam = _generate(ring_dir, tmp_path, "beam", plan=links, execution="beam", num_partitions=2)

    assert on_beam == in_memory
    assert _files(beam_dir) == _files(memory_dir)
    assert 0 < sum(in_memory.num_missing_negatives.values()) <= 2 * NUM_NODES
    for split, records in _records(memory_dir).items():
        labels = [label for record in records for label in _values(record, "nodes/_readout.label")]
        assert in_memory.num_negatives[split] == labels.count(0)
        assert in_memory.num_missing_negatives[split] == 2 * labels.count(1) - labels.count(0)
        assert in_memory.num_seeds[split] == labels.count(1)
        assert in_memory.statistics.num_subgraphs[split] == len(records)
        assert len(records) == (len(labels) if own_subgraphs else labels.count(1))


def test_the_kept_edge_is_the_one_that_is_read_out_where_rows_were_dropped(ring_dir, tmp_path):
    _break_tables(ring_dir)

    examples_dir, report = _generate(ring_dir, tmp_path, plan=KEPT_EDGE_PLAN, rules=DROPPING)

    rows = []
    for record in _records(examples_dir)["train"]:
        [position] = _values(record, "edges/_readout/seed.#source")
        row = _values(record, "edges/e.#id")[position]
        ids = _values(record, "nodes/n.#id")
        source = ids[_values(record, "edges/e.#source")[position]]
        target = ids[_values(record, "edges/e.#target")[position]]
        assert (source, target) == (b"n%02d" % (row // 4), b"n%02d" % ((row // 4 + row % 4 + 1) % NUM_NODES))
        assert [ids.index(source), ids.index(target)] == [0, 1]
        rows.append(row)
    assert len(rows) == len(set(rows)) == report.num_seeds["train"] == 4 * NUM_NODES - 9


MOLECULES = """
context { features { key: "toxic" value { dtype: DT_INT64 } } metadata { filename: "molecules.csv" } }
node_sets { key: "atom" value {
  features { key: "element" value { dtype: DT_STRING } } metadata { filename: "atoms.csv" } } }
edge_sets { key: "bond" value { source: "atom" target: "atom" metadata { filename: "bonds.csv" } } }
"""


@pytest.fixture
def molecules_dir(tmp_path):
    """Twenty chains of two to six atoms; one bond leads to an atom that is not there."""
    folder = tmp_path / "molecules"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(MOLECULES)
    graphs = [(f"g{i}", 2 + i % 5) for i in range(20)]
    tables = {
        "molecules.csv": ["graph_id,toxic", *(f"{graph},{size % 2}" for graph, size in graphs)],
        "atoms.csv": ["graph_id,id,element", *(f"{graph},{n},C" for graph, size in graphs for n in range(size))],
        "bonds.csv": [
            "graph_id,source,target",
            *(f"{graph},{n},{n + 1}" for graph, size in graphs for n in range(size - 1)),
            "g3,0,9",
        ],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join([*lines, ""]))
    return str(folder)


MOLECULES_AS_THEY_ARE = GraphLevelExamples(label_features=("toxic",), splits=SplitPlan(weights={"train": 3, "test": 1}))


def test_beam_writes_the_same_whole_graphs(molecules_dir, tmp_path):
    options = {"plan": None, "graph_level_examples": MOLECULES_AS_THEY_ARE, "rules": DROPPING, "num_shards": 2}
    memory_dir, in_memory = _generate(molecules_dir, tmp_path, "memory", **options)

    beam_dir, on_beam = _generate(molecules_dir, tmp_path, "beam", execution="beam", **options)

    assert on_beam == in_memory
    assert _files(beam_dir) == _files(memory_dir)
    assert sum(in_memory.num_seeds.values()) == 20
    assert in_memory.tables["edges/bond"].dropped == {"dangling_target": 1}
    toxic = [_values(record, "context/toxic") for records in _records(memory_dir).values() for record in records]
    assert sorted(toxic) == [[0]] * 12 + [[1]] * 8


def test_beam_writes_the_same_pairs_of_graphs(molecules_dir, tmp_path):
    pairs = [f"g{number},g{(7 * number + 1) % 20},{number % 2}" for number in range(20)]
    Path(molecules_dir, "pairs.csv").write_text("\n".join(["left,right,alike", *pairs, "g1,g77,0", ""]))
    spec = GraphLevelExamples(
        label_features=("alike",),
        pairs=GraphPairs(filename="pairs.csv", features={"alike": "int64"}),
        splits=SplitPlan(weights={"train": 3, "test": 1}),
    )
    options = {"plan": None, "graph_level_examples": spec, "rules": DROPPING, "num_shards": 2}
    memory_dir, in_memory = _generate(molecules_dir, tmp_path, "memory", **options)

    beam_dir, on_beam = _generate(molecules_dir, tmp_path, "beam", execution="beam", **options)

    assert on_beam == in_memory
    assert _files(beam_dir) == _files(memory_dir)
    assert sum(in_memory.num_seeds.values()) == 20
    assert in_memory.tables["pairs"].dropped == {"unknown_graph": 1}
    assert Path(memory_dir, "dead_letters").exists()
    inputs = list_input_files(molecules_dir, SubgraphExampleGenOptions(graph_level_examples=spec))
    assert os.path.join(molecules_dir, "pairs.csv") in inputs


def _files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_the_sampling_seed_changes_the_subgraphs(ring_dir, tmp_path):
    first, _ = _generate(ring_dir, tmp_path, "first")

    other, _ = _generate(ring_dir, tmp_path, "other", sampling_seed=1)

    assert _records(first)["train"] != _records(other)["train"]


def test_without_a_split_column_a_hash_decides(ring_dir, tmp_path):
    plan = dataclasses.replace(PLAN, splits=SplitPlan(weights={"a": 1, "b": 1}))

    examples_dir, report = _generate(ring_dir, tmp_path, plan=plan)

    assert examples_folder.split_names(examples_dir) == ["a", "b"]
    assert sum(report.num_seeds.values()) == NUM_NODES
    assert min(report.num_seeds.values()) > 15


def test_a_report_is_returned_and_written(ring_dir, tmp_path):
    examples_dir, report = _generate(ring_dir, tmp_path)

    statistics = report.statistics
    assert report.num_seeds == statistics.num_subgraphs
    assert report.tables["edges/e"].rows_used == report.tables["edges/e"].rows_read == 4 * NUM_NODES
    assert statistics.num_subgraphs == {"test": 6, "train": 54}
    assert statistics.hops["e"].num_truncated == statistics.hops["e"].num_inputs == NUM_NODES
    assert statistics.edge_sets["e"].total == sum(
        _values(record, "edges/e.#size")[0] for records in _records(examples_dir).values() for record in records
    )
    with open(os.path.join(examples_dir, "statistics.json"), encoding="utf-8") as file:
        assert json.load(file) == json.loads(json.dumps(dataclasses.asdict(report)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("n.csv", "part", "share"), "`part` must be one column of the table; got none among .*n.csv"),
        (("n.csv", "test", ""), "`part` must have a value in every record; got an empty cell in .*n.csv, line 11"),
        (("n.csv", "test", "a/b"), "`part` must name one of the splits .*; got 'a/b' in the record with id 'n09'"),
        (("e.csv", "n00,n01", "n00,n99"), "`target` must name a node of 'n' .*; got 'n99' in .*e.csv, line 2"),
        (("graph_schema.pbtxt", "e.csv", "f.csv"), "`metadata.filename` must name a file that exists"),
        (("graph_schema.pbtxt", '"e"', '"f"'), r"`edge_set` must be one of \['f'\] in hop 'e'; got 'e'"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(ring_dir, tmp_path, change, message):
    file, old, new = change
    path = os.path.join(ring_dir, file)
    with open(path, encoding="utf-8") as source:
        text = source.read()
    assert old in text
    with open(path, "w", encoding="utf-8") as target:
        target.write(text.replace(old, new, 1))

    with pytest.raises(ValueError, match=message):
        _generate(ring_dir, tmp_path)

    assert os.listdir(tmp_path) == ["tables"]


def test_a_folder_that_holds_files_is_left_alone(ring_dir, tmp_path):
    examples_dir, _ = _generate(ring_dir, tmp_path)
    before = _records(examples_dir)

    with pytest.raises(FileExistsError, match="must be absent or an empty folder"):
        _generate(ring_dir, tmp_path, sampling_seed=1)

    assert _records(examples_dir) == before


def test_options_survive_json():
    options = SubgraphExampleGenOptions(plan=PLAN, sampling_seed=3, num_shards=5, rules=DROPPING)

    assert options_json.from_json(options_json.to_json(options), SubgraphExampleGenOptions) == options


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"plan": "plan"}, TypeError, "`plan` must be a SamplingPlan; got str"),
        ({"sampling_seed": -1}, ValueError, r"`sampling_seed` must be in \[0, 2\*\*63\); got -1"),
        ({"num_shards": 0}, ValueError, r"`num_shards` must be in \[1, 100000\]; got 0"),
        ({"num_shards": 100_001}, ValueError, r"`num_shards` must be in \[1, 100000\]; got 100001"),
        (
            {"plan": None},
            ValueError,
            "`plan` or `graph_level_examples` must be given, and only one of them; got neither",
        ),
        (
            {"graph_level_examples": GraphLevelExamples()},
            ValueError,
            "`plan` or `graph_level_examples` must be given, .* got both",
        ),
        ({"graph_level_examples": "all"}, TypeError, "`graph_level_examples` must be a GraphLevelExamples; got str"),
        ({"execution": "spark"}, ValueError, r"`execution` must be one of \['in_memory', 'beam'\]; got 'spark'"),
        ({"num_partitions": 3}, ValueError, "`num_partitions` must be a power of two, or 0; got 3"),
        ({"hub_degree": 0}, ValueError, "`hub_degree` must be at least 1; got 0"),
    ],
)
def test_bad_options_are_refused(fields, error, message):
    with pytest.raises(error, match=message):
        SubgraphExampleGenOptions(**{"plan": PLAN, **fields})

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.beam.graph_level_pipeline import chunks_of_keys, join_blocks, split_block
from tfx_gnn.sampling.examples.graph_level_conversion import GraphLevelConverter, convert_graph_level_examples
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_level_tables import graph_level_layouts
from tfx_gnn.sampling.plan.seed_splits import SplitColumns, node_split_codes
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_files import list_units, read_unit

SCHEMA = """
context {
  features { key: "toxic" value { dtype: DT_INT64 } }
  metadata { filename: "molecules.csv" } }
node_sets { key: "atom" value {
  features { key: "charge" value { dtype: DT_FLOAT } }
  features { key: "element" value { dtype: DT_STRING } }
  metadata { filename: "atoms.csv" } } }
node_sets { key: "ring" value { metadata { filename: "rings.csv" } } }
edge_sets { key: "bond" value { source: "atom" target: "atom"
  features { key: "order" value { dtype: DT_INT64 } }
  metadata { filename: "bonds.csv" } } }
edge_sets { key: "in" value { source: "atom" target: "ring" metadata { filename: "in.csv" } } }
"""
# Ids of atoms repeat from molecule to molecule; rows of molecules are mixed.
FILES = {
    "graph_schema.pbtxt": SCHEMA,
    "molecules.csv": "graph_id,toxic,part\nm1,1,train\nm2,0,train\nm3,1,test\n",
    "atoms.csv": ("graph_id,id,element,charge\nm2,b,O,0.5\nm1,a,C,1\nm2,a,C,-1\nm1,c,N,2\nm3,a,C,0\nm1,b,C,3\n"),
    "rings.csv": "graph_id,id\nm1,r\n",
    "bonds.csv": "graph_id,source,target,order\nm1,c,a,2\nm2,a,b,1\nm1,a,a,1\nm1,b,c,3\n",
    "in.csv": "graph_id,source,target\nm1,a,r\nm1,b,r\n",
}
BY_PART = GraphLevelExamples(label_features=("toxic",), splits=SplitPlan(column="part"))


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def molecules_dir(tmp_path):
    return write(tmp_path, FILES)


def convert(tables_dir, spec=BY_PART, **options):
    return convert_graph_level_examples(tables_dir, read_tables_schema(tables_dir), spec, **options)


def records_of(converter, split, **options):
    return [record for batch in converter.convert(split, **options) for record in batch.records]


def decode(record):
    features = {}
    for key, feature in tf.train.Example.FromString(record).features.feature.items():
        kind = feature.WhichOneof("kind")
        features[key] = list(getattr(feature, kind).value) if kind else []
    return features


M1 = {
    "context/#id": [b"m1"],
    "context/toxic": [1],
    "nodes/atom.#size": [3],
    "nodes/atom.charge": [1.0, 2.0, 3.0],
    "nodes/atom.element": [b"C", b"N", b"C"],
    "nodes/ring.#size": [1],
    "edges/bond.#size": [3],
    "edges/bond.#source": [1, 0, 2],
    "edges/bond.#target": [0, 0, 1],
    "edges/bond.order": [2, 1, 3],
    "edges/in.#size": [2],
    "edges/in.#source": [0, 2],
    "edges/in.#target": [0, 0],
}
M3 = {
    "context/#id": [b"m3"],
    "context/toxic": [1],
    "nodes/atom.#size": [1],
    "nodes/atom.charge": [0.0],
    "nodes/atom.element": [b"C"],
    "nodes/ring.#size": [0],
    "edges/bond.#size": [0],
    "edges/bond.#source": [],
    "edges/bond.#target": [],
    "edges/bond.order": [],
    "edges/in.#size": [0],
    "edges/in.#source": [],
    "edges/in.#target": [],
}


def test_every_graph_becomes_one_example(molecules_dir):
    converter, report = convert(molecules_dir)

    train = {record["context/#id"][0]: record for record in map(decode, records_of(converter, "train"))}
    assert train[b"m1"] == M1
    assert train[b"m2"]["nodes/atom.element"] == [b"O", b"C"]
    assert train[b"m2"]["edges/bond.#source"] == [1]
    assert train[b"m2"]["edges/bond.#target"] == [0]
    assert [decode(record) for record in records_of(converter, "test")] == [M3]
    assert report.num_graphs == {"train": 2, "test": 1}
    assert report.tables["edges/bond"].self_loops == 1
    assert {label: table.rows_used for label, table in report.tables.items()} == {
        "context": 3, "nodes/atom": 6, "nodes/ring": 1, "edges/bond": 4, "edges/in": 2,
    }  # fmt: skip


def test_records_parse_by_their_schema(molecules_dir):
    converter, _ = convert(molecules_dir)
    spec = create_graph_spec_from_schema_pb(converter.schema)

    [record] = records_of(converter, "test")
    graph = parse_single_example(spec, tf.constant(record))

    assert graph.context["#id"].numpy().tolist() == [b"m3"]
    assert graph.node_sets["atom"].sizes.numpy().tolist() == [1]


def with_indices(**changes):
    """The tables with columns that name nodes of the graph of their row."""
    schema = SCHEMA
    for file, column, of_dtype in (("molecules", "center", "DT_INT64"), ("rings", "first", "DT_INT32")):
        schema = schema.replace(
            f'metadata {{ filename: "{file}.csv" }}',
            f'features {{ key: "{column}" value {{ dtype: {of_dtype} source: "{column}_atom" }} }} '
            f'metadata {{ filename: "{file}.csv" extra {{ key: "index_feature/{column}" value: "atom" }} }}',
        )
    return {
        **FILES,
        "graph_schema.pbtxt": schema,
        "molecules.csv": "graph_id,toxic,part,center_atom\nm1,1,train,b\nm2,0,train,\nm3,1,test,a\n",
        "rings.csv": "graph_id,id,first_atom\nm1,r,c\n",
        **changes,
    }


def test_columns_that_name_nodes_become_indices(tmp_path):
    tables_dir = write(tmp_path, with_indices())

    converter, _ = convert(tables_dir)

    found = {
        record["context/#id"][0]: (record["context/center"], record["nodes/ring.first"])
        for split in ("train", "test")
        for record in map(decode, records_of(converter, split))
    }
    # Atoms of m1 are a, c, b in the order of their table.
    assert found == {b"m1": ([2], [1]), b"m2": ([-1], []), b"m3": ([0], [])}
    assert index_features(converter.schema) == {"context": {"center": "atom"}, "nodes/ring": {"first": "atom"}}


def test_columns_of_dropped_rows_may_name_anything(tmp_path):
    # The second ring r is dropped as a repetition, and that of m9 because there is no such graph.
    rings = "graph_id,id,first_atom\nm1,r,c\nm1,r,nobody\nm9,r,nobody\n"
    rules = RowRules(duplicate_nodes="keep_first", dangling_edges="drop")

    converter, report = convert(write(tmp_path, with_indices(**{"rings.csv": rings})), rules=rules)

    assert report.tables["nodes/ring"].dropped == {"duplicate_node": 1, "unknown_graph": 1}
    firsts = [record["nodes/ring.first"] for record in map(decode, records_of(converter, "train"))]
    assert sorted(firsts) == [[], [1]]


def test_integer_ids_become_indices_too(tmp_path):
    files = with_indices(
        **{
            "molecules.csv": "graph_id,toxic,part,center_atom\nm1,1,train,70\nm2,0,train,-1\nm3,1,test,\n",
            "atoms.csv": "graph_id,id,element,charge\nm2,7,O,0\nm1,7,C,1\nm1,70,C,1\nm3,1,C,1\n",
            "rings.csv": "graph_id,id,first_atom\nm1,r,7\n",
            "bonds.csv": "graph_id,source,target,order\n",
            "in.csv": "graph_id,source,target\n",
        }
    )
    atom = 'key: "atom" value {'
    files["graph_schema.pbtxt"] = files["graph_schema.pbtxt"].replace(
        atom, atom + ' features { key: "#id" value { dtype: DT_INT64 } }'
    )

    converter, _ = convert(write(tmp_path, files))

    centers = {
        record["context/#id"][0]: record["context/center"]
        for split in ("train", "test")
        for record in map(decode, records_of(converter, split))
    }
    assert centers == {b"m1": [1], b"m2": [-1], b"m3": [-1]}


def test_names_of_nodes_of_other_graphs_are_refused(tmp_path):
    other = {"molecules.csv": "graph_id,toxic,part,center_atom\nm1,1,train,b\nm2,0,train,c\nm3,1,test,a\n"}

    with pytest.raises(
        ValueError,
        match=r"`center_atom` must name a node of 'atom' \(.*atoms.csv\) of the row's own graph; got 'c' in graph "
        r"'m2' in .*molecules.csv, line 3",
    ):
        convert(write(tmp_path, with_indices(**other)))


def test_several_indices_in_a_column_of_a_table_are_refused(tmp_path):
    files = with_indices()
    files["graph_schema.pbtxt"] = files["graph_schema.pbtxt"].replace(
        'key: "center" value { dtype: DT_INT64', 'key: "center" value { shape { dim { size: 2 } } dtype: DT_INT64'
    )

    with pytest.raises(
        ValueError, match=r"must mark features of one index in tables; got shape \[2\] for feature 'cen"
    ):
        convert(write(tmp_path, files))


def test_records_follow_each_other_by_the_hash_of_their_graph(molecules_dir):
    converter, _ = convert(molecules_dir, GraphLevelExamples(splits=SplitPlan(weights={"all": 1})))

    batches = list(converter.convert("all", batch_size=2))

    assert [len(batch.records) for batch in batches] == [2, 1]
    assert batches[0].graphs.num_subgraphs == 2
    keys = np.concatenate([batch.keys for batch in batches])
    ids = [decode(record)["context/#id"][0].decode() for batch in batches for record in batch.records]
    expected = hash_ids(converter.grouped.ids).tolist()
    assert keys.tolist() == sorted(expected)
    assert ids == converter.grouped.ids.to_pylist()
    assert records_of(converter, "all", batch_size=1) == records_of(converter, "all")


def test_splits_by_hash_are_those_of_the_graph_ids(molecules_dir):
    splits = SplitPlan(weights={"a": 1, "b": 1}, allows_empty_splits=True)

    converter, report = convert(molecules_dir, GraphLevelExamples(splits=splits))

    codes = node_split_codes(splits, codes=converter.grouped.keys, columns=SplitColumns())
    assert report.num_graphs == {"a": int((codes == 0).sum()), "b": int((codes == 1).sum())}


def test_splits_may_be_by_time_and_by_group(molecules_dir):
    by_time = GraphLevelExamples(splits=SplitPlan(time_feature="toxic", until={"clean": 1, "toxic": None}))
    by_group = GraphLevelExamples(
        splits=SplitPlan(weights={"a": 1, "b": 1}, group_column="part", allows_empty_splits=True)
    )

    assert convert(molecules_dir, by_time)[1].num_graphs == {"clean": 1, "toxic": 2}
    assert sorted(convert(molecules_dir, by_group)[1].num_graphs.values()) in ([0, 3], [1, 2])


def test_unused_graphs_are_counted(molecules_dir):
    splits = SplitPlan(column="part", order=("train",), unused_values=("test",))

    converter, report = convert(molecules_dir, GraphLevelExamples(splits=splits))

    assert report.num_graphs == {"train": 2}
    assert report.num_unused == 1
    assert len(records_of(converter, "train")) == 2


def test_without_a_context_table_nodes_name_the_graphs(tmp_path):
    schema = SCHEMA[SCHEMA.index("node_sets") :]
    tables_dir = write(tmp_path, FILES | {"graph_schema.pbtxt": schema})

    converter, report = convert(tables_dir, GraphLevelExamples(splits=SplitPlan(weights={"all": 1})))

    assert report.num_graphs == {"all": 3}
    records = {record["context/#id"][0]: record for record in map(decode, records_of(converter, "all"))}
    assert records[b"m1"] == {key: value for key, value in M1.items() if key != "context/toxic"}


def with_line(name, line):
    return {name: FILES[name] + line + "\n"}


@pytest.mark.parametrize(
    ("files", "rules", "message", "counts"),
    [
        (
            with_line("bonds.csv", "m2,a,c,1"),
            {"dangling_edges": "drop"},
            r"must name a node of 'atom' \(.*atoms.csv\) of the edge's own graph; got 'c' in graph 'm2' in .*line 6\.",
            {"edges/bond": {"dangling_target": 1}},
        ),
        (
            with_line("bonds.csv", "m2,c,c,1"),
            {"dangling_edges": "drop"},
            "`source` must name a node of 'atom' .* got 'c' in graph 'm2'",
            {"edges/bond": {"dangling_source": 1}},
        ),
        (
            with_line("atoms.csv", "m9,a,C,1"),
            {"dangling_edges": "drop"},
            "`graph_id` must name a graph of the context table; got 'm9' in .*atoms.csv, line 8",
            {"nodes/atom": {"unknown_graph": 1}},
        ),
        (
            with_line("bonds.csv", "m9,a,a,1"),
            {"dangling_edges": "drop"},
            "`graph_id` must name a graph of the context table; got 'm9' in .*bonds.csv, line 6",
            {"edges/bond": {"unknown_graph": 1}},
        ),
        (
            with_line("atoms.csv", "m1,a,O,9"),
            {"duplicate_nodes": "keep_first"},
            "`id` must be different in every record of a graph; got 'a' again in graph 'm1' in .*atoms.csv, line 8",
            {"nodes/atom": {"duplicate_node": 1}},
        ),
        (
            with_line("molecules.csv", "m1,0,test"),
            {"duplicate_nodes": "keep_first"},
            "`graph_id` must be different in every record; got 'm1' again in .*molecules.csv, line 5",
            {"context": {"duplicate_node": 1}},
        ),
        (
            with_line("atoms.csv", "m1,d,C,"),
            {"invalid_rows": "drop"},
            "`charge` must .* in .*atoms.csv, line 8",
            {"nodes/atom": {"missing": 1}},
        ),
    ],
    ids=[
        "target elsewhere",
        "source elsewhere",
        "atom of no graph",
        "bond of no graph",
        "atom twice",
        "graph twice",
        "cell",
    ],
)
def test_bad_rows_are_refused_or_dropped(tmp_path, files, rules, message, counts):
    tables_dir = write(tmp_path, FILES | files)

    with pytest.raises(ValueError, match=message):
        convert(tables_dir)

    share = {"max_dropped_share": 0.5} if "drop" in rules.values() else {}
    converter, report = convert(tables_dir, rules=RowRules(**rules, **share))
    assert {label: dict(table.dropped) for label, table in report.tables.items() if table.dropped} == counts
    assert len(report.problems) == 1
    clean_dir = tmp_path / "clean"
    clean_dir.mkdir()
    clean, _ = convert(write(clean_dir, FILES))
    for split in ("train", "test"):
        assert records_of(converter, split) == records_of(clean, split)


def test_more_dropped_rows_than_allowed_are_refused(tmp_path):
    tables_dir = write(tmp_path, FILES | with_line("bonds.csv", "m2,a,c,1"))

    with pytest.raises(ValueError, match=r"`max_dropped_share` must cover .* 1 of 5 rows of edges/bond"):
        convert(tables_dir, rules=RowRules(dangling_edges="drop", max_dropped_share=0.1))


@pytest.mark.parametrize(("rule", "num_bonds"), [("keep", 4), ("keep_first", 3)])
def test_repeated_edges_of_a_graph_are_counted(tmp_path, rule, num_bonds):
    # The same ends in another graph are another edge.
    tables_dir = write(tmp_path, FILES | with_line("bonds.csv", "m1,c,a,7\nm2,b,a,1"))

    converter, report = convert(tables_dir, rules=RowRules(duplicate_edges=rule))

    bonds = report.tables["edges/bond"]
    assert bonds.duplicate_edges == 1
    assert bonds.rows_used == num_bonds + 2
    sizes = {r["context/#id"][0]: r["edges/bond.#size"] for r in map(decode, records_of(converter, "train"))}
    assert sizes == {b"m1": [num_bonds], b"m2": [2]}
    with pytest.raises(
        ValueError, match=r"must name every edge once; got \('c', 'a'\) again in graph 'm1' in .*line 6"
    ):
        convert(tables_dir, rules=RowRules(duplicate_edges="refuse"))


def test_a_graph_without_nodes_is_refused_or_written(tmp_path):
    tables_dir = write(tmp_path, FILES | with_line("molecules.csv", "m4,0,test"))

    with pytest.raises(
        ValueError, match=r"must name a graph that has nodes; got 'm4' in .*molecules.csv, line 5, one of 1"
    ):
        convert(tables_dir)

    converter, report = convert(tables_dir, dataclasses.replace(BY_PART, allows_empty_graphs=True))
    assert report.num_empty == 1
    sizes = {r["context/#id"][0]: r["nodes/atom.#size"] for r in map(decode, records_of(converter, "test"))}
    assert sizes == {b"m3": [1], b"m4": [0]}


def test_a_split_without_graphs_is_refused(molecules_dir):
    spec = GraphLevelExamples(splits=SplitPlan(column="part", order=("train", "val", "test")))

    with pytest.raises(ValueError, match=r"`splits` must give every split at least one graph; got .*'val': 0"):
        convert(molecules_dir, spec)


def test_a_graph_without_a_split_is_named_by_its_line(tmp_path):
    tables_dir = write(tmp_path, FILES | with_line("molecules.csv", "m4,0,dev") | with_line("atoms.csv", "m4,a,C,1"))

    with pytest.raises(ValueError, match=r"`part` must name one of the splits .*'dev' in .*molecules.csv, line 5"):
        convert(tables_dir)


def test_a_table_without_graph_ids_is_refused(tmp_path):
    tables_dir = write(tmp_path, FILES | {"in.csv": "source,target\na,r\n"})

    with pytest.raises(ValueError, match="`graph_id` must be one column of the table; got none"):
        convert(tables_dir)


def convert_in_chunks(tables_dir, spec, num_chunks):
    """Converts chunk after chunk, as workers do that never see a whole table."""
    schema = read_tables_schema(tables_dir)
    layouts = graph_level_layouts(tables_dir, schema, spec).all
    units = {layout.label: list_units(layout) for layout in layouts}
    parts = {layout.label: {} for layout in layouts}
    for layout in layouts:
        for unit in units[layout.label]:
            for block in read_unit(layout, unit, RowRules()):
                for chunk, part in split_block(block, spec, num_chunks):
                    # A worker gets its blocks in any order.
                    parts[layout.label].setdefault(chunk, []).insert(0, part)
    records = {name: [] for name in spec.splits.names}
    for chunk in range(num_chunks):
        tables = {
            layout.label: join_blocks(layout, units[layout.label], parts[layout.label].get(chunk, []))
            for layout in layouts
        }
        converter = GraphLevelConverter(tables, spec, schema, RowRules())
        assert (chunks_of_keys(converter.grouped.keys, num_chunks) == chunk).all()
        for name in spec.splits.names:
            records[name] += records_of(converter, name)
    return records


def molecule_files(graphs):
    """Tables of graphs of (number of atoms, bonds as pairs of numbers), with the rows of graphs mixed."""
    atoms, bonds = ["graph_id,id,element,charge"], ["graph_id,source,target,order"]
    for number in range(8):
        for graph, (num_atoms, pairs) in enumerate(graphs):
            if number < num_atoms:
                atoms.append(f"g{graph},{num_atoms - number},C,{number}")
            if number < len(pairs):
                source, target = pairs[number]
                bonds.append(f"g{graph},{source % num_atoms + 1},{target % num_atoms + 1},{number}")
    molecules = ["graph_id,toxic", *(f"g{graph},{graph % 2}" for graph in range(len(graphs)))]
    return {
        "graph_schema.pbtxt": SCHEMA[: SCHEMA.index('node_sets { key: "ring"')]
        + SCHEMA[SCHEMA.index("edge_sets") : SCHEMA.index('edge_sets { key: "in"')],
        "molecules.csv": "\n".join(molecules) + "\n",
        "atoms.csv": "\n".join(atoms) + "\n",
        "bonds.csv": "\n".join(bonds) + "\n",
    }


NUMBERS = st.integers(0, 7)
GRAPHS = st.lists(
    st.tuples(st.integers(1, 5), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6)), min_size=1, max_size=12
).filter(lambda graphs: any(pairs for _, pairs in graphs))


@settings(max_examples=25, deadline=None)
@given(GRAPHS, st.sampled_from([1, 2, 5]))
def test_records_are_those_of_a_plain_reading_whole_or_in_chunks(tmp_path_factory, graphs, num_chunks):
    tables_dir = write(tmp_path_factory.mktemp("molecules"), molecule_files(graphs))
    spec = GraphLevelExamples(splits=SplitPlan(weights={"a": 1, "b": 1}, allows_empty_splits=True))

    converter, _ = convert(tables_dir, spec)
    whole = {name: records_of(converter, name) for name in spec.splits.names}

    assert convert_in_chunks(tables_dir, spec, num_chunks) == whole
    decoded = {
        record["context/#id"][0].decode(): record for records in whole.values() for record in map(decode, records)
    }
    assert len(decoded) == len(graphs)
    for number, (num_atoms, pairs) in enumerate(graphs):
        record = decoded[f"g{number}"]
        # Atom `k` of a graph is written as the first with the id `num_atoms`, the next with one less.
        places = {num_atoms - place: place for place in range(num_atoms)}
        assert record["nodes/atom.charge"] == [float(place) for place in range(num_atoms)]
        assert record["edges/bond.#source"] == [places[source % num_atoms + 1] for source, _ in pairs]
        assert record["edges/bond.#target"] == [places[target % num_atoms + 1] for _, target in pairs]
        assert record["edges/bond.order"] == list(range(len(pairs)))
        assert record["context/toxic"] == [number % 2]

"""Tables as input artifacts: splits of TFX's own ExampleGens, and folders that an Importer brings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components import GraphIndexer, GraphIndexerOptions, GraphTransform, GraphTransformOptions
from tfx_gnn.components.artifacts import GraphIndexArtifact, GraphSchemaArtifact
from tfx_gnn.components.graph_indexer import executor as graph_indexer
from tfx_gnn.components.subgraph_example_gen import SubgraphExampleGen, SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.executor import Executor
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.records import examples_folder
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = """
node_sets { key: "user" value { features { key: "age" value { dtype: DT_FLOAT } }
  metadata { filename: "users.tsv" extra { key: "delimiter" value: "\\t" } } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows-?????-of-00002.csv" } } }
"""
FILES = {
    "users.tsv": "id\tage\nann\t30\nbob\t\neve\t7\n".replace("\t\n", "\t41\n"),
    "knows-00000-of-00002.csv": "source,target\nann,bob\n",
    "knows-00001-of-00002.csv": "source,target\neve,ann\n",
    "asked.csv": "id\neve\n",
}
HOP = Hop(edge_set="knows", fan_out=2)


def plan(**seeds):
    return SamplingPlan(seed_node_set="user", hops=(HOP,), splits=SplitPlan(weights={"all": 1}), **seeds)


def record(**features):
    example = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "bytes_list"
        getattr(example.features.feature[name], kind).value.extend(values)
    return example.SerializeToString()


@pytest.fixture
def folder(tmp_path):
    """Artifact of a folder of tables."""
    tables = standard_artifacts.Examples()
    tables.uri = str(tmp_path / "folder")
    Path(tables.uri).mkdir()
    for name, text in FILES.items():
        (tmp_path / "folder" / name).write_text(text)
    return tables


@pytest.fixture
def splits(tmp_path):
    """Artifact of the same tables as TFX's ExampleGens write them."""
    tables = standard_artifacts.Examples()
    tables.uri, tables.span, tables.version = str(tmp_path / "splits"), 7, 2
    tables.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    tables.set_string_custom_property("file_format", "tfrecords_gzip")
    ids = [b"eve", b"ann", b"bob"]
    rows = {
        "users": [record(id=[name], age=[age]) for name, age in zip(ids, [7.0, 30.0, 41.0], strict=True)],
        "knows": [record(source=[b"eve"], target=[b"ann"]), record(source=[b"ann"], target=[b"bob"])],
        "asked": [record(id=[b"eve"])],
    }
    for split, records in rows.items():
        path = tmp_path / "splits" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
        path.parent.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
            for one in records:
                writer.write(one)
    return tables


@pytest.fixture
def schema(tmp_path):
    """Artifact of the tables' schema."""
    found = GraphSchemaArtifact()
    found.uri = str(tmp_path / "schema")
    Path(found.uri).mkdir()
    (tmp_path / "schema" / "graph_schema.pbtxt").write_text(SCHEMA)
    return found


def channel(artifact):
    return None if artifact is None else channel_utils.as_channel([artifact])


@pytest.fixture
def sample(tmp_path):
    """Runs SubgraphExampleGen; gives its artifact and the ids and ages in its examples."""

    def run(tables, schema=None, *, execution="in_memory", **seeds):
        options = SubgraphExampleGenOptions(plan=plan(**seeds), num_shards=1, execution=execution)
        component = SubgraphExampleGen(tables=channel(tables), tables_schema=channel(schema), options=options)
        examples = standard_artifacts.Examples()
        examples.uri = str(tmp_path / f"examples-{execution}-{Path(tables.uri).name}")
        context = Executor.Context(
            tmp_dir=str(tmp_path / "tmp"), unique_id="1", beam_pipeline_args=["--direct_running_mode=in_memory"]
        )
        inputs = {"tables": [tables]} | ({"tables_schema": [schema]} if schema else {})
        Executor(context).Do(inputs, {"examples": [examples]}, dict(component.exec_properties))
        found = set()
        for one in examples_folder.read_split(examples.uri, "all").as_numpy_iterator():
            features = tf.train.Example.FromString(one).features.feature
            ages = features["nodes/user.age"].float_list.value
            found.add(tuple(zip(features["nodes/user.#id"].bytes_list.value, ages, strict=True)))
        return examples, found

    return run


SUBGRAPHS = {((b"ann", 30.0), (b"bob", 41.0)), ((b"bob", 41.0),), ((b"eve", 7.0), (b"ann", 30.0))}


@pytest.mark.parametrize("execution", ["in_memory", "beam"])
def test_splits_are_the_tables_that_are_named_after_them(sample, splits, schema, execution):
    examples, found = sample(splits, schema, execution=execution)

    assert found == SUBGRAPHS
    assert (examples.span, examples.version) == (7, 2)
    made = text_format.Parse((Path(examples.uri) / "graph_schema.pbtxt").read_text(), GraphSchema())
    assert sorted(made.node_sets) == ["_readout", "user"]


def test_a_table_of_seeds_is_a_split_too(sample, splits, schema):
    _, found = sample(splits, schema, seed_table=SeedTable(filename="asked.csv"))

    assert found == {((b"eve", 7.0), (b"ann", 30.0))}


def test_a_folder_is_read_as_it_is(sample, folder, schema):
    (Path(folder.uri) / "graph_schema.pbtxt").write_text(SCHEMA)
    _, with_schema_inside = sample(folder)
    (Path(folder.uri) / "graph_schema.pbtxt").unlink()
    renamed = Path(folder.uri).rename(Path(folder.uri).with_name("bare"))
    folder.uri = str(renamed)

    _, with_schema_beside = sample(folder, schema)

    assert with_schema_inside == with_schema_beside == SUBGRAPHS


def test_an_index_is_built_of_splits(splits, schema, tmp_path):
    component = GraphIndexer(tables=channel(splits), tables_schema=channel(schema), options=GraphIndexerOptions())
    index = GraphIndexArtifact()
    index.uri = str(tmp_path / "index")

    executor = graph_indexer.Executor(graph_indexer.Executor.Context(tmp_dir=str(tmp_path / "tmp"), unique_id="1"))
    executor.Do(
        {"tables": [splits], "tables_schema": [schema]}, {"graph_index": [index]}, dict(component.exec_properties)
    )

    assert open_graph_index(index.uri).node_tables["user"].ids.to_pylist() == ["ann", "bob", "eve"]


def test_a_schema_in_an_object_store_replaces_that_of_the_folder():
    from tfx_gnn.tables.table_access import TableAccess

    access = TableAccess(schema_file="gs://bucket/tmp/graph_schema.pbtxt")

    assert access.schema_path("gs://bucket/tables") == "gs://bucket/tmp/graph_schema.pbtxt"


def test_tables_without_a_schema_are_refused(sample, splits):
    with pytest.raises(ValueError, match=r"`tables_schema` must be given .*; got none at .*Importer of GraphSchemaArt"):
        sample(splits)


def test_a_table_without_a_split_is_named(sample, splits, schema):
    Path(splits.uri, "Split-knows").rename(Path(splits.uri, "Split-train"))

    message = (
        r"got splits \['asked', 'train', 'users'\], none of them 'knows' for the file 'knows-\?{5}-of-00002.csv' of "
        r"edge set 'knows'. Give .* Input.Split\(name='knows', pattern='knows-\?{5}-of-00002.csv'\)"
    )
    with pytest.raises(ValueError, match=message):
        sample(splits, schema)


def test_records_of_another_format_are_refused(sample, splits, schema):
    splits.set_string_custom_property("payload_format", "FORMAT_PARQUET")

    with pytest.raises(
        ValueError, match=r"`tables` must be gzipped TFRecord .*; got payload_format 'FORMAT_PARQUET' in"
    ):
        sample(splits, schema)


def test_two_artifacts_of_tables_are_refused(splits):
    component = SubgraphExampleGen(tables=channel(splits), options=SubgraphExampleGenOptions(plan=plan()))

    with pytest.raises(ValueError, match="`tables` must be one artifact; got 2"):
        Executor().Do(
            {"tables": [splits, splits]},
            {"examples": [standard_artifacts.Examples()]},
            dict(component.exec_properties),
        )


MAKE = {
    "sample": lambda **given: SubgraphExampleGen(
        options=SubgraphExampleGenOptions(plan=plan(), num_spans=given.pop("num_spans", 1)), **given
    ),
    "index": lambda **given: GraphIndexer(options=GraphIndexerOptions(), **given),
    "transform": lambda **given: GraphTransform(
        examples=channel(standard_artifacts.Examples()),
        graph_schema=channel(GraphSchemaArtifact()),
        options=GraphTransformOptions(preprocessing_fn="json:dumps", analyze="tables"),
        **given,
    ),
}
TABLES = {"tables": standard_artifacts.Examples()}
OPEN = {"tables_dir": RuntimeParameter(name="tables_dir", ptype=str)}


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        *((name, {"tables_dir": "here", **TABLES}, "`tables_dir` must be empty if `tables` is") for name in MAKE),
        *((name, {"tables_schema": GraphSchemaArtifact()}, "the schema of `tables`; got no `tables`") for name in MAKE),
        *((name, {**TABLES, "runtime_parameters": OPEN}, "`runtime_parameters` must be left out") for name in MAKE),
        *((name, {**TABLES, "tables_fingerprint": "v1"}, "`tables_fingerprint` must be left out") for name in MAKE),
        *((name, {}, "`tables_dir` or `tables` must be given; got neither") for name in ("sample", "index")),
        *((name, {**TABLES, "span": "7"}, "`span` must be left out .*; got '7'") for name in ("sample", "index")),
        ("sample", {**TABLES, "num_spans": 3}, "`num_spans` must be left out if `tables` is given, .*; got 3"),
    ],
)
def test_tables_come_from_one_place(name, given, message):
    given = {key: channel(value) if key in ("tables", "tables_schema") else value for key, value in given.items()}

    with pytest.raises(ValueError, match=message):
        MAKE[name](**given)


def test_tables_of_a_channel_are_not_hashed_when_the_pipeline_is_built(splits, schema):
    for name, make in MAKE.items():
        component = make(tables=channel(splits), tables_schema=channel(schema))

        assert component.exec_properties["tables_fingerprint"] == "", name
        assert json.dumps(component.exec_properties["tables_dir"]) == '""', name

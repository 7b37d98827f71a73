import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder, subgraph_dataset
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import ContextTable, EdgeTable, GraphTables, NodeTable, read_tables

PLAN = SamplingPlan(
    seed_node_set="user",
    hops=(Hop(edge_set="knows", fan_out=10), Hop(edge_set="buys", fan_out=10, inputs=("seed", "knows"))),
    label_features=("color",),
)


def _encode(tables, plan, rows):
    return SubgraphExampleEncoder(tables, plan).encode(
        InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(np.array(rows))
    )


def _example(**features):
    """A tf.Example from lists; the wire type is that of the list's items, `int` for an empty list."""
    example = tf.train.Example()
    for key, values in features.items():
        feature = example.features.feature[key]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.SetInParent()
            feature.int64_list.value.extend(values)
    return example


def test_a_subgraph_is_written_key_by_key_as_tf_gnn_lays_it_out(shop_dir):
    (record,) = _encode(read_tables(shop_dir), PLAN, [1])

    # Seed bob knows cid; bob buys 7 (twice of it) and 12 (four), cid buys 12 (three).
    expected = _example(
        **{
            "nodes/user.#size": [2],
            "nodes/user.#id": [b"bob", b"cid"],
            "nodes/user.age": [30, 40],
            "nodes/item.#size": [2],
            "nodes/item.#id": [7, 12],
            "nodes/item.price": [0.25, 1.5],
            "nodes/_readout.#size": [1],
            "nodes/_readout.color": [b"red"],
            "edges/knows.#size": [1],
            "edges/knows.#source": [0],
            "edges/knows.#target": [1],
            "edges/knows.#id": [2],
            "edges/buys.#size": [3],
            "edges/buys.#source": [0, 1, 0],
            "edges/buys.#target": [0, 1, 1],
            "edges/buys.#id": [1, 2, 3],
            "edges/buys.count": [2, 3, 4],
            "edges/_readout/seed.#size": [1],
            "edges/_readout/seed.#source": [0],
            "edges/_readout/seed.#target": [0],
        }
    )
    assert tf.train.Example.FromString(record) == expected


def test_inputs_of_a_seed_table_are_in_the_context_and_labels_are_not(shop_dir):
    tables = read_tables(shop_dir)
    columns = {
        "day": pa.array([7, -300], pa.int64()),
        "shop": pa.array(["a", ""], pa.large_string()),
        "share": pa.array([0.5, 2.0], pa.float32()),
        "won": pa.array([1, 0], pa.int64()),
    }
    types = {"day": "int64", "shop": "string", "share": "float32", "won": "int64"}
    table = SeedTable(filename="seeds.csv", features=types, input_features=("day", "shop", "share"))
    plan = dataclasses.replace(PLAN, seed_table=table, label_features=("won",))
    seeds = Seeds(
        keys=hash_ids(tables.node_tables["user"].ids)[[1, 1]],
        rows=np.array([1, 0]),
        readout_splits=np.arange(3),
        readout_nodes={"seed": np.array([1, 1])},
    )
    encoder = SubgraphExampleEncoder(tables, plan, seed_features=columns)
    subgraphs = InMemorySampler(tables, plan, sampling_seed=0).sample(seeds)

    first, second = (tf.train.Example.FromString(one).features.feature for one in encoder.encode(subgraphs))

    assert sorted(encoder.schema.context.features) == ["day", "share", "shop"]
    assert sorted(key for key in first if key.startswith("context/")) == [
        "context/day",
        "context/share",
        "context/shop",
    ]
    assert [one["context/day"].int64_list.value[0] for one in (first, second)] == [-300, 7]
    assert [one["context/shop"].bytes_list.value[0] for one in (first, second)] == [b"", b"a"]
    assert [one["context/share"].float_list.value[0] for one in (first, second)] == [2.0, 0.5]
    assert [one["nodes/_readout.won"].int64_list.value[0] for one in (first, second)] == [0, 1]
    for record in encoder.encode(subgraphs):
        assert tf.train.Example.FromString(record).SerializeToString(deterministic=True) == record
    with pytest.raises(ValueError, match=r"columns of the seed table that are labels or inputs; .* without 'shop'"):
        encoder.encode(subgraphs, seed_inputs={"day": columns["day"]})


def test_records_equal_what_protobuf_writes(shop_dir):
    records = _encode(read_tables(shop_dir), PLAN, [0, 1, 2, 3])

    assert len(records) == 4
    for record in records:
        assert tf.train.Example.FromString(record).SerializeToString(deterministic=True) == record


def test_an_empty_set_has_typed_empty_lists(shop_dir):
    (record,) = _encode(read_tables(shop_dir), PLAN, [3])

    features = tf.train.Example.FromString(record).features.feature
    assert features["nodes/item.#size"].int64_list.value == [0]
    assert features["nodes/item.price"].WhichOneof("kind") == "float_list"
    assert features["edges/knows.#source"].WhichOneof("kind") == "int64_list"
    assert not features["nodes/item.price"].float_list.value


def test_records_are_parsed_by_tf_io(shop_dir):
    records = _encode(read_tables(shop_dir), PLAN, [1, 3])

    parsed = tf.io.parse_example(
        tf.constant(records),
        {
            "ids": tf.io.RaggedFeature(tf.string, value_key="nodes/user.#id"),
            "prices": tf.io.RaggedFeature(tf.float32, value_key="nodes/item.price"),
            "targets": tf.io.RaggedFeature(tf.int64, value_key="edges/buys.#target"),
            "nodes/_readout.color": tf.io.FixedLenFeature([1], tf.string),
        },
    )

    assert parsed["ids"].to_list() == [[b"bob", b"cid"], [b"dan"]]
    assert parsed["prices"].to_list() == [[0.25, 1.5], []]
    assert parsed["targets"].to_list() == [[0, 1, 1], []]
    assert parsed["nodes/_readout.color"].numpy().tolist() == [[b"red"], [b"red"]]


def test_records_are_graphs_of_the_schema(shop_dir):
    tables = read_tables(shop_dir)
    spec = create_graph_spec_from_schema_pb(SubgraphExampleEncoder(tables, PLAN).schema)
    bob, dan = _encode(tables, PLAN, [1, 3])

    graph = parse_single_example(spec, tf.constant(bob))
    lonely = parse_single_example(spec, tf.constant(dan))

    assert graph.node_sets["item"]["price"].numpy().tolist() == [0.25, 1.5]
    assert graph.edge_sets["buys"].adjacency.source.numpy().tolist() == [0, 1, 0]
    assert graph.edge_sets["buys"]["count"].numpy().tolist() == [2, 3, 4]
    assert graph.edge_sets["_readout/seed"].adjacency.source.numpy().tolist() == [0]
    assert graph.node_sets["_readout"]["color"].numpy().tolist() == [b"red"]
    assert lonely.node_sets["user"]["#id"].numpy().tolist() == [b"dan"]
    assert lonely.edge_sets["knows"].adjacency.target.numpy().tolist() == []


@pytest.mark.parametrize(
    ("dtype", "column", "kind", "expected"),
    [
        ("DT_BOOL", pa.array([True, False]), "int64_list", [1, 0]),
        ("DT_INT8", pa.array([-128, 127], pa.int8()), "int64_list", [-128, 127]),
        ("DT_INT64", pa.array([-(2**63), 2**63 - 1]), "int64_list", [-(2**63), 2**63 - 1]),
        # tf.Example has no unsigned integers: the bits are kept.
        ("DT_UINT64", pa.array([2**64 - 1, 300], pa.uint64()), "int64_list", [-1, 300]),
        ("DT_FLOAT", pa.array([0.1, -2.5], pa.float32()), "float_list", [np.float32(0.1), -2.5]),
        ("DT_STRING", pa.array(["", "naïve" * 100], pa.large_string()), "bytes_list", [b"", "naïve".encode() * 100]),
    ],
)
def test_every_type_is_written(dtype, column, kind, expected):
    schema = text_format.Parse(
        f'node_sets {{ key: "n" value {{ features {{ key: "f" value {{ dtype: {dtype} }} }} }} }}', GraphSchema()
    )
    nodes = NodeTable(path="", ids=pa.array(["x", "y"], pa.large_string()), features={"f": column})
    tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={})

    records = _encode(tables, SamplingPlan(seed_node_set="n"), [1, 0])

    examples = [tf.train.Example.FromString(record) for record in records]
    written = [getattr(example.features.feature["nodes/n.f"], kind).value[0] for example in examples]
    assert written == expected[::-1]
    assert [example.SerializeToString(deterministic=True) for example in examples] == records


def test_lists_and_context_are_parsed_back():
    schema = text_format.Parse(
        """
        context { features { key: "day" value { dtype: DT_INT64 } } features { key: "v" value { dtype: DT_FLOAT
          shape { dim { size: 2 } } } } }
        node_sets { key: "n" value {
          features { key: "box" value { dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 2 } } } }
          features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
        """,
        GraphSchema(),
    )
    boxes = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8), pa.float32()), 4)
    tags = pa.array([["x", "y"], []], pa.large_list(pa.large_string()))
    nodes = NodeTable(path="", ids=pa.array(["a", "b"], pa.large_string()), features={"box": boxes, "tags": tags})
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1, 2], pa.float32()), 2)
    context = ContextTable(path="", features={"day": pa.array([7]), "v": vectors}, extra_columns={}, num_rows=1)
    tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={}, context_table=context)
    plan = SamplingPlan(seed_node_set="n", context_features=("day", "v"))
    spec = create_graph_spec_from_schema_pb(SubgraphExampleEncoder(tables, plan).schema)

    first, second = (parse_single_example(spec, tf.constant(record)) for record in _encode(tables, plan, [1, 0]))

    assert first.node_sets["n"]["box"].numpy().tolist() == [[[4, 5], [6, 7]]]
    assert first.node_sets["n"]["tags"].to_list() == [[]]
    assert second.node_sets["n"]["tags"].to_list() == [[b"x", b"y"]]
    assert first.context["day"].numpy().tolist() == second.context["day"].numpy().tolist() == [7]
    assert first.context["v"].numpy().tolist() == [[1, 2]]


def test_context_features_need_a_context_table():
    schema = text_format.Parse(
        'context { features { key: "day" value { dtype: DT_INT64 } } } node_sets { key: "n" value { } }', GraphSchema()
    )
    nodes = NodeTable(path="", ids=pa.array(["a"], pa.large_string()), features={})
    tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={})

    with pytest.raises(
        ValueError, match=r"`context_features` must be those of a context table .* got 'day' and no table"
    ):
        SubgraphExampleEncoder(tables, SamplingPlan(seed_node_set="n", context_features=("day",)))


def test_the_id_of_an_edge_is_its_row_as_written():
    schema = text_format.Parse(
        'node_sets { key: "n" value { } } edge_sets { key: "e" value { source: "n" target: "n" } }', GraphSchema()
    )
    nodes = NodeTable(path="", ids=pa.array(["a"], pa.large_string()), features={})
    zeros = np.zeros(2, np.int64)
    edges = EdgeTable(
        path="", source_set="n", target_set="n", sources=zeros, targets=zeros, features={}, rows=np.array([3, 40])
    )
    tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={"e": edges})

    (record,) = _encode(tables, SamplingPlan(seed_node_set="n", hops=(Hop(edge_set="e", strategy="full"),)), [0])

    assert tf.train.Example.FromString(record).features.feature["edges/e.#id"].int64_list.value == [3, 40]


def test_large_subgraphs_are_written_whole():
    num_nodes = 40_000
    schema = text_format.Parse(
        'node_sets { key: "n" value { } } edge_sets { key: "e" value { source: "n" target: "n" } }', GraphSchema()
    )
    nodes = NodeTable(path="", ids=pa.array(np.arange(num_nodes)), features={})
    edges = EdgeTable(
        path="",
        source_set="n",
        target_set="n",
        sources=np.zeros(num_nodes, np.int64),
        targets=np.arange(num_nodes),
        features={},
    )
    tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={"e": edges})
    plan = SamplingPlan(seed_node_set="n", hops=(Hop(edge_set="e", fan_out=num_nodes),))

    (record,) = _encode(tables, plan, [0])

    features = tf.train.Example.FromString(record).features.feature
    assert list(features["edges/e.#target"].int64_list.value) == list(range(num_nodes))
    assert list(features["nodes/n.#size"].int64_list.value) == [num_nodes]


DATASET_PLAN = SamplingPlan(
    seed_node_set="user",
    hops=(Hop(edge_set="knows", fan_out=1), Hop(edge_set="buys", fan_out=1, inputs=("seed", "knows"))),
    label_features=("color",),
)


@pytest.fixture
def tables(shop_dir):
    return read_tables(shop_dir)


def _seeds(tables, rows=(0, 1, 2, 3)):
    rows = np.array(rows)
    keys = hash_ids(tables.node_tables["user"].ids)[rows]
    return Seeds(keys=keys, rows=rows, readout_splits=np.arange(len(rows) + 1), readout_nodes={"seed": rows})


def _records(dataset, count=None):
    return [record.numpy() for record in (dataset if count is None else dataset.take(count))]


def _written(tables, sampling_seed=0):
    subgraphs = InMemorySampler(tables, DATASET_PLAN, sampling_seed=sampling_seed).sample(_seeds(tables))
    return SubgraphExampleEncoder(tables, DATASET_PLAN).encode(subgraphs)


def test_the_records_are_those_that_files_hold(tables):
    dataset = subgraph_dataset(tables, DATASET_PLAN, _seeds(tables), parses=False)

    assert int(dataset.cardinality()) == 4
    assert _records(dataset) == _written(tables)
    assert _records(dataset) == _written(tables)


def test_each_epoch_has_every_seed_once_in_an_order_of_its_own(tables):
    dataset = subgraph_dataset(tables, DATASET_PLAN, _seeds(tables), shuffle_seed=3, num_epochs=8, parses=False)

    records = _records(dataset)
    epochs = [tuple(records[start : start + 4]) for start in range(0, 32, 4)]

    assert all(sorted(epoch) == sorted(_written(tables)) for epoch in epochs)
    assert len(set(epochs)) > 3
    assert _records(dataset) == records
    other = subgraph_dataset(tables, DATASET_PLAN, _seeds(tables), shuffle_seed=4, num_epochs=8, parses=False)
    assert _records(other) != records


def test_epochs_without_end_may_draw_anew(tables):
    dataset = subgraph_dataset(tables, DATASET_PLAN, _seeds(tables), num_epochs=None, samples_anew=True, parses=False)

    records = _records(dataset, 40)

    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert records[:4] == _written(tables)
    # Ann knows three, of which one is drawn; dan is alone.
    assert len(set(records[0::4])) > 1
    assert len(set(records[3::4])) == 1


def test_graphs_are_parsed_with_their_labels(tables):
    dataset = subgraph_dataset(tables, DATASET_PLAN, _seeds(tables))

    graphs = list(dataset)

    assert dataset.element_spec.is_compatible_with(graphs[0])
    assert [graph.node_sets["user"]["#id"].numpy()[0] for graph in graphs] == [b"ann", b"bob", b"cid", b"dan"]
    assert [graph.node_sets["_readout"]["color"].numpy().tolist() for graph in graphs] == [
        [b"blue"],
        [b"red"],
        [b"blue"],
        [b"red"],
    ]


def test_more_seeds_than_a_block_come_in_order(tables):
    rows = [0, 3] * 150

    records = _records(subgraph_dataset(tables, DATASET_PLAN, _seeds(tables, rows), parses=False))

    written = _written(tables)
    assert records == [written[row] for row in rows]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sampling_seed": -1}, r"`sampling_seed` must be in \[0, 2\*\*63\); got -1"),
        ({"shuffle_seed": 2**63}, r"`shuffle_seed` must be in \[0, 2\*\*63\); got"),
        ({"num_epochs": 0}, "`num_epochs` must be at least 1 or None; got 0"),
        ({"rows": ()}, "`seeds` must have at least one; got none"),
    ],
)
def test_bad_arguments_are_refused(tables, fields, message):
    rows = np.array(fields.pop("rows", (0, 1)), np.int64)

    with pytest.raises(ValueError, match=message):
        subgraph_dataset(tables, DATASET_PLAN, _seeds(tables, rows), **fields)

"""Index features of tf.Examples that are merged and padded while they are parsed."""

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.batching.padding import FeatureDefaultValues, pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec.example_parsing import parse_and_merge, parse_example, parse_merge_and_pad

SCHEMA = """
context { features { key: "root" value { dtype: DT_INT64 } } features { key: "y" value { dtype: DT_INT64 } } }
node_sets { key: "a" value {
  features { key: "face" value { dtype: DT_INT64 shape { dim { size: 3 } } } }
  features { key: "near" value { dtype: DT_INT32 shape { dim { size: -1 } } } } } }
node_sets { key: "b" value {} }
edge_sets { key: "e" value { source: "a" target: "b"
  features { key: "between" value { dtype: DT_INT64 shape { dim { size: 2 } } } } } }
"""
DECLARED = {
    "context": {"root": "a"},
    "nodes/a": {"face": "a", "near": "b"},
    "edges/e": {"between": ("b", "a")},
}
SPEC = tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.parse_schema(SCHEMA))


def content(num_a, num_b, num_edges, root):
    return {
        "context/root": [root],
        "context/y": [root],
        "nodes/a.#size": [num_a],
        "nodes/a.face": [i % max(num_a, 1) for i in range(3 * num_a)],
        "nodes/a.near": [num_b - 1] * num_a,
        "nodes/a.near.d1": [1] * num_a,
        "nodes/b.#size": [num_b],
        "edges/e.#size": [num_edges],
        "edges/e.#source": [num_a - 1] * num_edges,
        "edges/e.#target": [0] * num_edges,
        "edges/e.between": [num_b - 1, num_a - 1] * num_edges,
    }


@pytest.fixture(scope="module")
def examples(make_record):
    return tf.constant([make_record(content(*sizes)) for sizes in [(2, 1, 1, 1), (0, 0, 0, -1), (3, 2, 2, 0)]])


def values(graph):
    return [
        graph.context["root"].numpy().tolist(),
        graph.context["y"].numpy().tolist(),
        graph.node_sets["a"]["face"].numpy().tolist(),
        graph.node_sets["a"]["near"].to_list(),
        graph.edge_sets["e"]["between"].numpy().tolist(),
    ]


MERGED = [
    [1, -1, 2],
    [1, -1, 0],
    [[0, 1, 0], [1, 0, 1], [2, 3, 4], [2, 3, 4], [2, 3, 4]],
    [[0], [0], [2], [2], [2]],
    [[0, 1], [2, 4], [2, 4]],
]


def test_values_are_shifted_while_examples_are_merged(examples):
    graph = parse_and_merge(SPEC, examples, index_features=DECLARED)

    assert values(graph) == MERGED
    assert values(parse_example(SPEC, examples).merge_batch_to_components(index_features=DECLARED)) == MERGED
    assert graph.spec == parse_and_merge(SPEC, examples).spec


@pytest.mark.parametrize(
    "constraints",
    [
        SizeConstraints(4, {"a": 7, "b": 4}, {"e": 5}),
        SizeConstraints(6, {"a": 9, "b": 6}, {"e": 3}, min_nodes_per_component={}),
        SizeConstraints(tf.constant(5), {"a": 7, "b": 4}, {"e": 4}),
    ],
    ids=["one-more", "several-more", "unknown-number"],
)
@pytest.mark.parametrize("how", [lambda f: f, tf.function])
def test_padding_while_parsing_gives_what_padding_afterwards_gives(examples, constraints, how):
    padding = FeatureDefaultValues(context={"y": 9, "root": 5})
    parse = how(
        lambda records: parse_merge_and_pad(SPEC, records, constraints, padding_values=padding, index_features=DECLARED)
    )

    padded, _ = parse(examples)

    merged = parse_and_merge(SPEC, examples, index_features=DECLARED)
    expected, _ = pad_to_total_sizes(merged, constraints, padding_values=padding, index_features=DECLARED)
    assert values(padded) == values(expected)
    assert values(padded)[0] == [1, -1, 2] + [5] * (int(constraints.total_num_components) - 3)
    assert values(padded)[2][:5] == MERGED[2]


def test_of_examples_of_several_components_values_count_from_the_first_node_of_the_example(make_record):
    spec = SPEC.relax(num_components=True)
    record = make_record(
        {**content(4, 2, 0, 0), "context/root": [0, 3], "context/y": [0, 1], "nodes/a.#size": [1, 3]}
        | {"nodes/b.#size": [1, 1], "edges/e.#size": [0, 0]}
    )

    graph = parse_and_merge(spec, tf.constant([record, record]), index_features=DECLARED)

    assert graph.context["root"].numpy().tolist() == [0, 3, 4, 7]


def test_wrong_values_are_refused(make_record):
    wrong = tf.constant([make_record({**content(2, 1, 1, 1), "edges/e.between": [1, 1]})])
    budget = SizeConstraints(2, {"a": 3, "b": 2}, {"e": 2})

    for parse in (
        lambda: parse_and_merge(SPEC, wrong, index_features=DECLARED),
        lambda: parse_merge_and_pad(SPEC, wrong, budget, index_features=DECLARED),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"'between' of 'edges/e' .* \('b', 'a'\).* got \[1\]"):
            parse()
    unchecked = parse_and_merge(SPEC, wrong, validate=False, index_features=DECLARED)
    assert unchecked.edge_sets["e"]["between"].numpy().tolist() == [[1, 1]]


def test_unknown_features_are_refused(examples):
    with pytest.raises(ValueError, match="got 'x' of 'nodes/a'"):
        parse_and_merge(SPEC, examples, index_features={"nodes/a": {"x": "a"}})
    with pytest.raises(ValueError, match="got 'x' of 'nodes/a'"):
        parse_merge_and_pad(
            SPEC,
            examples,
            SizeConstraints(4, {"a": 7, "b": 4}, {"e": 5}),
            index_features={"nodes/a": {"x": "a"}},
        )

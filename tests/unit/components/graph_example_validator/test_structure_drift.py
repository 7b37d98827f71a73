from tfx_gnn.components.graph_example_validator.structure_drift import (
    TableSizes,
    compared_spans,
    measure_structure_drift,
    read_sizes,
    read_sizes_of_examples,
)
from tfx_gnn.graph.schema.schema_io import parse_schema

SCHEMA = parse_schema(
    'node_sets { key: "user" value {} } node_sets { key: "item" value {} } '
    'edge_sets { key: "buys" value { source: "user" target: "item" } }'
)


def sizes(users, items, buys, span=""):
    return TableSizes(span=span, rows={"nodes/user": users, "nodes/item": items, "edges/buys": buys})


def drift(current, earlier, threshold=0.5):
    return [f"{one.about}: {one.words}" for one in measure_structure_drift(current, earlier, SCHEMA, threshold)]


def test_change_is_the_same_for_half_and_for_twice_as_many():
    assert drift(sizes(100, 10, 1000), sizes(200, 20, 2000), threshold=0.4) == [
        "edges/buys: rows 1,000 after 2,000: change 0.5000, allowed 0.4",
        "nodes/item: rows 10 after 20: change 0.5000, allowed 0.4",
        "nodes/user: rows 100 after 200: change 0.5000, allowed 0.4",
    ]
    assert len(drift(sizes(200, 20, 2000), sizes(100, 10, 1000), threshold=0.4)) == 3
    assert drift(sizes(100, 10, 1000), sizes(200, 20, 2000)) == []


def test_degrees_of_both_ends_are_compared():
    assert drift(sizes(100, 40, 1000), sizes(100, 10, 1000), threshold=0.7) == [
        "edges/buys: mean degree of its target nodes 'item' 25 after 100: change 0.7500, allowed 0.7",
        "nodes/item: rows 40 after 10: change 0.7500, allowed 0.7",
    ]


def test_tables_of_one_side_and_empty_ones_are_not_compared():
    assert drift(TableSizes(span="", rows={"nodes/user": 7}), sizes(7, 1, 1)) == []
    assert drift(sizes(0, 1, 0), sizes(0, 1, 0)) == []
    assert drift(sizes(5, 1, 0), sizes(5, 1, 9))[-1] == "edges/buys: rows 0 after 9: change 1.0000, allowed 0.5"


def test_spans_are_named_if_both_are_known():
    assert compared_spans(sizes(1, 1, 1, "8"), sizes(1, 1, 1, "7")) == ", span 8 compared with span 7"
    assert compared_spans(sizes(1, 1, 1, "8"), sizes(1, 1, 1)) == compared_spans(None, sizes(1, 1, 1, "7")) == ""


def test_sizes_travel_with_the_statistics(tmp_path):
    sizes(3, 2, 1, "2026-01-31").write(str(tmp_path))

    assert read_sizes(str(tmp_path)) == sizes(3, 2, 1, "2026-01-31")
    assert read_sizes("") is read_sizes_of_examples(str(tmp_path)) is None

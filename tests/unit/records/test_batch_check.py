from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.components.graph_example_validator.checks import make_anomaly
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema.index_features import mark_index_features
from tfx_gnn.records.batch_check import READABLE, UNDECLARED_FEATURE, BatchChecker
from tfx_gnn.records.example_batches import ExampleDecoder
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.records.findings import Findings, merge_findings

SCHEMA = text_format.Parse(
    """
    context { features { key: "year" value { dtype: DT_INT64 } } }
    node_sets { key: "a" value {
        features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
        features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
    node_sets { key: "b" value { features { key: "flag" value { dtype: DT_BOOL } } } }
    edge_sets { key: "e" value { source: "a" target: "b" } }
    """,
    graph_schema_pb2.GraphSchema(),
)
GOOD = {
    "context/year": [1999],
    "nodes/a.#size": [2],
    "nodes/a.x": [1.0, 2.0, 3.0, 4.0],
    "nodes/a.w": ["p", "q", "r"],
    "nodes/a.w.d1": [3, 0],
    "nodes/b.#size": [1],
    "nodes/b.flag": [1],
    "edges/e.#size": [1],
    "edges/e.#source": [1],
    "edges/e.#target": [0],
}
FILE = RecordFile(split="train", shard=0, num_shards=1, path="/x/f.gz")


@pytest.fixture(scope="module")
def run(make_record):
    decoder = ExampleDecoder()

    def run(contents, required_sets=(), decisive=READABLE):
        """Findings as {(check, feature): (examples, values, place texts)}, and the positions of good records."""
        checker, findings, good = BatchChecker.by(SCHEMA, required_sets, decisive), Findings(), []
        records = [c if isinstance(c, bytes) else make_record(c) for c in contents]
        for batch in checker.read(decoder, 10, records, FILE, findings):
            good += batch.numbers.tolist()
        found = {
            (f.check, f.about): (f.num_examples, f.num_values, [p.text() for p in f.places]) for f in findings.found
        }
        return found, sorted(good)

    return run


def test_index_features_refer_to_nodes_of_their_example_by_column(make_record):
    schema = text_format.Parse(
        """
        context { features { key: "root" value { dtype: DT_INT64 } } }
        node_sets { key: "a" value { features { key: "pair" value { dtype: DT_INT64 shape { dim { size: 2 } } } } } }
        node_sets { key: "b" value {} }
        """,
        graph_schema_pb2.GraphSchema(),
    )
    mark_index_features(schema, {"context": {"root": "b"}, "nodes/a": {"pair": ("a", "b")}})
    good = {"nodes/a.#size": [2], "nodes/a.pair": [1, 2, -1, 0], "nodes/b.#size": [3], "context/root": [2]}
    contents = [
        good,
        {**good, "context/root": [3]},
        {**good, "nodes/a.pair": [2, 2, 0, 0]},
        {**good, "nodes/a.pair": [1, 2, 1, -2]},
        {**good, "context/root": [-1]},
    ]
    findings, numbers = Findings(), []

    for batch in BatchChecker.by(schema).read(ExampleDecoder(), 0, [*map(make_record, contents)], FILE, findings):
        numbers += batch.numbers.tolist()

    assert sorted(numbers) == [0, 4]
    assert {(f.about, f.num_examples, f.num_values, *(p.text() for p in f.places)) for f in findings.found} == {
        ("context/root", 1, 1, "record 1 of f.gz: index 3 with 3 nodes in node set 'b'"),
        (
            *("nodes/a.pair", 2, 2),
            "record 2 of f.gz: index 2 with 2 nodes in node set 'a'",
            "record 3 of f.gz: index -2 with 3 nodes in node set 'b'",
        ),
    }
    assert {f.check for f in findings.found} == {"dangling_index"}


def test_examples_by_their_schema_pass(run):
    empty = {"context/year": [2000], "nodes/b.#size": [0]}

    assert run([GOOD, empty, GOOD]) == ({}, [10, 11, 12])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("context/year", None), ("missing_feature", 0, "absent although there are 1 items")),
        (("context/year", [1, 2]), ("wrong_number_of_values", 0, "2 values instead of 1, for 1 items of shape []")),
        (("context/year", [1.0]), ("wrong_kind", 0, "float_list instead of int64_list")),
        (("nodes/a.x", [1.0, 2.0]), ("wrong_number_of_values", 0, "2 values instead of 4, for 2 items of shape [2]")),
        (("nodes/a.w.d1", [2, 0]), ("wrong_number_of_values", 0, "3 values instead of 2, for 2 items of shape [None]")),
        (("nodes/a.w.d1", [3]), ("wrong_row_lengths", 0, "1 lengths [3] for 2 rows")),
        (("nodes/a.w.d1", [4, -1]), ("wrong_row_lengths", 0, "2 lengths [4, -1] for 2 rows")),
        (("nodes/a.#size", None), ("wrong_size", 0, "no size, but 7 values of the set")),
        (("nodes/a.#size", [1, 1]), ("wrong_size", 0, "[1, 1]")),
        (("nodes/a.#size", [-1]), ("wrong_size", 0, "[-1]")),
        (("edges/e.#source", [0, 1]), ("wrong_number_of_values", 0, "2 values for 1 edges")),
        (("edges/e.#source", [2]), ("dangling_edge", 1, "index 2 with 2 nodes in node set 'a'")),
        (("edges/e.#target", [-1]), ("dangling_edge", 1, "index -1 with 1 nodes in node set 'b'")),
    ],
)
def test_a_broken_graph_is_counted_with_its_place(run, change, expected):
    (key, values), (check, num_values, detail) = change, expected
    content = {**GOOD, key: values}
    if values is None:
        del content[key]

    found, good = run([GOOD, content])

    feature = "nodes/a.w" if (key, check) == ("nodes/a.w.d1", "wrong_number_of_values") else key
    assert found[check, feature] == (1, num_values, [f"record 11 of f.gz: {detail}"])
    assert good == [10]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("nodes/a.x", [1.0, float("nan"), float("inf"), 4.0]), ("not_finite", 2, "value nan")),
        (("nodes/b.flag", [2]), ("out_of_dtype", 1, "value 2")),
        (("nodes/a.y", [1.0]), ("undeclared_feature", 0, "not in the graph schema")),
        (("nodes/a.y", []), ("undeclared_feature", 0, "not in the graph schema")),
    ],
)
def test_a_wrong_value_is_counted_but_the_graph_can_be_read(run, change, expected):
    (key, values), (check, num_values, detail) = change, expected
    found, good = run([{**GOOD, key: values}])

    assert found == {(check, key): (1, num_values, [f"record 10 of f.gz: {detail}"])}
    assert good == [10]


def test_a_required_set_must_have_items(run):
    without = {key: values for key, values in GOOD.items() if not key.startswith("edges/")}

    found, _ = run([GOOD, without, GOOD, without], required_sets=("edges/e",))

    assert found == {
        ("missing_set", "edges/e"): (
            2,
            0,
            ["record 11 of f.gz: the set has no items", "record 13 of f.gz: the set has no items"],
        )
    }


def test_a_required_set_must_be_declared():
    with pytest.raises(ValueError, match=r"`required_sets` must be sets of the graph schema.*got \['nodes/c'\]"):
        BatchChecker.by(SCHEMA, ("nodes/c",))


def test_garbage_and_mixed_kinds_leave_the_other_records_readable(run):
    found, good = run([GOOD, b"\x0agarbage", {**GOOD, "context/year": [1.5]}, GOOD])

    assert found["not_an_example", ""] == (1, 0, ["record 11 of f.gz: 8 other bytes"])
    assert good == [10, 13]
    assert found["wrong_kind", "context/year"] == (1, 0, ["record 12 of f.gz: float_list instead of int64_list"])


def test_only_the_first_places_are_kept_and_all_are_counted(run):
    found, good = run([{**GOOD, "edges/e.#target": [9]}] * 5)

    assert found["dangling_edge", "edges/e.#target"] == (
        5,
        5,
        [f"record {record} of f.gz: index 9 with 1 nodes in node set 'b'" for record in (10, 11, 12)],
    )
    assert good == []


def test_findings_of_parts_add_up_in_any_order(run):
    parts = []
    for record in (5, 3):
        part = Findings()
        part.at("dangling_edge", "train", "k").add(2, [], 4)
        part.at("dangling_edge", "val", "k").add(record, [])
        parts.append(part)

    merged, reversed_ = merge_findings(parts), merge_findings(reversed(parts))

    assert merged == reversed_
    assert [(f.split, f.num_examples, f.num_values) for f in merged.found] == [("train", 4, 8), ("val", 8, 0)]


VALUES = st.one_of(
    st.lists(st.integers(-1, 3), max_size=4),
    st.lists(st.floats(-1, 1, width=32), max_size=4),
    st.lists(st.sampled_from(["p", "q"]), max_size=4),
)


def keeps_the_schema(content):
    """The rules for a graph of `SCHEMA`, for one example, in plain words."""

    def values(key):
        return content.get(key, [])

    if any(type(value) is not type(GOOD[key][0]) for key in content for value in content[key]):
        return False
    sizes = {}
    for prefix in ("nodes/a", "nodes/b", "edges/e"):
        size = values(f"{prefix}.#size")
        has_values = any(values(key) for key in GOOD if key.startswith(f"{prefix}."))
        if len(size) > 1 or min(size, default=0) < 0 or (has_values and not size):
            return False
        sizes[prefix] = sum(size)
    num_a, num_b, num_edges = sizes.values()
    needed = ["context/year", *["nodes/a.x", "nodes/a.w"] * bool(num_a), *["nodes/b.flag"] * bool(num_b)]
    row_lengths, sources, targets = (values(key) for key in ("nodes/a.w.d1", "edges/e.#source", "edges/e.#target"))
    return (
        all(key in content for key in needed)
        and len(values("context/year")) == 1
        and len(values("nodes/a.x")) == 2 * num_a
        and len(row_lengths) == num_a
        and all(length >= 0 for length in row_lengths)
        and len(values("nodes/a.w")) == sum(row_lengths)
        and len(values("nodes/b.flag")) == num_b
        and len(sources) == len(targets) == num_edges
        and all(0 <= source < num_a for source in sources)
        and all(0 <= target < num_b for target in targets)
    )


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    changes=st.dictionaries(st.sampled_from(sorted(GOOD)), VALUES, max_size=3),
    drop=st.sets(st.sampled_from(sorted(GOOD)), max_size=2),
)
def test_many_at_once_are_judged_as_one_is_by_the_plain_rules(run, changes, drop):
    content = {key: values for key, values in {**GOOD, **changes}.items() if key not in drop}

    _, good = run([GOOD, content])

    assert good == ([10, 11] if keeps_the_schema(content) else [10])


NO_WORDS = {**GOOD, "nodes/a.w": [], "nodes/a.w.d1": [0, 0]}


def test_a_feature_of_no_values_is_there_even_without_a_kind(run):
    absent = {key: values for key, values in NO_WORDS.items() if key != "nodes/a.w"}

    found, good = run([GOOD, NO_WORDS, absent])

    assert found == {("missing_feature", "nodes/a.w"): (1, 0, ["record 12 of f.gz: absent although there are 2 items"])}
    assert good == [10, 11]
    assert keeps_the_schema(NO_WORDS)
    assert not keeps_the_schema(absent)


def test_an_undeclared_feature_without_a_kind_is_found_where_it_is(run):
    found, good = run([GOOD, {**GOOD, "nodes/a.y": []}, GOOD], decisive=READABLE | {UNDECLARED_FEATURE})

    assert found == {("undeclared_feature", "nodes/a.y"): (1, 0, ["record 11 of f.gz: not in the graph schema"])}
    assert good == [10, 12]


def test_numbers_that_are_none_are_counted_by_kind(make_record):
    parts = []
    for values in ([float("nan"), float("inf"), 1.0, float("nan")], [1.0, 2.0, float("-inf"), 1.0]):
        parts.append(Findings())
        records = [make_record({**GOOD, "nodes/a.x": values})]
        list(BatchChecker.by(SCHEMA, (), READABLE).read(ExampleDecoder(), 0, records, FILE, parts[-1]))

    (finding,) = merge_findings(parts).found
    anomaly = make_anomaly(finding, {})

    assert anomaly is not None
    assert "2 examples, 4 values (1 -inf, 2 NaN, 1 inf); record 0 of f.gz: value" in anomaly.description

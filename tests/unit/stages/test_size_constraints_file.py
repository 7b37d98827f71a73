import dataclasses
import json

import pytest

from tfx_gnn.stages.size_constraints_file import (
    Budget,
    SetSizes,
    SizeConstraintsFile,
    read_size_constraints,
    write_size_constraints,
)

BUDGET = Budget(
    batch_size=2,
    total_num_components=3,
    total_num_nodes={"a": 9},
    total_num_edges={"e": 8},
    min_nodes_per_component={"a": 1},
)
CONTENT = SizeConstraintsFile(
    data_fingerprint="d" * 64,
    graph_schema_fingerprint="5" * 64,
    options={"batch_size": 2, "splits": []},
    num_graphs=7,
    node_sets={"a": SetSizes(total=21, mean=3.0, minimum=1, maximum=4)},
    edge_sets={"e": SetSizes(total=7, mean=1.0, minimum=0, maximum=4)},
    budgets={"tight": BUDGET},
)


def test_what_is_written_is_read_back(tmp_path):
    write_size_constraints(CONTENT, str(tmp_path))

    assert read_size_constraints(str(tmp_path)) == CONTENT


def test_the_file_is_plain_json(tmp_path):
    write_size_constraints(CONTENT, str(tmp_path))

    plain = json.loads((tmp_path / "size_constraints.json").read_text())
    assert plain["format_version"] == 1
    assert plain["budgets"]["tight"] == {
        "batch_size": 2,
        "total_num_components": 3,
        "total_num_nodes": {"a": 9},
        "total_num_edges": {"e": 8},
        "min_nodes_per_component": {"a": 1},
    }


def test_another_format_version_is_refused(tmp_path):
    write_size_constraints(dataclasses.replace(CONTENT, format_version=2), str(tmp_path))

    with pytest.raises(ValueError, match=r"`format_version` must be 1; got 2 in .*size_constraints\.json"):
        read_size_constraints(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format_version": 1, "bud', "got text that is no JSON"),
        ("[]", "`format_version` must be 1; got None"),
        ('{"format_version": 1}', "must be JSON that describes a SizeConstraintsFile"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text, message):
    (tmp_path / "size_constraints.json").write_text(text)

    with pytest.raises(ValueError, match=message):
        read_size_constraints(str(tmp_path))


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must hold size_constraints.json.* Point at an output of SizeConstraintLearner"
    ):
        read_size_constraints(str(tmp_path))


@pytest.mark.parametrize(
    ("fingerprints", "message"),
    [
        (
            {"data_fingerprint": "0" * 64, "graph_schema_fingerprint": "5" * 64},
            "the same examples; got data_fingerprint",
        ),
        (
            {"data_fingerprint": "d" * 64, "graph_schema_fingerprint": "0" * 64},
            "the same graph schema; got graph_schema",
        ),
    ],
)
def test_budgets_of_other_data_are_refused(fingerprints, message):
    with pytest.raises(ValueError, match=message):
        CONTENT.check_matches(**fingerprints)


def test_budgets_of_the_same_data_pass():
    CONTENT.check_matches(data_fingerprint="d" * 64, graph_schema_fingerprint="5" * 64)


def test_an_unknown_budget_is_refused():
    with pytest.raises(ValueError, match=r"must be one of \['tight'\]; got 'loose'"):
        CONTENT.budget("loose")

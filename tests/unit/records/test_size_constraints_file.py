import dataclasses
import json

import pytest

from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SetSizes,
    SizeConstraintsFile,
    SliceLoss,
    SplitSizes,
    fingerprint_graph_schema,
    read_size_constraints,
    write_size_constraints,
)

BUDGET = Budget(
    kind="tight",
    batch_size=2,
    total_num_components=3,
    total_num_nodes={"a": 9},
    total_num_edges={"e": 8},
    min_nodes_per_component={"a": 1},
    graphs_per_batch=2.0,
    fill=0.75,
    fill_by_set={"nodes/a": 0.5, "edges/e": 1.0},
    bytes_per_batch=1000,
    losses=(SliceLoss(slicing="label", value="b", num_graphs=3, lost_share=0.25),),
)
SKIPPING = dataclasses.replace(BUDGET, kind="fit_or_skip", success_ratio=0.9, achieved_success_ratio=0.901)
SIZES = SetSizes(
    total=21,
    mean=3.0,
    minimum=1,
    maximum=4,
    quantiles={"p50": 3.0, "p99": 4.0},
    histogram_bounds=(0, 1, 2, 4, 8),
    histogram_counts=(0, 1, 5, 1),
)
CONTENT = SizeConstraintsFile(
    data_fingerprint="d" * 64,
    graph_schema_fingerprint="5" * 64,
    options={"batch_size": 2, "success_ratios": [0.9], "splits": []},
    splits={"train": SplitSizes(num_graphs=7, node_sets={"a": SIZES}, edge_sets={"e": SIZES})},
    budgets={"tight_2": BUDGET, "fit_or_skip_2_0.9": SKIPPING},
    warnings=("A warning.",),
)


def test_what_is_written_is_read_back(tmp_path):
    write_size_constraints(CONTENT, str(tmp_path))

    assert read_size_constraints(str(tmp_path)) == CONTENT


def test_one_schema_has_one_fingerprint_whatever_its_file_is_called(tmp_path):
    for name in ("graph_schema.pbtxt", "mine.pbtxt"):
        (tmp_path / name).write_text("context {}")

    of_file = fingerprint_graph_schema(str(tmp_path / "mine.pbtxt"))

    assert of_file == fingerprint_graph_schema(str(tmp_path))
    assert of_file == fingerprint_files([str(tmp_path / "graph_schema.pbtxt")])


def test_the_file_is_plain_json(tmp_path):
    write_size_constraints(CONTENT, str(tmp_path))

    plain = json.loads((tmp_path / "size_constraints.json").read_text())
    assert plain["format_version"] == 2
    assert plain["splits"]["train"]["node_sets"]["a"]["histogram_counts"] == [0, 1, 5, 1]
    assert plain["budgets"]["tight_2"] == {
        "kind": "tight",
        "batch_size": 2,
        "total_num_components": 3,
        "total_num_nodes": {"a": 9},
        "total_num_edges": {"e": 8},
        "min_nodes_per_component": {"a": 1},
        "success_ratio": 1.0,
        "achieved_success_ratio": 1.0,
        "window": 0,
        "graphs_per_batch": 2.0,
        "fill": 0.75,
        "fill_by_set": {"nodes/a": 0.5, "edges/e": 1.0},
        "bytes_per_batch": 1000,
        "losses": [{"slicing": "label", "value": "b", "num_graphs": 3, "lost_share": 0.25}],
        "padded_node_sets": [],
    }


def test_another_format_version_is_refused(tmp_path):
    write_size_constraints(dataclasses.replace(CONTENT, format_version=1), str(tmp_path))

    with pytest.raises(ValueError, match=r"`format_version` must be 2; got 1 in .*size_constraints\.json"):
        read_size_constraints(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format_version": 2, "bud', "got text that is not its JSON"),
        ("[]", "`format_version` must be 2; got None"),
        ('{"format_version": 2}', r"got others in '.*size_constraints\.json'\. Run SizeConstraintLearner again\."),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text, message):
    (tmp_path / "size_constraints.json").write_text(text)

    with pytest.raises(ValueError, match=message):
        read_size_constraints(str(tmp_path))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda budget: budget["total_num_nodes"].update(a=-5),
            r"total_num_nodes\['a'\]` must be an integer .*; got -5",
        ),
        (
            lambda budget: budget["total_num_edges"].update(e=2**40),
            r"total_num_edges\['e'\]` must be .*; got 1099511627776",
        ),
        (lambda budget: budget["total_num_nodes"].update(a=30.5), "30.5"),
        (lambda budget: budget.update(window=2**40), "`window` must be an integer in"),
    ],
    ids=["negative", "huge", "float", "window"],
)
def test_sizes_that_no_batch_can_have_are_refused_by_file_and_name(tmp_path, edit, message):
    write_size_constraints(CONTENT, str(tmp_path))
    path = tmp_path / "size_constraints.json"
    content = json.loads(path.read_text())
    edit(content["budgets"]["tight_2"])
    path.write_text(json.dumps(content))

    with pytest.raises(
        ValueError, match=rf"size_constraints\.json'\. Run SizeConstraintLearner again\. Cause: .*{message}"
    ):
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


def test_a_budget_is_found_by_kind_and_the_options_say_the_rest():
    assert CONTENT.find("tight") is BUDGET
    assert CONTENT.find("fit_or_skip") is SKIPPING
    assert CONTENT.find("fit_or_skip", batch_size=2, success_ratio=0.9) is SKIPPING


def test_budgets_are_named_after_what_was_asked():
    assert (BUDGET.name, SKIPPING.name) == ("tight_2", "fit_or_skip_2_0.9")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "packing"}, r"packing with batch_size=2; got \['fit_or_skip_2_0.9', 'tight_2'\]"),
        ({"kind": "tight", "batch_size": 3}, "tight with batch_size=3; got"),
        ({"kind": "fit_or_skip", "success_ratio": 0.5}, "fit_or_skip with success_ratio=0.5 with batch_size=2; got"),
    ],
)
def test_an_unknown_budget_is_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        CONTENT.find(**asked)


def test_a_budget_of_another_kind_is_refused():
    with pytest.raises(ValueError, match=r"`kind` must be one of \['tight', 'fit_or_skip', 'packing'\]; got 'loose'"):
        dataclasses.replace(BUDGET, kind="loose")


def test_a_loss_by_another_slicing_is_refused():
    with pytest.raises(ValueError, match=r"`slicing` must be one of \['label', 'degree'\]; got 'colour'"):
        SliceLoss(slicing="colour", value="red", num_graphs=1, lost_share=0.0)

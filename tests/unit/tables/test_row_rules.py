import dataclasses
import json

import pytest

from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.tables import row_rules
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import (
    RowProblem,
    RowRules,
    TableReport,
    check_dropped_share,
    dead_letters_file,
    show_value,
    write_dead_letters,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"invalid_rows": "ignore"}, "`invalid_rows` must be one of .* got 'ignore'"),
        ({"duplicate_nodes": "keep"}, "`duplicate_nodes` must be one of .* got 'keep'"),
        ({"duplicate_edges": "drop"}, "`duplicate_edges` must be one of .* got 'drop'"),
        ({"dangling_edges": "keep"}, "`dangling_edges` must be one of .* got 'keep'"),
        ({"max_dropped_share": 1.5}, "`max_dropped_share` must be a fraction .* got 1.5"),
        ({"max_dropped_share": float("nan")}, "`max_dropped_share` must be a fraction .* got nan"),
        (
            {"dangling_edges": "drop", "max_dropped_share": 0.0},
            "`max_dropped_share` must be above 0 where rows may be dropped; got 0",
        ),
    ],
)
def test_rules_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        RowRules(**options)


def test_a_report_must_count_every_row_once():
    with pytest.raises(ValueError, match=r"must be the sum of the rows used and dropped; got 5 != 3 .* 1 for nodes/x"):
        TableReport(table="nodes/x", rows_read=5, rows_used=3, dropped={row_rules.TYPE: 1})


def test_only_what_was_let_go_counts_against_the_share():
    report = TableReport(
        table="edges/x",
        rows_read=10,
        rows_used=5,
        dropped={row_rules.DUPLICATE_EDGE: 3, row_rules.TYPE: 1, row_rules.DANGLING_TARGET: 1},
    )

    check_dropped_share(report, RowRules(invalid_rows="drop", max_dropped_share=0.2))
    with pytest.raises(ValueError, match=r"got 0.19 for 2 of 10 rows of edges/x: {'dangling_target': 1, 'type': 1}"):
        check_dropped_share(report, RowRules(invalid_rows="drop", max_dropped_share=0.19))


def test_a_problem_says_what_where_and_what_to_do():
    problem = row_rules.dangling_edge_problem(
        table="edges/buys",
        file="/data/buys.csv",
        row=7,
        row_word="line",
        rule=row_rules.DANGLING_SOURCE,
        column="user",
        node_set="user",
        node_file="/data/users.csv",
        value="eve",
    )

    assert problem.message == (
        "`user` must name a node of 'user' (/data/users.csv); got 'eve' in /data/buys.csv, line 7. "
        "Add the nodes or remove the edges, or drop them by dangling_edges."
    )
    line = json.loads(row_rules.dead_letter_line(problem))
    assert line["message"].endswith("line 7. Add the nodes or remove the edges.")
    assert "option" not in line


def test_an_option_that_dropped_all_edges_is_not_advised_again(tmp_path):
    (tmp_path / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { metadata { filename: "n.csv" } } }'
        'edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.csv" } } }'
    )
    (tmp_path / "n.csv").write_text("id\na\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")

    with pytest.raises(ValueError, match=r"The first: `target` must name .*Add the nodes or remove the edges\.$"):
        read_tables(str(tmp_path), rules=RowRules(dangling_edges="drop"))
    with pytest.raises(ValueError, match=r"or remove the edges, or drop them by dangling_edges\.$"):
        read_tables(str(tmp_path))


def test_long_values_are_cut():
    assert show_value("x" * 1000) == "'" + "x" * 119 + "... (1002 characters)"
    assert show_value("short") == "'short'"


def test_dead_letters_are_json_lines_one_file_a_table(tmp_path):
    problems = [
        RowProblem(table=table, file="f", row=row, rule="type", value="'é'", requirement="be x", advice="Do.")
        for row, table in enumerate(["nodes/a/b", "context", "nodes/a/b"])
    ]

    paths = write_dead_letters(str(tmp_path / "dead_letters"), problems)

    assert [path.rpartition("/")[2] for path in paths] == ["context.jsonl", "nodes.a%2Fb.jsonl"]
    lines = (tmp_path / "dead_letters" / dead_letters_file("nodes/a/b")).read_text("utf-8").splitlines()
    assert [json.loads(line)["row"] for line in lines] == [0, 2]
    assert json.loads(lines[0]) == {
        "table": "nodes/a/b",
        "file": "f",
        "row": 0,
        "row_word": "row",
        "rule": "type",
        "column": "",
        "requirement": "be x",
        "value": "'é'",
        "advice": "Do.",
        "message": "`nodes/a/b` must be x; got 'é' in f, row 0. Do.",
    }


def test_no_problems_write_no_files(tmp_path):
    assert write_dead_letters(str(tmp_path / "dead_letters"), []) == ()
    assert not (tmp_path / "dead_letters").exists()


@pytest.mark.parametrize(
    ("options", "most"), [({}, 0.0), ({"invalid_rows": "drop"}, 1.0), ({"dangling_edges": "drop"}, 1.0)]
)
def test_a_share_that_is_not_given_follows_what_is_dropped(options, most):
    rules = RowRules(**options)

    assert (rules.max_dropped_share, rules.most_dropped) == (None, most)
    assert dataclasses.replace(rules, invalid_rows="drop").most_dropped == 1.0
    assert dataclasses.replace(rules, invalid_rows="refuse", dangling_edges="refuse").most_dropped == 0.0


def test_rules_travel_as_json():
    rules = RowRules(invalid_rows="drop", duplicate_edges="keep_first", max_dropped_share=0.25)

    assert from_json(to_json(rules), RowRules) == rules

"""Projects that `tfx-gnn new --tables` proposes: what the data decides, and what it says where they cannot."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.graph.schema.schema_io import parse_schema, write_schema
from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals.project_text import project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project
from tfx_gnn_pipelines.yaml_files import parse_yaml


def write(folder, **tables):
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder)


def task_of(folder, proposal) -> Any:
    """The task that the project file of a proposal holds; Any, because its kinds of plan and prediction are known."""
    (folder / "project.yaml").write_text(project_text(proposal, name="it", tables_dir="."), encoding="utf-8")
    return read_project(str(folder)).task


USERS = {
    "id": [f"u{i}" for i in range(40)],
    "age": [20 + i for i in range(40)],
    "plan": ["free", "pro"] * 20,
    "income": [1.0 + i / 8 for i in range(40)],
    "level": [i % 3 for i in range(40)],
}
ITEMS = {"id": ["p0", "p1"], "price": [1.0, 2.0]}
BUYS = {"user": ["u0", "u1", "u2", "u3"], "item": ["p0", "p1", "p1", "p0"]}


def test_project_file_is_a_task_whose_plan_fits_the_schema(tmp_path):
    proposal = propose_project(write(tmp_path, users=USERS, items=ITEMS, buys=BUYS), label="users.plan")

    task = task_of(tmp_path, proposal)

    assert list(plan_problems(task.plan, proposal.schema)) == []
    assert task.prediction.label_feature == "plan"
    assert task.plan.label_features == ("plan",)
    assert [(hop.edge_set, hop.direction, hop.inputs, hop.fan_out) for hop in task.plan.hops] == [
        ("buys", "forward", ("seed",), 8),
        ("buys", "backward", ("buys",), 4),
    ]
    assert {name: sorted(of_set) for name, of_set in task.features.items()} == {
        "nodes/items": ["price"],
        "nodes/users": ["age", "income", "level"],
    }


def test_a_database_in_the_place_of_tables_is_named_without_its_password_and_with_the_remedy(tmp_path):
    (tmp_path / "shop.db").write_bytes(b"SQLite format 3\0")

    for text, shown in (("postgresql://ann:hush@h/shop", "postgresql://ann:[*]{3}@h/shop"), ("shop.db", "shop.db")):
        place = text if "://" in text else str(tmp_path / text)
        with pytest.raises(ValueError, match=rf"got the database '.*{shown}'. Copy its tables by `tfx-gnn snapshot"):
            propose_project(place, label="users.plan")


def test_edges_within_a_set_are_followed_both_ways(tmp_path):
    cites = {"citing": [1, 2, 3, 1], "cited": [2, 3, 1, 3]}
    folder = write(tmp_path, papers={"id": [1, 2, 3, 4], "topic": ["a", "b"] * 2}, cites=cites)

    hops = propose_project(folder, label="papers.topic").hops

    assert [(hop.name, hop.inputs) for hop in hops] == [
        ("cites", ("seed",)),
        ("cites_backward", ("seed",)),
        ("cites_of_papers", ("cites", "cites_backward")),
        ("cites_backward_of_papers", ("cites", "cites_backward")),
    ]


@pytest.mark.parametrize("num_edge_sets", [5, 40])
def test_fan_outs_keep_subgraphs_small_where_there_are_many_edge_sets(tmp_path, num_edge_sets):
    buys = {"user": [f"u{i % 40}" for i in range(160)], "item": ["p0", "p1"] * 80}
    edges = {f"buys{i}": buys for i in range(num_edge_sets)}

    hops = propose_project(write(tmp_path, users=USERS, items=ITEMS, **edges), label="users.plan").hops

    first = [hop.fan_out for hop in hops if hop.inputs == ("seed",)]
    further = [hop.fan_out for hop in hops if hop.inputs != ("seed",)]
    # A user has 4 edges of each set, an item 80.
    assert (set(first), set(further)) == {5: ({8}, {3}), 40: ({1}, set())}[num_edge_sets]


@pytest.mark.parametrize(
    ("label", "kind", "reason"),
    [
        ("plan", "node_classification", "2 different texts"),
        ("level", "node_classification", "3 different integers"),
        ("age", "node_regression", "40 different integers"),
        ("income", "node_regression", "40 different floats"),
    ],
)
def test_type_and_number_of_values_decide_the_kind_of_a_label(tmp_path, label, kind, reason):
    proposal = propose_project(write(tmp_path, users=USERS), label=f"users.{label}")

    assert (proposal.label.kind, proposal.label.reason) == (kind, reason)
    assert type(task_of(tmp_path, proposal).prediction).__name__ == kind.title().replace("_", "")
    assert "No edges lead to or from users: the model sees the columns of a node alone." in list(proposal.remarks())


def test_a_label_that_names_rows_is_a_class_however_many_ids_there_are(tmp_path):
    orders = {"order_id": list(range(100, 220)), "user_id": [i % 40 for i in range(120)], "size": [0.5, 1.0] * 60}
    users = {"user_id": list(range(40)), "age": USERS["age"]}

    folder, prepared_dir = write(tmp_path, orders=orders, users=users), str(tmp_path / "written")

    label = propose_project(folder, label="orders.user_id", prepared_dir=prepared_dir).label

    assert (label.kind, label.reason) == ("node_classification", "40 different ids of users")


@pytest.mark.parametrize(("num_late", "metric"), [(9, "roc_auc"), (10, "")])
def test_the_area_under_the_curve_decides_where_one_of_two_classes_is_rare(tmp_path, num_late, metric):
    late = [i < num_late for i in range(40)]

    proposal = propose_project(write(tmp_path, users={**USERS, "late": late}), label="users.late")

    assert task_of(tmp_path, proposal).step_options.get("graph_evaluator", {}).get("main_metric", "") == metric
    said = "The rarer class has 22.5% of the rows: ROC AUC decides whether a model is good, not accuracy."
    assert (said in list(proposal.remarks())) == bool(metric)


@pytest.mark.parametrize(
    ("label", "rule"),
    [
        (
            "",
            r"`label` must name .*; got none\. The node sets have the columns items: .* Write, .* --label users.plan",
        ),
        (
            "plan",
            r"`label` must be a node set and one of its columns, .*; got 'plan' where .* Did you mean 'users.plan'\?",
        ),
        ("users.id", r"`label` must be a column with values .*; got 'users.id', which holds ids or splits\. Give"),
        ("users.plam", r"`label` must be a node set .*; got 'users.plam' .*\. Did you mean 'users.plan'\?"),
        (
            "buys.stars",
            r"`label` must be a column of a node set; got 'buys.stars', of an edge set\. .*/predict_links\.md",
        ),
        ("users.name", r"`label` must name a class, .*; got 'users.name' with 40 different texts in 40 rows\. Name"),
        ("users.same", r"`label` must have at least two different values; got 1 in 'users.same'\. Name another"),
        (
            "users.tags",
            r"`label` must be one text or number in each row, .*; got 'users.tags' of type string and shape",
        ),
        ("users.half", r"`label` must have a value in every row .*; got 20 of 40 rows of .* without one in 'half'\."),
    ],
)
def test_label_that_cannot_be_predicted_is_refused(tmp_path, label, rule):
    more = {
        "name": [f"n{i}" for i in range(40)],
        "same": [1] * 40,
        "tags": [["a"] * (i % 2) for i in range(40)],
        "half": ["a", None, "b", None] * 10,
    }
    folder = write(tmp_path, users={**USERS, **more}, items=ITEMS, buys={**BUYS, "stars": [1, 5, 3, 4]})

    with pytest.raises(ValueError, match=rule):
        propose_project(folder, label=label)


def test_column_split_decides_and_rows_of_other_words_need_no_label(tmp_path):
    users = {**USERS, "plan": ["free", "pro", None, "pro"] * 10, "split": ["train", "val", "none", "test"] * 10}

    proposal = propose_project(write(tmp_path, users=users), label="users.plan")

    assert (proposal.splits.column, proposal.splits.unused_values) == ("split", ("none",))
    assert task_of(tmp_path, proposal).plan.splits == proposal.splits
    assert "split" not in proposal.features["nodes/users"]
    assert "Rows whose 'split' is one of ['none'] are not predicted." in list(proposal.remarks())


def test_rows_of_a_split_need_a_label(tmp_path):
    users = {**USERS, "plan": ["free", None, "pro", None] * 10, "split": ["train", "val", "none", "test"] * 10}

    with pytest.raises(ValueError, match=r"`label` must have a value .*; got 20 of 40 rows"):
        propose_project(write(tmp_path, users=users), label="users.plan")


def test_split_column_with_empty_cells_is_refused(tmp_path):
    users = {**USERS, "split": ["train", None] * 20}

    with pytest.raises(ValueError, match=r"`split` must have a value in every row; got 20 empty ones in .*users"):
        propose_project(write(tmp_path, users=users), label="users.plan")


def test_features_are_prepared_as_their_values_need(tmp_path):
    users = {
        **USERS,
        "age": [None, *range(1, 40)],
        "name": [f"n{i}" for i in range(40)],
        "is_new": [True, False] * 20,
        "amount": [1.0] * 39 + [1e6],
        "visits": [[1] * (i % 3) for i in range(40)],
        "noise": [[0.5] * (i % 3) for i in range(40)],
        "vector": pa.array([[0.5, 1.5]] * 40, pa.list_(pa.float32(), 2)),
        "town": ["Bonn", None] * 20,
    }

    proposal = propose_project(write(tmp_path, users=users), label="users.plan")

    assert {name: preparation.kind for name, preparation in proposal.features["nodes/users"].items()} == {
        "age": "z_score",
        "amount": "log1p_z_score",
        "income": "z_score",
        "is_new": "number",
        "level": "z_score",
        "name": "drop",
        "noise": "drop",
        "town": "vocabulary",
        "vector": "z_score",
        "visits": "vocabulary",
    }
    declared = proposal.schema.node_sets["users"]
    assert {extra.key: extra.value for extra in declared.metadata.extra} == {
        "default.age": "20",
        "default.town": "<no value>",
    }
    assert declared.features["age"].description == "Rows without a value: 1 of 40; they stand for the mean, 20."
    assert task_of(tmp_path, proposal).features["nodes/users"].keys() == proposal.features["nodes/users"].keys()


def test_dangling_edges_are_told_and_left_out(tmp_path):
    buys = {"user": ["u0", "u1"] * 10, "item": ["p0"] * 19 + ["gone"]}

    proposal = propose_project(write(tmp_path, users=USERS, items=ITEMS, buys=buys), label="users.plan")

    assert proposal.num_dangling == {"buys": 1}
    assert task_of(tmp_path, proposal).step_options == {"subgraph_example_gen": {"rules": {"dangling_edges": "drop"}}}


def test_names_that_yaml_would_read_otherwise_are_quoted(tmp_path):
    users = {"id": [f"u{i}" for i in range(6)], "my: größe #1": [1.5, 2.0, 2.5] * 2, "yes": ["a", "b"] * 3}

    proposal = propose_project(write(tmp_path, users=users), label="users.yes")
    text = project_text(proposal, name="it", tables_dir="tables: 1")

    plain = parse_yaml(text, name="it")
    assert plain["features"] == {"nodes/users": {"my: größe #1": "z_score"}}
    assert plain["prediction"] == {"kind": "node_classification", "label_feature": "yes"}
    assert plain["tables_dir"] == "tables: 1"


def test_vocabulary_of_classes_has_a_name_that_tensorflow_takes(tmp_path):
    users = {"id": [f"u{i}" for i in range(6)], "thème": ["a", "b"] * 3}

    prediction = task_of(tmp_path, propose_project(write(tmp_path, users=users), label="users.thème")).prediction

    assert (prediction.label_feature, prediction.class_vocabulary) == ("thème", "classes")


def test_schema_beside_the_tables_is_taken_as_it_is(tmp_path):
    folder = write(tmp_path, people=USERS)
    declared = parse_schema(
        'node_sets { key: "user" value { features { key: "plan" value { dtype: DT_STRING } } '
        'features { key: "years" value { dtype: DT_INT64 source: "age" } } metadata { filename: "people.parquet" } } }'
    )
    write_schema(declared, str(tmp_path / "graph_schema.pbtxt"))

    proposal = propose_project(folder, label="user.plan")

    assert not proposal.is_inferred
    assert proposal.schema == declared
    assert list(proposal.features["nodes/user"]) == ["years"]


def test_tables_of_ids_alone_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`tables_dir` must hold a node table with a column to predict; got"):
        propose_project(write(tmp_path, users={"id": ["a", "b"]}), label="users.id")


def test_columns_that_tell_the_label_are_left_out_and_said(tmp_path):
    number = list(range(400))
    late = [(minutes * 7919) % 97 >= 70 for minutes in number]
    flights = {
        "id": [f"f{i}" for i in number],
        "delay": [(minutes * 7919) % 97 for minutes in number],
        "verdict": ["late" if one else f"fine {i % 3}" for i, one in enumerate(late)],
        "carrier": [f"c{i % 7}" for i in number],
        "year": [2013] * 400,
        "fee": [(7.5, None)[i % 2] for i in number],
        "runway": [(22, 31)[i % 2] for i in number],
        "late": late,
    }

    proposal = propose_project(write(tmp_path, flights=flights), label="flights.late")

    task = task_of(tmp_path, proposal)
    assert task.plan.excluded_features == {"flights": ("delay", "verdict")}
    assert {name: type(one).__name__ for name, one in task.features["nodes/flights"].items()} == {
        "carrier": "Vocabulary",
        "year": "Drop",
        # Whether a row has one may tell something.
        "fee": "ZScore",
        "runway": "ZScore",
    }
    said = "\n".join(proposal.remarks())
    assert "flights.delay is left out of the examples: alone it tells the label of 100.0% of 200 rows" in said
    assert "flights.verdict is left out of the examples: alone it tells the label of 100.0% of 200 rows" in said
    assert "accepted_features: [nodes/flights.delay]" in said
    assert "nodes/flights.year is no feature: every row has the same, '2013'." in said


def test_number_that_another_column_repeats_is_left_out(tmp_path):
    number = list(range(900))
    goods = {
        "id": [f"g{i}" for i in number],
        "cents": [i * i + 100 for i in number],
        "weight": [(i * 31) % 211 for i in number],
        "price": [(i * i + 100) / 100 + (i % 3) / 1000 for i in number],
    }

    proposal = propose_project(write(tmp_path, goods=goods), label="goods.price")

    assert [leak.feature for leak in proposal.leaks] == ["cents"]
    assert sorted(proposal.features["nodes/goods"]) == ["weight"]


def test_a_table_without_rows_is_named_and_no_table_of_a_label(tmp_path):
    visits = {"shop": [f"s{i % 5}" for i in range(40)], "good": [i % 3 == 0 for i in range(40)]}
    shops = {"id": [f"s{i}" for i in range(5)], "open": [True, False] * 2 + [None]}
    folder = write(tmp_path, visits=visits, shops=shops)
    (tmp_path / "returns.csv").write_text("id,shop_id,late\n")

    proposal = propose_project(folder, label="visits.good", prepared_dir=str(tmp_path / "new"))

    assert "returns has no rows, and no columns as yet." in proposal.remarks()
    few = "Only 40 rows have a label, and the test has about a tenth of them: "
    assert any(line.startswith(few) for line in proposal.remarks())
    with pytest.raises(ValueError, match=r"`label` must be of a table with rows; got 'returns.late', and returns.csv"):
        propose_project(folder, label="returns.late", prepared_dir=str(tmp_path / "more"))


@pytest.mark.parametrize("label", ["", "visits.god", "visit.good"])
def test_label_is_looked_for_before_tables_are_written(tmp_path, label):
    (tmp_path / "raw").mkdir()
    visits = {"user_id": [f"u{i % 4}" for i in range(60)], "good": [i % 3 == 0 for i in range(60)]}
    folder = write(tmp_path / "raw", visits=visits)

    with pytest.raises(ValueError, match=r"TABLE\.COLUMN; got .* where there are visits\.user_id, visits\.good"):
        propose_project(folder, label=label, prepared_dir=str(tmp_path / "new"))

    assert not (tmp_path / "new").exists()


def test_bytes_that_are_no_text_are_left_out_and_said(tmp_path):
    photos = {"id": [1, 2, 3, 4], "jpeg": [b"\xff\xd8" + bytes([i]) for i in range(4)], "kind": ["a", "b"] * 2}
    proposal = propose_project(write(tmp_path, photos=photos), label="photos.kind")

    assert "jpeg" not in proposal.schema.node_sets["photos"].features
    assert "jpeg" in proposal.schema.node_sets["photos"].description
    assert "bytes that are no text" in proposal.schema.node_sets["photos"].description


@pytest.mark.parametrize("has_times", [True, False])
def test_rows_without_a_label_are_not_predicted(tmp_path, has_times):
    (tmp_path / "raw").mkdir()
    visits = {
        "visit_id": [f"v{i}" for i in range(80)],
        "clerk_id": [f"c{i % 4}" for i in range(80)],
        "grade": [None if i % 4 == 3 else (i * 7) % 3 for i in range(80)],
        **({"at": [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(80)]} if has_times else {}),
    }
    clerks = {"clerk_id": [f"c{i}" for i in range(4)], "size": [1.5, 2.5, 3.5, 4.5]}
    folder = write(tmp_path / "raw", visits=visits, clerks=clerks)

    proposal = propose_project(folder, label="visits.grade", prepared_dir=str(tmp_path / "new"))

    assert (proposal.splits.column, proposal.splits.unused_values) == ("split", ("unlabeled",))
    written = pq.read_table(tmp_path / "new" / "visits.parquet").to_pydict()
    by_split = {name: [i for i in range(80) if written["split"][i] == name] for name in set(written["split"])}
    assert by_split["unlabeled"] == list(range(3, 80, 4))
    assert {name: len(rows) for name, rows in by_split.items()} == {"unlabeled": 20, "train": 48, "val": 6, "test": 6}
    is_by_time = max(by_split["train"]) < min(by_split["val"]) < max(by_split["val"]) < min(by_split["test"])
    assert is_by_time == has_times
    assert (proposal.temporal is not None) == has_times
    assert list(plan_problems(task_of(tmp_path, proposal).plan, proposal.schema)) == []
    how = "by time" if has_times else "at random"
    assert any(
        f"20 rows have no label and are not predicted; the others are divided {how}" in one
        for one in proposal.remarks()
    )


def test_tables_where_they_are_need_all_labels(tmp_path):
    users = {**USERS, "plan": [None, *USERS["plan"][1:]]}

    with pytest.raises(ValueError, match="`label` must have a value in every row that is predicted; got 1 of 40 rows"):
        propose_project(write(tmp_path, users=users), label="users.plan")


def test_files_that_are_no_tables_are_named(tmp_path):
    for name in ("notes.xlsx", "more.json", "README.md", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "parts").mkdir()

    said = "\n".join(propose_project(write(tmp_path, users=USERS), label="users.plan").remarks())

    assert f"Passed over in {tmp_path}: more.json, notes.xlsx, parts. Tables are .csv, .tsv and .parquet files" in said

"""Projects that say what is predicted in words: proposed from tables, and read with the seed table of their task."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.sampling.plan.plan import Temporal
from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.transform.feature_preparations import Age
from tfx_gnn_pipelines.checks.example_checks import check_examples
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.project import make_seeds, read_prediction_task, read_project

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - Parquet's times have no zone.
WORDS = [
    "--predict", "count(orders, 0 to 10 days) > 0", "--for-each", "users", "--where", "country is not null",
    "--validation-from", "2026-02-01", "--test-from", "2026-02-15",
]  # fmt: skip


def _day(number):
    return START + dt.timedelta(days=number)


def _tfx_gnn(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tables of a shop as a database exports them, and the project that is made of them."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "raw").mkdir()
    tables = {
        "users": {
            "user_id": [f"u{i}" for i in range(20)],
            "country": ["DE", "FR", None, "DE"] * 5,
            "signed_up": [_day(i / 2) for i in range(20)],
        },
        "orders": {
            "order_id": [f"o{i}" for i in range(120)],
            "user_id": [f"u{i * i % 19}" if i % 7 else None for i in range(120)],
            "amount": [float(i % 11) for i in range(120)],
            "receipt": [1000 + i for i in range(120)],
            "placed_at": [_day(i / 2) for i in range(120)],
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / "raw" / f"{name}.parquet")
    return folder, _tfx_gnn("new", str(folder / "it"), "--tables", str(folder / "raw"), *WORDS)


def test_tables_are_shown_and_cells_without_a_value_counted(made):
    assert re.search(r"nodes/orders *│ *120 │ amount float32", made[1].output)
    assert "node set 'users', feature 'country': Rows without a value: 5 of 20" in made[1].output


def test_columns_that_may_have_been_filled_in_later_are_told(made, tmp_path):
    raw = shutil.copytree(made[0] / "raw", tmp_path / "raw")
    users = pq.read_table(raw / "users.parquet").drop(["signed_up"])
    pq.write_table(users.append_column("churned", pa.array([True, False] * 10)), raw / "users.parquet")

    done = _tfx_gnn("new", str(tmp_path / "it"), "--tables", str(raw), *WORDS)

    # Users with a time are there from then on.
    said = "Rows of users have no time: churned, country are taken as known as of every anchor."
    assert (said in done.output, said in made[1].output) == (True, False)
    assert "Rows of orders have no time" not in done.output


def test_a_task_that_is_true_of_all_is_refused(made, tmp_path):
    always = ["--predict", "count(orders, 0 to 10 days) >= 0", *WORDS[2:]]

    done = _tfx_gnn("new", str(tmp_path / "it"), "--tables", str(made[0] / "raw"), *always)

    assert done.exit_code != 0
    assert "must give the seeds of training different labels, or nothing can be learned" in done.output
    assert not (tmp_path / "it").exists()


def test_a_table_that_is_given_without_times_is_not_aggregated_by_time(made, tmp_path):
    done = _tfx_gnn("new", str(tmp_path / "it"), "--tables", str(made[0] / "raw"), "--time-column", "orders=", *WORDS)

    assert done.exit_code != 0
    assert "whose rows have times, because of its window; got orders without a column of times" in done.output
    assert not (tmp_path / "it").exists()


@pytest.fixture
def project(made, tmp_path):
    """A copy of the project, for tests that change it."""
    return shutil.copytree(made[0] / "it", tmp_path / "it")


def test_tables_of_a_database_become_a_project_that_fits_its_seeds(made):
    folder, done = made

    assert done.exit_code == 0, done.output
    task = read_project(str(folder / "it")).task
    schema = read_schema(str(folder / "it" / "tables" / "graph_schema.pbtxt"))
    assert list(plan_problems(task.plan, schema)) == []
    # The time is an input, and the label is none.
    inputs = make_subgraph_schema(schema, task.plan)
    assert list(inputs.context.features) == ["time"]
    assert list(inputs.node_sets["_readout"].features) == ["label"]
    assert "label" not in inputs.node_sets["users"].features
    assert task.plan.seed_node_set == "users"
    assert dict(task.plan.seed_table.features) == {"label": "int64", "time": "int64"}
    assert task.plan.label_features == ("label",)
    assert (task.plan.seed_inputs, task.plan.seed_table.now_feature) == (("time",), "time")
    assert task.features["nodes/orders"]["placed_at"] == Age(seed_time="time")
    assert task.plan.temporal == Temporal(seed_time="time", edge_times={"orders_user_id": "row_time"}, inclusive=True)
    # The first anchors of validation and test, 2026-02-01 and 2026-02-15.
    assert task.plan.splits.until == {"train": 1_769_904_000, "val": 1_771_113_600, "test": None}
    assert task.prediction.class_vocabulary == "label"
    assert [(hop.edge_set, hop.direction) for hop in task.plan.hops][:1] == [("orders_user_id", "backward")]


def test_what_was_decided_is_said(made):
    _, done = made

    assert "orders.user_id names users in 85.0% of its rows; 18 rows are empty" in done.output
    assert "A seed does not see edges that are later than its time: orders_user_id." in done.output
    assert "Times are ages relative to that of the seed: nodes/orders.placed_at, nodes/users.signed_up." in done.output
    assert re.search(r"nodes/orders.receipt is no feature: \d+% of the rows after the time of training", done.output)
    assert "base rate" in done.output
    assert "windows end after the data" in done.output


def test_what_tells_a_predicted_column_is_left_out_and_found_where_it_is_not(tmp_path):
    (tmp_path / "raw").mkdir()
    plans = ["pro" if i * i % 11 < 5 else "free" for i in range(400)]
    users = {"user_id": [f"u{i}" for i in range(400)], "plan": plans, "fee": [9 * len(plan) for plan in plans]}
    pq.write_table(pa.table(users), tmp_path / "raw" / "users.parquet")
    folder, found = tmp_path / "it", FindingsCollector()

    done = _tfx_gnn("new", str(folder), "--tables", str(tmp_path / "raw"), "--predict", "plan", "--for-each", "users")
    config = quickstart(read_project(str(folder)).task, root=str(tmp_path / "root"))
    text = (folder / "project.yaml").read_text(encoding="utf-8")
    text = text.replace("  excluded_features: {users: [fee]}\n", "").replace(
        "features: {}", "features: {nodes/users: {fee: z_score}}"
    )
    (folder / "project.yaml").write_text(text, encoding="utf-8")
    changed = quickstart(read_project(str(folder)).task, root=str(tmp_path / "root"))
    check_examples(changed, str(tmp_path / "e"), found)

    assert "users.fee is left out of the examples: alone it tells the label of 100.0%" in done.output
    # What the file leaves out comes beside what the task does.
    assert config.subgraph_example_gen.plan.excluded_features == {"users": ("plan", "fee")}
    assert [finding.severity for finding in found.findings] == ["error"]
    assert "got nodes/users.fee among the features" in found.findings[0].message


def test_a_project_is_read_only_with_the_seed_table_of_its_task(project):
    file = project / "project.yaml"
    (project / "tables" / "it_seeds.parquet").unlink()
    with pytest.raises(
        ValueError, match=r"`task` must have its seed table, .*it_seeds.parquet'; got none. Make it: tfx-gnn task"
    ):
        read_project(str(project))

    assert _tfx_gnn("task", str(project)).exit_code == 0
    read_project(str(project))
    file.write_text(file.read_text().replace("0 to 10 days", "0 to 9 days"))

    with pytest.raises(ValueError, match="got that of another task"):
        read_project(str(project))


def test_seeds_follow_the_tables(project):
    found = read_prediction_task(str(project))
    before = make_seeds(found).splits

    orders = pq.read_table(project / "tables" / "orders_user_id.parquet")
    pq.write_table(orders.slice(0, 30), project / "tables" / "orders_user_id.parquet")

    assert make_seeds(found).splits[-1].mean_label < before[-1].mean_label


def test_numbers_are_a_regression_and_what_the_file_says_wins(project):
    file = project / "project.yaml"
    text = file.read_text().replace("count(orders, 0 to 10 days) > 0", "sum(orders.amount, 0 to 10 days)")
    file.write_text(text.replace("\nplan:\n", "\nplan:\n  temporal: {inclusive: false}\n"))
    make_seeds(read_prediction_task(str(project)))

    task = read_project(str(project)).task

    assert (type(task.prediction).__name__, task.prediction.standardize) == ("NodeRegression", True)
    assert not task.plan.temporal.inclusive
    assert task.plan.temporal.seed_time == "time"

    file.write_text(file.read_text() + "prediction: {kind: node_regression, label_feature: label}\n")
    assert not read_project(str(project)).task.prediction.standardize


def test_dates_need_no_quotes(project):
    file = project / "project.yaml"
    file.write_text(file.read_text().replace("'", ""))

    assert read_prediction_task(str(project)).task.anchors.test_from == "2026-02-15"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nplan:\n", "\nplan:\n  splits: {column: part}\n", r"`plan` must leave to `task` .*\['splits'\]"),
        ("  for_each:", "  for_eech: a\n  for_each:", "have no fields but .*for_eech"),
        ("  for_each: users", "  for_each: user", r"Did you mean 'users'\?"),
        ("tables_dir: tables", "tables_dir: tables/{SPAN}", "`task` must go with a `name` and a `tables_dir`"),
    ],
)
def test_mistakes_of_a_task_are_named(project, old, new, message):
    file = project / "project.yaml"
    file.write_text(file.read_text().replace(old, new))

    def read():
        make_seeds(read_prediction_task(str(project)))
        read_project(str(project))

    with pytest.raises(ValueError, match=message):
        read()


def test_a_question_about_the_times_of_sampled_edges_is_asked(project):
    edges = project / "tables" / "orders_user_id.parquet"
    placed = pq.read_table(edges).rename_columns(["source", "target", "placed_at"])
    # As often before as after.
    packed_at = pa.array(placed["placed_at"].to_pylist()[::-1])
    pq.write_table(placed.append_column("packed_at", packed_at), edges)
    schema = project / "tables" / "graph_schema.pbtxt"
    feature = 'features { key: "packed_at" value { dtype: DT_INT64 } }'
    schema.write_text(
        schema.read_text()
        .replace("row_time", "placed_at")
        .replace('key: "orders_user_id"\n  value {', f'key: "orders_user_id"\n  value {{ {feature}')
    )
    assert "packed_at" in schema.read_text()
    make_seeds(read_prediction_task(str(project)))

    with pytest.raises(ValueError, match="`times` must say which column of orders_user_id is the time of its rows"):
        read_project(str(project))


def test_verb_shows_seeds_and_their_sql(made):
    folder, _ = made
    tables = str(folder / "it" / "tables")

    shown = _tfx_gnn("task", tables, *WORDS, "--explain")
    plain = _tfx_gnn("task", tables, *WORDS, "--json")

    assert shown.exit_code == 0, shown.output
    assert "CREATE TABLE anchors AS" in shown.output
    assert "to_seconds(864000)" in shown.output
    report = json.loads(plain.output)
    assert [split["split"] for split in report["splits"]] == ["train", "val", "test"]
    assert report["seed_table"] == ""
    assert report["splits"][0]["dropped"]["where"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task", "FOLDER"], r"`PROJECT` must (be a folder with project.yaml|have a `task`)"),
        (["task", "FOLDER", "--predict", "country", "--test-from", "2026-02-01"], "must be given together"),
        (["task", "FOLDER", "--predict", "count(orders, 0 to 1 day)"], "must name the node set"),
        (["task", "FOLDER", *WORDS[:4]], "--validation-from, --test-from: must be given for what happens within"),
        (["new", "FOLDER/a", "--predict", "country", "--for-each", "users"], "must be given with --tables"),
        (["new", "FOLDER/a", "--tables", "FOLDER", "--where", "x = 1"], "--where: must be given with --predict"),
    ],
)  # fmt: skip
def test_wrong_use_of_the_verbs_is_an_error(made, words, message):
    folder, _ = made
    done = _tfx_gnn(*(word.replace("FOLDER", str(folder / "raw")) for word in words))

    assert done.exit_code == 2
    assert re.search(message, " ".join(done.output.replace("│", " ").split()))

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tfx_gnn
from tfx_gnn.cli import app
from tfx_gnn.cli import project_verbs as starter_project
from tfx_gnn.cli.project_verbs import TEMPLATE_ENTRIES, create_project

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "templates" / "starter"


def new(*args: str):
    return CliRunner().invoke(app, ["new", *args])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_project_is_the_template_under_another_name(tmp_path):
    folder, name = create_project(str(tmp_path / "shop"), name="web_shop2")

    made = files_of(folder)
    assert (folder, name) == (tmp_path / "shop", "web_shop2")
    assert sorted(made) == [
        ".dockerignore",
        ".github/workflows/ci.yml",
        ".gitignore",
        ".project.schema.json",
        "Dockerfile",
        "README.md",
        "cloudbuild.yaml",
        "project.yaml",
        "pyproject.toml",
        "tests/test_model.py",
        "web_shop2/__init__.py",
        "web_shop2/data/graph_schema.pbtxt",
        "web_shop2/data/products.csv",
        "web_shop2/data/purchases.csv",
        "web_shop2/data/users.csv",
        "web_shop2/model.py",
        "web_shop2/preprocessing.py",
    ]
    assert b"from web_shop2 import TASK\n" in made["tests/test_model.py"]
    assert b"preprocessing_fn: web_shop2.preprocessing:preprocessing_fn\n" in made["project.yaml"]
    assert b'name = "web-shop2"\n' in made["pyproject.toml"]
    assert b"tfx-gnn run --runner beam\n" in made["README.md"]
    assert not [name for name, content in made.items() if re.search(rb"my.?graph", content, re.IGNORECASE)]


def test_template_under_its_own_name_is_copied_byte_for_byte(tmp_path):
    folder, _ = create_project(str(tmp_path / "my_graph"))

    expected = {name: content for name, content in files_of(TEMPLATE).items() if name.split("/")[0] in TEMPLATE_ENTRIES}
    assert files_of(folder) == expected


@pytest.mark.parametrize(("folder", "name"), [("shop", "shop"), ("web-shop-2", "web_shop_2"), ("a/b/deep", "deep")])
def test_package_is_named_after_the_folder(tmp_path, folder, name):
    assert create_project(str(tmp_path / folder))[1] == name
    assert (tmp_path / folder / name / "__init__.py").is_file()


def test_outputs_of_a_run_of_the_template_are_not_copied(tmp_path, monkeypatch):
    used = tmp_path / "starter"
    shutil.copytree(TEMPLATE, used)
    for left_behind in ("runs/my_graph/serving/1", "my_graph/__pycache__", "tests/__pycache__", ".pytest_cache"):
        (used / left_behind).mkdir(parents=True, exist_ok=True)
        (used / left_behind / "model.cpython-310.pyc").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(starter_project, "_templates_folder", lambda _: tmp_path)

    folder, _ = create_project(str(tmp_path / "shop"))

    assert not [path for path in folder.rglob("*") if path.name in ("runs", "__pycache__", ".pytest_cache")]


def test_empty_folder_is_filled(tmp_path):
    (tmp_path / "shop").mkdir()

    create_project(str(tmp_path / "shop"))

    assert (tmp_path / "shop" / "shop" / "model.py").is_file()


def test_folder_that_holds_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").write_text("mine")

    with pytest.raises(
        FileExistsError, match=r"`directory` must be absent .*; got '.*shop', which holds \['notes.txt'"
    ):
        create_project(str(tmp_path / "shop"))

    assert os.listdir(tmp_path) == ["shop"]
    assert files_of(tmp_path / "shop") == {"notes.txt": b"mine"}


def test_file_is_refused(tmp_path):
    (tmp_path / "shop").write_text("mine")

    with pytest.raises(FileExistsError, match=r"`directory` must be absent .*, which is a file\. Choose another"):
        create_project(str(tmp_path / "shop"))


def test_current_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")

    with pytest.raises(FileExistsError, match="`directory` must be another folder than the current one"):
        create_project(".")


@pytest.mark.parametrize(
    "name",
    ["Shop", "2shop", "my shop", "shop_", "_shop", "a__b", "my-shop", "my.shop", "größe", "class", "s" * 64, "../shop"],
)
def test_name_that_is_no_package_name_is_refused(tmp_path, name):
    rule = "`name` must make a Python package's name of lower-case .*; got '.*'. Choose another name."

    with pytest.raises(ValueError, match=rule):
        create_project(str(tmp_path / "shop"), name=name)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["tfx_gnn", "tensorflow", "google", "json", "tests", "runs"])
def test_name_that_would_hide_another_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"`name` must not make the name of an installed package, .*; got '{name}'."):
        create_project(str(tmp_path / "shop"), name=name)


def test_folder_of_no_package_name_needs_a_name(tmp_path):
    with pytest.raises(ValueError, match=r"`directory` must make .*; got 'Shop 1'\. Give .* --name\."):
        create_project(str(tmp_path / "Shop 1"))

    assert create_project(str(tmp_path / "Shop 1"), name="shop_1")[1] == "shop_1"


def test_same_name_twice_in_one_folder_is_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    create_project("shop")

    assert create_project("other", name="shop")[0] == tmp_path / "other"


def test_interrupted_copy_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", stop)

    with pytest.raises(KeyboardInterrupt):
        create_project(str(tmp_path / "shop"))

    assert os.listdir(tmp_path) == []


def test_verb_says_what_to_type_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    shown = new("web-shop")

    assert shown.exit_code == 0, shown.output
    assert re.search(rf"^project +{tmp_path}/web-shop$", shown.stdout, re.MULTILINE)
    assert shown.stdout.splitlines()[-2] == "  cd web-shop"
    assert shown.stdout.splitlines()[-1].endswith("tfx-gnn run")


def test_verb_shows_an_error_as_one_line(tmp_path):
    shown = new(str(tmp_path / "Shop"))

    assert shown.exit_code == 2
    assert shown.stderr.startswith("`directory` must make a Python package's name")
    assert shown.stderr.count("\n") == 1


def test_verb_explains_its_options():
    shown = new("--help")

    assert shown.exit_code == 0
    assert "Folder to create; must be absent or empty." in shown.stdout
    assert "Name of the project and of its Python package." in " ".join(shown.stdout.replace("│", " ").split())


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder of two tables of nodes and one of edges; the current folder is above it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    users = "".join(f"u{i},{20 + i},{'pro' if i % 2 else 'free'}\n" for i in range(6))
    (tmp_path / "shop" / "users.csv").write_text(f"id,age,plan\n{users}")
    (tmp_path / "shop" / "items.csv").write_text("id,price\np1,1.5\np2,2.5\n")
    (tmp_path / "shop" / "buys.csv").write_text("user,item\nu0,p1\nu1,p2\nu2,p1\n")
    return tmp_path / "shop"


def test_project_for_tables_reads_them_where_they_are_without_python(shop):
    shown = new("my-plans", "--tables", "shop", "--label", "users.plan")

    assert shown.exit_code == 0, shown.output
    made = files_of(shop.parent / "my-plans")
    assert sorted(made) == [".gitignore", ".project.schema.json", "README.md", "project.yaml"]
    assert b'\ntables_dir: "../shop"\n' in made["project.yaml"]
    assert b"\nname: my_plans\n" in made["project.yaml"]
    assert made["README.md"].startswith(b"# my_plans\n")
    assert (shop / "graph_schema.pbtxt").is_file()
    assert "buys from users to items" in shown.stdout
    assert "users.plan has 2 different texts: predicted by node_classification" in shown.stdout
    assert [line.split()[-1] for line in shown.stdout.splitlines()[-3:]] == ["my-plans", "check", "run"]


def test_tables_of_a_database_are_copied_and_git_ignores_the_copies(shop):
    orders = "".join(f"u{i % 6},{'' if i == 3 else 'p1'},{i % 2}\n" for i in range(30))
    (shop / "orders.csv").write_text(f"user,item,big\n{orders}")

    shown = new("big-orders", "--tables", "shop", "--label", "orders.big")

    assert shown.exit_code == 0, shown.output
    project = shop.parent / "big-orders"
    assert "\ntables_dir: tables\n" in (project / "project.yaml").read_text()
    assert sorted(os.listdir(shop)) == ["buys.csv", "items.csv", "orders.csv", "users.csv"]
    assert {"orders.parquet", "orders_item.parquet", "graph_schema.pbtxt"} < set(os.listdir(project / "tables"))
    assert (project / ".gitignore").read_text().splitlines()[-1] == "/tables/"
    assert "orders has no column of ids: a row's id is its number in the table, from 0." in shown.stdout


def test_nothing_is_written_where_the_label_is_not_clear(shop):
    shown = new("plans", "--tables", "shop")

    assert shown.exit_code == 2
    assert shown.stderr == (
        "`--label` must name the column of a node set that is predicted; got none. The node sets have the columns "
        "items: price; users: age, plan. Write, for example, --label users.plan\n"
    )
    assert sorted(os.listdir(shop.parent)) == ["shop"]
    assert "graph_schema.pbtxt" not in os.listdir(shop)


@pytest.mark.parametrize("flag", ["--label=users.plan", "--foreign-key=users.plan=plans", "--time-column=users=at"])
def test_what_is_about_tables_is_refused_without_them(tmp_path, flag):
    shown = new(str(tmp_path / "plans"), flag)

    assert shown.exit_code == 2
    assert "must be given with --tables" in re.sub(r"[\s│]+", " ", shown.output)


def test_folder_without_tables_is_refused(tmp_path):
    shown = new(str(tmp_path / "plans"), "--tables", str(tmp_path), "--label", "users.plan")

    assert shown.exit_code == 2
    assert shown.stderr.startswith("`--tables` must hold tables as .csv, .tsv or .parquet files; got []")


def test_wheel_brings_all_that_a_project_begins_with():
    settings = (ROOT / "pyproject.toml").read_text()
    shipped = dict(re.findall(r'^"(templates/starter/.+)" = "(.+)"$', settings, re.MULTILINE))

    assert shipped == {f"templates/starter/{entry}": f"tfx_gnn/templates/starter/{entry}" for entry in TEMPLATE_ENTRIES}
    assert '"templates/from_tables" = "tfx_gnn/templates/from_tables"' in settings


def test_installed_library_without_a_checkout_needs_nothing_heavy(tmp_path):
    """As from a wheel: the library in a folder of its own, the template inside it."""
    installed = tmp_path / "site" / "tfx_gnn"
    shutil.copytree(Path(tfx_gnn.__file__).parent, installed, ignore=shutil.ignore_patterns("__pycache__"))
    for entry in TEMPLATE_ENTRIES:
        copy = shutil.copytree if (TEMPLATE / entry).is_dir() else shutil.copy
        (installed / "templates" / "starter").mkdir(parents=True, exist_ok=True)
        copy(TEMPLATE / entry, installed / "templates" / "starter" / entry)
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path / 'site')!r})\nfrom tfx_gnn.cli import app\n"
        "try:\n    app(['new', 'shop'])\nexcept SystemExit as done:\n    assert done.code == 0, done.code\n"
        "heavy = {'apache_beam', 'google.protobuf', 'numpy', 'pyarrow', 'tensorflow', 'tfx', 'tfx_gnn.graph.tensor'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop" / "shop" / "model.py").read_bytes() == (TEMPLATE / "my_graph" / "model.py").read_bytes()


def test_library_without_its_template_says_so(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"must hold its starter project; got none in .*\. Install tfx-gnn again"
    ):
        starter_project._templates_folder(tmp_path / "site" / "tfx_gnn")

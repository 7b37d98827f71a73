"""Every TFX component is a folder of the same shape."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ROOT / "components" / "tfx_gnn" / "components"
FOLDERS = sorted(path for path in COMPONENTS.iterdir() if path.is_dir() and path.name != "__pycache__")
EXECUTOR_IMPORTS = (
    "__future__",
    "typing",
    "tfx.dsl.components.base",
    "tfx.types",
    "tfx_gnn.components",
    "tfx_gnn.stages",
)

each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_modules(tree: ast.Module) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) if node.module}


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def test_there_are_the_nine_components_of_the_flow_and_the_tuner():
    assert [folder.name for folder in FOLDERS] == [
        "graph_evaluator",
        "graph_example_validator",
        "graph_pusher",
        "graph_schema_gen",
        "graph_skew_validator",
        "graph_trainer",
        "graph_transform",
        "graph_tuner",
        "size_constraint_learner",
        "subgraph_example_gen",
    ]


@each_folder
def test_folder_holds_the_contract_the_executor_and_nothing_else(folder: Path):
    assert sorted(path.name for path in folder.glob("*.py")) == ["__init__.py", "component.py", "executor.py"]


@each_folder
def test_package_exports_the_component_alone(folder: Path):
    tree = parse(folder / "__init__.py")

    exports = [node for node in tree.body if isinstance(node, ast.Assign)]

    assert [ast.literal_eval(node.value) for node in exports] == [[camel_case(folder.name)]]


@each_folder
def test_component_file_defines_the_spec_and_the_component(folder: Path):
    found = classes(parse(folder / "component.py"))

    assert list(found) == [f"{camel_case(folder.name)}Spec", camel_case(folder.name)]


@each_folder
def test_constructor_takes_keywords_only_and_documents_each(folder: Path):
    component = classes(parse(folder / "component.py"))[camel_case(folder.name)]
    init = next(node for node in component.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    documented = (ast.get_docstring(component) or "").partition("Args:")[2].partition("Raises:")[0]

    assert [argument.arg for argument in init.args.args] == ["self"]
    assert [line.strip().split(":")[0] for line in documented.splitlines() if line[4:5].isalpha()] == [
        argument.arg for argument in init.args.kwonlyargs
    ]


@each_folder
def test_executor_maps_artifacts_to_paths_and_calls_the_stage_of_the_same_name(folder: Path):
    tree = parse(folder / "executor.py")

    assert list(classes(tree)) == ["Executor"]
    assert all(name.startswith(EXECUTOR_IMPORTS) for name in imported_modules(tree)), imported_modules(tree)
    assert f"from tfx_gnn.stages import {folder.name} as stage" in (folder / "executor.py").read_text(encoding="utf-8")
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While, ast.If, ast.Try, ast.With))]


@each_folder
def test_stage_of_the_same_name_takes_options_of_the_same_name(folder: Path):
    name = f"{camel_case(folder.name)}Options"
    stage = parse(COMPONENTS.parent / "stages" / f"{folder.name}.py")

    # Large options have a file of their own among the stage's parts; the stage then exports them.
    assert name in classes(stage) or f'"{name}"' in ast.unparse(stage).replace("'", '"')


@pytest.mark.parametrize("path", sorted(COMPONENTS.rglob("*.py")), ids=lambda path: str(path.relative_to(COMPONENTS)))
def test_only_leaf_modules_of_tfx_are_imported(path: Path):
    # The whole of `tfx.v1` costs 20 s.
    tfx_modules = {name for name in imported_modules(parse(path)) if name.split(".")[0] == "tfx"}

    assert all(
        name.startswith(("tfx.types", "tfx.dsl.components.base", "tfx.orchestration.data_types"))
        for name in tfx_modules
    )

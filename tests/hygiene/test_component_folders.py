"""Every step is a folder of the same shape. Each rule is one test that lists its faults."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ROOT / "components" / "tfx_gnn" / "components"
FOLDERS = sorted(path for path in COMPONENTS.iterdir() if path.is_dir() and path.name != "__pycache__")
# GraphTrainer's options are those of the training library, which stands without the steps.
OPTIONS_ELSEWHERE = {"graph_trainer": COMPONENTS.parent / "training" / "options.py"}
EXECUTOR_IMPORTS = (
    "__future__",
    "typing",
    "tfx.dsl.components.base",
    "tfx.types",
    "tfx_gnn.components",
    "tfx_gnn.records.blessing",
    "tfx_gnn.records.examples_folder",
    "tfx_gnn.training.options",
)
LEAVES_OF_TFX = (
    "tfx.types",
    "tfx.dsl.components.base",
    "tfx.orchestration.data_types",
    "tfx.orchestration.experimental.interactive",  # imports types alone
)


def camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_modules(tree: ast.Module) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) if node.module}


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_steps_are_the_nine_of_the_flow_and_those_that_a_pipeline_may_have():
    assert [folder.name for folder in FOLDERS] == [
        "graph_bulk_inferrer",
        "graph_evaluator",
        "graph_example_validator",
        "graph_indexer",
        "graph_layerwise_inferrer",
        "graph_pusher",
        "graph_schema_gen",
        "graph_skew_validator",
        "graph_trainer",
        "graph_transform",
        "graph_tuner",
        "latest_blessed_model_resolver",
        "size_constraint_learner",
        "subgraph_example_gen",
        "table_snapshot_gen",
    ]


def test_folder_holds_the_component_its_executor_its_stage_and_their_options():
    missing = [
        f"{folder.name}/{name}"
        for folder in FOLDERS
        for name in ("__init__.py", "__init__.pyi", "component.py", "executor.py", "stage.py", "options.py")
        if not (folder / name).exists() and (name != "options.py" or folder.name not in OPTIONS_ELSEWHERE)
    ]

    assert missing == []


def test_package_exports_the_component_its_options_and_one_function_on_folders():
    faults = []
    for folder in FOLDERS:
        exported = {
            alias.name: node.module
            for node in parse(folder / "__init__.pyi").body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        name = camel_case(folder.name)
        here = f"tfx_gnn.components.{folder.name}"
        functions = [exported_name for exported_name, module in exported.items() if module == f"{here}.stage"]
        options = "tfx_gnn.training.options" if folder.name in OPTIONS_ELSEWHERE else f"{here}.options"
        if exported.get(name) != f"{here}.component" or exported.get(f"{name}Options") != options:
            faults.append(f"{folder.name}: {exported}")
        if sum(function.islower() for function in functions) != 1:
            faults.append(f"{folder.name}: {functions}")

    assert faults == []


def test_component_file_defines_the_spec_and_the_component():
    faults = {
        folder.name: found
        for folder in FOLDERS
        if (found := list(classes(parse(folder / "component.py"))))
        != [f"{camel_case(folder.name)}Spec", camel_case(folder.name)]
    }

    assert faults == {}


def test_constructor_takes_keywords_only_and_documents_each():
    faults = {}
    for folder in FOLDERS:
        component = classes(parse(folder / "component.py"))[camel_case(folder.name)]
        init = next(node for node in component.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
        text = (ast.get_docstring(component) or "").partition("Args:")[2].partition("Raises:")[0]
        documented = [line.strip().split(":")[0] for line in text.splitlines() if line[4:5].isalpha()]
        keywords = [argument.arg for argument in init.args.kwonlyargs]
        if [argument.arg for argument in init.args.args] != ["self"] or documented != keywords:
            faults[folder.name] = (documented, keywords)

    assert faults == {}


def test_executor_maps_artifacts_to_paths_and_calls_the_stage_beside_it():
    faults = []
    for folder in FOLDERS:
        tree = parse(folder / "executor.py")
        if list(classes(tree)) != ["Executor"]:
            faults.append(f"{folder.name}: {list(classes(tree))}")
        if not all(name.startswith(EXECUTOR_IMPORTS) for name in imported_modules(tree)):
            faults.append(f"{folder.name}: {imported_modules(tree)}")
        if f"from tfx_gnn.components.{folder.name} import stage\n" not in (folder / "executor.py").read_text():
            faults.append(f"{folder.name}: does not import its stage")
        if any(isinstance(node, (ast.For, ast.While, ast.If, ast.Try, ast.With)) for node in ast.walk(tree)):
            faults.append(f"{folder.name}: has logic")

    assert faults == []


def test_options_have_the_name_of_their_component():
    faults = [
        folder.name
        for folder in FOLDERS
        if f"{camel_case(folder.name)}Options"
        not in classes(parse(OPTIONS_ELSEWHERE.get(folder.name, folder / "options.py")))
    ]

    assert faults == []


def test_only_leaf_modules_of_tfx_are_imported():
    # The whole of `tfx.v1` costs 20 s.
    faults = {
        str(path.relative_to(COMPONENTS)): name
        for path in sorted(COMPONENTS.rglob("*.py"))
        for name in imported_modules(parse(path))
        if name.split(".")[0] == "tfx" and not name.startswith(LEAVES_OF_TFX)
    }

    assert faults == {}

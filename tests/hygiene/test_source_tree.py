"""The shape of the source tree: small files with one concept each, and folders of one form."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# An alarm: look for the second concept.
MAX_LINES = 500
# Tests of one file stay together, with the data they share.
MAX_TEST_LINES = 600
NAMES_OF_NO_CONCEPT = {"base", "common", "core", "helper", "helpers", "lib", "misc", "shared", "util", "utils"}
LIBRARY = ROOT / "components" / "tfx_gnn"


def _tracked_files() -> list[Path]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def _source_files() -> list[Path]:
    return [path for path in _tracked_files() if path.suffix == ".py" and not path.name.endswith("_pb2.py")]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_source_file_is_short_enough_to_hold_one_concept():
    lengths = {_relative(path): len(path.read_text().splitlines()) for path in _source_files()}

    limits = {name: MAX_TEST_LINES if name.startswith("tests/") else MAX_LINES for name in lengths}
    assert lengths, "the tree must have source files"
    assert {name: length for name, length in lengths.items() if length > limits[name]} == {}


def test_every_source_file_is_named_after_a_concept():
    nameless = [_relative(path) for path in _source_files() if path.stem.strip("_") in NAMES_OF_NO_CONCEPT]

    assert nameless == []


def test_an_init_file_holds_exports_and_no_logic():
    """Imports, `__all__`, `__version__`, and the two hooks by which a package resolves names lazily."""
    faults = []
    for path in sorted([*(ROOT / "components").rglob("__init__.py"), *(ROOT / "pipelines").rglob("__init__.py")]):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                faults.append(f"{_relative(path)}: class {node.name}")
            if isinstance(node, ast.FunctionDef) and node.name not in ("__getattr__", "__dir__"):
                faults.append(f"{_relative(path)}: function {node.name}")

    assert faults == []


def _imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def test_every_unit_test_lies_where_its_subject_lies():
    """A test of tfx_gnn/graph/... is in tests/unit/graph/... and imports from that room.

    Folders that are no part of the library, such as comparisons with others, look at all of it.
    """
    unit = ROOT / "tests" / "unit"
    # The first one's subject is TensorFlow's C API. Tests of the server ask the one of their folder's conftest.py over
    # HTTP. The subjects of the others are imported in the processes that they start.
    elsewhere = {
        "tests/unit/serving/test_c_api.py",
        "tests/unit/serving/server/test_bad_requests.py",
        "tests/unit/serving/server/test_candidates.py",
        "tests/unit/serving/server/test_graph_versions.py",
        "tests/unit/serving/server/test_process.py",
        "tests/unit/serving/server/test_protocols.py",
        "tests/unit/io/test_quiet_libraries.py",
        "tests/unit/graph/test_distribution.py",
        "tests/unit/keras/test_graphs_without_keras.py",
        "tests/unit/keras/test_keras3.py",
        "tests/unit/training/loop/test_same_weights.py",
    }
    homeless = []
    for path in sorted(unit.rglob("test_*.py")):
        parts = path.parent.relative_to(unit).parts
        if not (LIBRARY / Path(*parts)).is_dir():
            continue
        package = ".".join(["tfx_gnn", *parts[:1]])
        subjects = {name for name in _imported_modules(path) if name == package or name.startswith(f"{package}.")}
        if not subjects and "tfx_gnn" not in _imported_modules(path):
            homeless.append(_relative(path))

    assert sorted(set(homeless) - elsewhere) == []


def test_no_file_names_a_place_on_somebodys_machine():
    """A home folder or a mount of one machine in source, documents or settings works on that machine only."""
    # KServe's place for models, inside of its containers, is not meant.
    somebodys = re.compile(r"(?<![\w.])(?!/mnt/models\b)/(?:home|Users|work|mnt|root)/[\w.-]+")
    found = {
        _relative(path): sorted(set(somebodys.findall(path.read_text(errors="ignore"))))
        for path in _tracked_files()
        if path.suffix in {".cfg", ".md", ".py", ".pyi", ".sh", ".toml", ".yaml", ".yml", ".pbtxt", ".csv", ""}
    }

    assert {name: places for name, places in found.items() if places} == {}


def test_every_place_that_the_documents_link_to_exists():
    link = re.compile(r"\[[^\]]*\]\((?!https?:|#)([^)#\s]+)[^)]*\)")
    broken = [
        f"{_relative(path)}: {target}"
        for path in _tracked_files()
        if path.suffix == ".md"
        for target in link.findall(path.read_text())
        if not (path.parent / target).exists()
    ]

    assert broken == []


def test_every_folder_and_module_in_the_layout_of_architecture_md_exists():
    """Names in a description are those of parts of the entry's folder, or of other entries."""
    layout = (
        (ROOT / "docs" / "architecture.md").read_text().partition("## Layout")[2].partition("Imports go one way")[0]
    )
    folder, missing, num_found = ROOT, [], 0
    for line in filter(str.strip, layout.splitlines()):
        indent = len(line) - len(line.lstrip())
        if indent in (4, 6):
            entry = line.split()[0].rstrip(",")
            folder = (ROOT if indent == 4 else LIBRARY) / entry
        for name in re.findall(r"(?<![\w/.])[a-z_]+(?:/[a-z_]+)*(?:/(?!\w)|\.py)", line):
            num_found += 1
            # "One folder a step: options.py" is in each of the folders.
            known = [*(base / name for base in (folder, ROOT, LIBRARY)), *folder.glob(f"*/{name}")]
            if not any(path.exists() for path in known):
                missing.append(name)

    assert num_found > 40
    assert missing == []


def test_the_changelog_knows_the_version():
    version = re.search(r'__version__ = "(.+)"', (LIBRARY / "__init__.py").read_text())

    assert version
    assert re.search(
        rf"^## \[?({re.escape(version[1])}|Unreleased)\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )


def test_tests_that_take_long_are_there():
    listed = (ROOT / "tests" / "slow_tests.txt").read_text().splitlines()
    texts = {name: (ROOT / name).read_text() for name in {line.partition("::")[0] for line in listed}}

    gone = [
        line
        for line in listed
        for file, colons, test in [line.removesuffix("[...]").partition("::")]
        if colons and f"\ndef {test}(" not in texts[file]
    ]

    assert listed == sorted(listed)
    assert gone == []

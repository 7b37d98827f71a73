"""Settings of every test process, made before anything imports TensorFlow."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# pytest-xdist sets it for its workers, and a console keeps the width that it finds first.
os.environ.pop("COLUMNS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--few-cases", action="store_true", help="run the first and the last case of each test alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the first and the last case of each test, if that is asked for; the others are counted as deselected."""
    if not config.getoption("--few-cases"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(item) for of_one_test in cases.values() for item in (of_one_test[0], of_one_test[-1])}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the oracle, and makes hypothesis repeatable where a failure must be."""
    lanes = {part for argument in config.args for part in Path(argument).parts}
    if not lanes & {"components", "e2e", "stores"}:
        # tensorflow-gnn, the oracle, needs Keras 2 under the name tf.keras. TFX components and pipelines are
        # tested without it, as their users run them.
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    if sys.version_info < (3, 11) and importlib.util.find_spec("tensorflow_gnn") is None:
        raise pytest.UsageError("the development packages are not all installed; run the tests by `make test`.")

    import hypothesis

    # A first call may trace a tf.function, which takes longer than any deadline worth having.
    hypothesis.settings.register_profile("here", deadline=None, print_blob=True)
    hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_finish() -> None:
    """Spares the garbage collector work, which is a third of the time of tests that trace many functions.

    What modules made on import is hidden from it: it would find half a million objects alive. And tracing makes so
    many objects that live on that by Python's thresholds it would run a hundred times as often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture
def of_another_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file or folder look as if another user had made it."""
    foreign: set[tuple[int, int]] = set()

    def disguised(function: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def call(*args: Any, **options: Any) -> os.stat_result:
            found = function(*args, **options)
            if (found.st_dev, found.st_ino) not in foreign:
                return found
            names = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
            return os.stat_result(
                (*found[:4], found.st_uid + 1, *found[5:]), {name: getattr(found, name) for name in names}
            )

        return call

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, disguised(getattr(os, name)))

    def mark(path: Path) -> None:
        found = os.lstat(path)
        foreign.add((found.st_dev, found.st_ino))

    return mark


@pytest.fixture(scope="session")
def python_of_document() -> Callable[[str], str]:
    """Gives the Python blocks of a document, named from the project's top, as one program."""
    block = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    root = Path(__file__).resolve().parents[1]
    return lambda name: "\n".join(block.findall((root / name).read_text()))


@pytest.fixture(scope="session")
def clusters() -> ModuleType:
    """The module `clusters`: programs as clusters of real processes (`run_cluster`, `cluster_of`)."""
    spec = importlib.util.spec_from_file_location("clusters", Path(__file__).with_name("clusters.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

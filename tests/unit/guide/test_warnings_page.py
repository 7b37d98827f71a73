"""docs/warnings.md: made of the code, and each warning that it has is one that something says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tfx_gnn.components.graph_example_validator.checks import CHECKS
from tfx_gnn.records import warning_kinds
from tfx_gnn.records.warning_kinds import KINDS_BY_NAME, WarningKind, split_mark

ROOT = Path(__file__).resolve().parents[3]
CONSTANTS = sorted(name for name, value in vars(warning_kinds).items() if isinstance(value, WarningKind))


def test_the_page_is_what_the_code_makes():
    spec = importlib.util.spec_from_file_location("warnings_page", ROOT / "infra" / "site" / "warnings_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    # python infra/site/warnings_page.py > docs/warnings.md
    assert (ROOT / "docs" / "warnings.md").read_text() == module.page()


def test_names_are_of_one_warning_each():
    assert len(KINDS_BY_NAME) == len(CONSTANTS)
    assert not KINDS_BY_NAME.keys() & CHECKS.keys()
    assert [name for name in [*KINDS_BY_NAME, *CHECKS] if not re.fullmatch("[a-z0-9_]+", name)] == []


@pytest.fixture(scope="module")
def sources():
    files = [path for folder in ("components", "pipelines") for path in (ROOT / folder).rglob("*.py")]
    return [path.read_text() for path in files if path.name != "warning_kinds.py"]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_each_kind_is_said_somewhere(constant, sources):
    said = re.compile(rf"\b{constant}\.mark\(|warning=[\w\s.]*\b{constant}\b")

    assert any(said.search(text) for text in sources)


def test_the_name_of_a_warning_is_read_from_its_end():
    assert split_mark(warning_kinds.ONE_CLASS.mark("All [a] are 'b'.")) == ("All [a] are 'b'.", "one_class")
    assert split_mark("Of an earlier version, in [0, 1].") == ("Of an earlier version, in [0, 1].", "")

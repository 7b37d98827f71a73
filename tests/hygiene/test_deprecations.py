"""What is deprecated is removed in the version that its warning names."""

from __future__ import annotations

import ast
from pathlib import Path

import tfx_gnn

ROOT = Path(__file__).resolve().parents[2]


def _version(text):
    """The release that a version is, or leads to: 0.5.0.dev0 is the tree of 0.5.0."""
    numbers = [int(part) for part in text.split(".") if part.isdigit()]
    return tuple([*numbers, 0, 0][:3])


def _overdue(source, version):
    """Lines and versions of `@deprecated(...)` whose removal is due."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    removals = [
        (call.lineno, ast.literal_eval(keyword.value))
        for call in calls
        for keyword in call.keywords
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == "deprecated" and keyword.arg == "removed_in"
    ]
    return [(line, removed_in) for line, removed_in in removals if _version(removed_in) <= _version(version)]


def test_nothing_outlives_the_version_in_which_it_is_removed():
    overdue = {
        f"{path.relative_to(ROOT)}:{line}": f"removed_in={removed_in!r}, and this is {tfx_gnn.__version__}"
        for folder in ("components", "pipelines")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "deprecated(" in (source := path.read_text())
        # The example in its docstring is no call.
        for line, removed_in in _overdue(source, tfx_gnn.__version__)
    }

    assert overdue == {}


def test_a_removal_is_due_when_the_work_on_its_version_begins():
    source = '@deprecated(since="0.4", removed_in="0.10", use="`x`")\ndef old(): ...\n'

    assert _overdue(source, "0.9.3") == []
    assert _overdue(source, "0.10.0.dev0") == [(1, "0.10")]
    assert _overdue(source, "1.0.0") == [(1, "0.10")]

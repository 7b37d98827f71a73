"""Every example in a docstring of the library runs, and prints what it says.

Found in the source instead of by doctest's own search, which overlooks decorated functions. An example
knows the names of its module and, as its reader does, tf, tf_keras, np and tfx_gnn.
"""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn

_ROOT = Path(__file__).resolve().parents[2] / "components"
# The TFX components cost too much to import here; their docstrings hold tables.
_FILES = sorted(path for path in _ROOT.rglob("*.py") if path.parts[len(_ROOT.parts) + 1] not in ("components", "cli"))


def _documented(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST, str]]:
    """Everything in a file that has a docstring, with its dotted name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            dotted = f"{name}.{child.name}"
            yield dotted, child, ast.get_docstring(child, clean=False) or ""
            yield from _documented(child, dotted)


def _examples() -> Iterator[object]:
    for path in _FILES:
        tree = ast.parse(path.read_text())
        parts = path.relative_to(_ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        whole = module, tree, ast.get_docstring(tree, clean=False) or ""
        for name, node, docstring in [whole, *_documented(tree, module)]:
            if "Example:" in docstring or ">>>" in docstring:
                line = getattr(node, "lineno", 1)
                yield pytest.param(module, name, docstring, path, line, id=name.removeprefix("tfx_gnn."))


@pytest.mark.parametrize(("module", "name", "docstring", "path", "line"), [*_examples()])
def test_an_example_prints_what_it_says(module, name, docstring, path, line):
    known = {**vars(importlib.import_module(module)), "np": np, "tf": tf, "tf_keras": tf_keras, "tfx_gnn": tfx_gnn}
    example = doctest.DocTestParser().get_doctest(docstring, known, name, str(path), line)
    report: list[str] = []

    failed, attempted = doctest.DocTestRunner(verbose=False).run(example, out=report.append)

    assert attempted > 0, "an example must have a line that starts with >>>"
    assert failed == 0, "".join(report)

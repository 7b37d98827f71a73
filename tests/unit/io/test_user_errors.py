from __future__ import annotations

import importlib.util
import sys

import pytest

from tfx_gnn.io.user_errors import (
    UserCodeError,
    explain,
    is_user_file,
    place_of_error,
    place_of_function,
    place_of_result,
    source_files,
    user_errors_explained,
)

CODE = '''"""Mine, with 'age' in it."""


def by_key(columns):
    return columns["agee"]


def by_type(value):
    return float(value) + None

'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("mine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_key_error_names_line_mapping_and_the_likely_key(mine):
    with (
        pytest.raises(UserCodeError) as raised,
        user_errors_explained("preprocessing_fn", "run"),
    ):
        mine.by_key({"age": 1, "name": 2})

    assert str(raised.value) == (
        "`preprocessing_fn` must run; got KeyError: 'agee' at mine.py:5 (`return columns[\"agee\"]`). `columns` has "
        "['age', 'name']. Did you mean 'age'?"
    )


def test_message_of_this_library_keeps_its_type_and_gets_the_line(mine):
    class Columns(dict):
        def __missing__(self, key):
            raise TypeError(f"`name` must be known; got {key!r}. Correct it.")

    with pytest.raises(TypeError) as raised, user_errors_explained("preprocessing_fn", "run"):
        mine.by_key(Columns())

    # The innermost line of a user, which here is this test's.
    assert "`name` must be known; got 'agee'. Correct it. See " in str(raised.value)
    assert "test_user_errors.py:" in str(raised.value)


def test_error_without_a_frame_of_the_user_has_no_place():
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("x")
    raised.value.__traceback__ = None

    assert place_of_error(raised.value) is None
    assert explain(raised.value, "f", "run").startswith("`f` must run; got ValueError: invalid literal")


def test_syntax_error_names_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("a = 1\nb = = 2\n")

    with pytest.raises(SyntaxError) as raised:
        compile((tmp_path / "bad.py").read_text(), str(tmp_path / "bad.py"), "exec")

    assert "at bad.py:2 (`b = = 2`). Correct that line" in explain(raised.value, "f", "be imported")


RETURNS = """import functools

def shown(function):
    return functools.wraps(function)(lambda *values: function(*values))

@shown
def by_name(graph):
    def inner():
        return None
    result = graph
    result = dict(graph)
    return result

def directly(graph):
    return dict(
        graph)

def never(graph):
    pass
"""


@pytest.mark.parametrize(("name", "line"), [("by_name", 11), ("directly", 15), ("never", 18)])
def test_place_of_a_result_is_where_it_is_made(tmp_path, name, line):
    path = tmp_path / "returns.py"
    path.write_text(RETURNS)
    spec = importlib.util.spec_from_file_location("returns", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert place_of_result(getattr(module, name)).line == line


def test_place_of_a_result_is_the_head_where_the_file_is_gone_and_none_in_a_library(mine, tmp_path):
    (tmp_path / "mine.py").unlink()

    assert place_of_result(mine.by_key) == place_of_function(mine.by_key)
    assert place_of_result(explain) is None


def test_files_of_python_and_of_packages_are_not_the_users(mine):
    assert is_user_file(mine.__file__)
    assert not is_user_file(pytest.__file__)
    assert not is_user_file(importlib.util.__file__)
    assert not is_user_file(sys.modules[UserCodeError.__module__].__file__)
    assert place_of_function(explain) is None
    assert place_of_function(mine.by_type).line == 8


def test_source_files_need_no_import(tmp_path, monkeypatch):
    package = tmp_path / "a_package_of_mine"
    package.mkdir()
    for name in ("__init__.py", "plan.py"):
        (package / name).write_text("syntax error here")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert source_files(["a_package_of_mine.plan:PLAN"]) == [str(package / "__init__.py"), str(package / "plan.py")]
    assert source_files(["no_such_package_here:PLAN"]) == []

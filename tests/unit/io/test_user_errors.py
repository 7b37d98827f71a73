from __future__ import annotations

import importlib.util
import sys

import pytest

from tfx_gnn.io.user_errors import (
    UserCodeError,
    explain,
    is_user_file,
    place_of_argument,
    place_of_error,
    place_of_function,
    place_of_value,
    source_files,
    user_errors_explained,
)

CODE = '''"""Mine, with 'age' in it."""


def by_key(columns):
    return columns["agee"]


def by_type(value):
    return float(value) + None


PLAN = dict(
    column="splitt",
    hops=[dict(name="first", edge_set="buys"),
          dict(name="second", edge_set="bys")],
    features={"user": {"numbers": 1},
              "item": {"numbers": 2}},
)
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


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("`column` must be one of ['split']; got 'splitt'. Mend it.", 13),
        ("`splitt` must be one column of the table; got none among ['split']. Mend it.", 13),
        ("`inputs` must end in 'user'; got 'buys', in hop 'second'. Mend it.", 15),
        ("`edge_set` must be one of ['buys']; got 'bys'. Mend it.", 15),
        ("`preprocessing_fn` must give numbers; got 'nodes/item.numbers' with 1 NaN. Mend it.", 17),
    ],
)
def test_place_of_a_wrong_name_is_found_in_the_code(mine, message, line):
    assert place_of_value(message, [mine.__file__]).line == line


@pytest.mark.parametrize("message", ["`x` must be y; got 'numbers'. Mend it.", "`x` must be y; got 'absent'. Mend it."])
def test_name_in_several_lines_or_none_has_no_place(mine, message):
    assert place_of_value(message, [mine.__file__]) is None


def test_yaml_and_arguments_have_places(tmp_path, mine):
    path = tmp_path / "project.yaml"
    path.write_text("name: mine\ngraph_evaluator:\n  min_accuracy: 0.9\nlabel: intrest\n")

    assert place_of_argument("min_accuracy", [str(path)]).line == 3
    assert place_of_value("`label` must be known; got 'intrest'. Mend it.", [str(path)]).line == 4
    assert place_of_argument("column", [mine.__file__]).line == 13
    assert place_of_argument("name", [mine.__file__]) is None  # two hops have one


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

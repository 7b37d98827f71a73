import sys

import pytest

from tfx_gnn.io.user_code import fingerprint_function, load_function, load_object


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `mytask` whose model imports layers relatively and settings absolutely."""
    root = tmp_path / "mytask"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "inner" / "__init__.py").write_text("")
    (root / "model.py").write_text(
        "from .inner import layers\nimport mytask.settings\nimport json\n\n"
        "def model_fn():\n    return layers.width()\n\nVALUE = 3\n"
    )
    (root / "inner" / "layers.py").write_text("from ..deep import width\n")
    (root / "deep.py").write_text("def width():\n    return 7\n")
    (root / "settings.py").write_text("X = 1\n")
    (root / "other.py").write_text("Y = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == "mytask"]:
        del sys.modules[name]


def test_function_is_found_by_name(package):
    assert load_function("mytask.model:model_fn")() == 7


def test_an_object_of_any_kind_is_found_by_name(package):
    assert load_object("mytask.model:VALUE") == 3
    with pytest.raises(ValueError, match=r"got 'mytask.model:absent', where 'absent' is missing\. Check the spelling"):
        load_object("mytask.model:absent")


@pytest.mark.parametrize("edited", ["model.py", "inner/layers.py", "deep.py", "settings.py"])
def test_fingerprint_changes_with_every_module_that_is_reached(package, edited):
    before = fingerprint_function("mytask.model:model_fn")

    with open(package / edited, "a") as file:
        file.write("# edited\n")

    assert fingerprint_function("mytask.model:model_fn") != before


@pytest.mark.parametrize("edited", ["mylayers.py", "mycode/deep.py"])
def test_fingerprint_changes_with_modules_that_lie_beside(tmp_path, monkeypatch, edited):
    (tmp_path / "mycode").mkdir()
    (tmp_path / "mymodel.py").write_text("import mylayers\n\ndef model_fn():\n    return 1\n")
    (tmp_path / "mylayers.py").write_text("from mycode.deep import width\n")
    (tmp_path / "mycode" / "__init__.py").write_text("")
    (tmp_path / "mycode" / "deep.py").write_text("width = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mycode", raising=False)
    before = fingerprint_function("mymodel:model_fn")

    with open(tmp_path / edited, "a") as file:
        file.write("# edited\n")

    assert fingerprint_function("mymodel:model_fn") != before


def test_fingerprint_does_not_run_what_the_function_imports(package):
    (package / "settings.py").write_text("raise RuntimeError('run')\n")
    (package / "model.py").write_text("from mytask.settings import X\n")

    assert len(fingerprint_function("mytask.model:model_fn")) == 64


def test_fingerprint_ignores_installed_packages(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "mymodel.py").write_text("import mylayers\n\ndef model_fn():\n    return 1\n")
    (folder / "mylayers.py").write_text("width = 7\n")
    monkeypatch.syspath_prepend(str(folder))
    before = fingerprint_function("mymodel:model_fn")

    (folder / "mylayers.py").write_text("width = 8\n")

    assert fingerprint_function("mymodel:model_fn") == before


def test_fingerprint_in_a_folder_is_that_of_the_installed_distribution(tmp_path, monkeypatch):
    sources = {
        "mymodel.py": "import mylayers\nimport numpy\n\ndef model_fn():\n    return 1\n",
        "mylayers.py": "width = 7\n",
        "others.py": "from mylayers import width\n",
    }
    project, installed = tmp_path / "project", tmp_path / "site-packages"
    for folder in (project, installed):
        folder.mkdir()
        for name, text in sources.items():
            (folder / name).write_text(text)
    info = installed / "my_project-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-project\nVersion: 1.0\n")
    (info / "RECORD").write_text("mymodel.py,,\nmylayers.py,,\nmy_project-1.0.dist-info/RECORD,,\n")

    def fingerprint(folder):
        with monkeypatch.context() as path:
            path.syspath_prepend(str(folder))
            return fingerprint_function("mymodel:model_fn")

    before = fingerprint(project)
    assert fingerprint(installed) == before
    (installed / "mylayers.py").write_text("width = 8\n")
    assert fingerprint(installed) != before


def test_fingerprint_ignores_modules_that_are_not_reached(package):
    before = fingerprint_function("mytask.model:model_fn")

    (package / "other.py").write_text("Y = 2\n")

    assert fingerprint_function("mytask.model:model_fn") == before
    assert fingerprint_function("mytask.model:other_fn") != before


@pytest.mark.parametrize("reference", ["mytask.model", "mytask.model:", ":f", "my-task.model:f", "mytask.model:a.b"])
@pytest.mark.parametrize("use", [load_function, load_object, fingerprint_function])
def test_other_forms_are_refused(reference, use):
    with pytest.raises(ValueError, match=r"must have the form 'package\.module:function'"):
        use(reference)


@pytest.mark.parametrize("use", [load_function, load_object, fingerprint_function])
def test_an_unknown_module_is_named(use):
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        use("no_such_module.model:model_fn")


def test_a_module_that_fails_on_its_own_imports_keeps_its_error(package):
    (package / "broken.py").write_text("import no_such_dependency\n")

    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_dependency'$"):
        load_function("mytask.broken:f")


@pytest.mark.parametrize(("name", "what"), [("absent", "missing"), ("VALUE", "int")])
def test_a_name_that_is_no_function_is_refused(package, name, what):
    with pytest.raises(ValueError, match=f"'{name}' is {what}"):
        load_function(f"mytask.model:{name}")

import importlib
import sys

import pytest

from tfx_gnn.io.code_files import code_places

FILES = {
    "myshop/__init__.py": "raise AssertionError('imported')\n",
    "myshop/model.py": (
        "import importlib, json\nimport mylayers.dense\nimport numpy\n\n"
        "LOSS = importlib.import_module('mylosses')\nNAMES = open('names.txt').read()\nNOBODY = open('absent.txt')\n"
    ),
    "myshop/deep/rules.py": "RULES = open('rules.csv')\nWEIGHTS = open('weights.csv')\n",
    "myshop/deep/rules.csv": "1",
    "mylayers/__init__.py": "",
    "mylayers/dense.py": "from myunits import UNITS\n",
    "myunits.py": "UNITS = 1\n",
    "mylosses.py": "LOSS = 1\n",
    "mystranger.py": "",
    "names.txt": "a",
    "weights.csv": "1",
    "data/model.txt": "1",
    "mycompany/mypart/__init__.py": "",
    "mycompany/other/__init__.py": "",
    "mycompany/single.py": "from . import limits\nfrom .floors import FLOOR\n",
    "mycompany/limits.py": "",
    "mycompany/floors.py": "FLOOR = 1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path.resolve()
    assert not any(name.startswith("my") for name in sys.modules if (tmp_path / name.partition(".")[0]).exists())


def found_in(folder, names, **options):
    return [place.removeprefix(f"{folder}/") for place in code_places(names, **options)]


def test_package_leads_to_all_that_its_sources_import_or_name_and_nothing_is_imported(folder):
    assert found_in(folder, ["myshop.model"]) == [
        "mylayers",
        "mylosses.py",
        "myshop",
        "myshop/deep/rules.csv",
        "myunits.py",
        "names.txt",
        "weights.csv",
    ]


def test_module_beside_others_leads_to_what_it_names_alone(folder):
    assert found_in(folder, ["myunits"]) == ["myunits.py"]


def test_folder_without_init_is_passed_through(folder):
    assert found_in(folder, ["mycompany.mypart.model"]) == ["mycompany/mypart"]


def test_relative_imports_are_followed_in_a_folder_without_init(folder):
    assert found_in(folder, ["mycompany.single"]) == [
        "mycompany/floors.py",
        "mycompany/limits.py",
        "mycompany/single.py",
    ]


def test_packages_left_out_are_not_followed(folder):
    assert found_in(folder, ["myshop.model"], without=["mylayers"]) == [
        "mylosses.py",
        "myshop",
        "myshop/deep/rules.csv",
        "names.txt",
        "weights.csv",
    ]
    assert found_in(folder, ["myshop.model"], without=["myshop"]) == ["myshop"]


def test_installed_package_stands_for_itself():
    (place,) = code_places(["yaml.nodes"])[-1:]

    assert place.endswith("/yaml")


@pytest.mark.parametrize("name", ["absent", "absent.model", "sys", "mycompany"])
def test_module_without_a_file_is_refused(folder, name):
    with pytest.raises(ModuleNotFoundError, match=f"`module_names` must name modules with files; got '{name}'"):
        code_places([name])


@pytest.mark.parametrize("source", ["LOSS =", "LOSS = 1\0"])
def test_source_that_is_no_python_is_refused(folder, source):
    (folder / "mylosses.py").write_text(source)

    with pytest.raises(SyntaxError, match=r"mylosses\.py"):
        code_places(["myshop.model"])

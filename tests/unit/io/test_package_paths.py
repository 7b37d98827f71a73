import json
from pathlib import Path

import pytest

from tfx_gnn.io.package_paths import resolve_package_path


def test_path_in_a_package_is_where_the_package_lies():
    place = Path(json.__file__).parent / "tool.py"

    assert resolve_package_path("package://json/tool.py") == str(place)
    assert Path(resolve_package_path("package://json")) == place.parent


@pytest.mark.parametrize("path", ["", "data", "/data/json", "gs://json/data"])
def test_other_paths_stay_as_they_are(path):
    assert resolve_package_path(path) == path


@pytest.mark.parametrize("package", ["no_such_package", "sys", "json.tool", ""])
def test_package_that_is_not_installed_is_named(package):
    with pytest.raises(ModuleNotFoundError, match=f"there is no package '{package}'"):
        resolve_package_path(f"package://{package}/data")


def test_path_that_leaves_its_package_is_refused():
    with pytest.raises(ValueError, match=r"must stay inside its package; got 'package://json/a/../../os.py'"):
        resolve_package_path("package://json/a/../../os.py")

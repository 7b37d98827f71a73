from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfx_gnn.components.latest_blessed_model_resolver.options import LatestBlessedModelResolverOptions
from tfx_gnn.components.latest_blessed_model_resolver.stage import (
    describe_latest_version,
    resolve_latest_blessed_model,
)


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """Versions 1, 2 and 10; version 11 is still being copied."""
    for version in ("1", "2", "10"):
        folder = tmp_path / "serving" / version
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_text(f"model {version}")
        (folder / "variables" / "variables.index").write_text("index")
    (tmp_path / "serving" / "11" / "variables").mkdir(parents=True)
    return tmp_path / "serving"


def _resolve(serving: Path, *, latest_version: str = "", must_exist: bool = False) -> tuple[bool, Path]:
    output = serving.parent / "blessed_model"
    found = resolve_latest_blessed_model(
        push_destination=str(serving),
        blessed_model_dir=str(output),
        latest_version=latest_version,
        options=LatestBlessedModelResolverOptions(must_exist=must_exist),
    )
    return found, output


def test_newest_whole_version_is_copied(serving: Path) -> None:
    found, output = _resolve(serving, must_exist=True)

    assert found
    assert (output / "Format-Serving" / "saved_model.pb").read_text() == "model 10"
    assert (output / "Format-Serving" / "variables" / "variables.index").read_text() == "index"
    record = json.loads((output / "latest_blessed_model.json").read_text())
    assert record == {"found": True, "description": f"version 10 in {serving}"}


def test_version_whose_number_has_zeros_in_front_is_found_as_servers_find_it(serving: Path) -> None:
    (serving / "10").rename(serving / "010")

    _, output = _resolve(serving, latest_version=describe_latest_version(str(serving)))

    assert (output / "Format-Serving" / "saved_model.pb").read_text() == "model 10"


def test_version_that_was_taken_back_is_not_compared_with(serving: Path) -> None:
    (serving / "10" / "saved_model.pb").unlink()

    _, output = _resolve(serving)

    assert (output / "Format-Serving" / "saved_model.pb").read_text() == "model 2"


def test_without_a_version_the_record_says_so(tmp_path: Path) -> None:
    found, output = _resolve(tmp_path / "serving", latest_version=describe_latest_version(str(tmp_path / "serving")))

    assert not found
    assert [path.name for path in output.iterdir()] == ["latest_blessed_model.json"]
    record = json.loads((output / "latest_blessed_model.json").read_text())
    assert record == {"found": False, "description": f"no version in {tmp_path / 'serving'}: this is the first model"}


def test_description_changes_with_the_newest_version_only(serving: Path) -> None:
    before = describe_latest_version(str(serving))
    (serving / "2" / "saved_model.pb").write_text("edited")
    (serving / "10" / "tfx_gnn_version.json").write_text("of an object store")
    same = describe_latest_version(str(serving))
    (serving / "11" / "saved_model.pb").write_text("model 11")

    assert before == same
    assert (before.partition(":")[0], describe_latest_version(str(serving)).partition(":")[0]) == ("10", "11")


def test_version_of_the_start_of_the_run_is_found_though_there_is_a_newer_one(serving: Path) -> None:
    described = describe_latest_version(str(serving))
    (serving / "11" / "saved_model.pb").write_text("model 11")

    _, output = _resolve(serving, latest_version=described)

    assert (output / "Format-Serving" / "saved_model.pb").read_text() == "model 10"


def test_version_that_changed_since_the_start_of_the_run_is_refused(serving: Path) -> None:
    described = describe_latest_version(str(serving))
    (serving / "10" / "saved_model.pb").write_text("edited")

    with pytest.raises(
        ValueError, match=r"`push_destination` must have version 10:.* to its end; got 10:.* Start the r"
    ):
        _resolve(serving, latest_version=described)
    assert not (serving.parent / "blessed_model").exists()


def test_missing_model_that_must_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`push_destination` must have a version, since `must_exist` is true; got non"):
        _resolve(tmp_path / "servnig", must_exist=True)
    with pytest.raises(ValueError, match="`push_destination` must be a folder or a URI; got ''"):
        resolve_latest_blessed_model(
            push_destination="", blessed_model_dir=str(tmp_path / "x"), options=LatestBlessedModelResolverOptions()
        )

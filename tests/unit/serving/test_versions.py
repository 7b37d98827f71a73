from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.serving.versions import list_versions, resolve_saved_model


def _save_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"")


def test_versions_are_listed_as_numbers_in_ascending_order(tmp_path: Path) -> None:
    for name in ("9", "10", "007", ".incoming-1", "latest", "-3"):
        (tmp_path / name).mkdir()

    assert list_versions(str(tmp_path)) == [9, 10]


def test_absent_destination_has_no_version(tmp_path: Path) -> None:
    assert list_versions(str(tmp_path / "absent")) == []


def test_newest_version_of_a_destination_is_taken(tmp_path: Path) -> None:
    for name in ("2", "10"):
        _save_model(tmp_path / name)

    assert resolve_saved_model(str(tmp_path)) == str(tmp_path / "10")


def test_folder_of_a_trained_model_leads_to_its_saved_model(tmp_path: Path) -> None:
    _save_model(tmp_path / "Format-Serving")

    assert resolve_saved_model(str(tmp_path)) == str(tmp_path / "Format-Serving")


def test_saved_model_is_itself(tmp_path: Path) -> None:
    _save_model(tmp_path / "model")

    assert resolve_saved_model(str(tmp_path / "model")) == str(tmp_path / "model")


def test_folder_without_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "3").mkdir()

    with pytest.raises(FileNotFoundError, match=r"`path` must be a SavedModel.*got .*saved_model\.pb"):
        resolve_saved_model(str(tmp_path))

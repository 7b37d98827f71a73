from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.stages.files.blessing import INFRA_PREFIX, is_blessed, read_reasons, write_blessing


@pytest.mark.parametrize("blessed", [True, False])
def test_verdict_and_reasons_are_read_back(tmp_path, blessed) -> None:
    write_blessing(str(tmp_path), blessed=blessed, reasons=["accuracy 0.7 is above 0.6"])

    assert is_blessed(str(tmp_path)) is blessed
    assert read_reasons(str(tmp_path)) == ["accuracy 0.7 is above 0.6"]
    assert (tmp_path / ("BLESSED" if blessed else "NOT_BLESSED")).read_bytes() == b""


def test_verdict_on_serving_has_files_of_its_own(tmp_path: Path) -> None:
    write_blessing(str(tmp_path), blessed=True, reasons=[])
    write_blessing(str(tmp_path), blessed=False, reasons=["skew"], prefix=INFRA_PREFIX)

    assert is_blessed(str(tmp_path))
    assert not is_blessed(str(tmp_path), prefix=INFRA_PREFIX)
    assert (tmp_path / "INFRA_NOT_BLESSED").read_bytes() == b""


def test_verdict_of_another_tool_needs_no_reasons(tmp_path: Path) -> None:
    (tmp_path / "NOT_BLESSED").touch()

    assert not is_blessed(str(tmp_path))
    assert read_reasons(str(tmp_path)) == ["no reasons were given"]


def test_folder_without_verdict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="`folder` must hold BLESSED or NOT_BLESSED"):
        is_blessed(str(tmp_path))


def test_folder_with_both_verdicts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "BLESSED").touch()
    (tmp_path / "NOT_BLESSED").touch()

    with pytest.raises(ValueError, match="`folder` must hold one verdict"):
        is_blessed(str(tmp_path))

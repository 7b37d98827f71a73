from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.records.blessing import (
    INFRA_PREFIX,
    Judged,
    check_judged,
    is_blessed,
    read_reasons,
    write_blessing,
)

MODEL = Judged(kind="model", fingerprint="1")


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


@pytest.mark.parametrize(
    ("judged", "told"),
    [
        (
            Judged(kind="examples", fingerprint="1"),
            r"must judge examples; got a verdict about a model in .* that Gra",
        ),
        (Judged(kind="model", fingerprint="2"), r"must judge the model at hand; got a verdict about another model in"),
    ],
)
def test_verdict_about_something_else_is_refused(tmp_path: Path, judged: Judged, told: str) -> None:
    write_blessing(str(tmp_path), blessed=True, reasons=[], judged=MODEL)

    with pytest.raises(ValueError, match=f"`blessing_dir` {told}"):
        check_judged(str(tmp_path), judged, argument="blessing_dir")


@pytest.mark.parametrize("judged", [MODEL, None])
def test_verdict_about_this_or_about_something_unsaid_passes(tmp_path: Path, judged: Judged | None) -> None:
    write_blessing(str(tmp_path), blessed=True, reasons=[], judged=judged)

    check_judged(str(tmp_path), MODEL, argument="blessing_dir")


def test_folder_without_verdict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="`folder` must hold BLESSED or NOT_BLESSED"):
        is_blessed(str(tmp_path))


def test_folder_with_both_verdicts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "BLESSED").touch()
    (tmp_path / "NOT_BLESSED").touch()

    with pytest.raises(ValueError, match="`folder` must hold one verdict"):
        is_blessed(str(tmp_path))

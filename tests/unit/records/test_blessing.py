from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.records.blessing import (
    INFRA_PREFIX,
    BlessingSubject,
    check_blessing_subject,
    is_blessed,
    read_reasons,
    write_blessing,
)

MODEL = BlessingSubject(kind="model", fingerprint="1")


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
    ("reasons", "expected"),
    [('"accuracy is low"', ["accuracy is low"]), ("7", ["7"]), ("null", ["no reasons were given"])],
)
def test_reasons_of_another_tool_need_not_be_a_list(tmp_path: Path, reasons: str, expected: list[str]) -> None:
    (tmp_path / "reasons.json").write_text(f'{{"blessed": false, "reasons": {reasons}}}')

    assert read_reasons(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (
            BlessingSubject(kind="examples", fingerprint="1"),
            r"must be about examples; got a verdict about a model in .* that Gra",
        ),
        (
            BlessingSubject(kind="model", fingerprint="2"),
            r"must be about the model at hand; got a verdict about another model in",
        ),
    ],
)
def test_verdict_about_something_else_is_refused(tmp_path: Path, subject: BlessingSubject, told: str) -> None:
    write_blessing(str(tmp_path), blessed=True, reasons=[], subject=MODEL)

    with pytest.raises(ValueError, match=f"`blessing_dir` {told}"):
        check_blessing_subject(str(tmp_path), subject, argument="blessing_dir")


@pytest.mark.parametrize("subject", [MODEL, None])
def test_verdict_about_this_or_about_something_unsaid_passes(tmp_path: Path, subject: BlessingSubject | None) -> None:
    write_blessing(str(tmp_path), blessed=True, reasons=[], subject=subject)

    check_blessing_subject(str(tmp_path), MODEL, argument="blessing_dir")


def test_folder_without_verdict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="`folder` must hold BLESSED or NOT_BLESSED"):
        is_blessed(str(tmp_path))


def test_folder_with_both_verdicts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "BLESSED").touch()
    (tmp_path / "NOT_BLESSED").touch()

    with pytest.raises(ValueError, match="`folder` must hold one verdict"):
        is_blessed(str(tmp_path))


def test_reasons_that_are_no_object_are_refused_and_not_taken_for_those_of_another_tool(tmp_path):
    write_blessing(str(tmp_path), blessed=True, reasons=[])
    (tmp_path / "reasons.json").write_text("[]")

    with pytest.raises(ValueError, match=r"reasons\.json` must be an object; got a list"):
        read_reasons(str(tmp_path))

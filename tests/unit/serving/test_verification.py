from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfx_gnn.serving.verification import ServingVerificationError, verify_saved_model


def test_good_model_stands_every_request(toy_model_dir: str, toy_records: dict[str, list[bytes]]) -> None:
    report = verify_saved_model(os.path.join(toy_model_dir, "Format-Serving"), toy_records["test"][:2])

    assert report.outputs == ("id", "label", "logits", "probabilities", "score")
    assert report.requests == (
        "no example",
        "2 examples",
        "example 0 alone",
        "example 1 alone",
        "examples without labels",
        "garbage bytes",
        "garbage bytes after an example",
        "a record without a readout",
    )
    assert report.load_seconds > 0


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("reads labels", "output 'logits' must be the same for examples without labels as with labels"),
        ("mixes examples", "output 'logits' must be the same for example 0 alone as in a batch of 4"),
        ("is not finite", "output 'logits' must be finite; got NaN or infinity"),
        ("needs python", "pyfunc"),
        ("answers once", r"output 'score' must have shape \[n, ...\] for n examples; got \[\] for 0"),
        ("answers garbage", "garbage bytes must be refused with InvalidArgumentError; got an answer"),
    ],
)
def test_defect_is_found(
    defective_model_dir: Callable[[str], str], toy_records: dict[str, list[bytes]], defect: str, message: str
) -> None:
    saved_model_dir = os.path.join(defective_model_dir(defect), "Format-Serving")

    with pytest.raises(ServingVerificationError, match=message):
        verify_saved_model(saved_model_dir, toy_records["test"])


def test_truncated_model_is_refused(tmp_path: Path, toy_records: dict[str, list[bytes]]) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12")

    with pytest.raises(
        ServingVerificationError, match="must answer real requests with TensorFlow alone; got 1 problem"
    ):
        verify_saved_model(str(tmp_path), toy_records["test"])


def test_no_records_are_refused(toy_model_dir: str) -> None:
    with pytest.raises(ValueError, match="`records` must hold at least one example"):
        verify_saved_model(os.path.join(toy_model_dir, "Format-Serving"), [])


def test_slow_model_is_given_up(toy_model_dir: str, toy_records: dict[str, list[bytes]]) -> None:
    with pytest.raises(ServingVerificationError, match=r"must answer within 0\.01 s"):
        verify_saved_model(os.path.join(toy_model_dir, "Format-Serving"), toy_records["test"], timeout_seconds=0.01)

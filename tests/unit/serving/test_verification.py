from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tfx_gnn.serving.verification import ServingVerificationError, verify_saved_model
from tfx_gnn.serving.warmup_requests import WARMUP_FILE, write_warmup_requests
from tfx_gnn.training.export.unsafe_operations import has_unsafe_kernels


def test_good_model_stands_every_request(toy_model_dir: str, toy_records: dict[str, list[bytes]]) -> None:
    report = verify_saved_model(
        os.path.join(toy_model_dir, "Format-Serving"), toy_records["test"][:2], num_threads=2, concurrent_seconds=0.2
    )

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
        "requests of 2 threads for 0.2 s",
    )
    assert report.num_concurrent_requests >= 2
    assert report.largest_difference <= 1e-6
    assert report.load_seconds > 0
    assert {(answer.feature, answer.value): answer.answer for answer in report.out_of_domain} == {
        ("nodes/item.x", "-1.0"): "finite",
        ("nodes/item.x", "0.0"): "finite",
        ("nodes/item.x", "1e+30"): "finite",
        ("nodes/item.x", "nan"): "not finite",
        ("nodes/item.x", "inf"): "not finite",
        ("nodes/item.x", "-inf"): "not finite",
    }


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
        verify_saved_model(saved_model_dir, toy_records["test"], num_threads=0)


def test_model_that_dies_of_several_threads_is_found_whatever_the_environment_says(
    defective_model_dir: Callable[[str], str], toy_records: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # With this the model would live.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    verify = functools.partial(
        verify_saved_model, os.path.join(defective_model_dir("is not safe"), "Format-Serving"), toy_records["test"]
    )

    if has_unsafe_kernels():
        with pytest.raises(ServingVerificationError, match=r"got SIG(ABRT|SEGV) while answering 4 threads' requests"):
            verify(concurrent_seconds=60.0)
    else:
        assert verify(concurrent_seconds=0.5).num_concurrent_requests >= 4


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
    with pytest.raises(ServingVerificationError, match=r"must answer within 0\.01 s; got no answer while starting"):
        verify_saved_model(
            os.path.join(toy_model_dir, "Format-Serving"), toy_records["test"], num_threads=0, timeout_seconds=0.01
        )


def test_time_limit_grows_with_what_is_asked(
    toy_model_dir: str, toy_records: dict[str, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_model_dir = shutil.copytree(os.path.join(toy_model_dir, "Format-Serving"), tmp_path / "model")
    limits = []

    def expire(command, *, timeout, **_):
        limits.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", expire)
    for num_records, num_warmup_requests in ((1, 0), (4, 0), (4, 3)):
        if num_warmup_requests:
            write_warmup_requests(str(saved_model_dir), toy_records["test"])
        with pytest.raises(ServingVerificationError, match="got no answer while starting"):
            verify_saved_model(str(saved_model_dir), toy_records["test"][:num_records], num_threads=0)

    # Beside 10 minutes, 10 seconds for each example, for each of six values out of the domain, and to warm up.
    assert limits == [670.0, 700.0, 730.0]


def test_warmup_requests_that_cannot_be_read_are_refused(
    toy_model_dir: str, toy_records: dict[str, list[bytes]], tmp_path: Path
) -> None:
    saved_model_dir = shutil.copytree(os.path.join(toy_model_dir, "Format-Serving"), tmp_path / "model")
    path = saved_model_dir / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no TFRecord file")

    with pytest.raises(ServingVerificationError, match="must hold warm-up requests that a server can read; got"):
        verify_saved_model(str(saved_model_dir), toy_records["test"])

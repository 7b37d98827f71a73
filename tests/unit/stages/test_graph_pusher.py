from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.verification import ServingVerificationError
from tfx_gnn.stages.files.blessing import INFRA_PREFIX, write_blessing
from tfx_gnn.stages.graph_pusher import GraphPusherOptions, PushedVersion, push_graph_model


def _push(
    tmp_path: Path,
    *,
    model_dir: str,
    examples_dir: str,
    blessed: bool = True,
    run: str = "1",
    infra_blessing_dir: str = "",
) -> PushedVersion:
    blessing_dir = tmp_path / f"blessing-{run}"
    blessing_dir.mkdir()
    write_blessing(str(blessing_dir), blessed=blessed, reasons=["accuracy 0.1 is below 0.2"])
    return push_graph_model(
        model_dir=model_dir,
        blessing_dir=str(blessing_dir),
        examples_dir=examples_dir,
        push_destination=str(tmp_path / "serving"),
        pushed_model_dir=str(tmp_path / f"pushed-{run}"),
        infra_blessing_dir=infra_blessing_dir,
        options=GraphPusherOptions(num_verification_requests=2),
    )


def test_blessed_model_becomes_the_next_version(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str, toy_records: dict[str, list[bytes]]
) -> None:
    first = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")
    second = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="2")

    assert (first.version, second.version) == (1, 2)
    assert sorted(os.listdir(tmp_path / "serving")) == ["1", "2"]
    labels = [prediction.label for prediction in ServingModel(second.path).classify(toy_records["test"])]
    assert labels == ["red", "blue", "red", "blue"]
    record = json.loads((tmp_path / "pushed-2" / "pushed_version.json").read_text())
    assert record["pushed"] is True
    assert record["version"] == 2
    assert record["path"] == str(tmp_path / "serving" / "2")
    assert "2 examples" in record["verification_requests"]


def test_model_that_is_not_blessed_is_not_pushed(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    pushed = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, blessed=False)

    assert pushed.pushed is False
    assert pushed.version is None
    assert not (tmp_path / "serving").exists()
    record = json.loads((tmp_path / "pushed-1" / "pushed_version.json").read_text())
    assert record["pushed"] is False
    assert record["reason"] == "not blessed: accuracy 0.1 is below 0.2"


@pytest.mark.parametrize(
    ("blessed", "reasons", "expected"),
    [
        (True, ["nodes/item.x: 1 of 7 values differ"], "not blessed: nodes/item.x: 1 of 7 values differ"),
        (True, [], "not blessed: no reasons were given"),
        (False, ["skew"], "not blessed: accuracy 0.1 is below 0.2; skew"),
    ],
)
def test_model_that_serves_something_else_is_not_pushed(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str, *, blessed: bool, reasons: list[str], expected: str
) -> None:
    folder = tmp_path / "infra"
    folder.mkdir()
    write_blessing(str(folder), blessed=False, reasons=reasons, prefix=INFRA_PREFIX)

    pushed = _push(
        tmp_path,
        model_dir=toy_model_dir,
        examples_dir=toy_examples_dir,
        blessed=blessed,
        infra_blessing_dir=str(folder),
    )

    assert (pushed.pushed, pushed.reason) == (False, expected)
    assert not (tmp_path / "serving").exists()


def test_both_blessings_push(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    (tmp_path / "infra").mkdir()
    write_blessing(str(tmp_path / "infra"), blessed=True, reasons=[], prefix=INFRA_PREFIX)

    pushed = _push(
        tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, infra_blessing_dir=str(tmp_path / "infra")
    )

    assert pushed.version == 1


def test_folder_without_verdict_on_serving_is_refused(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    with pytest.raises(FileNotFoundError, match=r"INFRA_BLESSED or INFRA_NOT_BLESSED; .* that GraphSkewValidator made"):
        _push(
            tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, infra_blessing_dir=str(tmp_path / "none")
        )


def test_model_that_fails_its_requests_leaves_no_trace(
    tmp_path: Path, defective_model_dir: Callable[[str], str], toy_examples_dir: str
) -> None:
    with pytest.raises(ServingVerificationError, match="must be finite"):
        _push(tmp_path, model_dir=defective_model_dir("is not finite"), examples_dir=toy_examples_dir)

    assert os.listdir(tmp_path / "serving") == []
    assert not (tmp_path / "pushed-1").exists()


def test_folder_without_model_is_refused(tmp_path: Path, toy_examples_dir: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"`model_dir` must hold Format-Serving/saved_model\.pb"):
        _push(tmp_path, model_dir=str(tmp_path), examples_dir=toy_examples_dir)


def test_examples_without_any_record_are_refused(tmp_path: Path, toy_model_dir: str) -> None:
    from tfx_gnn.stages.examples_folder import write_split_shard

    write_split_shard(str(tmp_path / "examples"), "test", 0, 1, [])

    with pytest.raises(
        ValueError, match=r"`examples_dir` must hold at least one example.*got none in splits \['test'\]"
    ):
        _push(tmp_path, model_dir=toy_model_dir, examples_dir=str(tmp_path / "examples"))


def test_no_requests_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="`num_verification_requests` must be at least 1; got 0"):
        GraphPusherOptions(num_verification_requests=0)

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_pusher import stage
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions
from tfx_gnn.components.graph_pusher.stage import PushedVersion, forget_push, push_graph_model
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.records.blessing import INFRA_PREFIX, BlessingSubject, write_blessing
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.object_store_versions import leave_unrecorded_object
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.verification import ServingVerificationError, VerificationReport, verify_saved_model
from tfx_gnn.serving.versions import PushOrigin, leave_unrecorded
from tfx_gnn.serving.warmup_requests import has_warmup_requests, read_warmup_requests


def _push(
    tmp_path: Path,
    *,
    model_dir: str,
    examples_dir: str,
    blessed: bool = True,
    run: str = "1",
    blessing_dir: str = "",
    infra_blessing_dir: str = "",
    statistics_dir: str = "",
    analyzer_cache_dir: str = "",
    pushed_model_dir: str = "",
    refuses_nonfinite_answers: bool = False,
    publishing: Literal["auto", "rename", "copy"] = "auto",
) -> PushedVersion:
    if not blessing_dir:
        blessing_dir = str(tmp_path / f"blessing-{run}")
        os.mkdir(blessing_dir)
        write_blessing(blessing_dir, blessed=blessed, reasons=["accuracy 0.1 is below 0.2"])
    return push_graph_model(
        model_dir=model_dir,
        blessing_dir=blessing_dir,
        examples_dir=examples_dir,
        push_destination=str(tmp_path / "serving"),
        pushed_model_dir=pushed_model_dir or str(tmp_path / f"pushed-{run}"),
        infra_blessing_dir=infra_blessing_dir,
        statistics_dir=statistics_dir,
        analyzer_cache_dir=analyzer_cache_dir,
        options=GraphPusherOptions(
            num_verification_requests=2,
            verification_seconds=0.2,
            refuses_nonfinite_answers=refuses_nonfinite_answers,
            publishing=publishing,
        ),
    )


_REPORTS: dict[tuple[Any, ...], VerificationReport] = {}


@pytest.fixture(autouse=True)
def verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is asked the same requests once, not again for each push of it, whatever the push adds to its copy."""

    def verify(saved_model_dir: str, records: list[bytes], **options: Any) -> VerificationReport:
        key = (fingerprint_model(saved_model_dir), *records, *sorted(options.items()))
        if key not in _REPORTS:
            _REPORTS[key] = verify_saved_model(saved_model_dir, records, **options)
        return _REPORTS[key]

    monkeypatch.setattr(stage, "verify_saved_model", verify)


@pytest.fixture
def toy_folders(toy_model_dir: str, toy_examples_dir: str) -> dict[str, str]:
    return {"model_dir": toy_model_dir, "examples_dir": toy_examples_dir}


def test_destination_must_be_named(tmp_path: Path, toy_folders: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="`push_destination` must be a folder or a URI; got ''"):
        push_graph_model(
            **toy_folders,
            blessing_dir=str(tmp_path),
            push_destination="",
            pushed_model_dir=str(tmp_path / "pushed"),
            options=GraphPusherOptions(),
        )


@pytest.mark.parametrize("publishing", ["rename", "copy"])
def test_statistics_and_counts_of_the_training_data_are_pushed_with_the_model(
    tmp_path: Path, toy_folders: dict[str, str], publishing: Literal["rename", "copy"]
) -> None:
    statistics = tmp_path / "statistics" / "Split-train"
    statistics.mkdir(parents=True)
    (statistics / "FeatureStats.pb").write_bytes(b"statistics")

    (tmp_path / "cache" / "span-1").mkdir(parents=True)
    (tmp_path / "cache" / "span-1" / "entry").write_bytes(b"counts")
    folders = {"statistics_dir": str(tmp_path / "statistics"), "analyzer_cache_dir": str(tmp_path / "cache")}

    pushed = _push(tmp_path, **toy_folders, **folders, publishing=publishing)

    added = Path(pushed.path, "assets.extra")
    assert (added / "training_statistics" / "Split-train" / "FeatureStats.pb").read_bytes() == b"statistics"
    assert (added / "analyzer_cache" / "span-1" / "entry").read_bytes() == b"counts"


def test_blessed_model_becomes_the_next_version(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str, toy_records: dict[str, list[bytes]]
) -> None:
    first = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")
    (tmp_path / "serving" / "1" / "saved_model.pb").write_bytes(b"another model")
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
    # One signature, three sizes of requests; the model itself is left as it was.
    assert record["verification_requests"][0] == "3 warm-up requests"
    assert record["verification_requests"][-1] == "requests of 4 threads for 0.2 s"
    assert not has_warmup_requests(os.path.join(toy_model_dir, "Format-Serving"))
    (_, inputs), *_ = read_warmup_requests(second.path)
    (sent,) = tf.make_ndarray(inputs["examples"])
    assert "nodes/_readout.color" not in tf.train.Example.FromString(sent).features.feature


@pytest.mark.parametrize("publishing", ["rename", "copy"])
def test_a_model_that_a_version_has_already_is_pushed_and_said_to_be_identical(
    tmp_path: Path, toy_folders: dict[str, str], publishing: Literal["rename", "copy"]
) -> None:
    """The second push comes with other statistics, so the version is new and the model is not."""
    statistics = tmp_path / "statistics"
    statistics.mkdir()
    (statistics / "FeatureStats.pb").write_bytes(b"statistics")

    first = _push(tmp_path, **toy_folders, run="1", publishing=publishing)
    second = _push(tmp_path, **toy_folders, run="2", statistics_dir=str(statistics), publishing=publishing)
    shutil.copytree(second.path, tmp_path / "serving" / "3")
    (tmp_path / "serving" / "3" / "saved_model.pb").write_bytes(b"another model")
    third = _push(tmp_path, **toy_folders, run="3", publishing=publishing)

    assert [(one.version, one.identical_to) for one in (first, second, third)] == [(1, None), (2, 1), (4, 2)]
    assert second.reason.endswith("; the model is identical to version 1")
    assert json.loads((tmp_path / "pushed-2" / "pushed_version.json").read_text())["identical_to"] == 1


@pytest.mark.parametrize("run", ["1", "2"], ids=["same record", "record beside the first"])
def test_push_that_was_ended_before_it_was_recorded_finds_its_version_again(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    rename = os.rename

    def end_at_the_record(source: str, target: str) -> None:
        if target == str(tmp_path / "pushed-1"):
            # As a kill leaves it, but for the locks of a living process.
            shutil.copytree(tmp_path / "serving", tmp_path / "killed")
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", end_at_the_record)
        with pytest.raises(KeyboardInterrupt):
            _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")
    shutil.rmtree(tmp_path / "serving")
    (tmp_path / "killed").rename(tmp_path / "serving")
    shutil.rmtree(tmp_path / "blessing-1")

    pushed = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run=run)

    assert pushed.version == 1
    assert os.listdir(tmp_path / "serving") == ["1"]
    assert json.loads((tmp_path / f"pushed-{run}" / "pushed_version.json").read_text())["version"] == 1


def test_push_that_was_killed_after_it_was_recorded_leaves_nothing_to_the_next_run(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")
    leave_unrecorded(str(tmp_path / "serving"), 1, PushOrigin(model="a", record=str(tmp_path / "pushed-1")))
    shutil.rmtree(tmp_path / "blessing-1")

    with pytest.raises(FileExistsError, match="`pushed_model_dir` must be absent"):
        _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")

    assert os.listdir(tmp_path / "serving") == ["1"]


def test_push_that_an_orchestrator_forgets_finds_its_version_again(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="1")
    forget_push(str(tmp_path / "absent"))
    forget_push(str(tmp_path / "pushed-1"))
    shutil.rmtree(tmp_path / "pushed-1")

    again = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="2")
    deliberate = _push(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, run="3")

    assert (again.version, deliberate.version) == (1, 1)
    assert deliberate.reason.endswith("the newest version is this model already")
    assert os.listdir(tmp_path / "serving") == ["1"]


def test_forgotten_push_is_found_by_the_absolute_path_of_its_version(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pushed = _push(Path(), model_dir=toy_model_dir, examples_dir=toy_examples_dir)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    forget_push(str(tmp_path / "pushed-1"))

    assert (pushed.destination, pushed.path) == ("serving", str(tmp_path / "serving" / "1"))
    assert len(os.listdir(tmp_path / "serving")) == 2


def test_record_of_an_earlier_release_is_nothing_to_forget(tmp_path: Path) -> None:
    (tmp_path / "serving" / "1").mkdir(parents=True)
    record = {"pushed": True, "destination": "serving", "version": 1, "path": str(tmp_path / "serving" / "1")}
    (tmp_path / "pushed_version.json").write_text(json.dumps(record))

    forget_push(str(tmp_path))

    assert os.listdir(tmp_path / "serving") == ["1"]


def test_version_of_a_bucket_is_copied_and_found_again(tmp_path: Path, toy_folders: dict[str, str]) -> None:
    first = _push(tmp_path, **toy_folders, run="1", publishing="copy")
    files = sorted(path.relative_to(first.path) for path in Path(first.path).rglob("*") if path.is_file())

    assert (first.version, os.listdir(tmp_path / "serving")) == (1, ["1"])
    assert Path("tfx_gnn_version.json") in files
    assert has_warmup_requests(first.path)
    record = json.loads((tmp_path / "pushed-1" / "pushed_version.json").read_text())
    assert record["path"] == str(tmp_path / "serving" / "1")

    # An orchestrator that is about to remove the record, and starts the push again.
    leave_unrecorded_object(
        str(tmp_path / "serving"), 1, PushOrigin(model=first.model_fingerprint, record=str(tmp_path / "pushed-1"))
    )
    shutil.rmtree(tmp_path / "pushed-1")
    shutil.rmtree(tmp_path / "blessing-1")
    again = _push(tmp_path, **toy_folders, run="1", publishing="copy")
    assert (again.version, os.listdir(tmp_path / "serving")) == (1, ["1"])
    assert _push(tmp_path, **toy_folders, run="2", publishing="copy").version == 1
    (Path(first.path) / "saved_model.pb").write_bytes(b"another model")
    assert _push(tmp_path, **toy_folders, run="3", publishing="copy").version == 2


def test_unknown_way_to_publish_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`publishing` must be one of \['auto', 'rename', 'copy'\]; got 'move'"):
        GraphPusherOptions(publishing="move")  # type: ignore[arg-type]


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


def test_answers_to_values_of_no_table_are_recorded_and_may_be_refused(
    tmp_path: Path, defective_model_dir: Callable[[str], str], toy_examples_dir: str
) -> None:
    model_dir = defective_model_dir("knows no huge numbers")

    pushed = _push(tmp_path, model_dir=model_dir, examples_dir=toy_examples_dir)
    with pytest.raises(ServingVerificationError, match=r"got none for nodes/item.x = 1e\+30\. Clip"):
        _push(tmp_path, model_dir=model_dir, examples_dir=toy_examples_dir, run="2", refuses_nonfinite_answers=True)

    assert pushed.warnings == ("no finite answer came back for nodes/item.x = 1e+30 [no_finite_answer]",)
    record = json.loads((tmp_path / "pushed-1" / "pushed_version.json").read_text())
    assert {"feature": "nodes/item.x", "value": "-1.0", "answer": "finite"} in record["out_of_domain"]
    assert os.listdir(tmp_path / "serving") == ["1"]


@pytest.mark.parametrize(
    ("argument", "kind", "told"),
    [
        ("blessing_dir", "examples", "must be about a model; got a verdict about examples in"),
        ("blessing_dir", "model", "must be about the model at hand; got a verdict about another model in"),
        ("infra_blessing_dir", "model", "must be about the model at hand; got a verdict about another model in"),
    ],
)
def test_blessing_of_something_else_is_refused(
    tmp_path: Path, toy_folders: dict[str, str], argument: str, kind: Literal["model", "examples"], told: str
) -> None:
    folder = tmp_path / argument
    folder.mkdir()
    prefix = INFRA_PREFIX if argument == "infra_blessing_dir" else ""
    write_blessing(
        str(folder), blessed=True, reasons=[], subject=BlessingSubject(kind=kind, fingerprint="1"), prefix=prefix
    )

    with pytest.raises(ValueError, match=f"`{argument}` {told}"):
        _push(tmp_path, **toy_folders, **{argument: str(folder)})  # type: ignore[arg-type]
    assert not (tmp_path / "serving").exists()


def test_blessing_that_names_this_model_is_accepted(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    subject = BlessingSubject(
        kind="model", fingerprint=fingerprint_folders([os.path.join(toy_model_dir, "Format-Serving")])
    )
    (tmp_path / "blessing").mkdir()
    write_blessing(str(tmp_path / "blessing"), blessed=True, reasons=[], subject=subject)

    pushed = _push(
        tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, blessing_dir=str(tmp_path / "blessing")
    )

    assert pushed.version == 1


@pytest.mark.parametrize("place", ["serving", "serving/5", "link/5", "."])
def test_record_among_the_versions_is_refused(tmp_path: Path, toy_folders: dict[str, str], place: str) -> None:
    (tmp_path / "serving").mkdir()
    (tmp_path / "link").symlink_to("serving")

    with pytest.raises(ValueError, match="`pushed_model_dir` and `push_destination` must be outside each other"):
        _push(tmp_path, **toy_folders, pushed_model_dir=str(tmp_path / place))

    assert os.listdir(tmp_path / "serving") == []


@pytest.mark.parametrize("place", [".", "serving", "Format-Serving"])
def test_destination_inside_the_model_is_refused(tmp_path: Path, toy_folders: dict[str, str], place: str) -> None:
    before = fingerprint_folders([toy_folders["model_dir"]])
    (tmp_path / "serving").symlink_to(os.path.join(toy_folders["model_dir"], place))

    with pytest.raises(ValueError, match="`push_destination` must be outside `model_dir`; got"):
        _push(tmp_path, **toy_folders)

    assert fingerprint_folders([toy_folders["model_dir"]]) == before


def test_folder_without_model_is_refused(tmp_path: Path, toy_examples_dir: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"`model_dir` must hold Format-Serving/saved_model\.pb"):
        _push(tmp_path, model_dir=str(tmp_path), examples_dir=toy_examples_dir)


def test_examples_without_any_record_are_refused(tmp_path: Path, toy_model_dir: str) -> None:
    from tfx_gnn.records.examples_folder import write_split_shard

    write_split_shard(str(tmp_path / "examples"), "test", 0, 1, [])

    with pytest.raises(
        ValueError, match=r"`examples_dir` must hold at least one example.*got none in splits \['test'\]"
    ):
        _push(tmp_path, model_dir=toy_model_dir, examples_dir=str(tmp_path / "examples"))


def test_no_requests_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="`num_verification_requests` must be at least 1; got 0"):
        GraphPusherOptions(num_verification_requests=0)
    with pytest.raises(ValueError, match="`num_verification_threads` must be at least 2, or 0; got 1"):
        GraphPusherOptions(num_verification_threads=1)
    for seconds in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="`verification_seconds` must be above 0 and finite; got "):
            GraphPusherOptions(verification_seconds=seconds)

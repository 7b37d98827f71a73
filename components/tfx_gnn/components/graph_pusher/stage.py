"""GraphPusher: publishes a blessed model as the next version of a serving folder."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import Mapping

import tensorflow as tf

from tfx_gnn.components.graph_pusher.options import GraphPusherOptions
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.folder_listing import list_entries
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.progress import progress
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records import blessing, examples_folder
from tfx_gnn.records.warning_kinds import NO_FINITE_ANSWER
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.model_interface import (
    ANALYZER_CACHE_FOLDER,
    MODEL_ARTIFACT_FOLDER,
    SAVED_MODEL_FILE,
    TRAINING_STATISTICS_FOLDER,
)
from tfx_gnn.serving.object_store_versions import (
    VERSION_MARKER,
    copied_version,
    forget_recorded_objects,
    has_folder_renames,
    leave_unrecorded_object,
)
from tfx_gnn.serving.request_records import DomainAnswer, without_labels
from tfx_gnn.serving.verification import ServingVerificationError, VerificationReport, verify_saved_model
from tfx_gnn.serving.versions import (
    PushOrigin,
    forget_recorded_versions,
    incoming_version,
    leave_unrecorded,
    list_versions,
    publish_version,
    unrecorded_version,
)
from tfx_gnn.serving.warmup_requests import has_warmup_requests, write_warmup_requests

PUSHED_VERSION_FILE = "pushed_version.json"
_NEW = "blessed, and its copy answered every request"
_COMPARED_VERSIONS = 5
_SAME = f"{_NEW}; the newest version is this model already"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushedVersion:
    """The result of a push.

    Attributes:
        pushed: whether a new version was pushed.
        destination: folder of versions.
        version: number of the version, or None if nothing was pushed.
        path: absolute path of the version's folder, or "" if nothing was pushed.
        reason: why the model was pushed or not.
        verification_requests: requests that the copy answered before it became visible.
        out_of_domain: responses to values that no table had, by feature and value.
        warnings: finite values for which the model returned NaN or infinity.
        model_fingerprint: text that is equal for equal models, or "" if nothing was pushed.
        identical_to: number of the newest of five other versions that has the same model, perhaps with other
            statistics; None if there is none.
    """

    pushed: bool
    destination: str
    version: int | None
    path: str
    reason: str
    verification_requests: tuple[str, ...]
    out_of_domain: tuple[DomainAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    model_fingerprint: str = ""
    identical_to: int | None = None


def push_graph_model(
    *,
    model_dir: str,
    blessing_dir: str,
    examples_dir: str,
    push_destination: str,
    pushed_model_dir: str,
    infra_blessing_dir: str = "",
    statistics_dir: str = "",
    analyzer_cache_dir: str = "",
    options: GraphPusherOptions,
) -> PushedVersion:
    """Copies a blessed model to a serving folder, verifies that copy from another process, and makes it visible.

    The version appears as a whole, by one rename, or not at all; existing versions are
    never modified. On object stores and mounted buckets, which cannot rename a folder, its
    files appear one by one, `saved_model.pb` last. A model that is not blessed is not pushed,
    and this is recorded.

    If a push is killed after its version appeared but before the version was recorded, a retry
    finds that version: the same call, or one whose record goes to a sibling folder,
    verifies and records it instead of pushing a second version.

    Args:
        model_dir: trained model, with `Format-Serving/`.
        blessing_dir: blessing of that model, with `BLESSED` or `NOT_BLESSED`.
        examples_dir: raw examples; requests are taken from its first non-empty split,
            `test` before others.
        push_destination: folder of versions, or a URI such as gs://bucket/serving.
        pushed_model_dir: absent or empty folder for the record `pushed_version.json`.
        infra_blessing_dir: blessing of GraphSkewValidator, with `INFRA_BLESSED` or `INFRA_NOT_BLESSED`; empty to
            push without one.
        statistics_dir: statistics of GraphExampleValidator of the data that the model was trained on, to be pushed with
            it, so that later data can be compared with them; empty to push none.
        analyzer_cache_dir: what GraphTransform counted in each span of these data, to be pushed with the model, so that
            the next run need not read them again; empty to push none.
        options: how to verify the model.

    Returns:
        The result, as in the record.

    Raises:
        ServingVerificationError: if the copy fails verification; nothing is pushed.
        FileNotFoundError: if `model_dir` holds no SavedModel, or a blessing folder no blessing.
        ValueError: if there are no examples, a blessing is for another model, the destination is inside the model, or
            one of destination and record is inside the other.
        OSError: if a store returns other bytes than were copied to it; nothing is pushed.
    """
    saved_model_dir = os.path.join(model_dir, MODEL_ARTIFACT_FOLDER)
    if not tf.io.gfile.exists(os.path.join(saved_model_dir, SAVED_MODEL_FILE)):
        raise FileNotFoundError(
            f"`model_dir` must hold {MODEL_ARTIFACT_FOLDER}/{SAVED_MODEL_FILE}; got {model_dir!r} without it. "
            "Point at the output of GraphTrainer."
        )
    if not push_destination:
        raise ValueError("`push_destination` must be a folder or a URI; got ''. Name where versions are to appear.")
    _check_apart(pushed_model_dir, push_destination)
    _check_outside_model(push_destination, model_dir)
    # Comes first, so that a push that was killed right after it was recorded leaves nothing behind.
    if _copies(push_destination, options):
        forget_recorded_objects(push_destination, _is_recorded)
    else:
        forget_recorded_versions(push_destination, _is_recorded)
    with (
        contextlib.ExitStack() as until_recorded,
        atomic_folder(
            pushed_model_dir,
            name="pushed_model_dir",
        ) as record_dir,
    ):
        objections = blessing.model_objections(
            blessing_dir=blessing_dir,
            infra_blessing_dir=infra_blessing_dir,
            model_fingerprint=fingerprint_model(saved_model_dir),
        )
        if not objections:
            records = _verification_records(examples_dir, options.num_verification_requests)
            pushed = _push(
                saved_model_dir,
                records,
                push_destination,
                pushed_model_dir,
                options,
                added={TRAINING_STATISTICS_FOLDER: statistics_dir, ANALYZER_CACHE_FOLDER: analyzer_cache_dir},
                until_recorded=until_recorded,
            )
        else:
            pushed = PushedVersion(
                pushed=False,
                destination=push_destination,
                version=None,
                path="",
                reason="not blessed: " + "; ".join(objections),
                verification_requests=(),
            )
        with tf.io.gfile.GFile(os.path.join(record_dir, PUSHED_VERSION_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(pushed), indent=2, sort_keys=True) + "\n")
    return pushed


def forget_push(pushed_model_dir: str) -> None:
    """Marks a push as not recorded, for an orchestrator that is about to remove its record.

    A retry whose record goes to a sibling folder then finds the pushed version and pushes no second one.
    """
    path = os.path.join(pushed_model_dir, PUSHED_VERSION_FILE)
    if not tf.io.gfile.exists(path):
        return
    pushed = read_shaped_json(path, {"path": str, "version": (int,), "model_fingerprint?": str})
    # Records written by earlier releases have no fingerprint.
    model = pushed.get("model_fingerprint", "")
    if not model or not tf.io.gfile.isdir(pushed["path"]):
        return
    destination = os.path.dirname(pushed["path"])
    # Only versions that were copied have a marker.
    is_copied = tf.io.gfile.exists(os.path.join(pushed["path"], VERSION_MARKER))
    leave = leave_unrecorded_object if is_copied else leave_unrecorded
    leave(destination, pushed["version"], _origin(model, pushed_model_dir))


def _check_apart(pushed_model_dir: str, push_destination: str) -> None:
    """Refuses a record among the versions, where a server would take it for one, and versions inside the record."""
    if "://" in pushed_model_dir or "://" in push_destination:
        return
    record, destination = os.path.realpath(pushed_model_dir), os.path.realpath(push_destination)
    if os.path.commonpath([record, destination]) in (record, destination):
        raise ValueError(
            f"`pushed_model_dir` and `push_destination` must be outside each other; got {pushed_model_dir!r} and "
            f"{push_destination!r}. Name another folder for the record."
        )


def _check_outside_model(push_destination: str, model_dir: str) -> None:
    """Refuses versions inside the model, which they would turn into another model than the blessed one."""
    if "://" in push_destination or "://" in model_dir:
        return
    destination, model = os.path.realpath(push_destination), os.path.realpath(model_dir)
    if os.path.commonpath([destination, model]) == model:
        raise ValueError(
            f"`push_destination` must be outside `model_dir`; got {push_destination!r} inside {model_dir!r}. Name "
            "another folder for the versions."
        )


def _push(
    saved_model_dir: str,
    records: list[bytes],
    destination: str,
    pushed_model_dir: str,
    options: GraphPusherOptions,
    *,
    added: Mapping[str, str],
    until_recorded: contextlib.ExitStack,
) -> PushedVersion:
    origin = _origin(fingerprint_folders([saved_model_dir]), pushed_model_dir)
    if _copies(destination, options):
        with tempfile.TemporaryDirectory() as folder:
            copy_files(saved_model_dir, folder)
            _add_folders(folder, added)
            report, doubtful = _warm_and_verify(folder, records, options)
            if same := _newest_if_equal(folder, destination):
                return _pushed(destination, same, origin, report, doubtful, reason=_SAME)
            copied = until_recorded.enter_context(copied_version(folder, destination, origin, _is_recorded))
        return _pushed(destination, copied, origin, report, doubtful)
    version = until_recorded.enter_context(unrecorded_version(destination, origin, _is_recorded))
    if version is None:
        incoming = until_recorded.enter_context(incoming_version(destination))
        copy_files(saved_model_dir, incoming)
        _add_folders(incoming, added)
        report, doubtful = _warm_and_verify(incoming, records, options)
        if same := _newest_if_equal(incoming, destination):
            return _pushed(destination, same, origin, report, doubtful, reason=_SAME)
        version = publish_version(incoming, destination, origin)
    else:
        report, doubtful = _verify(os.path.join(destination, str(version)), records, options)
    return _pushed(destination, version, origin, report, doubtful)


def _add_folders(copy_dir: str, added: Mapping[str, str]) -> None:
    """Adds folders to a copy of a model, by their places in it; empty ones are left out."""
    for place, folder in added.items():
        if folder:
            copy_files(folder, os.path.join(copy_dir, place))


def _newest_if_equal(copy_dir: str, destination: str) -> int:
    """Returns the newest version if it has the files of a copy that is to be pushed; 0 if it has not.

    A version that some push has not recorded yet is left to that push, started again.
    """
    newest = max(list_versions(destination), default=0)
    if any(name.startswith(f".push-{newest}-") for name in list_entries(destination)):
        return 0
    folder = os.path.join(destination, str(newest))
    is_equal = newest and fingerprint_folders([folder], without=[VERSION_MARKER]) == fingerprint_folders([copy_dir])
    return newest if is_equal else 0


def _identical_version(model: str, version: int, destination: str) -> int | None:
    """Returns the newest of some versions, other than `version`, whose model has this fingerprint.

    All files of a version are read for it, so only the latest few are looked at.
    """
    others = sorted(set(list_versions(destination)) - {version}, reverse=True)
    for one in others[:_COMPARED_VERSIONS]:
        try:
            if fingerprint_model(os.path.join(destination, str(one))) == model:
                return one
        except (FileNotFoundError, tf.errors.NotFoundError):
            continue  # Versions may be removed at any time, and this push has been published already.
    return None


def _copies(destination: str, options: GraphPusherOptions) -> bool:
    """Tells whether versions are copied to their place file by file, and not renamed."""
    if options.publishing == "auto":
        return not has_folder_renames(destination)
    return options.publishing == "copy"


def _origin(model: str, pushed_model_dir: str) -> PushOrigin:
    record = os.path.abspath(pushed_model_dir) if has_locks(pushed_model_dir) else pushed_model_dir.rstrip("/")
    return PushOrigin(model=model, record=record)


def _warm_and_verify(
    copy_dir: str, records: list[bytes], options: GraphPusherOptions
) -> tuple[VerificationReport, tuple[str, ...]]:
    if options.warmup and not has_warmup_requests(copy_dir):
        write_warmup_requests(copy_dir, without_labels(records, copy_dir))
    return _verify(copy_dir, records, options)


def _pushed(
    destination: str,
    version: int,
    origin: PushOrigin,
    report: VerificationReport,
    doubtful: tuple[str, ...],
    *,
    reason: str = _NEW,
) -> PushedVersion:
    path = os.path.join(destination, str(version))
    same = _identical_version(fingerprint_model(path), version, destination)
    return PushedVersion(
        pushed=True,
        destination=destination,
        version=version,
        path=os.path.abspath(path) if has_locks(destination) else path,
        reason=reason if same is None else f"{reason}; the model is identical to version {same}",
        verification_requests=report.requests,
        out_of_domain=report.out_of_domain,
        warnings=tuple(NO_FINITE_ANSWER.mark(f"no finite answer came back for {text}") for text in doubtful),
        model_fingerprint=origin.model,
        identical_to=same,
    )


def _verify(
    copy_dir: str, records: list[bytes], options: GraphPusherOptions
) -> tuple[VerificationReport, tuple[str, ...]]:
    """Verifies a copy of the model from another process; also returns the finite values that give NaN or infinity."""
    with progress("verification"):
        report = verify_saved_model(
            copy_dir,
            records,
            num_threads=options.num_verification_threads,
            concurrent_seconds=options.verification_seconds,
        )
    doubtful = tuple(answer.text() for answer in report.out_of_domain if answer.is_doubtful)
    if doubtful and options.refuses_nonfinite_answers:
        raise ServingVerificationError(
            "`model_dir` must hold a model that returns finite numbers for values outside the domain; got none for "
            f"{', '.join(doubtful)}. Clip these features in `preprocessing_fn`; the model was not pushed."
        )
    return report, doubtful


def _is_recorded(pushed_model_dir: str) -> bool:
    return tf.io.gfile.exists(os.path.join(pushed_model_dir, PUSHED_VERSION_FILE))


def _verification_records(examples_dir: str, count: int) -> list[bytes]:
    names = sorted(examples_folder.split_names(examples_dir), key=lambda name: (name != "test", name))
    for name in names:
        stream = examples_folder.read_split(examples_dir, name).as_numpy_iterator()
        if records := [bytes(record) for record in itertools.islice(stream, count)]:
            return records
    raise ValueError(
        f"`examples_dir` must hold at least one example to query the model with; got none in splits {names} of "
        f"{examples_dir!r}. Make the examples again."
    )

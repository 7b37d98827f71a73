"""GraphPusher: a blessed model becomes the next version of a serving folder."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os

import tensorflow as tf

from tfx_gnn.serving.signature import MODEL_ARTIFACT_FOLDER, SAVED_MODEL_FILE
from tfx_gnn.serving.verification import verify_saved_model
from tfx_gnn.serving.version_push import incoming_version, publish_version
from tfx_gnn.stages import examples_folder
from tfx_gnn.stages.files import blessing
from tfx_gnn.stages.files.atomic_folder import atomic_folder

PUSHED_VERSION_FILE = "pushed_version.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPusherOptions:
    """How a model is checked before it is pushed.

    Attributes:
        num_verification_requests: real examples that the model must answer, one by
            one and in one batch; at least 1. Fewer are taken if there are fewer.
    """

    num_verification_requests: int = 8

    def __post_init__(self) -> None:
        if self.num_verification_requests < 1:
            raise ValueError(
                f"`num_verification_requests` must be at least 1; got {self.num_verification_requests}. "
                "A model that answered nothing is not pushed."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushedVersion:
    """What a push did.

    Attributes:
        pushed: whether a new version is there.
        destination: folder of versions.
        version: its number, or None if nothing was pushed.
        path: its folder, or "" if nothing was pushed.
        reason: why it was pushed or not.
        verification_requests: what the copy had answered before it became visible.
    """

    pushed: bool
    destination: str
    version: int | None
    path: str
    reason: str
    verification_requests: tuple[str, ...]


def push_graph_model(
    *,
    model_dir: str,
    blessing_dir: str,
    examples_dir: str,
    push_destination: str,
    pushed_model_dir: str,
    infra_blessing_dir: str = "",
    options: GraphPusherOptions,
) -> PushedVersion:
    """Copies a blessed model to a serving folder, checks that very copy from outside, and makes it visible.

    The version appears whole, by one rename, or not at all; existing versions are
    never touched. A model that is not blessed is not pushed, and that is recorded.

    Args:
        model_dir: trained model, with `Format-Serving/`.
        blessing_dir: blessing of that model, with `BLESSED` or `NOT_BLESSED`.
        examples_dir: raw examples; requests are taken from its first non-empty split,
            `test` before others.
        push_destination: folder of versions on a local or mounted disk.
        pushed_model_dir: absent or empty folder for the record `pushed_version.json`.
        infra_blessing_dir: blessing of GraphSkewValidator, with `INFRA_BLESSED` or `INFRA_NOT_BLESSED`; empty to
            push without one.
        options: how to check.

    Returns:
        What was done, as in the record.

    Raises:
        ServingVerificationError: if the copy fails its requests; nothing is pushed.
        FileNotFoundError: if `model_dir` holds no SavedModel or a folder of a blessing none.
        ValueError: if no example can be had, or the destination is an object store.
    """
    saved_model_dir = os.path.join(model_dir, MODEL_ARTIFACT_FOLDER)
    if not tf.io.gfile.exists(os.path.join(saved_model_dir, SAVED_MODEL_FILE)):
        raise FileNotFoundError(
            f"`model_dir` must hold {MODEL_ARTIFACT_FOLDER}/{SAVED_MODEL_FILE}; got {model_dir!r} without it. "
            "Point at the output of GraphTrainer."
        )
    with atomic_folder(pushed_model_dir) as record_dir:
        objections = _objections(blessing_dir, infra_blessing_dir)
        if not objections:
            records = _verification_records(examples_dir, options.num_verification_requests)
            pushed = _push(saved_model_dir, records, push_destination)
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


def _objections(blessing_dir: str, infra_blessing_dir: str) -> list[str]:
    """Reasons of all blessings that are withheld."""
    objections = [] if blessing.is_blessed(blessing_dir) else blessing.read_reasons(blessing_dir)
    if infra_blessing_dir and not blessing.is_blessed(infra_blessing_dir, prefix=blessing.INFRA_PREFIX):
        objections += blessing.read_reasons(infra_blessing_dir)
    return objections


def _push(saved_model_dir: str, records: list[bytes], destination: str) -> PushedVersion:
    with incoming_version(destination) as incoming:
        _copy_tree(saved_model_dir, incoming)
        report = verify_saved_model(incoming, records)
        version = publish_version(incoming, destination)
    return PushedVersion(
        pushed=True,
        destination=destination,
        version=version,
        path=os.path.join(destination, str(version)),
        reason="blessed, and its copy answered every request",
        verification_requests=report.requests,
    )


def _verification_records(examples_dir: str, count: int) -> list[bytes]:
    names = sorted(examples_folder.split_names(examples_dir), key=lambda name: (name != "test", name))
    for name in names:
        stream = examples_folder.read_split(examples_dir, name).as_numpy_iterator()
        if records := [bytes(record) for record in itertools.islice(stream, count)]:
            return records
    raise ValueError(
        f"`examples_dir` must hold at least one example to ask the model; got none in splits {names} of "
        f"{examples_dir!r}. Make the examples again."
    )


def _copy_tree(source: str, target: str) -> None:
    for folder, _, files in tf.io.gfile.walk(source):
        relative = os.path.relpath(folder, source)
        made = target if relative == "." else os.path.join(target, relative)
        tf.io.gfile.makedirs(made)
        for name in files:
            tf.io.gfile.copy(os.path.join(folder, name), os.path.join(made, name))

"""Blessings of models and examples as files: `BLESSED` or `NOT_BLESSED`, the reasons and the subject.

The two empty files are those of TFX's standard ModelBlessing artifact. The files of its InfraBlessing artifact, which
says that a model serves correctly, begin with `INFRA_`.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, Literal

import tensorflow as tf

from tfx_gnn.io.json_shapes import read_shaped_json

BLESSED_FILE = "BLESSED"
NOT_BLESSED_FILE = "NOT_BLESSED"
REASONS_FILE = "reasons.json"
LATEST_BLESSED_MODEL_FILE = "latest_blessed_model.json"
"""File beside a copy of the latest blessed model, or without one if there is none yet."""
INFRA_PREFIX = "INFRA_"
"""Prefix of the names of the two files in an InfraBlessing."""
_SUBJECT = "subject"
_WORDS = {"model": "a model", "examples": "examples"}
_OTHERS = {"model": "another model", "examples": "other examples"}
_MAKERS = {"model": "GraphEvaluator or GraphSkewValidator", "examples": "GraphExampleValidator"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlessingSubject:
    """The model or the examples that a verdict is about.

    Attributes:
        kind: "model" or "examples".
        fingerprint: text that is the same for equal models or examples.
    """

    kind: Literal["model", "examples"]
    fingerprint: str


def write_blessing(
    folder: str, *, blessed: bool, reasons: Sequence[str], subject: BlessingSubject | None = None, prefix: str = ""
) -> None:
    """Writes a verdict into an existing folder without one; `prefix` is "" or `INFRA_PREFIX`."""
    found: dict[str, object] = {"blessed": blessed, "reasons": list(reasons)}
    if subject is not None:
        found[_SUBJECT] = dataclasses.asdict(subject)
    with tf.io.gfile.GFile(os.path.join(folder, REASONS_FILE), "w") as file:
        file.write(json.dumps(found, indent=2) + "\n")
    with tf.io.gfile.GFile(os.path.join(folder, prefix + (BLESSED_FILE if blessed else NOT_BLESSED_FILE)), "w") as file:
        file.write("")


def is_blessed(folder: str, *, prefix: str = "") -> bool:
    """Reads a verdict; raises FileNotFoundError if the folder has none, ValueError if it has two."""
    blessed, not_blessed = prefix + BLESSED_FILE, prefix + NOT_BLESSED_FILE
    found = [name for name in (blessed, not_blessed) if tf.io.gfile.exists(os.path.join(folder, name))]
    if not found:
        maker = "GraphSkewValidator" if prefix else "GraphEvaluator or GraphExampleValidator"
        raise FileNotFoundError(
            f"`folder` must hold {blessed} or {not_blessed}; got {folder!r} with neither. "
            f"Point at the blessing that {maker} made."
        )
    if len(found) == 2:
        raise ValueError(
            f"`folder` must hold one verdict; got both {blessed} and {not_blessed} in {folder!r}. "
            "Write the verdict again, into an empty folder."
        )
    return found == [blessed]


def read_reasons(folder: str) -> list[str]:
    """Reads the reasons of a verdict as sentences; a single general one if none were recorded."""
    reasons = _read(folder).get("reasons", ())
    if not isinstance(reasons, list):
        reasons = [reasons] if reasons else ()
    return [str(reason) for reason in reasons] or ["no reasons were given"]


def check_blessing_subject(folder: str, subject: BlessingSubject, *, argument: str) -> None:
    """Refuses a verdict about something else; `argument` is the caller's name for the folder.

    A verdict that does not say what it is about, such as one from TFX's Evaluator, passes.
    """
    found = _read(folder).get(_SUBJECT)
    if not isinstance(found, dict):
        return
    kind = found.get("kind")
    if kind != subject.kind:
        raise ValueError(
            f"`{argument}` must be about {_WORDS[subject.kind]}; got a verdict about {_WORDS.get(str(kind), kind)} in "
            f"{folder!r}. Point at the blessing that {_MAKERS[subject.kind]} made."
        )
    if found.get("fingerprint") != subject.fingerprint:
        raise ValueError(
            f"`{argument}` must be about the {subject.kind} at hand; got a verdict about {_OTHERS[subject.kind]} in "
            f"{folder!r}. Run {_MAKERS[subject.kind]} on the {subject.kind}, and name the blessing it makes."
        )


def model_objections(*, blessing_dir: str, infra_blessing_dir: str, model_fingerprint: str) -> list[str]:
    """Returns the reasons of all withheld blessings of a model; checks that each is about this model.

    Either folder may be empty, if that blessing is not required.
    """
    subject = BlessingSubject(kind="model", fingerprint=model_fingerprint)
    folders = {"blessing_dir": (blessing_dir, ""), "infra_blessing_dir": (infra_blessing_dir, INFRA_PREFIX)}
    given = {argument: place for argument, place in folders.items() if place[0]}
    for argument, (folder, _) in given.items():
        check_blessing_subject(folder, subject, argument=argument)
    withheld = [folder for folder, prefix in given.values() if not is_blessed(folder, prefix=prefix)]
    return [reason for folder in withheld for reason in read_reasons(folder)]


def _read(folder: str) -> dict[str, Any]:
    """Reads the details of a verdict; empty if another tool wrote the verdict without them."""
    path = os.path.join(folder, REASONS_FILE)
    return read_shaped_json(path, {}) if tf.io.gfile.exists(path) else {}

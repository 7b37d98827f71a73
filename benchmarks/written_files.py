"""What a command wrote, in a form in which two runs of it can be compared.

SavedModels are compared by the hashes of their fingerprints: a training that goes on where one was killed traces fewer
functions before it exports, and their names are counted. Of a pipeline, the numbers of executions and TFX's own folders
`.system` are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tensorflow.core.protobuf.fingerprint_pb2 import FingerprintDef

_EVENTS = re.compile(r"events\.out\.tfevents\..*")
#: TFX numbers executions, those that were killed among them.
_EXECUTION = re.compile(r"(artifacts/\w+/\w+/)\d+")
_EXECUTION_BYTES = re.compile(_EXECUTION.pattern.encode())
_FOLDERS_OF_OTHERS = {"__pycache__", ".system"}


def written_files(folder: Path) -> dict[str, bytes]:
    """Reads every file and folder below one.

    Args:
        folder: where commands were run.

    Returns:
        Relative path to content; of a folder none.

    Raises:
        ValueError: if a stage of a pipeline left more than one output.
    """
    paths = [path for path in folder.rglob("*") if _FOLDERS_OF_OTHERS.isdisjoint(path.parts)]
    names = [_EXECUTION.sub(r"\1N", _EVENTS.sub("events", str(path.relative_to(folder)))) for path in paths]
    # A training that goes on begins another file of events.
    twice = [name for name, number in Counter(names).items() if number > 1 and not name.endswith("/events")]
    if twice:
        raise ValueError(f"a command must write each output once; got several of {twice}")
    return {name: _content(path) if path.is_file() else b"" for name, path in zip(names, paths, strict=True)}


def _content(path: Path) -> bytes:
    if path.name == "saved_model.pb":
        # Its program, signatures and objects are hashed in the fingerprint beside it.
        return b""
    content = _EXECUTION_BYTES.sub(rb"\1N", path.read_bytes())
    if path.name != "fingerprint.pb":
        return content
    found = FingerprintDef.FromString(content)
    hashes = (
        found.graph_def_program_hash,
        found.signature_def_hash,
        found.saved_object_graph_hash,
        found.checkpoint_hash,
    )
    return repr(hashes).encode()

"""What a folder of ready-made batches holds, and what it was made of."""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.text_files import parse_json
from tfx_gnn.stages.files import options_json
from tfx_gnn.stages.padded_batches import BUDGET_KINDS
from tfx_gnn.stages.sizes.size_constraints_file import Budget

FORMAT_VERSION = 1
MANIFEST_FILE = "ready_batches.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadyBatchesOptions:
    """Which batches to make ready.

    Attributes:
        num_epochs: passes over the split to store, at least 1, each in another order and batched anew.
        split: split of the transformed examples.
        batching: "packed", "fit_or_skip" or "tight".
        batch_size: graphs of a batch that the budget was learned for; 0 for the learner's own.
        success_ratio: which fit-or-skip budget to take; no other kind has one.
        shuffle_buffer_size: examples that are mixed at a time, at least 1.
        seed: seed of the order, in [0, 2**31).
    """

    num_epochs: int = 1
    split: str = "train"
    batching: str = "packed"
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("num_epochs", 1), ("shuffle_buffer_size", 1), ("batch_size", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        if self.batching not in BUDGET_KINDS:
            raise ValueError(
                f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {self.batching!r}. Choose one of these."
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"`seed` must lie in [0, 2**31); got {self.seed}. Choose another number.")
        if not self.split:
            raise ValueError("`split` must name a split; got ''. Give the split to train on.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadyEpoch:
    """One stored pass over a split.

    Attributes:
        num_batches: batches.
        num_graphs: graphs in them.
        num_removed_batches: batches that did not fit, of fit-or-skip.
        num_removed_graphs: graphs in these.
        num_bytes: bytes on disk.
    """

    num_batches: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadyBatchesManifest:
    """The content of `ready_batches.json`.

    Attributes:
        data_fingerprint: `fingerprint_examples` of the split.
        graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
        options: what was asked for.
        budget: what batches are padded to.
        tensors: the tensors of a batch in the order in which they are stored.
        epochs: the stored epochs.
        tfx_gnn_version: version of the library that wrote the folder.
        format_version: version of this form.
    """

    data_fingerprint: str
    graph_schema_fingerprint: str
    options: ReadyBatchesOptions
    budget: Budget
    tensors: tuple[str, ...]
    epochs: tuple[ReadyEpoch, ...]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION

    @property
    def num_bytes(self) -> int:
        """Bytes of all epochs on disk."""
        return sum(epoch.num_bytes for epoch in self.epochs)

    def check_matches(self, *, data_fingerprint: str, graph_schema_fingerprint: str, budget: Budget) -> None:
        """Refuses batches that were made of something else.

        Args:
            data_fingerprint: `fingerprint_examples` of the split at hand.
            graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
            budget: what batches are to be padded to.

        Raises:
            ValueError: if any differs.
        """
        for found, expected, what in (
            (self.data_fingerprint, data_fingerprint, "examples"),
            (self.graph_schema_fingerprint, graph_schema_fingerprint, "graph schema"),
        ):
            if found != expected:
                raise ValueError(
                    f"`ready_batches_dir` must hold batches of the same {what}; got those of fingerprint "
                    f"{found[:12]}..., the {what} at hand have {expected[:12]}.... Run `tfx-gnn batches` again."
                )
        found_budget, expected_budget = (_what_batches_depend_on(each) for each in (self.budget, budget))
        if found_budget != expected_budget:
            different = [name for name, value in found_budget.items() if value != expected_budget[name]]
            raise ValueError(
                "`ready_batches_dir` must hold batches of the same budget; got "
                f"{ {name: found_budget[name] for name in different} }, the budget at hand has "
                f"{ {name: expected_budget[name] for name in different} }. Run `tfx-gnn batches` again, or train with "
                "the budget that these were made with."
            )


def write_manifest(manifest: ReadyBatchesManifest, ready_batches_dir: str) -> None:
    """Writes `ready_batches.json`.

    Args:
        manifest: what to write.
        ready_batches_dir: existing folder.
    """
    text = json.dumps(json.loads(options_json.to_json(manifest)), indent=2, sort_keys=True)
    with tf.io.gfile.GFile(os.path.join(ready_batches_dir, MANIFEST_FILE), "w") as file:
        file.write(text + "\n")


def read_manifest(ready_batches_dir: str) -> ReadyBatchesManifest:
    """Reads `ready_batches.json`.

    Args:
        ready_batches_dir: folder of ready-made batches.

    Returns:
        Its content.

    Raises:
        ValueError: if there is no such file, or it is damaged, or of another version.
    """
    path = os.path.join(ready_batches_dir, MANIFEST_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`ready_batches_dir` must hold {MANIFEST_FILE}; got {ready_batches_dir!r}. "
            "Point at an output of `tfx-gnn batches`."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    try:
        content = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"`ready_batches_dir` must hold a whole {MANIFEST_FILE}; got text that is no JSON of it in {path!r}: "
            f"{error}. Run `tfx-gnn batches` again."
        ) from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {version!r} in {path!r}. "
            "Run `tfx-gnn batches` of this version of tfx_gnn again."
        )
    return options_json.from_json(data.decode(), ReadyBatchesManifest)


def _what_batches_depend_on(budget: Budget) -> dict[str, object]:
    return {
        "kind": budget.kind,
        "batch_size": budget.batch_size,
        "window": budget.window,
        **budget.constraints._asdict(),
    }

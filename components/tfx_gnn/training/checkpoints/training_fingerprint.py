"""Fingerprints what must not change between a training and its resumption."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_files, fingerprint_folders, fingerprint_text
from tfx_gnn.io.folder_listing import list_all_files
from tfx_gnn.io.option_groups import flat_values
from tfx_gnn.io.user_code import fingerprint_function
from tfx_gnn.records.latest_blessed_model import find_latest_blessed_model
from tfx_gnn.records.size_constraints_file import (
    SIZE_CONSTRAINTS_FILE,
    fingerprint_examples,
    fingerprint_graph_schema,
    read_size_constraints,
)
from tfx_gnn.training.data.batching_names import EGO
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.options import GraphTrainerOptions

MAY_CHANGE = (
    "num_epochs",
    "steps_per_execution",
    "checkpoint_every_steps",
    "checkpoint_dir",
    "histogram_every_epochs",
    "must_beat_constant",
    "verify_tpu",
    "tpu",
    "allow_unsafe_operations",
)
"""Flat names of the options that do not affect finished steps; `num_epochs` does with a learning-rate schedule."""


def training_fingerprint(folders: TrainerFolders, options: GraphTrainerOptions, *, num_replicas: int) -> dict[str, str]:
    """Fingerprints everything that the state of a training depends on, which excludes folder names.

    The result maps "options.<name>" to the option as JSON, and other names to hashes of contents: data, budgets, the
    transform, the user's code, and the version of this library.
    """
    found = {
        f"options.{name}": options_json.to_json(value)
        for name, value in flat_values(options).items()
        if name not in MAY_CHANGE
    }
    if options.optimization.depends_on_num_steps:
        # More epochs would change the learning rate of finished steps.
        found["options.num_epochs"] = options_json.to_json(options.num_epochs)
    found |= {
        "code": fingerprint_function(options.model_fn),
        "library_version": tfx_gnn.__version__,
        "num_replicas": str(num_replicas),
        "transform_graph": fingerprint_files(_files(folders.transform_graph_dir)),
        **_data_fingerprints(folders, options),
    }
    if folders.blessed_model_dir:
        saved_model_dir, _ = find_latest_blessed_model(folders.blessed_model_dir)
        found["blessed_model"] = fingerprint_folders([saved_model_dir]) if saved_model_dir else ""
    if folders.precomputed_batches_dir:
        found["precomputed_batches"] = fingerprint_files(
            path for path in _files(folders.precomputed_batches_dir) if path.endswith(".json")
        )
    return found


def _data_fingerprints(folders: TrainerFolders, options: GraphTrainerOptions) -> dict[str, str]:
    if options.batching.kind == EGO:
        return {
            "transformed_examples": fingerprint_examples(
                folders.transformed_examples_dir, (options.train_split, options.eval_split)
            ),
            "transformed_graph_schema": fingerprint_graph_schema(folders.transformed_graph_schema_dir),
        }
    # `read_budgets` checks these against the examples and their schema.
    budgets = read_size_constraints(folders.size_constraints_dir)
    return {
        "transformed_examples": budgets.data_fingerprint,
        "transformed_graph_schema": budgets.graph_schema_fingerprint,
        "size_constraints": fingerprint_files([os.path.join(folders.size_constraints_dir, SIZE_CONSTRAINTS_FILE)]),
    }


def hash_fingerprint(fingerprint: Mapping[str, str]) -> str:
    """Hashes a fingerprint to 64 hexadecimal digits, for the name of a folder."""
    return fingerprint_text(json.dumps(dict(fingerprint), sort_keys=True))


def differences(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Lists the differences of two fingerprints as "<name> <found> -> <wanted>"; "" if they are equal."""
    names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    return ", ".join(f"{name} {_short(found.get(name))} -> {_short(wanted.get(name))}" for name in names)


def _short(value: str | None) -> str:
    return "absent" if value is None else repr(value if len(value) <= 40 else value[:12] + "...")


def _files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in list_all_files(folder)]

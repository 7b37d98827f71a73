from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.blessing import BlessingSubject, write_blessing
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders, check_blessing, check_class_sampling, read_inputs
from tfx_gnn.training.options import BatchingOptions, GraphTrainerOptions
from tfx_gnn.transform.application import TransformRecord

OPTIONS = GraphTrainerOptions(
    model_fn="nowhere:model_fn", task=NodeClassification(label_feature="color", num_classes=2)
)


def _folders(folder: Path, *, examples_of: str = "a", graph_of: str = "a", raw_examples: str = "raw") -> TrainerFolders:
    paths = {name: folder / name for name in ("transformed_examples", "transform_graph", "blessing")}
    for path in paths.values():
        path.mkdir()
    TransformRecord(transform=examples_of, raw_examples=raw_examples).write(str(paths["transformed_examples"]))
    TransformRecord(transform=graph_of, raw_examples=raw_examples).write(str(paths["transform_graph"]))
    write_blessing(
        str(paths["blessing"]), blessed=True, reasons=[], subject=BlessingSubject(kind="examples", fingerprint="raw")
    )
    names = ("graph_schema", "transformed_graph_schema", "size_constraints")
    return TrainerFolders(**{f"{name}_dir": str(paths.get(name, folder / name)) for name in (*paths, *names)})


def test_transform_that_did_not_make_the_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`transform_graph_dir` must hold the transform that made the examples; got"):
        read_inputs(_folders(tmp_path, examples_of="b"), OPTIONS)


def test_blessing_of_other_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"`blessing_dir` must be about the examples at hand; got .* other examples in"
    ):
        check_blessing(_folders(tmp_path, raw_examples="others"))


def test_blessing_of_these_examples_is_accepted(tmp_path: Path) -> None:
    check_blessing(_folders(tmp_path))


def test_precomputed_batches_cannot_be_sampled(tmp_path: Path) -> None:
    folders = dataclasses.replace(_folders(tmp_path), precomputed_batches_dir="batches")
    sampled = dataclasses.replace(OPTIONS, batching=BatchingOptions(class_sampling="balanced"))

    check_class_sampling(folders, OPTIONS)
    with pytest.raises(ValueError, match="`class_sampling` must be '' for precomputed batches, which hold every"):
        check_class_sampling(folders, sampled)
    with pytest.raises(ValueError, match="`examples_per_class` must be 0 for precomputed batches, which hold every"):
        check_class_sampling(folders, dataclasses.replace(OPTIONS, batching=BatchingOptions(examples_per_class=3)))

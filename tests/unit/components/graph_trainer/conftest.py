"""Fixtures of the trainer's tests."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.components import (
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    learn_size_constraints,
    transform_graphs,
)
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training import GraphTrainerOptions
from tfx_gnn.training.export.served_model import ServedModel


@pytest.fixture
def logged():
    """Function from a folder to the steps of its TensorBoard events, by run and tag."""

    def read(folder):
        steps = {}
        for path in sorted(folder.rglob("events.out.tfevents.*")):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    # Keras numbers the layers of a process, so a resumed model in this one has other names.
                    steps.setdefault((path.parent.name, re.sub(r"_[0-9]+/", "/", value.tag)), []).append(event.step)
                if event.graph_def:
                    steps.setdefault((path.parent.name, "graph"), []).append(event.step)
        return steps

    return read


TASK = NodeClassification(label_feature="color", class_vocabulary="color")


@pytest.fixture(scope="session")
def colored_items():
    """The module `colored_items`, importable by that name as a user's module is."""
    spec = importlib.util.spec_from_file_location("colored_items", Path(__file__).with_name("colored_items.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class _Unwritten:
    """Instead of a SavedModel, which takes most of the time of a short training, an empty folder."""

    def __init__(self, **_):
        pass

    def save(self, folder):
        os.makedirs(folder)


NO_EXPORT = Exporters(served_model=_Unwritten, training_reference=_Unwritten)


class _ServedInTheEnd(ServedModel):
    """Without the trial export, which the fixture `trained` has."""

    def save(self, folder):
        if os.path.basename(folder) == "trial":
            os.makedirs(folder)
        else:
            super().save(folder)


@pytest.fixture(scope="session")
def no_export():
    """Exporters that write nothing."""
    return NO_EXPORT


@pytest.fixture(scope="session")
def served_only():
    """Exporters of the served model alone, once."""
    return Exporters(served_model=_ServedInTheEnd, training_reference=_Unwritten)


@pytest.fixture(scope="session")
def served_and_reference():
    """Exporters of the served model, once, and of what training saw."""
    return Exporters(served_model=_ServedInTheEnd)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What the stages before the trainer have written."""

    examples_dir: str
    graph_schema_dir: str
    transform_graph_dir: str
    transformed_examples_dir: str
    transformed_graph_schema_dir: str
    size_constraints_dir: str

    def learn_sizes(self, size_constraints_dir, **options):
        """Learns padding budgets."""
        learn_size_constraints(
            examples_dir=self.transformed_examples_dir,
            graph_schema_dir=self.transformed_graph_schema_dir,
            size_constraints_dir=size_constraints_dir,
            options=SizeConstraintLearnerOptions(batch_size=8, **options),
        )

    def train(self, folder, *, exporters=NO_EXPORT, **options):
        """Trains into `folder/model` and `folder/run`."""
        overridden = {
            name: options.pop(name) for name in list(options) if name.endswith("_dir") and name != "checkpoint_dir"
        }
        inputs = {**dataclasses.asdict(self), **overridden}
        del inputs["examples_dir"]
        defaults = {"model_fn": "colored_items:model_fn", "task": TASK, "num_epochs": 8}
        return train_graph_model(
            **inputs,
            model_dir=str(folder / "model"),
            model_run_dir=str(folder / "run"),
            options=GraphTrainerOptions.from_flat({**defaults, **options}),
            exporters=exporters,
        )


@pytest.fixture(scope="session")
def examples_dir(colored_items, write_examples, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("colored") / "examples")
    return write_examples(folder, colored_items.splits(), colored_items.SCHEMA)


@pytest.fixture(scope="session")
def prepared(examples_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepared = Prepared(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        size_constraints_dir=str(folder / "sizes"),
    )
    inputs = dataclasses.asdict(prepared)
    del inputs["size_constraints_dir"]
    transform_graphs(**inputs, options=GraphTransformOptions(preprocessing_fn="colored_items:preprocessing_fn"))
    prepared.learn_sizes(prepared.size_constraints_dir)
    return prepared


@dataclasses.dataclass(frozen=True)
class Trained:
    folder: Path
    summary: object

    @property
    def saved_model_dir(self):
        return str(self.folder / "model" / "Format-Serving")


@pytest.fixture(scope="session")
def trained(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return Trained(folder, prepared.train(folder, exporters=Exporters()))

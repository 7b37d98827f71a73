"""What can be done with a finished run: commands to paste."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.reports.run_record import RecordedRun
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER

_FEW = "5"
_LOGS = "logs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NextStep:
    """One thing to do.

    Attributes:
        purpose: what it is for, as a sentence.
        command: program and arguments.
    """

    purpose: str
    command: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as it is typed."""
        return shlex.join(self.command)


def next_steps(run: RecordedRun, files: Mapping[str, Mapping[str, Any]]) -> list[NextStep]:
    """Lists what fits a run: asking, explaining and serving its model, and comparing it with the run before.

    Args:
        run: the run.
        files: contents of "evaluation" and "push", as in `RunContents.files`.
    """
    folders = run.folders()
    examples_dir = folders.get("SubgraphExampleGen", {}).get("examples", "")
    split = files.get("evaluation", {}).get("split", "")
    examples = split_dir(examples_dir, split) if examples_dir and split else ""
    version = str(files.get("push", {}).get("path") or "")
    trained = folders.get("GraphTrainer", {}).get("model", "")
    model_dir = version or (os.path.join(trained, MODEL_ARTIFACT_FOLDER) if trained else "")
    logs = os.path.join(folders.get("GraphTrainer", {}).get("model_run", ""), _LOGS)
    return [
        *_about_model(model_dir, examples),
        *_serving(run, version),
        *_comparing(run),
        *(
            [NextStep(purpose="See the training in TensorBoard.", command=("tensorboard", "--logdir", logs))]
            if trained
            else []
        ),
    ]


def _about_model(model_dir: str, examples: str) -> Iterator[NextStep]:
    if not model_dir or not examples:
        return
    given = ("--model-dir", model_dir, "--examples", examples, "--limit", _FEW)
    yield NextStep(purpose="Ask the model about some examples.", command=("tfx-gnn", "predict", *given))
    yield NextStep(
        purpose="See which edges, nodes and features carried its answers.",
        command=("tfx-gnn", "explain", *given, "--page", "explanations.html"),
    )


def _serving(run: RecordedRun, version: str) -> Iterator[NextStep]:
    if not version or "://" in version:
        return
    destination = os.path.dirname(version)
    options = next((step.options for step in run.steps if step.component == "SubgraphExampleGen"), {})
    tables_dir = str(options.get("tables_dir") or "")
    if not tables_dir or "://" in tables_dir:
        yield NextStep(purpose="Serve it over HTTP.", command=("tfx-gnn", "serve", "--model-dir", destination))
        return
    index_dir = os.path.join(run.root, "index")
    if not os.path.isdir(index_dir):
        yield NextStep(
            purpose="Put the tables into an index, so that the server can be asked by ids.",
            command=("tfx-gnn", "index", "--tables-dir", tables_dir, "--graph-index-dir", index_dir),
        )
    yield NextStep(
        purpose="Serve it over HTTP.",
        command=("tfx-gnn", "serve", "--model-dir", destination, "--graph-index-dir", index_dir),
    )


def _comparing(run: RecordedRun) -> Iterator[NextStep]:
    if run.number > 1:
        earlier, this = f"{run.root}@{run.number - 1}", f"{run.root}@{run.number}"
        yield NextStep(
            purpose="See what has changed since the run before.", command=("tfx-gnn", "compare", earlier, this)
        )

"""Sections of all packages of the Debian archive: the quickstart's model, at full size.

Beside it stand the best figures of models without a graph neural network on the same splits, by
scikit-learn: logistic regression on a bag of dependencies and the maintainer, and the same with the
sections of training packages among the neighbours.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from accuracy_runs import prepare, train_and_judge
from comparison import Absent, Bound, Report, Row
from debian_graph import debian_tables

from tfx_gnn.components import (
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
)
from tfx_gnn.graph import read_schema, write_schema
from tfx_gnn.sampling import SplitPlan
from tfx_gnn_pipelines.tasks.debian_sections import TASK
from tfx_gnn_pipelines.tasks.debian_sections.preprocessing import KNOWN_LABEL

SEEDS = (0, 1, 2)
NUM_EPOCHS = 8
BATCH_SIZE = 256

#: Accuracy and macro-F1 on the test split by column of the split, without and with sections of neighbours.
_REGRESSION = {
    ("split", False): (0.788, 0.652),
    ("split_by_source", False): (0.752, 0.549),
    ("split", True): (0.839, 0.736),
    ("split_by_source", True): (0.747, 0.569),
}
_METRICS = ("accuracy", "macro_f1")


@pytest.mark.parametrize("known_sections", [False, True], ids=["no_labels_as_input", "labels_of_neighbours"])
@pytest.mark.parametrize("split", ["split", "split_by_source"])
def bench_accuracy(report: Report, tmp_path: Path, split: str, *, known_sections: bool) -> None:
    """Trains with three seeds, and judges the exports on the test split."""
    inputs = "sections of training neighbours as input" if known_sections else "no sections as input"
    what = f"Debian sections, column {split}, {inputs}"
    tables = debian_tables()
    if isinstance(tables, Absent):
        report.add(Row(what=what, ours="", note=tables.reason))
        return
    if known_sections:
        tables = _with_known_sections(tables, str(tmp_path / "tables"), split)
    data = prepare(
        tmp_path / "data",
        tables_dir=tables,
        sampling=SubgraphExampleGenOptions(plan=dataclasses.replace(TASK.plan, splits=SplitPlan(column=split))),
        transform=GraphTransformOptions(
            preprocessing_fn=TASK.preprocessing_fn, analyze_splits=("train", "val", "test"), analyze="unique_items"
        ),
        sizes=SizeConstraintLearnerOptions(batch_size=BATCH_SIZE),
    )
    trainer = GraphTrainerOptions(
        model_fn=TASK.model_fn,
        task=TASK.prediction,
        num_epochs=NUM_EPOCHS,
        hyperparameters={"category_units": 32} if known_sections else {},
    )
    measured = train_and_judge(data, trainer, seeds=SEEDS, metrics=_METRICS)
    for name, theirs in zip(_METRICS, _REGRESSION[split, known_sections], strict=True):
        report.add(
            Row(
                what=f"{what}: {name}",
                ours=str(measured[name]),
                peer="logistic regression",
                theirs=f"{theirs:.3f}",
                figure=measured[name].mean,
                unit="",
                bound=Bound(at_least=theirs),
            )
        )


def _with_known_sections(tables_dir: str, output_dir: str, split: str) -> str:
    """Copies tables, and adds the section of training packages as a column that is empty for others."""
    shutil.copytree(tables_dir, output_dir)
    schema_path = Path(output_dir, "graph_schema.pbtxt")
    schema = read_schema(str(schema_path))
    package = schema.node_sets["package"]
    package.features[KNOWN_LABEL].dtype = tf.string.as_datatype_enum
    schema_path.unlink()
    write_schema(schema, str(schema_path))
    path = Path(output_dir, package.metadata.filename)
    packages = pq.read_table(path)
    known = pc.if_else(pc.equal(packages[split], "train"), packages["section"], pa.scalar(""))
    pq.write_table(packages.append_column(KNOWN_LABEL, known), path)
    return output_dir

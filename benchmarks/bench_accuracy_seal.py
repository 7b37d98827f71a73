"""Dependencies of Debian packages: SEAL beside scores of two nodes, with the same network and the same pairs.

A true dependency is ranked among itself and five packages that are drawn by in-degree, the same for each scoring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from accuracy_runs import Spread, prepare, train_and_judge
from comparison import Report, Row

from tfx_gnn.components import (
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
)
from tfx_gnn.models import LinkPrediction
from tfx_gnn.sampling import Hop, Negatives, SamplingPlan, SplitPlan

SEEDS = (0, 1, 2)
METRICS = ("mrr", "roc_auc")
TABLES = Path(__file__).parents[1] / "pipelines/tfx_gnn_pipelines/tasks/debian_sections/data"

_NEGATIVES = Negatives(num_per_positive=5, distribution="in_degree")
PLAN = SamplingPlan(
    seed_edge_set="depends",
    hops=tuple(
        Hop(edge_set="depends", fan_out=8, inputs=("source", "target"), direction=direction)
        for direction in ("forward", "backward")
    ),
    induced_edge_sets=("depends",),
    reverse_edge_sets=("depends",),
    negatives=_NEGATIVES,
    splits=SplitPlan(weights={"train": 8, "val": 1, "test": 1}),
)
LABELLED_PLAN = dataclasses.replace(
    PLAN, negatives=dataclasses.replace(_NEGATIVES, own_subgraphs=True), structure_labels="drnl"
)
#: Plan and task by name.
CASES = {
    "dot": (PLAN, LinkPrediction(scoring="dot")),
    "hadamard": (PLAN, LinkPrediction(scoring="hadamard", hidden_units=(32,))),
    "seal": (LABELLED_PLAN, LinkPrediction(scoring="seal", pooling="mean|max", hidden_units=(32,))),
}


@pytest.mark.parametrize("case", CASES)
def bench_depends(report: Report, tmp_path: Path, case: str) -> None:
    """Trains with three seeds, and judges the exports on the test split."""
    for name, spread in measure(case, tmp_path / "data", SEEDS).items():
        report.add(Row(what=f"Debian dependencies, {case}: {name}", ours=str(spread), figure=spread.mean, unit=""))


def measure(case: str, folder: Path, seeds: Sequence[int]) -> dict[str, Spread]:
    """Makes examples, and trains and judges a model for each seed.

    Args:
        case: name in `CASES`.
        folder: where to write, absent or empty.
        seeds: seeds of weights, dropout and order.

    Returns:
        The figures by metric.
    """
    plan, task = CASES[case]
    data = prepare(
        folder,
        tables_dir=str(TABLES),
        sampling=SubgraphExampleGenOptions(plan=plan),
        transform=GraphTransformOptions(preprocessing_fn="depends_features:preprocessing_fn"),
        # As many pairs in a batch, whether or not they share an example.
        sizes=SizeConstraintLearnerOptions(batch_size=192 if plan.structure_labels else 32),
    )
    trainer = GraphTrainerOptions(
        model_fn="tfx_gnn.models.model_fns:graph_sage",
        task=task,
        num_epochs=4,
        hyperparameters={"units": 32, "num_layers": 2, "learning_rate": 3e-3},
    )
    return train_and_judge(data, trainer, seeds=seeds, metrics=METRICS)

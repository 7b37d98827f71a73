"""UMLS: which concept completes a fact? Filtered ranks among all concepts, beside PyKEEN's models.

Each fact is asked twice, for its target and for its source, with all 135 concepts as candidates. A rank leaves out
candidates that make another fact of any split, and of equal scores it is the mean ("realistic").
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from accuracy_runs import Spread, prepare, train
from comparison import Absent, Report, Row, find_peer
from link_model import ASKED

from tfx_gnn.components import (
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
    generate_subgraph_examples,
)
from tfx_gnn.models import LinkPrediction
from tfx_gnn.records import examples_folder
from tfx_gnn.sampling import Hop, Negatives, SamplingPlan, SeedTable, SplitPlan
from tfx_gnn.serving import model_interface

SEEDS = (0, 1, 2)
NUM_CONCEPTS, NUM_RELATIONS = 135, 46
_TABLES = "TFX_GNN_UMLS_TABLES"
_INVERSE = "^-1"
_FACT_COLUMNS = ("source", "target", ASKED, "split")
_HITS_AT = (1, 10)
#: What PyKEEN trains, for as many epochs.
_PEERS: Mapping[str, int] = {"DistMult": 80, "RotatE": 80}

_HOPS = tuple(
    Hop(edge_set="fact", fan_out=3, inputs=(end,), direction=direction, name=f"{direction}_of_{end}")
    for end in ("source", "target")
    for direction in ("forward", "backward")
)
_QUESTIONS = SeedTable(
    filename="questions.parquet", features={ASKED: "string"}, identity_features=(ASKED,), splits_edges=False
)
PLAN = SamplingPlan(
    seed_edge_set="fact",
    seed_table=_QUESTIONS,
    hops=_HOPS,
    label_features=(ASKED,),
    splits=SplitPlan(column="split"),
    negatives=Negatives(num_per_positive=24, excludes_neighbors=False),
    reverse_edge_sets=("fact",),
)
#: Each candidate of the test split's questions by itself: negatives are drawn, and never the source itself.
REQUESTS = dataclasses.replace(
    PLAN, negatives=None, seed_table=dataclasses.replace(_QUESTIONS, filename="requests.parquet")
)
TRAINER = GraphTrainerOptions(
    model_fn="link_model:model_fn",
    task=LinkPrediction(
        scoring="distmult",
        relation_feature=ASKED,
        num_relations=2 * NUM_RELATIONS,
        loss="softmax",
        label_smoothing=0.1,
    ),
    num_epochs=12,
    hyperparameters={
        "units": 64,
        "num_layers": 1,
        "dropout_rate": 0.1,
        "learning_rate": 5e-3,
        "features": {"units": 64},
    },
)


def bench_umls(report: Report, tmp_path: Path) -> None:
    """Trains with three seeds, asks the exports about the test split, and PyKEEN's evaluator about its models."""
    what = "UMLS, filtered, both sides"
    tables = os.environ.get(_TABLES, "")
    if not tables:
        report.add(Row(what=what, ours="", note=f"name the output of `tfx-gnn dataset umls` in {_TABLES}"))
        return
    facts = pq.read_table(Path(tables, "facts.parquet")).to_pydict()
    data = prepare(
        tmp_path / "data",
        tables_dir=ask(tables, str(tmp_path / "tables"), facts),
        sampling=SubgraphExampleGenOptions(plan=PLAN),
        transform=GraphTransformOptions(preprocessing_fn="link_model:preprocessing_fn"),
        sizes=SizeConstraintLearnerOptions(batch_size=64),
    )
    requests_dir = data.path("requests")
    generate_subgraph_examples(
        tables_dir=str(tmp_path / "tables"), examples_dir=requests_dir, options=SubgraphExampleGenOptions(plan=REQUESTS)
    )
    runs = []
    for seed in SEEDS:
        train(data, TRAINER, seed=seed)
        runs.append(_figures(_ranks(requests_dir, data.path(f"seed_{seed}/model"), facts)))
    ours = {name: Spread(tuple(run[name] for run in runs)) for name in runs[0]}
    for peer, num_epochs in _PEERS.items():
        theirs = _pykeen_figures(peer, num_epochs)
        for name, spread in ours.items():
            report.add(
                Row(
                    what=f"{what}: {name}",
                    ours=str(spread),
                    peer=f"PyKEEN's {peer}, {num_epochs} epochs",
                    theirs=f"absent ({theirs.reason})" if isinstance(theirs, Absent) else str(theirs[name]),
                    figure=spread.mean,
                    unit="",
                )
            )


def ask(tables_dir: str, output_dir: str, facts: Mapping[str, list[str]]) -> str:
    """Copies tables, and adds tables of questions and of requests.

    Args:
        tables_dir: tables of the data set.
        output_dir: folder to make.
        facts: columns of all facts.

    Returns:
        The folder.
    """
    shutil.copytree(tables_dir, output_dir)
    inverse = [name + _INVERSE for name in facts[ASKED]]
    questions = {
        "source": facts["source"] + facts["target"],
        "target": facts["target"] + facts["source"],
        ASKED: facts[ASKED] + inverse,
        "split": facts["split"] * 2,
    }
    pq.write_table(pa.table(questions), Path(output_dir, "questions.parquet"))
    asked = {
        (source, relation)
        for source, relation, split in zip(questions["source"], questions[ASKED], questions["split"], strict=True)
        if split == "test"
    }
    concepts = sorted({*facts["source"], *facts["target"]})
    sources, targets, relations = zip(
        *((source, target, relation) for (source, relation), target in itertools.product(sorted(asked), concepts)),
        strict=True,
    )
    requests = {"source": sources, "target": targets, ASKED: relations, "split": ["test"] * len(sources)}
    pq.write_table(pa.table(requests), Path(output_dir, "requests.parquet"))
    return output_dir


def _ranks(requests_dir: str, model_dir: str, facts: Mapping[str, list[str]]) -> np.ndarray:
    """Ranks of the true targets and sources of the test split."""
    serve = tf.saved_model.load(str(Path(model_dir, model_interface.MODEL_ARTIFACT_FOLDER))).signatures[
        model_interface.SERVING_SIGNATURE
    ]
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for records in examples_folder.read_split(requests_dir, "test").batch(1024):
        answer = {name: values.numpy() for name, values in serve(records).items()}
        for row, record in enumerate(records.numpy()):
            relation = tf.train.Example.FromString(record).features.feature[f"nodes/_readout.{ASKED}"]
            source, target = (answer[name][row, 0].decode() for name in ("source_id", "target_id"))
            question = source, relation.bytes_list.value[0].decode()
            scores.setdefault(question, {})[target] = float(answer[model_interface.SCORES_OUTPUT][row, 0])
    known: dict[tuple[str, str], set[str]] = {}
    asked: list[tuple[tuple[str, str], str]] = []
    for source, target, relation, split in zip(*(facts[name] for name in _FACT_COLUMNS), strict=True):
        for question, true in (((source, relation), target), ((target, relation + _INVERSE), source)):
            known.setdefault(question, set()).add(true)
            if split == "test":
                asked.append((question, true))
    ranks = []
    for question, true in asked:
        candidates = scores[question]
        if len(candidates) != NUM_CONCEPTS:
            raise RuntimeError(f"all concepts must be candidates; got {len(candidates)}")
        rivals = np.array([score for name, score in candidates.items() if name not in known[question]])
        ranks.append(1 + np.sum(rivals > candidates[true]) + np.sum(rivals == candidates[true]) / 2)
    return np.array(ranks)


def _figures(ranks: np.ndarray) -> dict[str, float]:
    hits = {f"hits@{k}": float(np.mean(ranks <= k)) for k in _HITS_AT}
    return {"MRR": float(np.mean(1 / ranks)), **hits}


def _pykeen_figures(model: str, num_epochs: int) -> dict[str, Spread] | Absent:
    pipelines = find_peer("pykeen.pipeline")
    if isinstance(pipelines, Absent):
        return pipelines
    runs: list[dict[str, float]] = []
    for seed in SEEDS:
        result: Any = pipelines.pipeline(
            dataset="umls",
            model=model,
            model_kwargs={"embedding_dim": 64},
            optimizer_kwargs={"lr": 0.01},
            training_kwargs={"num_epochs": num_epochs, "batch_size": 256, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False},
            random_seed=seed,
            device="cpu",
        )
        keys = {
            "MRR": "both.realistic.inverse_harmonic_mean_rank",
            **{f"hits@{k}": f"both.realistic.hits_at_{k}" for k in _HITS_AT},
        }
        runs.append({name: float(result.get_metric(key)) for name, key in keys.items()})
    return {name: Spread(tuple(run[name] for run in runs)) for name in runs[0]}

"""Molecules as whole graphs: does one make bacteria mutate (MUTAG), and how does it like water (FreeSolv)?

MUTAG is judged by cross-validation in ten stratified folds, FreeSolv on random splits. No epoch is chosen by
what is judged: on MUTAG all folds are trained for the same number of epochs, and on FreeSolv the epoch
is the best on the validation split. About forty settings of MUTAG were tried on folds of seeds 100 to 103, which are of
the same molecules, by a stand-in for the model that trains ten folds at once; three of FreeSolv on the validation split
of seed 0.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import tensorflow as tf
from accuracy_runs import Prepared, Spread, divide_again, prepare, train, train_and_judge
from comparison import Absent, Bound, Report, Row, find_peer

from tfx_gnn.components import (
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
)
from tfx_gnn.models import GraphClassification, GraphRegression
from tfx_gnn.records import examples_folder
from tfx_gnn.sampling import GraphLevelExamples, SplitPlan

SEEDS = (0, 1, 2)
NUM_FOLDS = 10
_TABLES = {
    "mutag": ("TFX_GNN_MUTAG_TABLES", "tfx-gnn dataset mutag"),
    "freesolv": ("TFX_GNN_FREESOLV_TABLES", "tfx-gnn dataset freesolv"),
}
_ALL = "all"

#: Passes over the training graphs of a fold that make an epoch: three steps alone are hardly worth its overhead.
PASSES_PER_EPOCH = 10
MUTAG_SIZES = SizeConstraintLearnerOptions(batch_size=64)
MUTAG_TRAINER = GraphTrainerOptions(
    model_fn="molecule_model:molecule_model_fn",
    task=GraphClassification(label_feature="mutagenic", num_classes=2, pooling="sum"),
    num_epochs=6,
    eval_split="test",
    hyperparameters={
        "network": "gin",
        "units": 32,
        "num_layers": 5,
        "dropout_rate": 0.0,
        "edge_feature": None,
        "jumping_knowledge": "concat",
        "learning_rate": 5e-3,
    },
)
FREESOLV_TRAINER = GraphTrainerOptions(
    model_fn="molecule_model:molecule_model_fn",
    task=GraphRegression(label_feature="hydration_free_energy", standardize=True, pooling="mean|sum", loss="huber"),
    num_epochs=60,
    early_stopping_patience=60,
    hyperparameters={"network": "mpnn", "units": 64, "num_layers": 3, "dropout_rate": 0.0, "learning_rate": 2e-3},
)


def bench_mutag(report: Report, tmp_path: Path) -> None:
    """Ten folds, three times; one transform for all, as vocabularies of elements and bonds tell no label.

    What each fold is worth, the trainer says: its watched split is scored example by example after the last epoch,
    and by it nothing is chosen.
    """
    what = "MUTAG, ten folds: accuracy"
    tables = _tables("mutag")
    if isinstance(tables, Absent):
        report.add(Row(what=what, ours="", note=tables.reason))
        return
    selection = find_peer("sklearn.model_selection")
    if isinstance(selection, Absent):
        report.add(Row(what=what, ours="", note=selection.reason))
        return
    data = _prepare(tmp_path / "data", tables, "mutagenic", SplitPlan(weights={_ALL: 1}), train_split=_ALL)
    records = list(examples_folder.read_split(data.path("transformed_examples"), _ALL).as_numpy_iterator())
    labels = [int(_feature(record, "context/mutagenic").int64_list.value[0]) for record in records]
    means, deviations = [], []
    for seed in SEEDS:
        folds = selection.StratifiedKFold(NUM_FOLDS, shuffle=True, random_state=seed)
        accuracies = []
        for number, (learned, judged) in enumerate(folds.split(records, labels)):
            fold = divide_again(
                data,
                tmp_path / f"fold_{seed}_{number}",
                {"train": [records[i] for i in learned] * PASSES_PER_EPOCH, "test": [records[i] for i in judged]},
                MUTAG_SIZES,
            )
            summary = train(fold, MUTAG_TRAINER, seed=seed)
            accuracies.append(summary.epochs[-1]["val_accuracy"])
            print(f"MUTAG, seed {seed}, fold {number}: {accuracies[-1]:.3f}", flush=True)  # noqa: T201 - minutes.
        means.append(statistics.fmean(accuracies))
        deviations.append(statistics.stdev(accuracies))
    spread = Spread(tuple(means))
    report.add(
        Row(
            what=f"{what} (between folds +- {statistics.fmean(deviations):.3f})",
            ours=str(spread),
            figure=spread.mean,
            unit="",
            bound=Bound(at_least=0.87),
        )
    )


def bench_freesolv(report: Report, tmp_path: Path) -> None:
    """Three random splits, beside a random forest that sees fingerprints and descriptors of the same molecules."""
    what = "FreeSolv, random splits: RMSE in kcal/mol"
    tables = _tables("freesolv")
    if isinstance(tables, Absent):
        report.add(Row(what=what, ours="", note=tables.reason))
        return
    errors, forests = [], []
    for seed in SEEDS:
        splits = SplitPlan(hash_seed=seed)
        data = _prepare(tmp_path / f"data_{seed}", tables, "hydration_free_energy", splits, train_split="train")
        measured = train_and_judge(data, FREESOLV_TRAINER, seeds=[seed], metrics=["rmse"])
        errors.append(measured["rmse"].mean)
        forests.append(_forest_error(data, tables, seed))
    ours = Spread(tuple(errors))
    absent = next((error for error in forests if isinstance(error, Absent)), None)
    theirs = "" if absent else str(Spread(tuple(error for error in forests if not isinstance(error, Absent))))
    report.add(
        Row(
            what=what,
            ours=str(ours),
            peer="random forest of scikit-learn on Morgan fingerprints and descriptors",
            theirs=theirs or f"absent ({absent.reason if absent else ''})",
            figure=ours.mean,
            unit="",
            bound=Bound(at_most=1.3),
        )
    )


def _prepare(folder: Path, tables: str, label: str, splits: SplitPlan, *, train_split: str) -> Prepared:
    return prepare(
        folder,
        tables_dir=tables,
        sampling=SubgraphExampleGenOptions(
            graph_level_examples=GraphLevelExamples(label_features=(label,), splits=splits)
        ),
        transform=GraphTransformOptions(
            preprocessing_fn="molecule_model:preprocessing_fn", analyze_splits=(train_split,)
        ),
        sizes=SizeConstraintLearnerOptions(train_split=train_split),
    )


def _tables(name: str) -> str | Absent:
    variable, command = _TABLES[name]
    folder = os.environ.get(variable, "")
    return folder or Absent(f"name the output of `{command}` in {variable}")


def _feature(record: bytes, name: str) -> tf.train.Feature:
    return tf.train.Example.FromString(record).features.feature[name]


def _forest_error(data: Prepared, tables: str, seed: int) -> float | Absent:
    """RMSE on the test split of a forest that was trained on the training split."""
    chemistry, generators, descriptors = (
        find_peer(name) for name in ("rdkit.Chem", "rdkit.Chem.rdFingerprintGenerator", "rdkit.Chem.Descriptors")
    )
    ensemble = find_peer("sklearn.ensemble")
    for peer in (chemistry, generators, descriptors, ensemble):
        if isinstance(peer, Absent):
            return peer
    context = pq.read_table(Path(tables, "context.parquet")).to_pydict()
    smiles = dict(zip(context["graph_id"], context["smiles"], strict=True))
    energies = dict(zip(context["graph_id"], context["hydration_free_energy"], strict=True))
    make_fingerprint = generators.GetMorganGenerator(radius=2, fpSize=1024)  # type: ignore[union-attr]

    def features(text: str) -> np.ndarray:
        molecule = chemistry.MolFromSmiles(text)  # type: ignore[union-attr]
        described = list(descriptors.CalcMolDescriptors(molecule).values())  # type: ignore[union-attr]
        fingerprint = make_fingerprint.GetFingerprintAsNumPy(molecule)
        return np.concatenate([fingerprint, np.nan_to_num(np.clip(described, -1e6, 1e6))])

    def of_split(split: str) -> tuple[np.ndarray, np.ndarray]:
        records = examples_folder.read_split(data.path("examples"), split).as_numpy_iterator()
        ids = [_feature(record, "context/#id").bytes_list.value[0].decode() for record in records]
        return np.stack([features(smiles[name]) for name in ids]), np.array([energies[name] for name in ids])

    forest = ensemble.RandomForestRegressor(500, random_state=seed, n_jobs=2)  # type: ignore[union-attr]
    forest.fit(*of_split("train"))
    inputs, truth = of_split("test")
    return float(np.sqrt(np.mean((forest.predict(inputs) - truth) ** 2)))

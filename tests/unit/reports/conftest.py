from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.reports.run_record import RecordedArtifact, RecordedRun, RecordedStep

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\">&amp;"

SCHEMA = """
node_sets { key: "_readout" value { features { key: "kind" value { dtype: DT_STRING } } } }
node_sets { key: "paper" value { features { key: "#id" value { dtype: DT_STRING } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "_readout/seed" value { source: "paper" target: "_readout" } }
"""


def _example() -> bytes:
    example = tf.train.Example()
    features = example.features.feature
    for key, values in {
        "nodes/_readout.#size": [1],
        "nodes/paper.#size": [2],
        "edges/cites.#size": [1],
        "edges/cites.#source": [0],
        "edges/cites.#target": [1],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [1],
        "edges/_readout/seed.#target": [0],
    }.items():
        features[key].int64_list.value.extend(values)
    features["nodes/paper.#id"].bytes_list.value.extend([b"first", HOSTILE.encode()])
    features["nodes/_readout.kind"].bytes_list.value.append(HOSTILE.encode())
    serialized: bytes = example.SerializeToString()
    return serialized


def _write_json(folder: Path, name: str, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def _evaluation(accuracy: float = 0.75) -> dict[str, object]:
    return {
        "split": "test",
        "blessed": True,
        "reasons": [HOSTILE],
        "objections": [],
        "kind": "classification",
        "num_examples": 4,
        "num_examples_without_label": 0,
        "accuracy": accuracy,
        "majority_baseline": {"class": HOSTILE, "class_from_split": "train", "accuracy": 0.5},
        "per_class": {
            HOSTILE: {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 1},
            "b": {"precision": 1.0, "recall": 2 / 3, "f1": 0.8, "support": 3},
        },
        "confusion": [
            {"true": HOSTILE, "predicted": HOSTILE, "count": 1},
            {"true": "b", "predicted": HOSTILE, "count": 1},
            {"true": "b", "predicted": "b", "count": 2},
        ],
        "calibration": {
            "expected_calibration_error": 0.125,
            "bins": [{"low": 0.8, "high": 0.9, "num_examples": 4, "mean_confidence": 0.875, "accuracy": 0.75}],
        },
        "confident_mistakes": [{"id": HOSTILE, "true": "b", "predicted": HOSTILE, "score": 0.875}],
        "change": {
            "metric": "accuracy",
            "gain": 0.0625,
            "lower": None,
            "upper": None,
            "confidence": 0.95,
            "num_examples": 4,
            "latest_blessed": {"accuracy": 0.6875},
        },
        "warnings": [HOSTILE],
        "trees_baseline": {
            "meaning": f"{HOSTILE} alone",
            "num_training_rows": 8,
            "num_examples": 4,
            "confidence": 0.95,
            "model": {"accuracy": 0.75},
            "trees": {"accuracy": 0.625},
            "intervals": {"accuracy": {"lower": -0.0625, "upper": 0.3125}},
        },
        "intervals": {
            "confidence": 0.95,
            "num_resampled": 4,
            "metrics": {"accuracy": {"lower": 0.25, "upper": 0.96875}},
            "changes": {"accuracy": {"lower": 0.03125, "upper": 0.125}},
        },
        "slices": [
            {
                "feature": "context/year",
                "value": HOSTILE,
                "range": "(2, 4]",
                "num_examples": 4,
                "accuracy": 0.75,
                "baseline": {},
                "intervals": {"metrics": {"accuracy": {"lower": 0.375, "upper": 0.9375}}},
                "too_few_examples": {"metrics": ["accuracy"], "changes": []},
            },
            # As earlier versions wrote it.
            {"feature": "context/year", "value": "2001", "num_examples": 0, "accuracy": 0.75, "baseline": {}},
        ],
    }


def _training() -> dict[str, object]:
    epochs = [
        {"loss": 2.0, "val_loss": 2.0},
        {"loss": 1.0, "val_loss": 1.25},
        {"loss": 0.5, "val_loss": 1.75},
    ]
    return {
        "model_fn": HOSTILE,
        "num_parameters": 1234,
        "num_train_examples": 8,
        "epochs": epochs,
        "exported_epoch": 2,
        "stopped_early": False,
        "warnings": [HOSTILE],
        "seconds": 61.0,
    }


def _write_artifacts(root: Path) -> dict[str, dict[str, str]]:
    """Writes the artifacts of a run by hand, and returns their folders by component and output."""
    at = {
        "SubgraphExampleGen": ("examples",),
        "GraphExampleValidator": ("anomalies", "blessing"),
        "SizeConstraintLearner": ("size_constraints",),
        "GraphTrainer": ("model_run",),
        "GraphEvaluator": ("evaluation", "blessing"),
        "GraphSkewValidator": ("skew",),
        "GraphPusher": ("pushed_model",),
    }
    folders = {
        component: {output: str(root / "artifacts" / component / output / "1") for output in outputs}
        for component, outputs in at.items()
    }
    examples = Path(folders["SubgraphExampleGen"]["examples"])
    _write_json(examples, "statistics.json", {"statistics": {"num_subgraphs": {"test": 1, "train": 3}}})
    (examples / "graph_schema.pbtxt").write_text(SCHEMA)
    for split in ("train", "test"):
        write_split_shard(str(examples), split, 0, 1, [_example()])
    anomaly = {
        "check": "label_copy",
        "severity": "error",
        "split": "train",
        "about": HOSTILE,
        "description": HOSTILE,
        "places": [HOSTILE],
    }
    validator = folders["GraphExampleValidator"]
    _write_json(Path(validator["anomalies"]), "anomalies.json", {"anomalies": [anomaly]})
    _write_json(Path(validator["blessing"]), "reasons.json", {"reasons": [HOSTILE]})
    budget = {
        "fill": 0.5,
        "graphs_per_batch": 2.0,
        "total_num_nodes": {"paper": 10},
        "total_num_edges": {"cites": 20},
        "bytes_per_batch": 2048,
    }
    sizes = Path(folders["SizeConstraintLearner"]["size_constraints"])
    _write_json(sizes, "size_constraints.json", {"budgets": {HOSTILE: budget}, "warnings": [HOSTILE]})
    _write_json(Path(folders["GraphTrainer"]["model_run"]), "training_summary.json", _training())
    _write_json(Path(folders["GraphEvaluator"]["evaluation"]), "metrics.json", _evaluation())
    _write_json(Path(folders["GraphEvaluator"]["blessing"]), "reasons.json", {"reasons": ["good"]})
    difference = {"key": HOSTILE, "num_values": 10, "num_differing": 1, "largest_difference": 0.25}
    skew = {"blessed": True, "reasons": [HOSTILE], "num_compared": 4, "features": [difference], "outputs": []}
    _write_json(Path(folders["GraphSkewValidator"]["skew"]), "skew.json", skew)
    pushed = {
        "pushed": True,
        "reason": HOSTILE,
        "destination": "serving",
        "version": 7,
        "path": HOSTILE,
        "model_fingerprint": "f00",
        "verification_requests": [HOSTILE],
        "out_of_domain": [],
        "warnings": [HOSTILE],
    }
    _write_json(Path(folders["GraphPusher"]["pushed_model"]), "pushed_version.json", pushed)
    return folders


def _make_run(folders: dict[str, dict[str, str]], *, root: str = "runs/task", failed: str = "") -> RecordedRun:
    """A run whose steps made these folders; `failed` is a last step that did not."""
    steps = [
        RecordedStep(
            component=component,
            execution=position + 1,
            state="complete",
            started=1000.0 + 10 * position,
            seconds=5.0,
            options={"option": HOSTILE, "nested": {"rate": 0.1}},
            inputs=(),
            outputs=tuple(
                RecordedArtifact(name=name, number=1, kind="", folder=folder, maker=position + 1, properties={})
                for name, folder in outputs.items()
            ),
            error="",
        )
        for position, (component, outputs) in enumerate(folders.items())
    ]
    if failed:
        steps.append(
            RecordedStep(
                component=failed,
                execution=99,
                state="failed",
                started=1100.0,
                seconds=1.0,
                options={},
                inputs=(),
                outputs=(),
                error=HOSTILE,
            )
        )
    return RecordedRun(root=root, pipeline="p", name="today", number=1, num_runs=1, steps=tuple(steps))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return _write_artifacts(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE


@pytest.fixture(scope="session")
def make_run():
    return _make_run


@pytest.fixture(scope="session")
def write_artifacts():
    return _write_artifacts

"""Plans from what earlier runs in the pipeline's root measured, made by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.training.data.input_pipeline import EpochInput
from tfx_gnn.training.loop.summary import TrainingSummary, write_training_summary
from tfx_gnn_pipelines.bulk_inference import BulkInferenceOptions
from tfx_gnn_pipelines.lineage import record_peak_memory
from tfx_gnn_pipelines.planning.earlier_runs import find_measured_runs, read_actual_steps
from tfx_gnn_pipelines.planning.machines import this_machine
from tfx_gnn_pipelines.planning.planner import make_steps, measured_by_runs, plan_pipeline

COUNTS = {"train": 200, "val": 60, "test": 40}
MIB = 2**20
EPOCHS, STEPS_AN_EPOCH, SECONDS_AN_EPOCH = 8, 40, 5.0
STARTS = {
    "SubgraphExampleGen": (0, 3),
    "GraphSchemaGen": (3, 5),
    "GraphExampleValidator": (5, 6),
    "GraphTransform": (6, 26),
    "SizeConstraintLearner": (26, 36),
    "GraphTrainer": (36, 96),
    "GraphEvaluator": (96, 116),
    "GraphSkewValidator": (116, 120),
    "GraphPusher": (120, 130),
}
OUTPUTS = {
    "SubgraphExampleGen": ("examples",),
    "GraphTransform": ("transformed_examples",),
    "GraphTrainer": ("model", "model_run"),
}


def _write_training(folder: Path, *, stopped_early: bool = False) -> None:
    # A step takes 0.1 s, and the rest of an epoch 1 s.
    epoch = EpochInput(
        num_steps=STEPS_AN_EPOCH,
        num_batches=STEPS_AN_EPOCH,
        num_graphs=200,
        num_removed_batches=0,
        num_removed_graphs=0,
        graphs_per_batch=5.0,
        fill=1.0,
        removed_share=0.0,
        graphs_per_second=50.0,
    )
    summary = TrainingSummary(
        model_fn="tiny_project.model:model_fn",
        num_parameters=100,
        num_classes=2,
        num_train_examples=200,
        num_eval_examples=60,
        num_eval_examples_of_unknown_class=0,
        batching="packed",
        budget={"graphs_per_batch": 5.0, "bytes_per_batch": 1000},
        eval_budget={},
        strategy="default",
        num_replicas=1,
        num_steps=EPOCHS * STEPS_AN_EPOCH,
        epochs=({},) * EPOCHS,
        epoch_inputs=(epoch,) * EPOCHS,
        exported_epoch=EPOCHS,
        stopped_early=stopped_early,
        seconds=40.0,
        layers=(),
        options={},
    )
    write_training_summary(summary, str(folder))
    logs = folder / "logs" / "train"
    logs.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(logs / "events.out.tfevents.1")) as writer:
        for number in range(EPOCHS):
            event = tf.compat.v1.Event(wall_time=SECONDS_AN_EPOCH * number, step=number)
            event.summary.value.add(tag="epoch_loss")
            writer.write(event.SerializeToString())


@pytest.fixture(scope="module")
def parameters(tiny_config):
    """What TFX records of each component of the tiny pipeline."""
    from tfx_gnn_pipelines.assembly import build_components

    return {component.id: dict(component.exec_properties) for component in build_components(tiny_config)}


@pytest.fixture
def make_run(tmp_path, run_database, parameters):
    """Writes a run into the root; `changes` are parameters by component, `times` when components ran."""
    database = run_database(tmp_path)

    def make(name="first", *, changes=(), state="complete", times=STARTS, peaks=True, stopped_early=False, more=()):
        for component, options in {**parameters, **{name: {} for name in more}}.items():
            folders = {
                output: tmp_path / "artifacts" / component / output / name
                for output in OUTPUTS.get(component, ("output",))
            }
            for folder in folders.values():
                folder.mkdir(parents=True)
                (folder / "file").write_bytes(bytes(1000))
            if component == "SubgraphExampleGen":
                (folders["examples"] / "statistics.json").write_text(json.dumps({"num_seeds": COUNTS}))
            if component == "GraphTransform":
                write_split_shard(str(folders["transformed_examples"]), "train", 0, 1, [b"record"])
            if component == "GraphTrainer":
                _write_training(folders["model_run"], stopped_early=stopped_early)
            pushed = tmp_path / "serving" / "1"
            pushed.mkdir(parents=True, exist_ok=True)
            database.step(
                name,
                component,
                state,
                outputs=folders,
                properties={**options, **dict(changes).get(component, {})},
                pushed=pushed if component == "GraphPusher" else "",
                times=times[component],
            )
        if peaks:
            # 500 MiB, and one more for each second of the start.
            record_peak_memory(str(tmp_path / "metadata.sqlite"), lambda start, _: round(500 + start) * MIB)

    return make


@pytest.fixture
def config(tiny_config, tmp_path):
    return dataclasses.replace(tiny_config, root=str(tmp_path))


def _plan_steps(config, counts):
    measured = measured_by_runs(config, find_measured_runs(config), counts)
    machines = dict.fromkeys(["start", *measured], this_machine())
    steps = make_steps(config, counts, measured, machines, start_seconds=None, is_remote=False)
    return {step.step: step for step in steps}


def test_the_same_again_costs_what_the_run_did(config, make_run):
    make_run()

    found = _plan_steps(config, COUNTS)

    assert set(found) == set(STARTS)
    assert {name: step.seconds.value for name, step in found.items()} == pytest.approx(
        {name: end - start for name, (start, end) in STARTS.items()}
    )
    assert {step.seconds.origin for step in found.values()} == {"measured"}
    assert found["GraphTransform"].memory.value == 506 * MIB
    assert found["GraphExampleValidator"].disk.value == 1000
    assert found["GraphTrainer"].source.endswith("@1")


def test_more_epochs_cost_an_epoch_each(config, make_run):
    make_run()
    trainer = dataclasses.replace(config.graph_trainer, num_epochs=2 * EPOCHS, training_seed=7)

    found = _plan_steps(dataclasses.replace(config, graph_trainer=trainer), COUNTS)

    # 60 s were 8 epochs of 5 s and 20 s beside them.
    assert found["GraphTrainer"].seconds.value == pytest.approx(20 + 16 * 5)
    assert found["GraphTrainer"].seconds.origin == "extrapolated"
    assert found["GraphEvaluator"].seconds.value == pytest.approx(20)


def test_more_examples_cost_between_nothing_and_their_share(config, make_run):
    make_run()

    found = _plan_steps(config, {split: 2 * count for split, count in COUNTS.items()})

    transform = found["GraphTransform"]
    assert (transform.seconds.low, transform.seconds.high) == pytest.approx((20 * 0.85, 40 * 1.15))
    assert transform.seconds.value == pytest.approx(20 + 300 * 20 / 5300)
    assert (transform.memory.value, transform.memory.high) == (506 * MIB, 2 * 506 * MIB)


def test_many_times_the_examples_are_measured_anew(config, make_run):
    make_run()

    found = _plan_steps(config, {split: 10 * count for split, count in COUNTS.items()})

    assert set(found) == {"GraphPusher"}


def test_training_that_stopped_early_is_planned_to_stop_there(config, make_run):
    make_run(stopped_early=True)
    trainer = dataclasses.replace(config.graph_trainer, num_epochs=50, early_stopping_patience=2)

    found = _plan_steps(dataclasses.replace(config, graph_trainer=trainer), COUNTS)

    seconds = found["GraphTrainer"].seconds
    assert seconds.value == pytest.approx(60)
    assert seconds.high > 20 + 50 * 5


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"GraphPusher": {"num_verification_requests": 99}}, {"GraphPusher"}),
        (
            {"GraphTrainer": {"code_fingerprint": "other code"}},
            {"GraphTrainer", "GraphEvaluator", "GraphSkewValidator", "GraphPusher"},
        ),
        ({"SubgraphExampleGen": {"plan": "{}"}}, set(STARTS)),
        ({"GraphSchemaGen": {"library_version": "0.0.1"}}, set(STARTS) - {"SubgraphExampleGen"}),
    ],
    ids=["option", "code", "upstream", "version"],
)
def test_what_has_changed_is_measured_anew_with_all_downstream(config, make_run, changes, lost):
    make_run(changes=changes)

    assert set(_plan_steps(config, COUNTS)) == set(STARTS) - lost


def test_each_step_comes_from_the_newest_run_that_executed_it(config, make_run):
    make_run()
    make_run("second", state="cached")
    make_run("third", changes={"GraphTrainer": {"code_fingerprint": "other code"}})

    found = _plan_steps(config, COUNTS)

    assert found["GraphTransform"].source.endswith("@3")
    assert found["GraphTrainer"].source.endswith("@1")


@pytest.mark.parametrize(
    "run",
    [{"times": {**STARTS, "GraphExampleValidator": (5, 20)}}, {"peaks": False}, {"state": "failed"}],
    ids=["steps at the same time", "unknown memory", "failed"],
)
def test_runs_that_measured_nothing_are_left_out(config, make_run, run):
    make_run(**run)

    assert find_measured_runs(config) == []


def test_steps_whose_outputs_were_removed_are_measured_anew(config, make_run, tmp_path):
    make_run()
    (tmp_path / "serving" / "1").rmdir()

    assert set(STARTS) - set(_plan_steps(config, COUNTS)) == {"GraphPusher"}


def test_a_root_without_a_run_has_no_measurements(config, run_database, tmp_path):
    assert find_measured_runs(config) == []

    run_database(tmp_path)

    assert find_measured_runs(config) == []


def test_a_plan_after_a_run_tries_nothing_and_names_the_run(config, make_run):
    make_run()

    plan = plan_pipeline(config, seconds=1.0)

    assert plan.num_examples == COUNTS
    assert plan.sample == {}
    assert plan.total_seconds.value == pytest.approx(130)
    assert plan.training.num_steps.value == EPOCHS * STEPS_AN_EPOCH
    assert "Imports before the first step" in plan.notes[0]


def test_a_run_with_optional_steps_measures_the_others(config, make_run):
    optional = {"InferenceExampleGen": (130, 140), "GraphBulkInferrer": (140, 150)}
    make_run(more=tuple(optional), times={**STARTS, **optional})
    config = dataclasses.replace(config, graph_bulk_inferrer=BulkInferenceOptions())

    plan = plan_pipeline(config, seconds=1.0)

    assert {step.step for step in plan.steps} == set(STARTS)
    assert "GraphBulkInferrer is not planned" in plan.notes[-1]


def test_a_run_with_a_latest_blessed_model_measures_no_evaluation_without_one(config, make_run):
    resolver = {"LatestBlessedModelResolver": (130, 131)}
    make_run(more=tuple(resolver), times={**STARTS, **resolver})

    found = _plan_steps(config, COUNTS)

    assert set(found) == set(STARTS) - {"GraphEvaluator", "GraphExampleValidator"}


def test_the_command_plans_from_a_run_in_its_root(make_run, tmp_path):
    make_run()

    command = ["plan", "tiny_project.task:TASK", "--measure", "--root", str(tmp_path), "--json"]
    # The one option of the tiny pipeline that is not in its task.
    result = CliRunner().invoke(app, [*command, "--set", "graph_evaluator.baseline_confidence=0.0"])

    plan = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {step["source"].rpartition("/")[2] for step in plan["steps"]} == {f"{tmp_path.name}@1"}


def test_actual_costs_have_memory_and_pushed_versions(make_run, tmp_path):
    make_run()
    (tmp_path / "serving" / "1" / "model").write_bytes(bytes(5000))

    actual = {step.step: step for step in read_actual_steps(str(tmp_path))}

    assert (actual["GraphPusher"].disk, actual["GraphPusher"].seconds) == (6000, 10)
    assert actual["GraphEvaluator"].memory == 596 * MIB

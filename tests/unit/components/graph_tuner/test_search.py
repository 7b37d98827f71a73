from __future__ import annotations

import dataclasses
import json
import math

import pytest

from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.components.graph_tuner.search import (
    SearchFailedError,
    TrainedTrial,
    UnknownObjectiveError,
    best_trial,
    search,
)
from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange
from tfx_gnn.components.graph_tuner.trials import TrialFolder
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training.options import GraphTrainerOptions

EPOCHS = 4
TRAINER = GraphTrainerOptions(
    model_fn="my.model:model_fn",
    task=NodeClassification(label_feature="color", class_vocabulary="color"),
    num_epochs=EPOCHS,
    hyperparameters={"dropout": 0.5},
)
SPACE = {
    "rate": FloatRange(low=1e-4, high=1.0, log=True),
    "units": IntRange(low=4, high=64, step=4),
    "kind": Choice(values=("mean", [1, 2], None)),
}


class Silence:
    """Remembers which trials have run."""

    def __init__(self):
        self.ran = []
        self.going_on_after = None

    def on_search_begin(self, num_trials, finished):
        self.going_on_after = len(finished)

    def on_epoch_end(self, epoch, logs):
        pass

    def on_trial_end(self, trial):
        self.ran.append(trial.number)


def bowl(hyperparameters, epoch):
    """Least at a rate of 0.01."""
    return (math.log10(hyperparameters["rate"]) + 2.0) ** 2 + 1.0 / (epoch + 1)


def trained(loss=bowl, *, fails=lambda _: False):
    """A training that takes no time."""

    def train(hyperparameters, tell):
        assert hyperparameters["dropout"] == 0.5
        if fails(hyperparameters):
            raise OverflowError("too much")
        epochs = []
        for epoch in range(EPOCHS):
            value = loss(hyperparameters, epoch)
            epochs.append({"loss": value, "val_loss": value, "val_accuracy": 1.0 / (1.0 + value)})
            if tell(epoch, epochs[-1]):
                break
        return TrainedTrial(epochs=tuple(epochs), exported_epoch=len(epochs), num_parameters=7)

    return train


def run(folder, train=None, observer=None, **fields):
    options = GraphTunerOptions(**{"trainer": TRAINER, "search_space": SPACE, "num_trials": 12, **fields})
    trials = search(options, TrialFolder(str(folder), {"a": "1"}), train or trained(), observer or Silence())
    return [dataclasses.replace(trial, seconds=0.0) for trial in trials]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_the_same_seed_gives_the_same_trials_also_after_breaks(tmp_path, sampler):
    class Killed(Silence):
        def on_epoch_end(self, epoch, logs):
            if len(self.ran) == 3:
                raise KeyboardInterrupt

    whole = run(tmp_path / "whole", sampler=sampler, pruner="median")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "ended", sampler=sampler, pruner="median", observer=Killed())
    last = Silence()
    pieced = run(tmp_path / "ended", sampler=sampler, pruner="median", observer=last)

    assert pieced == whole
    assert last.going_on_after == 9
    assert last.ran == [9, 10, 11]
    assert run(tmp_path / "other", sampler=sampler, search_seed=1) != whole
    assert all(trial.hyperparameters["kind"] in ("mean", [1, 2], None) for trial in whole)
    assert all(trial.hyperparameters["units"] % 4 == 0 for trial in whole)


def test_more_trials_can_be_asked_for_later(tmp_path):
    few = run(tmp_path, num_trials=5)
    observer = Silence()

    more = run(tmp_path, num_trials=8, observer=observer)

    assert more[:5] == few
    assert observer.ran == [5, 6, 7]


def test_what_is_learned_of_trials_makes_later_ones_better(tmp_path):
    trials = run(tmp_path, num_trials=40, objective="val_accuracy")

    best = best_trial(trials, maximizes=True)
    assert 0.005 < best.hyperparameters["rate"] < 0.02
    assert best.value == best.epochs[-1]["val_accuracy"] == max(trial.value for trial in trials)

    def distance(part):
        return sum(abs(math.log10(trial.hyperparameters["rate"]) + 2.0) for trial in part)

    assert distance(trials[-10:]) < distance(trials[:10])


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_trials_that_do_worse_are_ended_early(tmp_path, pruner):
    trials = run(tmp_path, num_trials=30, pruner=pruner, sampler="random")

    pruned = [trial for trial in trials if trial.state == "pruned"]
    complete = [trial for trial in trials if trial.state == "complete"]
    assert pruned
    assert complete
    assert all(len(trial.epochs) < EPOCHS and trial.value is None for trial in pruned)
    assert all(len(trial.epochs) == EPOCHS for trial in complete)
    assert max(trial.value for trial in complete) > min(trial.value for trial in complete)
    assert best_trial(trials, maximizes=False).value == min(trial.value for trial in complete)


def test_a_grid_is_gone_through_once(tmp_path):
    space = {"b": Choice(values=(None, [1])), "a": IntRange(low=1, high=3)}

    trials = run(tmp_path, trained(lambda values, _: values["a"]), sampler="grid", search_space=space)

    assert [(trial.hyperparameters["a"], trial.hyperparameters["b"]) for trial in trials] == [
        (1, None),
        (1, [1]),
        (2, None),
        (2, [1]),
        (3, None),
        (3, [1]),
    ]
    assert best_trial(trials, maximizes=False).number == 0


def test_grid_is_not_listed_however_many_rows_it_has(tmp_path):
    space = {"a": IntRange(low=0, high=2**62), "b": IntRange(low=3, high=2**62), "c": Choice(values=(1, 2))}

    trials = run(tmp_path, trained(lambda values, _: values["b"]), sampler="grid", search_space=space, num_trials=3)

    assert [tuple(trial.hyperparameters.values()) for trial in trials] == [(0, 3, 1), (0, 3, 2), (0, 4, 1)]


def _every_third(hyperparameters):
    return hyperparameters["units"] % 3 == 0


def test_failed_trials_are_kept_with_their_errors_and_not_run_again(tmp_path):
    trials = run(tmp_path, trained(fails=_every_third), max_failed_trials=12)
    observer = Silence()

    again = run(tmp_path, trained(fails=_every_third), max_failed_trials=12, observer=observer)

    failed = [trial for trial in trials if trial.state == "failed"]
    assert {trial.number for trial in failed} == {t.number for t in trials if _every_third(t.hyperparameters)} != set()
    assert {(trial.error, trial.value, trial.exported_epoch) for trial in failed} == {
        ("OverflowError: too much", None, 0)
    }
    assert again == trials
    assert observer.ran == []


def test_one_failure_too_many_ends_the_search(tmp_path):
    with pytest.raises(SearchFailedError, match=r"At most 1 trials may fail; got 2 of \d+\. .*OverflowError: too much"):
        run(tmp_path, trained(fails=_every_third), max_failed_trials=1)


def test_a_search_without_a_complete_trial_is_no_success(tmp_path):
    with pytest.raises(SearchFailedError, match="A trial must complete; got 12 that failed or were pruned"):
        run(tmp_path, trained(fails=lambda _: True), max_failed_trials=12)


def test_a_loss_that_is_not_finite_is_a_failure(tmp_path):
    def loss(hyperparameters, epoch):
        return math.nan if epoch == 2 else 1.0

    with pytest.raises(SearchFailedError, match=r"stay finite; got loss nan and val_loss nan after epoch 3\. "):
        run(tmp_path, trained(loss))

    (trial,) = TrialFolder(str(tmp_path), {"a": "1"}).read()
    assert trial.objective_by_epoch == (1.0, 1.0)
    assert len(trial.epochs) == 3


def _without_validation_loss(hyperparameters, tell):
    """A training whose validation loss is NaN for every third number of units, although its other figures are not."""
    figures = {"loss": 1.0, "val_loss": math.nan if _every_third(hyperparameters) else 1.0, "val_accuracy": 0.5}
    tell(0, {**figures, "val_odd": math.inf})
    return TrainedTrial(epochs=(figures,), exported_epoch=0 if _every_third(hyperparameters) else 1, num_parameters=7)


def test_validation_loss_that_is_not_finite_fails_the_trial_whatever_the_objective_is(tmp_path):
    trials = run(tmp_path, _without_validation_loss, objective="val_accuracy", max_failed_trials=12)

    failed = [trial for trial in trials if trial.state == "failed"]
    assert {trial.number for trial in failed} == {t.number for t in trials if _every_third(t.hyperparameters)} != set()
    assert {(trial.value, trial.exported_epoch, trial.objective_by_epoch) for trial in failed} == {(None, 0, ())}
    assert all("stay finite; got val_loss nan after epoch 1. Search" in trial.error for trial in failed)
    assert {(trial.state, trial.value) for trial in trials if trial not in failed} == {("complete", 0.5)}


def test_figures_that_json_does_not_have_are_written_as_null_and_read_alike(tmp_path):
    trials = run(tmp_path, _without_validation_loss, objective="val_accuracy", max_failed_trials=12)

    def refuse(text):
        pytest.fail(f"{text} is not JSON")

    for path in tmp_path.glob("trial-*.json"):
        json.loads(path.read_text(), parse_constant=refuse)
    assert {trial.epochs[0]["val_odd"] for trial in trials} == {None}
    assert {trial.epochs[0]["val_loss"] for trial in trials} == {None, 1.0}
    again = TrialFolder(str(tmp_path), {"a": "1"}).read()
    assert [dataclasses.replace(trial, seconds=0.0) for trial in again] == trials


def test_a_metric_that_nobody_measures_ends_the_search_at_once(tmp_path):
    with pytest.raises(UnknownObjectiveError, match=r"`objective` must be one of .*'val_accuracy'"):
        run(tmp_path, objective="val_auc", max_failed_trials=12)


def test_trials_of_another_search_are_refused_by_what_differs(tmp_path):
    run(tmp_path, num_trials=1)

    with pytest.raises(ValueError, match="`search_dir` must hold trials of the same search; got another a, b in"):
        TrialFolder(str(tmp_path), {"a": "2", "b": "3"})
    assert json.loads((tmp_path / "search.json").read_text()) == {"a": "1"}

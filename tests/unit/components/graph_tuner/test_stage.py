from __future__ import annotations

import dataclasses
import json
import os

import pytest

from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.components.graph_tuner.search import TuningProgress
from tfx_gnn.components.graph_tuner.search_space import Choice
from tfx_gnn.components.graph_tuner.stage import tune_graph_model
from tfx_gnn.components.graph_tuner.trials import read_tuning_summary
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training.best_hyperparameters import with_best_hyperparameters
from tfx_gnn.training.options import BatchingOptions, GraphTrainerOptions

TRAINER = GraphTrainerOptions(
    model_fn="tuned_model:model_fn",
    task=NodeClassification(label_feature="color", class_vocabulary="color"),
    num_epochs=2,
    batching=BatchingOptions(kind="tight"),
    hyperparameters={"learning_rate": 0.05},
)
OPTIONS = GraphTunerOptions(
    trainer=TRAINER,
    search_space={"units": Choice(values=(4, 13, 8))},
    sampler="grid",
    max_failed_trials=1,
)


class KilledAfterTwoTrials(TuningProgress):
    def on_trial_end(self, trial):
        super().on_trial_end(trial)
        if trial.number == 1:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folders(transformed_star, tmp_path_factory):
    from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
    from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints

    sizes = str(tmp_path_factory.mktemp("tuned") / "sizes")
    learn_size_constraints(
        examples_dir=transformed_star.transformed_examples_dir,
        graph_schema_dir=transformed_star.transformed_graph_schema_dir,
        size_constraints_dir=sizes,
        options=SizeConstraintLearnerOptions(batch_size=4),
        only_tight=True,
    )
    inputs = dataclasses.asdict(transformed_star)
    del inputs["examples_dir"]
    return {**inputs, "size_constraints_dir": sizes}


def test_a_search_that_was_killed_goes_on_and_leaves_what_it_found(folders, tuned_model, tmp_path, capfd):
    assert tuned_model.__name__ == "tuned_model"
    capfd.readouterr()
    with pytest.raises(KeyboardInterrupt):
        tune_graph_model(
            **folders,
            best_hyperparameters_dir=str(tmp_path / "1"),
            options=OPTIONS,
            observer=KilledAfterTwoTrials(OPTIONS),
        )
    first = capfd.readouterr().err
    left = [path.name for path in tmp_path.iterdir()]
    # Anybody could have made a link of that name, to trials that never were.
    os.rename(tmp_path / left[0], tmp_path / "elsewhere")
    (tmp_path / left[0]).symlink_to("elsewhere")
    with pytest.raises(ValueError, match=rf"/{left[0]}` must be a folder that a run of this user has made; got a link"):
        tune_graph_model(**folders, best_hyperparameters_dir=str(tmp_path / "2"), options=OPTIONS)
    (tmp_path / left[0]).unlink()
    os.rename(tmp_path / "elsewhere", tmp_path / left[0])
    # A retry has another output folder, beside the first one.
    found = tune_graph_model(**folders, best_hyperparameters_dir=str(tmp_path / "2"), options=OPTIONS)
    second = capfd.readouterr().err

    assert len(left) == 1
    assert left[0].startswith(".search-")
    assert [path.name for path in tmp_path.iterdir()] == ["2"]
    assert sorted(path.name for path in (tmp_path / "2").iterdir()) == [
        "best_hyperparameters.json",
        "logs",
        "report.html",
        "trials.json",
    ]
    four, thirteen, eight = found.trials
    assert [trial.hyperparameters["units"] for trial in found.trials] == [4, 13, 8]
    assert [trial.state for trial in found.trials] == ["complete", "failed", "complete"]
    assert "got RuntimeError: no room for 13 units at tests/unit/projects/tuned_model.py" in thirteen.error
    assert four.num_parameters == 2 * 4 + 5 * 2
    assert four.value == four.epochs[1]["val_loss"] == four.objective_by_epoch[1]
    assert found.best.value == min(four.value, eight.value)
    assert read_tuning_summary(str(tmp_path / "2")) == found
    best = json.loads((tmp_path / "2" / "best_hyperparameters.json").read_text())
    assert best == {"learning_rate": 0.05, "units": found.best.hyperparameters["units"]}
    assert [line.split(":")[0] for line in first.splitlines()] == [
        "trial 1/3 units=4",
        "trial 2/3 units=13",
    ]
    assert [line.split(":")[0] for line in second.splitlines()] == [
        f"resuming after 2 of 3 trials, best {four.value:.4f}",
        "trial 3/3 units=8",
    ]


class StartsAnother(TuningProgress):
    """Starts another search when its own begins."""

    def __init__(self, options, start):
        super().__init__(options)
        self._start = start

    def on_search_begin(self, num_trials, finished):
        self._start()


@pytest.mark.parametrize("search_dir", ["", "mine"])
def test_second_search_in_the_same_folder_is_refused_until_the_first_ends(folders, tuned_model, tmp_path, search_dir):
    assert tuned_model.__name__ == "tuned_model"
    place = str(tmp_path / (search_dir or ".search-"))
    options = dataclasses.replace(OPTIONS, num_trials=1, search_dir=search_dir and place)

    def tune(name, observer=None):
        return tune_graph_model(
            **folders, best_hyperparameters_dir=str(tmp_path / name), options=options, observer=observer
        )

    def refused():
        message = rf"`search_dir` must be used by one search at a time; got '{place}.*', which process {os.getpid()} on"
        with pytest.raises(BlockingIOError, match=message):
            tune("b")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune("a", StartsAnother(options, refused))

    (left,) = tmp_path.iterdir()
    assert str(left).startswith(place)
    assert [path.name for path in left.iterdir()] == ["search.json"]


def test_a_folder_that_is_in_use_is_refused_before_anything_is_trained(folders, tmp_path):
    (tmp_path / "mine").touch()

    with pytest.raises(FileExistsError, match="must be absent or an empty folder"):
        tune_graph_model(**folders, best_hyperparameters_dir=str(tmp_path), options=OPTIONS)


@pytest.mark.parametrize("search_dir", ["best", "best/search"])
def test_finished_trials_must_not_lie_in_the_output(folders, tmp_path, search_dir):
    options = dataclasses.replace(OPTIONS, search_dir=str(tmp_path / search_dir))

    with pytest.raises(ValueError, match="`search_dir` must lie outside the output; got"):
        tune_graph_model(**folders, best_hyperparameters_dir=str(tmp_path / "best"), options=options)

    assert not list(tmp_path.iterdir())


def test_what_was_found_is_added_to_options_that_name_nothing_else(tmp_path):
    (tmp_path / "best_hyperparameters.json").write_text('{"units": 8, "learning_rate": 0.5}')

    options = with_best_hyperparameters(TRAINER, str(tmp_path))

    assert options.hyperparameters == {"units": 8, "learning_rate": 0.05}
    assert with_best_hyperparameters(TRAINER, "") is TRAINER
    with pytest.raises(ValueError, match=r"must hold best_hyperparameters.json; got .*nowhere"):
        with_best_hyperparameters(TRAINER, str(tmp_path / "nowhere"))
    (tmp_path / "best_hyperparameters.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"must hold an object; got \[1\]"):
        with_best_hyperparameters(TRAINER, str(tmp_path))

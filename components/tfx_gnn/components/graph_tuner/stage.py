"""GraphTuner: searches hyperparameters by many short trainings."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import tf_keras

from tfx_gnn.components.graph_trainer.progress import TrainingProgress
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.components.graph_tuner.search import SearchObserver, TrainedTrial, TuningProgress, best_trial, search
from tfx_gnn.components.graph_tuner.trial_logs import LOGS_DIR, write_trial_logs
from tfx_gnn.components.graph_tuner.trials import TrialFolder, TuningSummary, write_tuning_summary
from tfx_gnn.components.graph_tuner.tuning_report import write_tuning_report
from tfx_gnn.distribution.strategies import make_strategy
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.owned_files import check_own_folder
from tfx_gnn.io.process_lock import has_locks, process_lock
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.training.best_hyperparameters import write_best_hyperparameters
from tfx_gnn.training.checkpoints.checkpoints import create_training_variables
from tfx_gnn.training.checkpoints.resumable_state import best_weights
from tfx_gnn.training.checkpoints.training_fingerprint import training_fingerprint
from tfx_gnn.training.loop.determinism import seeded
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.loop.training_loop import TrainingState, train
from tfx_gnn.training.loop.training_setup import TrainingSetup

__all__ = ["GraphTunerOptions", "tune_graph_model"]

_MAY_CHANGE = ("trainer", "num_trials", "max_failed_trials", "search_dir")


def tune_graph_model(
    *,
    transformed_examples_dir: str,
    transform_graph_dir: str,
    graph_schema_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str = "",
    best_hyperparameters_dir: str,
    blessing_dir: str = "",
    options: GraphTunerOptions,
    observer: SearchObserver | None = None,
) -> TuningSummary:
    """Searches the hyperparameters of the user's model.

    Trials run one after another. Each is a training as in GraphTrainer, but without export. A search that was
    interrupted, even by SIGKILL, resumes when it is started again: finished trials are kept, and only the interrupted
    trial runs again.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transform_graph_dir: the transform that made the examples.
        graph_schema_dir: folder with the `graph_schema.pbtxt` before the transform.
        transformed_graph_schema_dir: folder with the `graph_schema.pbtxt` after the transform.
        size_constraints_dir: padding budgets (TF-GNN's size constraints), learned from the same examples; empty for
            batching "ego", which has none.
        best_hyperparameters_dir: absent or empty folder for `best_hyperparameters.json`, which GraphTrainer
            reads, `trials.json`, `report.html` and `logs/`, with a folder for each trial, for TensorBoard.
        blessing_dir: verdict of GraphExampleValidator on the raw examples, which must be a blessing; empty to
            train without one.
        options: what to search, and how.
        observer: callbacks for the trials; by default, progress is shown on stderr.

    Returns:
        The results, as in `trials.json`.

    Raises:
        ValueError: if the examples are not blessed, inputs do not fit each other, `search_dir` lies inside the output,
            the model does not measure the objective, more trials fail than may, or none completes.
        BlockingIOError: if another search uses the folder of finished trials, or writes the same output.
        ModuleNotFoundError: if the module of `model_fn` cannot be found, or Optuna is not installed.
    """
    folders = TrainerFolders(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        blessing_dir=blessing_dir,
    )
    if options.search_dir:
        _check_not_inside_output(options.search_dir, best_hyperparameters_dir)
    # Locked during the whole search: otherwise a second search for the same output would fail only at its end.
    with atomic_folder(best_hyperparameters_dir, name="best_hyperparameters_dir") as partial:
        strategy = make_strategy(options.trainer.strategy)
        setup = TrainingSetup(folders, strategy, options.trainer)
        fingerprint = _fingerprint(folders, options, strategy.num_replicas_in_sync)
        search_dir = _search_dir(options, best_hyperparameters_dir, fingerprint)
        with _locked(search_dir, options):
            folder = TrialFolder(search_dir, fingerprint)
            with contextlib.ExitStack() as stack:
                listener = observer or stack.enter_context(contextlib.closing(TuningProgress(options)))
                trials = search(options, folder, TrialTrainer(setup), listener)
            summary = TuningSummary(
                model_fn=options.model_fn,
                objective=options.objective,
                maximizes=options.maximizes,
                sampler=options.sampler,
                pruner=options.pruner,
                num_epochs=options.trainer.num_epochs,
                search_space=options.search_space,
                fixed=options.trainer.hyperparameters,
                trials=tuple(trials),
                best_trial=best_trial(trials, maximizes=options.maximizes).number,
            )
            write_best_hyperparameters(summary.best_hyperparameters, partial)
            write_tuning_summary(summary, partial)
            write_tuning_report(summary, os.path.join(partial, REPORT_FILE))
            write_trial_logs(summary, os.path.join(partial, LOGS_DIR))
            # Before the commit: once the output exists, no retry would remove the folder.
            if not options.search_dir:
                folder.remove()
    return summary


def _fingerprint(folders: TrainerFolders, options: GraphTunerOptions, num_replicas: int) -> dict[str, str]:
    """What finished trials depend on, by name. Options that may be raised for a resumed search are left out."""
    found = training_fingerprint(folders, options.trainer, num_replicas=num_replicas)
    found["options.num_epochs"] = str(options.trainer.num_epochs)
    search_options = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    found |= {
        f"search.{name}": options_json.to_json(value)
        for name, value in search_options.items()
        if name not in _MAY_CHANGE
    }
    return found


def _search_dir(options: GraphTunerOptions, best_hyperparameters_dir: str, fingerprint: dict[str, str]) -> str:
    if options.search_dir:
        return options.search_dir
    # An orchestrator gives a retry another output folder, but next to the first one.
    parent = os.path.dirname(best_hyperparameters_dir.rstrip("/"))
    name = fingerprint_text(json.dumps(fingerprint, sort_keys=True))
    hidden = os.path.join(parent, f".search-{name[:16]}")
    if has_locks(hidden):
        # Its trials are trusted, and the folder is removed in the end.
        check_own_folder(hidden)
    return hidden


def _check_not_inside_output(search_dir: str, best_hyperparameters_dir: str) -> None:
    searched, output = os.path.realpath(search_dir), os.path.realpath(best_hyperparameters_dir)
    if os.path.commonpath([searched, output]) == output:
        raise ValueError(
            f"`search_dir` must lie outside the output; got {search_dir!r} and {best_hyperparameters_dir!r}. The "
            "output must be empty when it is written at the end: name another folder."
        )


def _locked(search_dir: str, options: GraphTunerOptions) -> contextlib.AbstractContextManager[None]:
    if not has_locks(search_dir):
        return contextlib.nullcontext()
    # Next to the hidden folder, because that is removed under the lock.
    lock = os.path.join(search_dir, ".lock") if options.search_dir else f"{search_dir}.lock"
    return process_lock(lock, rule=f"`search_dir` must be used by one search at a time; got {search_dir!r}")


class TrialTrainer:
    """Trains one model after another on the same data, one per call."""

    def __init__(self, setup: TrainingSetup) -> None:
        self._setup = setup

    def __call__(
        self, hyperparameters: Mapping[str, Any], report: Callable[[int, Mapping[str, float]], bool]
    ) -> TrainedTrial:
        """Trains a model; `report` gets each epoch, from 0, with its loss and metrics, and returns True to stop."""
        setup, options = self._setup, self._setup.options
        builder = dataclasses.replace(setup.builder, hyperparameters=hyperparameters)
        state = TrainingState()
        steps = TrainingProgress(
            num_epochs=options.num_epochs, steps_per_epoch=setup.steps_per_epoch, says_epochs=False
        )
        try:
            with (
                contextlib.closing(steps),
                libraries_traced_as_written(),
                seeded(options.training_seed, deterministic=options.execution.deterministic),
            ):
                with setup.strategy.scope():
                    model = builder.build(setup.sample.graph)
                create_training_variables(model, setup.strategy, setup.sample.graph, setup.sample.labels)
                best = best_weights(model, options)
                train(
                    model,
                    setup.steps(model),
                    evaluate=setup.evaluation(model),
                    num_epochs=options.num_epochs,
                    state=state,
                    callbacks=[*([best] if best is not None else []), _EpochReporter(report), steps],
                )
                return TrainedTrial(
                    epochs=tuple(state.history),
                    exported_epoch=best.best_epoch if best is not None else len(state.history),
                    num_parameters=int(model.count_params()),
                )
        finally:
            # Keras keeps the graphs of all models ever created.
            tf_keras.backend.clear_session()
            gc.collect()


class _EpochReporter(tf_keras.callbacks.Callback):
    """Reports each epoch, and stops the training if the report returns True."""

    def __init__(self, report: Callable[[int, Mapping[str, float]], bool]) -> None:
        super().__init__()
        self._report = report

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._report(epoch, logs or {}):
            self.model.stop_training = True

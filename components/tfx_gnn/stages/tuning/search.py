"""The loop of a search: trials one after another, each kept as soon as it is finished."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tfx_gnn.stages.tuning.study import Study
from tfx_gnn.stages.tuning.trials import COMPLETE, FAILED, PRUNED, Trial, TrialFolder
from tfx_gnn.stages.tuning.tuner_options import GraphTunerOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedTrial:
    """What the training of a trial gave.

    Attributes:
        epochs: loss and metrics of each epoch.
        exported_epoch: epoch whose weights would be exported, from 1.
        num_parameters: numbers that were trained.
    """

    epochs: tuple[dict[str, float], ...]
    exported_epoch: int
    num_parameters: int


class SearchObserver(Protocol):
    """Who is told of a search."""

    def on_search_begin(self, num_trials: int, finished: list[Trial]) -> None:
        """Is told how many trials there will be, and which of them are finished."""
        ...

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Is told of loss and metrics of an epoch, from 0, of the trial that runs."""
        ...

    def on_trial_end(self, trial: Trial) -> None:
        """Is told of a finished trial."""
        ...


class SearchFailedError(ValueError):
    """More trials have failed than may, or none has completed."""


class UnknownObjectiveError(ValueError):
    """The model measures no such thing."""


def search(
    options: GraphTunerOptions,
    folder: TrialFolder,
    train: Callable[[Mapping[str, Any], Callable[[int, Mapping[str, float]], bool]], TrainedTrial],
    observer: SearchObserver,
) -> list[Trial]:
    """Runs the trials that are not finished.

    Args:
        options: what to search, and how.
        folder: keeps finished trials.
        train: trains with hyperparameters; after each epoch it calls a function with the number of the epoch, from 0,
            and loss and metrics, and stops if that returns True.
        observer: is told of trials.

    Returns:
        All trials, by number. At least one is complete, and no more have failed than may.

    Raises:
        SearchFailedError: if more failed, or all that did not fail were pruned.
        UnknownObjectiveError: if the model does not measure the objective.
    """
    trials = folder.read()
    study = Study(options, trials)
    observer.on_search_begin(study.num_trials, list(trials))
    _check_failures(options, trials)
    while len(trials) < study.num_trials:
        trial = _run(study, options, len(trials), train, observer)
        study.end_trial(trial)
        folder.write(trial)
        trials.append(trial)
        observer.on_trial_end(trial)
        _check_failures(options, trials)
    if not any(trial.state == COMPLETE for trial in trials):
        raise SearchFailedError(
            f"A trial must complete; got {len(trials)} that failed or were pruned. {_last_error(trials)}"
        )
    return trials


def best_trial(trials: list[Trial], *, maximizes: bool) -> Trial:
    """Finds the best trial.

    Args:
        trials: of a search, one of them complete.
        maximizes: whether a larger objective is better.

    Returns:
        The complete trial with the best value; of equal ones the first.
    """
    complete = [trial for trial in trials if trial.state == COMPLETE]
    return (max if maximizes else min)(complete, key=lambda trial: trial.value or 0.0)


def _run(
    study: Study,
    options: GraphTunerOptions,
    number: int,
    train: Callable[[Mapping[str, Any], Callable[[int, Mapping[str, float]], bool]], TrainedTrial],
    observer: SearchObserver,
) -> Trial:
    chosen = study.begin_trial()
    epochs: list[dict[str, float]] = []
    pruned = False

    def tell(epoch: int, logs: Mapping[str, float]) -> bool:
        nonlocal pruned
        epochs.append(dict(logs))
        value = _objective(options, logs)
        observer.on_epoch_end(epoch, logs)
        # After the last epoch there is nothing to save by ending it.
        pruned = study.report(epoch, value) and epoch + 1 < options.trainer.num_epochs
        return pruned

    start = time.monotonic()
    trained, error = None, ""
    try:
        trained = train({**options.trainer.hyperparameters, **chosen}, tell)
    except UnknownObjectiveError:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever the user's model raises is kept with the trial.
        error = f"{type(failure).__name__}: {failure}"
    values = tuple(logs[options.objective] for logs in epochs if math.isfinite(logs[options.objective]))
    exported_epoch = trained.exported_epoch if trained is not None else 0
    is_complete = trained is not None and not pruned
    return Trial(
        number=number,
        hyperparameters=chosen,
        state=FAILED if error else PRUNED if pruned else COMPLETE,
        value=values[exported_epoch - 1] if is_complete else None,
        exported_epoch=exported_epoch,
        epochs=tuple(epochs),
        objective_by_epoch=values,
        num_parameters=trained.num_parameters if trained is not None else 0,
        seconds=time.monotonic() - start,
        error=error,
    )


def _objective(options: GraphTunerOptions, logs: Mapping[str, float]) -> float:
    if options.objective not in logs:
        raise UnknownObjectiveError(
            f"`objective` must be one of {sorted(logs)}; got {options.objective!r}, which the model of "
            f"{options.model_fn!r} does not measure. Choose one of these."
        )
    value = logs[options.objective]
    if not all(map(math.isfinite, (value, logs["loss"]))):
        raise ValueError(
            f"`model_fn` must give a model whose loss stays finite; got loss {logs['loss']} and {options.objective} "
            f"{value}. Search smaller learning rates, or clip gradients."
        )
    return value


def _check_failures(options: GraphTunerOptions, trials: list[Trial]) -> None:
    num_failed = sum(trial.state == FAILED for trial in trials)
    if num_failed > options.max_failed_trials:
        raise SearchFailedError(
            f"At most {options.max_failed_trials} trials may fail; got {num_failed} of {len(trials)}. "
            f"{_last_error(trials)} Mend it, or raise `max_failed_trials`; finished trials are kept."
        )


def _last_error(trials: list[Trial]) -> str:
    failed = [trial for trial in trials if trial.state == FAILED]
    if not failed:
        return "Prune less."
    return f"The last error is that of trial {failed[-1].number}, {failed[-1].hyperparameters}: {failed[-1].error}"

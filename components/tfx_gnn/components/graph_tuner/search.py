"""The search loop: Optuna suggests values, and each trial is saved as soon as it ends."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tfx_gnn.components.graph_tuner.options import GRID, HYPERBAND, MEDIAN, TPE, GraphTunerOptions
from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.components.graph_tuner.trials import COMPLETE, FAILED, PRUNED, Trial, TrialFolder
from tfx_gnn.io.progress import StageProgress, progress, say
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.training.checkpoints.nonfinite_guard import LOSS
from tfx_gnn.training.options import VALIDATION_LOSS

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


class Study:
    """A search as an Optuna study.

    A trial's values depend only on the seed, its number and the earlier trials: a resumed search
    chooses what it would have chosen without the interruption.
    """

    def __init__(self, options: GraphTunerOptions, finished: Sequence[Trial] = ()) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "A search needs Optuna; it is not installed. Install tfx-gnn with its extra 'tune'.", name=error.name
            ) from error
        self._options = options
        self._space = dict(sorted(options.search_space.items()))
        self._distributions = {name: _distribution(values) for name, values in self._space.items()}
        self._running: optuna.Trial | None = None
        with _no_log():
            self._study = optuna.create_study(
                # Hyperband assigns brackets by a hash of this name.
                study_name="search",
                direction="maximize" if options.maximizes else "minimize",
                pruner=_pruner(options),
            )
        for trial in finished:
            self._study.add_trial(self._finished(trial))

    @property
    def num_trials(self) -> int:
        """Total number of trials."""
        if self._options.sampler != GRID:
            return self._options.num_trials
        return min(self._options.num_trials, math.prod(len(values.grid()) for values in self._space.values()))

    def begin_trial(self) -> dict[str, Any]:
        """Chooses the hyperparameter values of the next trial, by name."""
        number = len(self._study.get_trials(deepcopy=False))
        if self._options.sampler == GRID:
            self._study.enqueue_trial(self._grid_row(number))
        else:
            self._study.sampler = _sampler(self._options, number)
        self._running = self._study.ask(self._distributions)
        return _values(self._space, self._running.params)

    def report(self, epoch: int, value: float) -> bool:
        """Reports the finite objective of an epoch, from 0; True if the trial should be pruned."""
        assert self._running is not None
        self._running.report(value, epoch)
        return self._running.should_prune()

    def end_trial(self, trial: Trial) -> None:
        """Reports how the current trial ended."""
        assert self._running is not None
        self._study.tell(self._running, trial.value, state=_state(trial.state))
        self._running = None

    def _grid_row(self, number: int) -> dict[str, Any]:
        """Computes one combination of all values; the values of the last name change fastest."""
        row = {}
        for name, values in reversed(self._space.items()):
            parameters = _parameters(values)
            number, position = divmod(number, len(parameters))
            row[name] = parameters[position]
        return row

    def _finished(self, trial: Trial) -> optuna.trial.FrozenTrial:
        from optuna.trial import create_trial

        return create_trial(
            state=_state(trial.state),
            value=trial.value,
            params={
                name: json.dumps(trial.hyperparameters[name], sort_keys=True)
                if isinstance(values, Choice)
                else trial.hyperparameters[name]
                for name, values in self._space.items()
            },
            distributions=self._distributions,
            intermediate_values=dict(enumerate(trial.objective_by_epoch)),
        )


def _distribution(values: SearchRange) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(values, FloatRange):
        return FloatDistribution(values.low, values.high, log=values.log)
    if isinstance(values, IntRange):
        return IntDistribution(values.low, values.high, log=values.log, step=values.step)
    assert isinstance(values, Choice)
    # Optuna does not accept lists and objects, so they are passed as JSON.
    return CategoricalDistribution(values.texts)


def _parameters(values: SearchRange) -> Sequence[Any]:
    return values.texts if isinstance(values, Choice) else values.grid()


def _values(space: Mapping[str, SearchRange], parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json.loads(parameters[name]) if isinstance(values, Choice) else parameters[name]
        for name, values in space.items()
    }


def _sampler(options: GraphTunerOptions, number: int) -> optuna.samplers.BaseSampler:
    from optuna import samplers

    # One seed per trial, so that a resumed search chooses what an uninterrupted one would have.
    seed = int(np.random.SeedSequence([options.search_seed, number]).generate_state(1)[0])
    if options.sampler == TPE:
        return samplers.TPESampler(n_startup_trials=options.num_startup_trials, seed=seed)
    return samplers.RandomSampler(seed=seed)


def _pruner(options: GraphTunerOptions) -> optuna.pruners.BasePruner:
    from optuna import pruners

    if options.pruner == MEDIAN:
        return pruners.MedianPruner(n_startup_trials=options.num_startup_trials)
    if options.pruner == HYPERBAND:
        return pruners.HyperbandPruner(max_resource=options.trainer.num_epochs)
    return pruners.NopPruner()


def _state(state: str) -> optuna.trial.TrialState:
    from optuna.trial import TrialState

    return {COMPLETE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED}.get(state, TrialState.FAIL)


@contextmanager
def _no_log() -> Iterator[None]:
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedTrial:
    """Results of a trial's training.

    Attributes:
        epochs: loss and metrics of each epoch.
        exported_epoch: epoch whose weights would be exported, from 1.
        num_parameters: number of parameters of the model.
    """

    epochs: tuple[dict[str, float], ...]
    exported_epoch: int
    num_parameters: int


class SearchObserver(Protocol):
    """Callbacks of a search."""

    def on_search_begin(self, num_trials: int, finished: list[Trial]) -> None:
        """Called first, with the total number of trials and those that are already finished."""
        ...

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Called after each epoch of a trial, from 0, with its loss and metrics."""
        ...

    def on_trial_end(self, trial: Trial) -> None:
        """Called after each trial."""
        ...


class TuningProgress:
    """Counts trials, and says a line about each; a `SearchObserver`."""

    def __init__(self, options: GraphTunerOptions) -> None:
        self._options = options
        self._stack = ExitStack()
        self._stage: StageProgress | None = None
        self._num_trials = 0
        self._best: float | None = None

    def on_search_begin(self, num_trials: int, finished: list[Trial]) -> None:
        """Says where the search resumes."""
        self._num_trials = num_trials
        for trial in finished:
            self._take(trial)
        if finished:
            say(f"resuming after {len(finished)} of {num_trials} trials{self._best_text()}")
        count = progress("tuning", total=num_trials, unit="trials", done=len(finished))
        self._stage = self._stack.enter_context(count)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Shows the objective after the epoch."""
        if self._stage is not None:
            value = logs[self._options.objective]
            epochs = f"epoch {epoch + 1}/{self._options.trainer.num_epochs}"
            self._stage.note = f"{epochs} {self._options.objective} {value:.4f}{self._best_text()}"

    def on_trial_end(self, trial: Trial) -> None:
        """Says the trial's values and result, and counts it."""
        self._take(trial)
        values = ", ".join(f"{name}={_short(value)}" for name, value in trial.hyperparameters.items())
        result = f"{self._options.objective} {trial.value:.4f}" if trial.value is not None else trial.state
        if trial.state == FAILED:
            result = f"failed: {trial.error}"
        say(f"trial {trial.number + 1}/{self._num_trials} {values}: {result}")
        if self._stage is not None:
            self._stage.note = self._best_text().lstrip(", ")
            self._stage()

    def close(self) -> None:
        """Ends the count, even after an interruption."""
        self._stack.close()

    def _take(self, trial: Trial) -> None:
        if trial.state == COMPLETE and trial.value is not None:
            choose = max if self._options.maximizes else min
            self._best = trial.value if self._best is None else choose(self._best, trial.value)

    def _best_text(self) -> str:
        return "" if self._best is None else f", best {self._best:.4f}"


class SearchFailedError(ValueError):
    """More trials failed than allowed, or none completed."""


class UnknownObjectiveError(ValueError):
    """The objective is not a metric of the model."""


def search(
    options: GraphTunerOptions,
    folder: TrialFolder,
    train: Callable[[Mapping[str, Any], Callable[[int, Mapping[str, float]], bool]], TrainedTrial],
    observer: SearchObserver,
) -> list[Trial]:
    """Runs the trials that are not finished yet; returns all trials by number.

    At least one of them is complete, and no more have failed than allowed. After each epoch, `train` must call the
    function that it is given with the number of the epoch, from 0, and its loss and metrics, and stop if that returns
    True.
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
    """Finds the complete trial with the best value; there must be one. Ties go to the first."""
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
    epochs: list[dict[str, float | None]] = []
    values: list[float] = []
    pruned = False

    def tell(epoch: int, logs: Mapping[str, float]) -> bool:
        nonlocal pruned
        # JSON has no NaN.
        epochs.append({name: figure if math.isfinite(figure) else None for name, figure in logs.items()})
        values.append(_objective(options, epoch, logs))
        observer.on_epoch_end(epoch, logs)
        # Ending a trial after its last epoch would save nothing.
        pruned = study.report(epoch, values[-1]) and epoch + 1 < options.trainer.num_epochs
        return pruned

    start = time.monotonic()
    trained, error = None, ""
    try:
        trained = train({**options.trainer.hyperparameters, **chosen}, tell)
    except UnknownObjectiveError:
        raise
    except Exception as failure:  # noqa: BLE001 - any error of the user's model is recorded with the trial.
        error = f"{type(failure).__name__}: {failure}"
    exported_epoch = trained.exported_epoch if trained is not None else 0
    is_complete = trained is not None and not pruned
    return Trial(
        number=number,
        hyperparameters=chosen,
        state=FAILED if error else PRUNED if pruned else COMPLETE,
        value=values[exported_epoch - 1] if is_complete else None,
        exported_epoch=exported_epoch,
        epochs=tuple(epochs),
        objective_by_epoch=tuple(values),
        num_parameters=trained.num_parameters if trained is not None else 0,
        seconds=time.monotonic() - start,
        error=error,
    )


def _objective(options: GraphTunerOptions, epoch: int, logs: Mapping[str, float]) -> float:
    if options.objective not in logs:
        raise UnknownObjectiveError(
            f"`objective` must be one of {sorted(logs)}; got {options.objective!r}, which the model of "
            f"{options.model_fn!r} does not measure. "
            f"{did_you_mean(options.objective, logs, otherwise='Choose one of these.')}"
        )
    # Early stopping compares validation losses, whatever the objective is.
    checked = {name: logs[name] for name in (LOSS, VALIDATION_LOSS, options.objective) if name in logs}
    nonfinite = [f"{name} {value}" for name, value in checked.items() if not math.isfinite(value)]
    if nonfinite:
        raise ValueError(
            f"`model_fn` must give a model whose loss and `objective` stay finite; got {' and '.join(nonfinite)} after "
            f"epoch {epoch + 1}. Search smaller learning rates, clip gradients, or find the cause with `tfx-gnn "
            "train`, which names the batch of such a loss."
        )
    return logs[options.objective]


def _check_failures(options: GraphTunerOptions, trials: list[Trial]) -> None:
    num_failed = sum(trial.state == FAILED for trial in trials)
    if num_failed > options.max_failed_trials:
        raise SearchFailedError(
            f"At most {options.max_failed_trials} trials may fail; got {num_failed} of {len(trials)}. "
            f"{_last_error(trials)} Fix it, or raise `max_failed_trials`; finished trials are kept."
        )


def _last_error(trials: list[Trial]) -> str:
    failed = [trial for trial in trials if trial.state == FAILED]
    if not failed:
        return "Prune less."
    return f"The last error is that of trial {failed[-1].number}, {failed[-1].hyperparameters}: {failed[-1].error}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

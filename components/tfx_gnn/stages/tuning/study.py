"""The choice of values, by Optuna."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tfx_gnn.stages.tuning.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.stages.tuning.trials import COMPLETE, PRUNED, Trial
from tfx_gnn.stages.tuning.tuner_options import GRID, HYPERBAND, MEDIAN, TPE, GraphTunerOptions

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


class Study:
    """A search as Optuna sees it.

    What a trial is given depends on the seed, its number and the trials before, and on nothing else: a search
    that goes on chooses what it would have chosen without the break.

    Args:
        options: what to search, and how.
        finished: trials that are finished, by number from 0.

    Raises:
        ModuleNotFoundError: if Optuna is not installed.
    """

    def __init__(self, options: GraphTunerOptions, finished: Sequence[Trial] = ()) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "A search needs Optuna; it is not installed. Run `pip install 'tfx-gnn[tune]'`.", name=error.name
            ) from error
        self._options = options
        self._space = dict(sorted(options.search_space.items()))
        self._distributions = {name: _distribution(values) for name, values in self._space.items()}
        self._running: optuna.Trial | None = None
        with _no_log():
            self._study = optuna.create_study(
                # Hyperband makes its brackets of this name.
                study_name="search",
                direction="maximize" if options.maximizes else "minimize",
                pruner=_pruner(options),
            )
        for trial in finished:
            self._study.add_trial(self._finished(trial))

    @property
    def num_trials(self) -> int:
        """How many trials there are to be."""
        if self._options.sampler != GRID:
            return self._options.num_trials
        return min(self._options.num_trials, len(self._grid()))

    def begin_trial(self) -> dict[str, Any]:
        """Chooses the values of the next trial.

        Returns:
            Values by name of the hyperparameter.
        """
        number = len(self._study.get_trials(deepcopy=False))
        if self._options.sampler == GRID:
            self._study.enqueue_trial(self._grid()[number])
        else:
            self._study.sampler = _sampler(self._options, number)
        self._running = self._study.ask(self._distributions)
        return _values(self._space, self._running.params)

    def report(self, epoch: int, value: float) -> bool:
        """Tells the objective of an epoch.

        Args:
            epoch: number of the epoch, from 0.
            value: its objective, finite.

        Returns:
            Whether the trial should end here, because others did better.
        """
        assert self._running is not None
        self._running.report(value, epoch)
        return self._running.should_prune()

    def end_trial(self, trial: Trial) -> None:
        """Tells how the trial ended.

        Args:
            trial: the trial that was begun last.
        """
        assert self._running is not None
        self._study.tell(self._running, trial.value, state=_state(trial.state))
        self._running = None

    def _grid(self) -> list[dict[str, Any]]:
        rows = itertools.product(*(_parameters(values) for values in self._space.values()))
        return [dict(zip(self._space, row, strict=True)) for row in rows]

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
    # Optuna takes no lists and objects.
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

    # A seed for each trial, so that its choice does not hang on which process chose those before.
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

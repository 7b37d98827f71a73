"""Options of GraphTuner."""

from __future__ import annotations

import dataclasses
import math

from tfx_gnn.components.graph_tuner.search_space import SearchRange
from tfx_gnn.distribution.strategies import STRATEGIES_OF_ONE_PROCESS
from tfx_gnn.training.options import GraphTrainerOptions

TPE, RANDOM, GRID = "tpe", "random", "grid"
SAMPLERS = (TPE, RANDOM, GRID)
NO_PRUNER, MEDIAN, HYPERBAND = "none", "median", "hyperband"
PRUNERS = (NO_PRUNER, MEDIAN, HYPERBAND)
AUTO, MINIMIZE, MAXIMIZE = "auto", "minimize", "maximize"
DIRECTIONS = (AUTO, MINIMIZE, MAXIMIZE)

_BETTER_IF_LOW = ("loss", "mae", "mse", "rmse", "error")
_BETTER_IF_HIGH = ("accuracy", "f1", "precision", "recall", "auc", "mrr", "hits_at_1", "hits_at_3", "hits_at_10", "r2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTunerOptions:
    """What to search, and how.

    Attributes:
        trainer: what to train in each trial, and how. Its `hyperparameters` are given to each trial beside those
            that are searched; its early stopping ends trials, too. It runs in one process: by strategy "default",
            "one_device" or "mirrored".
        search_space: hyperparameters of `model_fn` by name, each with the values that it may take.
        num_trials: trials, at least 1, those of a search that goes on included; a grid ends when all of it was tried.
        objective: what is compared: loss or a metric of the model, "val_..." on the watched split. It is that of the
            epoch whose weights GraphTrainer would export.
        direction: "minimize", "maximize" or "auto", which is known of losses and of the metrics of tasks.
        sampler: what chooses values: "tpe" learns from the trials before, "random" does not, "grid" goes through all
            combinations.
        pruner: what ends trials early that do worse than others: "median" those below the median of the others at the
            same epoch, "hyperband" ever more of them at certain epochs, "none" none.
        num_startup_trials: trials that "tpe" chooses at random first, and that "median" waits for, at least 1.
        max_failed_trials: trials that may fail, by an error or a loss that is not finite; one more ends the search with
            an error.
        search_seed: seed of the choice of values, in [0, 2**31): the same seed, the same trials.
        search_dir: folder of the trials that are finished, where a search that was ended finds them when it is
            started again; empty: a hidden one beside the output.
    """

    trainer: GraphTrainerOptions
    search_space: dict[str, SearchRange]
    num_trials: int = 20
    objective: str = "val_loss"
    direction: str = AUTO
    sampler: str = TPE
    pruner: str = NO_PRUNER
    num_startup_trials: int = 5
    max_failed_trials: int = 0
    search_seed: int = 0
    search_dir: str = ""

    def __post_init__(self) -> None:
        for name, least in {"num_trials": 1, "num_startup_trials": 1, "max_failed_trials": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        for name, known in {"sampler": SAMPLERS, "pruner": PRUNERS, "direction": DIRECTIONS}.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"`{name}` must be one of {list(known)}; got {getattr(self, name)!r}. Choose one of these."
                )
        if not 0 <= self.search_seed < 2**31:
            raise ValueError(f"`search_seed` must lie in [0, 2**31); got {self.search_seed}. Choose another number.")
        if self.trainer.strategy.kind not in STRATEGIES_OF_ONE_PROCESS:
            raise ValueError(
                f"`trainer` must run in one process, by a strategy of {list(STRATEGIES_OF_ONE_PROCESS)}; got "
                f"{self.trainer.strategy.kind!r}. Search on one machine, and train the best on many."
            )
        self._check_space()
        if self.direction == AUTO:
            self._known_direction()

    def _check_space(self) -> None:
        if not self.search_space:
            raise ValueError("`search_space` must name a hyperparameter; got none. There is nothing to search.")
        fixed = sorted(self.search_space.keys() & self.trainer.hyperparameters.keys())
        if fixed:
            raise ValueError(
                f"`search_space` must not name what is fixed; got {fixed}, which are among the trainer's "
                "`hyperparameters`, too. Take them out of one of both."
            )
        if self.sampler == GRID:
            math.prod(len(values.grid()) for values in self.search_space.values())

    def _known_direction(self) -> str:
        if self.objective.endswith(_BETTER_IF_LOW):
            return MINIMIZE
        if self.objective.endswith(_BETTER_IF_HIGH):
            return MAXIMIZE
        raise ValueError(
            f"`direction` must be {MINIMIZE!r} or {MAXIMIZE!r} for a metric of your own; got {self.direction!r} for "
            f"{self.objective!r}. Say which one."
        )

    @property
    def model_fn(self) -> str:
        """The user's function, "package.module:function"."""
        return self.trainer.model_fn

    @property
    def maximizes(self) -> bool:
        """Whether a larger objective is better."""
        return (self._known_direction() if self.direction == AUTO else self.direction) == MAXIMIZE

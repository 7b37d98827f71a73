"""Options of GraphTuner."""

from __future__ import annotations

import dataclasses
import math

from tfx_gnn.components.graph_tuner.search_space import SearchRange, check_is_json
from tfx_gnn.distribution.options import STRATEGIES_OF_ONE_PROCESS
from tfx_gnn.io.option_groups import check_choices, choice_option
from tfx_gnn.training.metric_directions import is_better_if_large
from tfx_gnn.training.options import NO_WARM_START, GraphTrainerOptions

TPE, RANDOM, GRID = "tpe", "random", "grid"
SAMPLERS = (TPE, RANDOM, GRID)
NO_PRUNER, MEDIAN, HYPERBAND = "none", "median", "hyperband"
PRUNERS = (NO_PRUNER, MEDIAN, HYPERBAND)
AUTO, MINIMIZE, MAXIMIZE = "auto", "minimize", "maximize"
DIRECTIONS = (AUTO, MINIMIZE, MAXIMIZE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTunerOptions:
    """Options of the search.

    Attributes:
        trainer: what to train in each trial, and how. Each trial gets its `hyperparameters` in addition to those
            that are searched, and its early stopping also ends trials. It must run in one process, with strategy
            "default", "one_device" or "mirrored".
        search_space: hyperparameters of `model_fn` by name, each with the values that it may take.
        num_trials: number of trials, at least 1, including those of a search that is resumed. A grid search ends
            when every combination has been tried.
        objective: loss or metric of the model by which trials are compared; "val_..." for the evaluation split. The
            value is that of the epoch whose weights GraphTrainer would export.
        direction: "minimize", "maximize" or "auto", which knows the direction of losses and of the tasks' metrics.
        sampler: what chooses values: "tpe" learns from earlier trials, "random" does not, "grid" tries all
            combinations.
        pruner: what ends trials early that do worse than others: "median" ends those below the median of the others
            at the same epoch, "hyperband" ends more and more of them at certain epochs, "none" ends none.
        num_startup_trials: random trials before "tpe" starts to learn and "median" starts to prune, at least 1.
        max_failed_trials: trials that may fail with an error, or because the training loss, the validation loss or
            the objective is not finite. One more ends the search with an error.
        search_seed: seed for choosing values, in [0, 2**31): the same seed gives the same trials.
        search_dir: folder of finished trials, from which an interrupted search resumes when it is started again;
            empty for a hidden folder next to the output. One search at a time may use it.
    """

    trainer: GraphTrainerOptions
    search_space: dict[str, SearchRange]
    num_trials: int = 20
    objective: str = "val_loss"
    direction: str = choice_option(AUTO, DIRECTIONS)
    sampler: str = choice_option(TPE, SAMPLERS)
    pruner: str = choice_option(NO_PRUNER, PRUNERS)
    num_startup_trials: int = 5
    max_failed_trials: int = 0
    search_seed: int = 0
    search_dir: str = ""

    def __post_init__(self) -> None:
        for name, least in {"num_trials": 1, "num_startup_trials": 1, "max_failed_trials": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        check_choices(self)
        if not 0 <= self.search_seed < 2**31:
            raise ValueError(f"`search_seed` must lie in [0, 2**31); got {self.search_seed}. Choose another number.")
        if self.trainer.strategy.kind not in STRATEGIES_OF_ONE_PROCESS:
            raise ValueError(
                f"`trainer` must run in one process, by a strategy of {list(STRATEGIES_OF_ONE_PROCESS)}; got "
                f"{self.trainer.strategy.kind!r}. Search on one machine, and train the best on many."
            )
        if self.trainer.warm_start != NO_WARM_START:
            raise ValueError(
                f"`trainer` must train each trial from the start; got warm_start={self.trainer.warm_start!r}. Leave it "
                "out: GraphTrainer alone starts from the latest blessed model."
            )
        self._check_space()
        if self.direction == AUTO:
            self._known_direction()

    def _check_space(self) -> None:
        if not self.search_space:
            raise ValueError("`search_space` must name a hyperparameter; got none. There is nothing to search.")
        if "" in self.search_space:
            raise ValueError(
                f"`search_space` must name every hyperparameter; got '' for {self.search_space['']}. Write the name by "
                "which `model_fn` reads it."
            )
        check_is_json(self.trainer.hyperparameters, name="hyperparameters")
        fixed = sorted(self.search_space.keys() & self.trainer.hyperparameters.keys())
        if fixed:
            raise ValueError(
                f"`search_space` must not name a fixed hyperparameter; got {fixed}, which are also among the trainer's "
                "`hyperparameters`. Remove them from one of the two."
            )
        if self.sampler == GRID:
            math.prod(len(values.grid()) for values in self.search_space.values())

    def _known_direction(self) -> str:
        is_large = is_better_if_large(self.objective)
        if is_large is not None:
            return MAXIMIZE if is_large else MINIMIZE
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

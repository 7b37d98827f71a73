"""The kinds of warnings that a run may end with, each with its name, its meaning and a remedy.

A warning is a sentence with figures of the run, and ends with the name of its kind in brackets. docs/warnings.md is
made of this registry and of GraphExampleValidator's checks, which have names of their own.
"""

from __future__ import annotations

import dataclasses
import re

_MARKED = re.compile(r"\[([a-z0-9_]+)\]$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarningKind:
    """One kind of warning.

    Attributes:
        name: what stands in brackets at the end of such a warning; lower case and underscores.
        step: who says it: a component, "check" for `tfx-gnn check` and the check beside a run, or "run" for the
            command itself.
        meaning: what is wrong, in a sentence.
        remedy: what to do about it.
    """

    name: str
    step: str
    meaning: str
    remedy: str

    def mark(self, text: str) -> str:
        """Returns a warning of this kind: the text, and the name of the kind in brackets."""
        return f"{text} [{self.name}]"


def split_mark(warning: str) -> tuple[str, str]:
    """Splits a warning into its text and the name of its kind, "" if it has none: that of an earlier version."""
    found = _MARKED.search(warning)
    return (warning[: found.start()].rstrip(), found[1]) if found else (warning, "")


NO_BETTER_THAN_CONSTANT = WarningKind(
    name="no_better_than_constant",
    step="GraphEvaluator",
    meaning="On held-back examples, the model is no better than one answer for everybody: the most frequent class, the "
    "mean label, or a random order.",
    remedy="If its ROC AUC is well above 0.5, it tells classes apart but hardly ever answers the rarer one: set "
    "`class_weights: balanced` of the prediction, or decide by `main_metric: roc_auc`. Otherwise see "
    "`learned_nothing`.",
)
NO_GAIN_OVER_TREES = WarningKind(
    name="no_gain_over_trees",
    step="GraphEvaluator",
    meaning="Trees that see a node's own features, and no graph, do as well as the network, or worse only by chance.",
    remedy="Train longer, sample more hops or neighbors, and look for edges that tell the label. If none do, serve "
    "trees: they are cheaper.",
)
ALWAYS_ONE = WarningKind(
    name="always_one",
    step="GraphEvaluator",
    meaning="A metric such as hits@10 is 1 for every model, because no true pair has more candidates than that.",
    remedy="Read MRR, or hits up to a smaller rank; or draw more negatives.",
)
ONE_CLASS = WarningKind(
    name="one_class",
    step="GraphEvaluator",
    meaning="All evaluated examples have the class that the baseline answers, so no model can be better.",
    remedy="Put rows of several classes into the evaluated split.",
)
LOOSE_BOUND = WarningKind(
    name="loose_bound",
    step="GraphEvaluator",
    meaning="A bound of `thresholds` is met by the baseline, so it keeps no useless model back.",
    remedy="Choose a stricter bound, or a `gain` over the baseline.",
)
SMALL_SLICES = WarningKind(
    name="small_slices",
    step="GraphEvaluator",
    meaning="Some slices have too few labelled examples for the bounds on slices, which therefore skip them.",
    remedy="Slice by a coarser feature, put more rows into the split, or lower `min_slice_examples`.",
)
WIDE_SLICE_INTERVALS = WarningKind(
    name="wide_slice_intervals",
    step="GraphEvaluator",
    meaning="In some slices the interval of a metric is wider than `max_slice_intervals`, so no bound on it applies.",
    remedy="Put more rows into the split, slice by a coarser feature, or allow wider intervals.",
)
LEARNED_NOTHING = WarningKind(
    name="learned_nothing",
    step="GraphTrainer",
    meaning="On examples that it was trained on, the network is no better than a constant.",
    remedy="Do what the warning says of the cause: standardize large inputs by `z_score` or `log1p_z_score`, lower the "
    "learning rate, or clip gradients. Without a cause, train longer, and look at whether anything in the tables "
    "tells the label.",
)
SIZES_FROM_SAMPLE = WarningKind(
    name="sizes_from_sample",
    step="SizeConstraintLearner",
    meaning="The training split has too many different graphs to count each, so budgets come from a sample of them.",
    remedy="Nothing, as a rule. Every graph is still counted for the tight budget.",
)
IMPRECISE_SUCCESS_RATIO = WarningKind(
    name="imprecise_success_ratio",
    step="SizeConstraintLearner",
    meaning="There are too few graphs, or too few distinct sizes, to estimate how many random batches fit a budget.",
    remedy="Train on packed batches, or on the tight budget, which do not depend on it; or give more examples.",
)
SLICE_LOSS = WarningKind(
    name="slice_loss",
    step="SizeConstraintLearner",
    meaning="A fit-or-skip budget is expected to skip more than `warn_slice_loss` of a class, or of nodes of some "
    "degree, so that the model sees fewer of them.",
    remedy="Train on packed batches, which lose nothing, or request a higher success ratio.",
)
LARGER_BATCHES = WarningKind(
    name="larger_batches",
    step="SizeConstraintLearner",
    meaning="The largest graph must fit, so a packed batch holds far more graphs than `batch_size`.",
    remedy="Sample fewer neighbors, so that the largest graph is not so far from the mean.",
)
NO_FINITE_ANSWER = WarningKind(
    name="no_finite_answer",
    step="GraphSkewValidator, GraphPusher",
    meaning="The served model answers NaN or infinity to a finite value that no table had, but a request may have.",
    remedy="Clip the feature in `preprocessing_fn`. `refuses_nonfinite_answers` makes it an error.",
)
FEW_TEST_EXAMPLES = WarningKind(
    name="few_test_examples",
    step="check",
    meaning="The split of the evaluation has so few examples that its metrics are not known well enough for a verdict.",
    remedy="Give that split more rows.",
)
LARGE_INPUTS = WarningKind(
    name="large_inputs",
    step="check",
    meaning="Numbers far from 1 go into the network as they are, and may saturate it.",
    remedy="Standardize them by `z_score` or `log1p_z_score`, or drop what is constant.",
)
LARGE_STEP = WarningKind(
    name="large_step",
    step="check",
    meaning="A training step may need more memory than this machine has.",
    remedy="Choose a smaller batch or fewer units, or train on a machine with more memory.",
)
ROWS_LEFT_OUT = WarningKind(
    name="rows_left_out",
    step="check",
    meaning="Some rows of a table break a rule, and the options say to go on without them.",
    remedy="See them with `tfx-gnn tables check`, and correct those that should count.",
)
CUT_NEIGHBORHOODS = WarningKind(
    name="cut_neighborhoods",
    step="check",
    meaning="Layer-wise inference takes all edges of a node, and the plan's fan-outs may take fewer.",
    remedy="Set `neighborhoods: full` of `graph_layerwise_inferrer` if a node may have more edges than a hop takes.",
)
UNTRAINED_CLASS = WarningKind(
    name="untrained_class",
    step="check",
    meaning="A class occurs outside of the training split alone, so no model can learn it, and measures leave it out.",
    remedy="Put rows of it into the training split, or remove its labels.",
)
LATER_TRAINING_SEEDS = WarningKind(
    name="later_training_seeds",
    step="check",
    meaning="Training learns from what came after the rows that the model is tested on, so it looks better than it is.",
    remedy="Divide the splits by time.",
)
LABEL_NEARLY_TOLD = WarningKind(
    name="label_nearly_told",
    step="check",
    meaning="A feature of the seeds tells their label almost alone: a leak, unless it is known before the label is.",
    remedy="Name it in the plan's `excluded_features`; or, if it is known before, in `accepted_features` of "
    "`graph_example_validator`.",
)
CHECK_FAILED = WarningKind(
    name="check_failed",
    step="run",
    meaning="The check beside the run ended without a verdict; the run went on.",
    remedy="See what `tfx-gnn check` says.",
)
RUN_NOT_RECORDED = WarningKind(
    name="run_not_recorded",
    step="run",
    meaning="A run that its check stopped could not be written down, so it has no page.",
    remedy="Look at the error behind the colon: a full disk, or rights of the folder of runs.",
)
PAGE_NOT_WRITTEN = WarningKind(
    name="page_not_written",
    step="run",
    meaning="The page of the run could not be written; its artifacts are not concerned.",
    remedy="Correct what the error says, then write the page by `tfx-gnn show ROOT`.",
)

KINDS_BY_NAME = {kind.name: kind for kind in tuple(vars().values()) if isinstance(kind, WarningKind)}
"""All kinds by their names, those that doubt the model first."""

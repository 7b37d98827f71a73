"""What a sampling plan promises about its examples, for the validator to check."""

from __future__ import annotations

from tfx_gnn.sampling.plan import LABEL_FEATURE, SamplingPlan
from tfx_gnn.stages.graph_example_validator import GraphExampleValidatorOptions
from tfx_gnn.stages.validation.checks import NO_EXAMPLES, WARNING
from tfx_gnn.stages.validation.split_leaks import SEED_IN_TWO_SPLITS


def promises_of_plan(plan: SamplingPlan) -> GraphExampleValidatorOptions:
    """Tells the validator what the examples of a plan are promised to be.

    Promises that examples cannot be held to, as they lack the feature with a time,
    are left out. Where a pair, or a node of a seed table, may be a seed again at another
    time or by another edge, in another split, it is worth a warning and no error; so is
    a split without examples where the plan allows them.

    Args:
        plan: the plan that the examples are sampled by.

    Returns:
        Options, with the default limits of drift and skew.
    """
    hides_pairs = plan.is_link_plan and not plan.keeps_seed_edge and plan.temporal is None
    hidden = set(plan.edge_set_names) if hides_pairs else set()
    times = _times(plan)
    return GraphExampleValidatorOptions(
        split_order=plan.splits.names,
        label_features=plan.label_features,
        seed_edge_set=plan.seed_edge_set if plan.seed_edge_set in hidden else "",
        reverse_edge_sets=tuple(name for name in plan.reverse_edge_sets if name in hidden),
        pair_label_feature=LABEL_FEATURE if plan.negatives else "",
        seed_time_feature=plan.splits.time_feature if times is not None else "",
        edge_time_features=times or {},
        only_earlier_edges=_shows_only_earlier(plan) if times else False,
        inductive=plan.splits.visibility == "inductive",
        severities=_severities(plan, has_times=times is not None),
    )


def _severities(plan: SamplingPlan, *, has_times: bool) -> dict[str, str]:
    expected = {SEED_IN_TWO_SPLITS: _may_recur(plan, has_times=has_times), NO_EXAMPLES: plan.splits.allows_empty_splits}
    return {check: WARNING for check, is_expected in expected.items() if is_expected}


def _shows_only_earlier(plan: SamplingPlan) -> bool:
    return plan.temporal is not None and not plan.temporal.inclusive and not plan.keeps_seed_edge


def _may_recur(plan: SamplingPlan, *, has_times: bool) -> bool:
    """Whether different seeds of different splits may look the same to the validator."""
    if plan.splits.rule == "time":
        return not has_times and (plan.is_link_plan or plan.seed_table is not None)
    return plan.splits.rule == "column" and plan.keeps_seed_edge


def _times(plan: SamplingPlan) -> dict[str, str] | None:
    """The times of edges that can be compared with those of seeds; None if there are none of seeds."""
    seed_time = plan.splits.time_feature
    excluded = plan.excluded_features.get(plan.seed_set, ())
    is_in_examples = seed_time in plan.label_features or (not plan.is_link_plan and seed_time not in excluded)
    if not seed_time or not is_in_examples:
        return None
    if plan.temporal is None or plan.temporal.seed_time != seed_time:
        return {}
    return {
        edge_set: feature
        for edge_set, feature in plan.temporal.edge_times.items()
        if edge_set in plan.edge_set_names and feature not in _left_out(plan, edge_set)
    }


def _left_out(plan: SamplingPlan, edge_set: str) -> set[str]:
    """Features that edges of the set do not have in examples; labels of seed edges are at `_readout` only."""
    labels: set[str] = set()
    if edge_set in (plan.seed_edge_set, *plan.reverse_edge_sets):
        labels = set(plan.label_features) - set(plan.seed_table_features)
    return labels.union(plan.excluded_features.get(edge_set, ()))

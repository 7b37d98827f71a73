"""The options of the validator that a sampling plan guarantees."""

from __future__ import annotations

from tfx_gnn.components.graph_example_validator.check_names import NO_EXAMPLES, SEED_IN_TWO_SPLITS, WARNING
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.plan import LABEL_FEATURE, SamplingPlan


def expectations_of_plan(plan: SamplingPlan) -> GraphExampleValidatorOptions:
    """Derives the validator's options from the sampling plan of the examples.

    A guarantee that cannot be checked is left out, such as when the examples lack a time feature.
    If a pair, or a node of a seed table, can be a seed again in another split (at another
    time or through another edge), that is only a warning, not an error. So is a split
    without examples, if the plan allows it.

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
        unstable_features=_times_of_table(plan),
        severities=_severities(plan, has_times=times is not None),
    )


def expectations_of_graphs(examples: GraphLevelExamples) -> GraphExampleValidatorOptions:
    """Derives the validator's options from how tables of many graphs become examples.

    Args:
        examples: how the examples are made.

    Returns:
        Options, with the default limits of drift and skew.
    """
    return GraphExampleValidatorOptions(
        split_order=examples.splits.names,
        label_features=examples.label_features,
        severities={NO_EXAMPLES: WARNING} if examples.splits.allows_empty_splits else {},
    )


def _severities(plan: SamplingPlan, *, has_times: bool) -> dict[str, str]:
    expected = {SEED_IN_TWO_SPLITS: _may_recur(plan, has_times=has_times), NO_EXAMPLES: plan.splits.allows_empty_splits}
    return {check: WARNING for check, is_expected in expected.items() if is_expected}


def _shows_only_earlier(plan: SamplingPlan) -> bool:
    return plan.temporal is not None and not plan.temporal.inclusive and not plan.keeps_seed_edge


def _may_recur(plan: SamplingPlan, *, has_times: bool) -> bool:
    """Whether different seeds in different splits may look the same to the validator."""
    if plan.splits.rule == "time":
        return not has_times and (plan.is_link_plan or plan.seed_table is not None)
    of_times = plan.seed_table is not None and plan.temporal is not None
    return plan.splits.rule == "column" and (plan.keeps_seed_edge or of_times)


def _times(plan: SamplingPlan) -> dict[str, str] | None:
    """Edge times that can be compared with seed times, by edge set; None if seeds have no times."""
    seed_time = plan.splits.time_feature
    excluded = plan.excluded_features.get(plan.seed_set, ())
    of_nodes = not plan.is_link_plan and plan.seed_table is None and seed_time not in excluded
    is_in_examples = of_nodes or seed_time in (*plan.label_features, *plan.seed_inputs)
    if not seed_time or not is_in_examples:
        return None
    if plan.temporal is None or plan.temporal.seed_time != seed_time:
        return {}
    return {
        edge_set: feature
        for edge_set, feature in plan.temporal.edge_times.items()
        if edge_set in plan.edge_set_names and feature not in _left_out(plan, edge_set)
    }


def _times_of_table(plan: SamplingPlan) -> tuple[str, ...]:
    """Keys of the times of a seed table: later seeds have others."""
    now = plan.seed_table.now_feature if plan.seed_table else ""
    return (f"context/{now}",) if now else ()


def _left_out(plan: SamplingPlan, edge_set: str) -> set[str]:
    """Features that the set's edges lack in examples; labels of seed edges exist at `_readout` only."""
    labels: set[str] = set()
    if edge_set in (plan.seed_edge_set, *plan.reverse_edge_sets):
        labels = set(plan.label_features) - set(plan.seed_table_features)
    return labels.union(plan.excluded_features.get(edge_set, ()))

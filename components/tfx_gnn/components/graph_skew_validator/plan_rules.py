"""Which plans sample examples that a server, which is asked by the ids of their seeds, samples in the same way."""

from __future__ import annotations

from collections.abc import Collection

from tfx_gnn.sampling.plan.inference_plan import inputs_of_request, plan_of_ids
from tfx_gnn.sampling.plan.plan import SamplingPlan


def objection_to_ids(plan: SamplingPlan) -> str:
    """Says why a server cannot be asked by the ids of examples; empty if it can."""
    try:
        asked = plan_of_ids(plan)
    except ValueError as error:
        return str(error)
    unknown = sorted(set(inputs_of_request(asked)) - set(plan.seed_inputs))
    if unknown:
        return f"Examples lack {unknown} of their seeds, which a server is asked with: `input_features` do not name it."
    return ""


def objection_to_plan(plan: SamplingPlan, splits: Collection[str] = ()) -> str:
    """Says why no example that a plan samples for training is what a server samples by ids; empty if some may be.

    Args:
        plan: the sampling plan.
        splits: names of the splits that are compared; empty for all.
    """
    if objection := objection_to_ids(plan):
        return objection
    # Where later splits may be missing, each may be the last.
    if all(hides_from_split(plan, name, (name,)) for name in splits or plan.splits.names):
        return (
            "Subgraphs of each split that is compared lack nodes or edges of later splits, or of their own, while a "
            "server sees all."
        )
    if plan.negatives is not None and not plan.negatives.own_subgraphs:
        return "An example holds the negatives of its pair, while a server samples around one pair."
    return ""


def hides_from_split(plan: SamplingPlan, split: str, present: Collection[str]) -> bool:
    """Tells whether subgraphs of a split may lack nodes or edges of the graph because of other splits.

    Args:
        plan: the sampling plan.
        split: name of the split; examples of every node, or of a table of ids, are in another than those of the plan.
        present: names of the splits that have examples.
    """
    names = plan.splits.names
    if split not in names:
        return False
    if plan.is_link_plan:
        are_sampled = not set(plan.split_edge_sets).isdisjoint(plan.edge_set_names)
        return are_sampled and (len(names) > 1 or plan.splits.disjoint_train_share > 0)
    if plan.splits.visibility != "inductive":
        return False
    if plan.splits.may_be_missing and plan.seed_table is None:
        names = tuple(name for name in names if name in present)
    return split != names[-1]

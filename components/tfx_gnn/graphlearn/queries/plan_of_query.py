"""The sampling plan of a query, for sampling on Beam and for everything that follows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tfx_gnn.graphlearn.attribute_decoder import LABEL, REVERSE_SUFFIX, TIMESTAMP, WEIGHT
from tfx_gnn.graphlearn.queries.neighbors import HOP_STRATEGIES
from tfx_gnn.graphlearn.queries.query_step import Step
from tfx_gnn.sampling.plan.hop import INDUCED_PREFIX, ROOT_SOURCE, ROOT_TARGET, SEED, Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.plan_checks import check_plan

_DISTRIBUTIONS: dict[str, Literal["in_degree", "node_weight"]] = {
    "in_degree": "in_degree",
    "node_weight": "node_weight",
}
_RESERVED = (SEED, ROOT_SOURCE, ROOT_TARGET)


def plan_of_steps(steps: Sequence[Step]) -> SamplingPlan:
    """Makes the plan of a query's steps; see `Query.to_plan`."""
    root = steps[0]
    if root.kind == "node":
        _check_whole_type(root)
    translation = _Translation(root)
    for step in steps[1:]:
        translation.add(step)
    hops = tuple(translation.hops)
    is_labeled = root.decoder.labeled and translation.negatives is None
    plan = SamplingPlan(
        seed_node_set=root.type if root.kind == "node" else "",
        seed_edge_set=root.type if root.kind == "edge" else "",
        hops=hops,
        temporal=_temporal(root, hops),
        label_features=(LABEL,) if is_labeled else (),
        expands_seed_again=root.kind == "node",
        negatives=translation.negatives,
        reverse_edge_sets=_reverse_edge_sets(root) if root.kind == "edge" else (),
    )
    check_plan(plan, root.store.tables.schema)
    return plan


class _Translation:
    """Hops and negatives of the steps so far, and the hop or root that each step stands for."""

    def __init__(self, root: Step) -> None:
        self._root = root
        self.hops: list[Hop] = []
        self.negatives: Negatives | None = None
        self._names: dict[Step, str] = {root: SEED} if root.kind == "node" else {}
        self._negative_step: Step | None = None

    def add(self, step: Step) -> None:
        upstream = step.upstream
        assert upstream is not None
        if step.operation == "end":
            self._names[step] = self._name_of_end(step, upstream)
        elif step.operation == "hop":
            self._names[step] = self._add_hop(step, upstream)
        elif step.operation == "walk":
            self._add_walk(step, upstream)
        elif step.operation == "negative":
            self.negatives = self._negatives(step, upstream)
            self._negative_step = step
            self._names[step] = self.negatives.side
        else:
            raise _no_plan(step, f"a plan has no {step.operation}", "Leave it out")

    def _name_of_end(self, step: Step, upstream: Step) -> str:
        is_source = step.settings.is_source
        if upstream is self._root:
            # A plan's source and target are those of the edge as it is stored.
            return ROOT_SOURCE if is_source != upstream.settings.is_backward else ROOT_TARGET
        if not is_source:
            return self._names[upstream]
        assert upstream.upstream is not None
        return self._names[upstream.upstream]

    def _add_hop(self, step: Step, upstream: Step) -> str:
        settings, start = step.settings, self._names[upstream]
        assert settings.count is not None
        for target in settings.filters:
            if self._root.kind == "node" or {self._names.get(target), start} != {ROOT_SOURCE, ROOT_TARGET}:
                raise _no_plan(
                    step,
                    "a plan only keeps the two ends of its seed edge out of each other's neighborhood, which it always "
                    "does",
                    "Remove `filter`",
                )
        hop = Hop(
            edge_set=settings.edge_type,
            fan_out=settings.count,
            inputs=(start,),
            direction="backward" if settings.is_backward else "forward",
            strategy=HOP_STRATEGIES[settings.strategy],
            weight_feature=WEIGHT if settings.strategy in ("edge_weight", "topk") else "",
            padding=step.store.padding_mode,
        )
        if self._comes_from_negatives(upstream):
            # A plan expands a negative like the target of the positive pair.
            like = [one for one in self.hops if dataclasses.replace(one, name="") == hop]
            if not like:
                assert self.negatives is not None
                end = "inV" if self.negatives.side == ROOT_TARGET else "outV"
                raise _no_plan(
                    step,
                    "a plan expands negatives as it expands the true nodes that they replace",
                    f"Write the same steps after {end}()",
                )
            return like[0].name
        return self._append(hop, step.get_alias())

    def _add_walk(self, step: Step, upstream: Step) -> None:
        """Adds a hop to one neighbor for each step of a walk."""
        settings = step.settings
        if (settings.return_p, settings.in_out_q) != (1.0, 1.0):
            raise _no_plan(step, "a plan walks without regard to the node before, p = q = 1", "Leave p and q out")
        if step.pos_downstreams or step.neg_downstreams:
            raise _no_plan(step, "a plan ends with a walk", "Leave out what follows it")
        name = self._names[upstream]
        for number in range(settings.walk_length):
            hop = Hop(
                edge_set=settings.edge_type,
                fan_out=1,
                inputs=(name,),
                strategy="uniform_with_replacement",
                padding=step.store.padding_mode,
            )
            name = self._append(hop, f"{step.get_alias()}_{number}" if step.get_alias() else "")

    def _append(self, hop: Hop, name: str) -> str:
        """Adds a hop under a name, or under another one if it is taken; returns the name."""
        taken = {*_RESERVED, *(one.name for one in self.hops)}
        if not name or name in taken or name.startswith(INDUCED_PREFIX):
            number = len(self.hops)
            while (name := f"hop_{number}") in taken:
                number += 1
        self.hops.append(dataclasses.replace(hop, name=name))
        return name

    def _comes_from_negatives(self, step: Step | None) -> bool:
        while step is not None:
            if step is self._negative_step:
                return True
            step = step.upstream
        return False

    def _negatives(self, step: Step, upstream: Step) -> Negatives:
        settings = step.settings
        assert settings.count is not None
        side: Literal["target", "source"] = "source" if settings.is_backward else "target"
        kept = ROOT_TARGET if settings.is_backward else ROOT_SOURCE
        is_of_pairs = self._names.get(upstream) == kept and settings.edge_type == self._root.type
        if not is_of_pairs or self._negative_step is not None:
            raise _no_plan(
                step,
                "a plan draws negatives once, for one end of its seed edges and in their edge type",
                "Write E(edge_type), then one outNeg(edge_type) after outV(), or one inNeg(edge_type) after inV()",
            )
        condition = settings.condition[1] if settings.condition else None
        return Negatives(
            num_per_positive=settings.count,
            side=side,
            distribution=_DISTRIBUTIONS.get(settings.strategy, "uniform"),
            weight_feature=WEIGHT if settings.strategy == "node_weight" else "",
            conditions=self._conditions(step, side) if condition else {},
            unique=condition is not None and condition.is_unique,
            excludes_neighbors=settings.strategy == "in_degree" or condition is not None,
        )

    def _conditions(self, step: Step, side: str) -> dict[str, float]:
        """Returns the share of the negatives that each feature gets of `where`."""
        settings = step.settings
        assert settings.condition is not None
        assert settings.count is not None
        positives, condition = settings.condition
        is_end = positives.operation == "end" and positives.upstream is self._root
        if not is_end or self._name_of_end(positives, self._root) != side:
            raise _no_plan(
                step,
                "the positives of a plan's negatives are the ends of its seed edges that they replace",
                "Name that end in `where`",
            )
        if condition.is_shared:
            raise _no_plan(
                step,
                "a plan has no batches, whose positives `batch_share` refuses; it refuses neighbors",
                "Leave `batch_share` out",
            )
        shares: dict[str, float] = {}
        for column, count in zip(condition.columns, condition.counts(settings.count), strict=True):
            stored = [one for one in step.decoder.attributes if one.stored_type == column.kind]
            if count:
                # Exactly this count is what the share gives.
                name = stored[column.column].name
                shares[name] = shares.get(name, 0.0) + count / settings.count
        return shares


def _check_whole_type(root: Step) -> None:
    assert root.source_rows is not None
    if len(root.source_rows) != root.store.node_table(root.type).num_nodes or not root.path.endswith(",NODE,NONE)"):
        raise _no_plan(
            root,
            "the seeds of a plan are all nodes of a type",
            "Leave `node_from` and `mask` out, and choose seeds by the plan's `splits` or `seed_table`",
        )


def _temporal(root: Step, hops: Sequence[Hop]) -> Temporal | None:
    if root.kind != "edge" or not root.decoder.timestamped:
        return None
    store = root.store
    timed = {hop.edge_set for hop in hops if store.edge_attributes(hop.edge_set).decoder.timestamped}
    return Temporal(seed_time=TIMESTAMP, edge_times=dict.fromkeys(sorted(timed), TIMESTAMP)) if timed else None


def _reverse_edge_sets(root: Step) -> tuple[str, ...]:
    """Names the edge sets that hold the seed edges in reverse: `<name>_reverse`, or the seed edges' own."""
    store, edge_type = root.store, root.type
    source, target = store.ends(edge_type)
    if source == target:
        sources, targets = store.end_rows(edge_type)
        return (edge_type,) if len(sources) and store.pairs(edge_type).contains(targets, sources).all() else ()
    pair = edge_type.removesuffix(REVERSE_SUFFIX) if edge_type.endswith(REVERSE_SUFFIX) else edge_type + REVERSE_SUFFIX
    is_there = pair in store.tables.edge_tables and store.ends(pair) == (target, source)
    return (pair,) if is_there else ()


def _no_plan(step: Step, rule: str, advice: str) -> ValueError:
    name = f", alias {step.get_alias()!r}" if step.get_alias() else ""
    return ValueError(
        f"`to_plan` must be called on a query whose steps a sampling plan has: {rule}; got {step.path}{name}. "
        f"{advice}, or iterate over the query itself."
    )

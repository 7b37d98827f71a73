"""Reads TF-GNN's sampling specs (`sampling_spec.pbtxt`) and converts them to plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.proto.sampling_spec_pb2 import RANDOM_UNIFORM, RANDOM_WEIGHTED, TOP_K, SamplingOp, SamplingSpec
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.text_files import describe_mistake
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.plan_checks import check_plan

WEIGHT_FEATURES = ("#weight", "weight")
"""Features that may hold the weights of edges; the first one that the edge set declares is used."""

_STRATEGIES = {
    TOP_K: "top_k",
    RANDOM_UNIFORM: "uniform",
    RANDOM_WEIGHTED: "weighted",
}
_OF_THE_SPEC = ("hops", "expands_seed_again")
_READOUT_ENDS = (f"{READOUT_NODE_SET}/source", f"{READOUT_NODE_SET}/target")


def read_sampling_spec(path: str) -> SamplingSpec:
    """Reads a sampling spec from a file in text format.

    Args:
        path: path, or URL of a file system that `tf.io.gfile` knows.

    Returns:
        The message: well-formed, but not yet checked against a graph.

    Raises:
        ValueError: if there is no such file, or its text is malformed; the message
            names file, line and column.
    """
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise ValueError(
            f"`path` must name a sampling spec; got {path!r}, not a file. Correct the name or put the file there."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    try:
        return text_format.Parse(data, SamplingSpec())
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"`path` must hold a SamplingSpec in text format; got a mistake in {path}. Correct it: "
            f"{describe_mistake(error, data, SamplingSpec())}"
        ) from error


def plan_from_sampling_spec(spec: SamplingSpec, schema: GraphSchema, **plan_fields: Any) -> SamplingPlan:
    """Converts a sampling spec to the plan that samples the same subgraphs.

    Each operation becomes a hop of the same name. Hops keep the order of the spec,
    except that an operation listed before one of its inputs is moved after it. The
    strategies:

    | spec | hop |
    |---|---|
    | TOP_K (the default of an operation without a strategy) | "top_k" |
    | RANDOM_UNIFORM | "uniform" |
    | RANDOM_WEIGHTED | "weighted" |

    Weights are read from the edge feature `#weight`, or else from `weight`. If an edge
    set declares neither, all weights are equal, as in TF-GNN, so both weighted
    strategies become "uniform". A seed that a path leads back to is expanded again
    (`expands_seed_again`), as in TF-GNN's samplers.

    A `symmetric_link_seed_op` becomes a link plan: operations that start from it
    start from both roots of a pair. Unlike TF-GNN, a link plan does not follow the
    edges between the two nodes of its own pair (see `SamplingPlan`).

    Args:
        spec: the spec.
        schema: the graph's schema. It may lack the edge sets `_readout/source` and
            `_readout/target`, which TF-GNN requires with a `symmetric_link_seed_op`; if
            they are declared, the pairs must fit them.
        **plan_fields: other fields of the plan, such as `label_features` or
            `splits`. A `symmetric_link_seed_op` needs `seed_edge_set`.

    Returns:
        The plan, checked against the schema.

    Raises:
        ValueError: if the spec breaks a rule or does not fit the schema, or
            `plan_fields` holds a field that the spec decides. The message names the
            operation.
    """
    for name in _OF_THE_SPEC:
        if name in plan_fields:
            raise ValueError(
                f"`plan_fields` must not hold what the spec decides; got {name!r}. Leave it out, or make a "
                "SamplingPlan by hand."
            )
    seed_name, roots, seed_fields = _seeds(spec, schema, plan_fields)
    operations = _ordered(spec.sampling_ops, seed_name)
    hops = tuple(_hop(operation, schema, seed_name, roots) for operation in operations)
    plan = SamplingPlan(hops=hops, expands_seed_again=True, **{**plan_fields, **seed_fields})
    check_plan(plan, schema)
    return plan


def _seeds(
    spec: SamplingSpec, schema: GraphSchema, plan_fields: Mapping[str, Any]
) -> tuple[str, tuple[str, ...], dict[str, str]]:
    kind = spec.WhichOneof("seed_type")
    if kind is None:
        raise ValueError(
            "`seed_type` of a sampling spec must be seed_op or symmetric_link_seed_op; got neither. "
            "Say where sampling starts."
        )
    operation = getattr(spec, kind)
    if not operation.op_name:
        raise ValueError(f"`op_name` must not be empty; got an empty one in {kind}. Give the operation a name.")
    if kind == "seed_op":
        place = f"seed_op {operation.op_name!r}"
        node_set = operation.node_set_name
        _check_known("node_set_name", node_set, schema.node_sets, place)
        for field, expected in (("seed_node_set", node_set), ("seed_edge_set", "")):
            if plan_fields.get(field, expected) != expected:
                raise ValueError(
                    f"`{field}` must agree with the spec; got {plan_fields[field]!r} beside {place} of node set "
                    f"{node_set!r}. Leave it out."
                )
        return operation.op_name, (SEED,), {"seed_node_set": node_set}
    place = f"symmetric_link_seed_op {operation.op_name!r}"
    edge_set = plan_fields.get("seed_edge_set", "")
    if not edge_set:
        raise ValueError(
            f"`seed_edge_set` must name the edge set of the pairs; got none for {place}. Add "
            "seed_edge_set=... (and seed_table=... for pairs of a table)."
        )
    _check_known("seed_edge_set", edge_set, schema.edge_sets, place)
    ends = {schema.edge_sets[edge_set].source, schema.edge_sets[edge_set].target}
    ends.update(schema.edge_sets[name].source for name in _READOUT_ENDS if name in schema.edge_sets)
    if len(ends) != 1:
        raise ValueError(
            f"`seed_edge_set` must lead from one node set to the same, and be that of {list(_READOUT_ENDS)} where the "
            f"schema has them; got {edge_set!r} with the node sets {sorted(ends)} for {place}. "
            "Make a SamplingPlan by hand for pairs of two node sets."
        )
    return operation.op_name, (ROOT_SOURCE, ROOT_TARGET), {}


def _ordered(operations: Sequence[SamplingOp], seed_name: str) -> list[SamplingOp]:
    """Puts each operation after its inputs, and keeps the order of the spec otherwise."""
    names = [operation.op_name for operation in operations]
    for position, name in enumerate(names):
        if not name:
            raise ValueError(
                f"`op_name` must not be empty; got an empty one in sampling_ops[{position}]. Give the operation a name."
            )
        if name == seed_name or name in names[:position]:
            raise ValueError(
                f"`op_name` must be different for every operation; got {name!r} again in sampling_ops[{position}]. "
                "Rename one of them and what refers to it."
            )
        if name in (SEED, ROOT_SOURCE, ROOT_TARGET):
            raise ValueError(
                f"`op_name` must be none of {[SEED, ROOT_SOURCE, ROOT_TARGET]}, which mean roots in a plan; got "
                f"{name!r} in sampling_ops[{position}]. Rename the operation and what refers to it."
            )
    for operation in operations:
        place = f"sampling op {operation.op_name!r}"
        if not operation.input_op_names:
            raise ValueError(
                f"`input_op_names` must name at least one operation; got none in {place}. "
                f"Name {seed_name!r} to start from the seeds."
            )
        for name in operation.input_op_names:
            _check_known("input_op_names", name, {*names, seed_name}, place)
    known = {seed_name}
    ordered: list[SamplingOp] = []
    waiting = list(operations)
    while waiting:
        ready = next((operation for operation in waiting if known.issuperset(operation.input_op_names)), None)
        if ready is None:
            circle = sorted(operation.op_name for operation in waiting)
            raise ValueError(
                f"`input_op_names` must not form a cycle; got one among the sampling ops {circle}. "
                "Start one of them from an earlier operation."
            )
        waiting.remove(ready)
        known.add(ready.op_name)
        ordered.append(ready)
    return ordered


def _hop(operation: SamplingOp, schema: GraphSchema, seed_name: str, roots: tuple[str, ...]) -> Hop:
    place = f"sampling op {operation.op_name!r}"
    _check_known("edge_set_name", operation.edge_set_name, schema.edge_sets, place)
    if operation.sample_size < 1:
        got = operation.sample_size if operation.HasField("sample_size") else "none"
        raise ValueError(
            f"`sample_size` must be at least 1; got {got} in {place}. Set the maximum number of edges per node."
        )
    inputs: dict[str, None] = {}  # serves as an ordered set
    for name in operation.input_op_names:
        inputs.update(dict.fromkeys(roots if name == seed_name else (name,)))
    strategy = _STRATEGIES[operation.strategy]
    weight_feature = ""
    if strategy != "uniform":
        features = schema.edge_sets[operation.edge_set_name].features
        weight_feature = next((name for name in WEIGHT_FEATURES if name in features), "")
        strategy = strategy if weight_feature else "uniform"
    return Hop(
        edge_set=operation.edge_set_name,
        fan_out=operation.sample_size,
        inputs=tuple(inputs),
        name=operation.op_name,
        strategy=strategy,  # type: ignore[arg-type]  # a literal, by the table above
        weight_feature=weight_feature,
    )


def _check_known(field: str, name: str, known: Any, place: str) -> None:
    if name not in known:
        raise ValueError(
            f"`{field}` must be one of {sorted(known)}; got {name!r} in {place}. {did_you_mean(name, known)}"
        )

"""The guarantees that the options make about examples, checked against the schema."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.components.graph_example_validator.label_copies import list_label_columns
from tfx_gnn.components.graph_example_validator.label_homophily import list_homophilic_edge_sets
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_example_validator.split_leaks import LeakRules
from tfx_gnn.components.graph_example_validator.validation_pass import ValidationPlan
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.batch_check import BatchChecker
from tfx_gnn.records.graph_layout import GraphLayout, SetLayout
from tfx_gnn.records.readout_roots import READOUT_PREFIX, RootSets
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED


def make_validation_plan(
    schema: graph_schema_pb2.GraphSchema, read_splits: Sequence[str], options: GraphExampleValidatorOptions
) -> ValidationPlan:
    """Plans the checks of the guarantees in the options, and verifies that the schema has what they need."""
    unordered = sorted(set(read_splits) - set(options.split_order))
    if unordered:
        raise ValueError(
            f"`split_order` must name every split that is read; got {list(options.split_order)} without {unordered}. "
            "Name all splits from first to last."
        )
    checker = BatchChecker.by(schema, options.required_sets)
    layout = checker.layout
    roots = RootSets.of(layout)
    time_key = _time_key(options.seed_time_feature, layout, roots)
    if options.inductive:
        _check_nodes_are_known(layout, roots)
    if options.seed_edge_set or options.reverse_edge_sets:
        _check_pairs_are_known(options.seed_edge_set, options.reverse_edge_sets, layout, roots)
    for name, feature in options.edge_time_features.items():
        one_set = _edge_set("edge_time_features", name, layout)
        _check_whole_number("edge_time_features", one_set.key_of(feature), layout)
    if options.pair_label_feature:
        _check_whole_number("pair_label_feature", f"{READOUT_PREFIX}.{options.pair_label_feature}", layout)
    pair_label_key = f"{READOUT_PREFIX}.{options.pair_label_feature}" if options.pair_label_feature else ""
    # Plans list the seed's time among the labels to have it at the readout, although it may be a feature, too.
    labels = [key for key in (_label_key(label, layout) for label in options.label_features) if key != time_key]
    is_of_nodes = labels and labels[0].startswith(READOUT_PREFIX)
    tells_homophily = is_of_nodes and list_homophilic_edge_sets(layout, roots)
    return ValidationPlan(
        checker=checker,
        rules=LeakRules(
            layout=layout,
            roots=roots,
            splits=tuple(split for split in options.split_order if split in read_splits),
            seed_edge_set=options.seed_edge_set,
            reverse_edge_sets=tuple(options.reverse_edge_sets),
            hides_nodes=options.inductive,
        ),
        columns=tuple(list_label_columns(layout, roots, labels, (time_key, pair_label_key))),
        known_label=labels[0].removeprefix(f"{READOUT_PREFIX}.") if tells_homophily else "",
        pair_label_key=pair_label_key,
        time_key=time_key,
        edge_times=dict(options.edge_time_features),
        only_earlier_edges=options.only_earlier_edges,
    )


def _time_key(feature: str, layout: GraphLayout, roots: RootSets) -> str:
    if not feature:
        return ""
    keys = [f"{READOUT_PREFIX}.{feature}", f"{const.CONTEXT}/{feature}"]
    if SEED in roots.node_sets:
        keys.insert(1, f"{const.NODES}/{roots.node_sets[SEED]}.{feature}")
    for key in keys:
        if key in layout.features:
            _check_whole_number("seed_time_feature", key, layout)
            return key
    raise ValueError(
        "`seed_time_feature` must be a feature of `_readout`, of the seed node set or of the context; got "
        f"{feature!r}, but none of {keys} is in the graph schema. "
        "Name it among the `label_features` of the sampling plan."
    )


def _label_key(label: str, layout: GraphLayout) -> str:
    """Key of a label: at the readout or, for whole-graph examples, in the context."""
    in_context = f"{const.CONTEXT}/{label}"
    at_readout = f"{READOUT_PREFIX}.{label}"
    if in_context in layout.features and at_readout not in layout.features:
        return in_context
    _check_declared("label_features", at_readout, layout)
    return at_readout


def _check_declared(option: str, key: str, layout: GraphLayout) -> None:
    if key not in layout.features:
        raise ValueError(
            f"`{option}` must name features of the graph schema; got {key!r}. It has {sorted(layout.features)}. "
            f"{did_you_mean(key, layout.features)}"
        )


def _check_whole_number(option: str, key: str, layout: GraphLayout) -> None:
    _check_declared(option, key, layout)
    column = layout.features[key]
    if column.dtype != tf.int64 or column.shape:
        raise ValueError(
            f"`{option}` must be one integer per item; got {key!r} of dtype {column.dtype.name} and shape "
            f"{list(column.shape)}. Name a scalar integer feature."
        )


def _edge_set(option: str, name: str, layout: GraphLayout) -> SetLayout:
    prefix = f"{const.EDGES}/{name}"
    if prefix not in layout.set_by_prefix:
        known = sorted(item.name for item in layout.sets if item.set_type == const.EDGES)
        raise ValueError(
            f"`{option}` must name edge sets of the graph schema; got {name!r}. It has {known}. "
            f"{did_you_mean(name, known)}"
        )
    return layout.set_by_prefix[prefix]


def _check_nodes_are_known(layout: GraphLayout, roots: RootSets) -> None:
    if SEED not in roots.node_sets or roots.without_id(layout):
        raise ValueError(
            "`inductive` must be False unless each example has a seed node with '#id'; got a graph schema with readout "
            f"roots {dict(roots.node_sets)}. Write `#id` and the edge set '_readout/seed', or set `inductive` to False."
        )


def _check_pairs_are_known(
    seed_edge_set: str, reverse_edge_sets: Sequence[str], layout: GraphLayout, roots: RootSets
) -> None:
    if not roots.are_pairs or roots.without_id(layout):
        raise ValueError(
            "`seed_edge_set` and `reverse_edge_sets` must be empty unless each example is about a pair of nodes with "
            f"'#id'; got {seed_edge_set!r}, {tuple(reverse_edge_sets)} and a graph schema with readout roots "
            f"{dict(roots.node_sets)}. Write `#id` and the edge sets '_readout/source' and '_readout/target', or "
            "leave both empty."
        )
    ends = (roots.node_sets[ROOT_SOURCE], roots.node_sets[ROOT_TARGET])
    if seed_edge_set:
        forward = _edge_set("seed_edge_set", seed_edge_set, layout)
        if ends != (forward.source, forward.target):
            raise ValueError(
                f"`seed_edge_set` must join the node sets of the pairs, {ends}; got {seed_edge_set!r} from "
                f"{forward.source!r} to {forward.target!r}. Name the edge set that is predicted."
            )
    for name in reverse_edge_sets:
        reverse = _edge_set("reverse_edge_sets", name, layout)
        if (reverse.target, reverse.source) != ends:
            raise ValueError(
                f"`reverse_edge_sets` must join the node sets of the pairs in reverse, {ends[::-1]}; got "
                f"{name!r} from {reverse.source!r} to {reverse.target!r}. Name reverses of the predicted edges."
            )

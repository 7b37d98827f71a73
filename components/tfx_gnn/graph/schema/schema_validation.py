"""Checks that a graph schema is valid, and that it declares the features that a program needs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout_structure import validate_graph_tensor_spec_for_readout
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.graph.schema.hyperedges import hyperedge_ends
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.schema.schema_io import iter_features
from tfx_gnn.graph.schema.schema_spec import (
    SUPPORTED_DTYPES,
    create_graph_spec_from_schema_pb,
    declared_dtype,
    dtype_name,
    is_schema_dtype,
)

_logger = logging.getLogger(__name__)

# Samplers store the original ID of a node or edge under this name.


class ValidationError(ValueError):
    """A graph schema breaks a rule, or lacks something that a program requires."""


def validate_schema(
    schema: schema_pb2.GraphSchema, readout_node_sets: Sequence[const.NodeSetName] | None = None
) -> list[Exception]:
    """Checks a graph schema.

    Rules: every feature has a supported dtype and a shape of known rank; a feature without a
    description has no names on its dimensions; edge sets have a name and two endpoints, which are
    node sets; context features that sets refer to exist; declared index features (see
    `mark_index_features`) exist and can hold indices; features do not use names reserved by the
    tf.Example layout; readout structures (see `structured_readout`) are complete.

    Args:
        schema: the schema to check.
        readout_node_sets: names of readout node sets that must be present and well-formed. By
            default, "_readout" is checked if it is present.

    Returns:
        Warnings, as exceptions that are not raised: shapes `[1]` that should be scalar. Feature
        names that start with "#" (except "#id") are only logged.

    Raises:
        ValidationError: if a rule is broken; the message names the set and the feature.

    Example:
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> tfx_gnn.validate_schema(schema)
        []
    """
    warnings = list(_check_features(schema))
    _check_feature_names(schema)
    _check_endpoints(schema)
    _check_context_references(schema)
    _check_index_features(schema)
    _check_readout(schema, readout_node_sets)
    return warnings


def check_required_features(requirements: schema_pb2.GraphSchema, actual: schema_pb2.GraphSchema) -> None:
    """Checks that a schema declares every feature that a program needs.

    Args:
        requirements: the required features. A feature without dtype accepts any dtype, one
            without shape any shape; a dimension of size 0 accepts any size, ragged (-1) included.
        actual: the schema of the data.

    Raises:
        ValidationError: if a required feature is missing or has another dtype or shape.
    """
    for set_type, set_name, feature_name, required in iter_features(requirements):
        place = f"{set_type.capitalize()} feature '{feature_name}' from set '{set_name}'"
        found = _features_of(actual, set_type, set_name).get(feature_name)
        if found is None:
            raise ValidationError(f"{place} is missing from given schema. Add it to the data or drop the requirement.")
        if required.HasField("dtype") and required.dtype != found.dtype:
            raise ValidationError(
                f"{place} has invalid type: {dtype_name(found.dtype)}; required is {dtype_name(required.dtype)}."
            )
        if required.HasField("shape") and not _fulfils(_sizes(found), _sizes(required)):
            raise ValidationError(
                f"{place} has invalid shape: {_sizes(found)}; required is {_sizes(required)}, where 0 accepts any size."
            )


def _check_features(schema: schema_pb2.GraphSchema) -> Iterator[Exception]:
    for set_type, set_name, feature_name, feature in iter_features(schema):
        place = f"{set_type} set '{set_name}' feature '{feature_name}'"
        if not feature.HasField("dtype"):
            raise ValidationError(f"Missing 'dtype' field on {place}. {SUPPORTED_DTYPES}")
        dtype = declared_dtype(feature.dtype)
        if dtype is None or not is_schema_dtype(dtype):
            raise ValidationError(f"Invalid 'dtype' field on {place}: {dtype_name(feature.dtype)}. {SUPPORTED_DTYPES}")
        if feature.shape.unknown_rank:
            raise ValidationError(f"Shapes must have a known rank; on {place}. List its dimensions, -1 if ragged.")
        if not feature.HasField("description") and any(dim.name for dim in feature.shape.dim):
            raise ValidationError(
                "The following features are incorrectly locating the description on the shape dimensions "
                f"'name' field: {(set_type, set_name, feature_name)}; "
                "use the 'description' field of the feature instead."
            )
        if any(size < -1 for size in _sizes(feature)):
            raise ValidationError(
                f"Shapes must have dimensions of at least 0, or -1 if ragged; got {_sizes(feature)} on {place}."
            )
        if _sizes(feature) == [1]:
            yield ValidationError(
                f"Unnecessary shape of [1] in {set_type} set '{set_name}' / '{feature_name}'; "
                "use scalar feature instead (i.e., specify an empty shape proto)."
            )


def _check_feature_names(schema: schema_pb2.GraphSchema) -> None:
    reserved_by_the_wire = {
        const.CONTEXT: frozenset[str](),
        const.NODES: frozenset({const.SIZE_NAME}),
        const.EDGES: frozenset({const.SIZE_NAME, const.SOURCE_NAME, const.TARGET_NAME}),
    }
    for set_type, set_name, feature_name, _ in iter_features(schema):
        place = f"Feature '{feature_name}' from {set_type} set '{set_name}'"
        is_end = set_type == const.EDGES and feature_name.startswith(const.HYPEREDGE_END_PREFIX)
        if is_end or feature_name in reserved_by_the_wire[set_type]:
            raise ValidationError(f"{place} is reserved. The tf.Example layout needs this name: rename the feature.")
        if feature_name != ID_NAME and re.fullmatch(const.RESERVED_FEATURE_NAME_PATTERN, feature_name):
            _logger.error("%s should not start with '#': such names are reserved. Rename the feature.", place)


def _check_endpoints(schema: schema_pb2.GraphSchema) -> None:
    for edge_set_name in sorted(schema.edge_sets):
        edge_set = schema.edge_sets[edge_set_name]
        if not edge_set_name:
            raise ValidationError("Edge set name cannot be empty. Give every key of `edge_sets` a name.")
        try:
            ends: list[tuple[str, str]] = [
                (f"node_set/{tag}", name) for tag, name in hyperedge_ends(edge_set, edge_set_name).items()
            ]
        except ValueError as error:
            raise ValidationError(str(error)) from error
        for field, node_set_name in ends or [("source", edge_set.source), ("target", edge_set.target)]:
            if not node_set_name:
                raise ValidationError(f"Edge set {edge_set_name} must specify a `{field}`. Name its node set.")
            if node_set_name not in schema.node_sets:
                raise ValidationError(
                    f"Edge set '{edge_set_name}' referencing unknown node set '{node_set_name}' as `{field}`. "
                    f"Declared node sets are: {', '.join(sorted(schema.node_sets)) or 'none'}."
                )


def _check_context_references(schema: schema_pb2.GraphSchema) -> None:
    sets: list[tuple[str, Mapping[str, schema_pb2.NodeSet] | Mapping[str, schema_pb2.EdgeSet]]] = [
        ("node", schema.node_sets),
        ("edge", schema.edge_sets),
    ]
    for kind, sets_of_kind in sets:
        for set_name in sorted(sets_of_kind):
            for feature_name in sets_of_kind[set_name].context:
                if feature_name not in schema.context.features:
                    raise ValidationError(
                        f"Context feature '{feature_name}' does not exist (from {kind} set '{set_name}'). "
                        "Declare it in `context` or drop the reference."
                    )


def _check_index_features(schema: schema_pb2.GraphSchema) -> None:
    try:
        index_features(schema)
    except ValueError as error:
        raise ValidationError(f"`metadata.extra` marks features of indices wrongly: {error}") from error


def _check_readout(schema: schema_pb2.GraphSchema, readout_node_sets: Sequence[const.NodeSetName] | None) -> None:
    if readout_node_sets is None:
        readout_node_sets = [READOUT_NODE_SET] if READOUT_NODE_SET in schema.node_sets else []
    if not readout_node_sets:
        return
    spec = create_graph_spec_from_schema_pb(schema)
    for readout_node_set in readout_node_sets:
        try:
            validate_graph_tensor_spec_for_readout(spec, readout_node_set=readout_node_set)
        except (KeyError, ValueError) as error:
            raise ValidationError(
                f"validate_graph_tensor_spec_for_readout(..., readout_node_set='{readout_node_set}') failed: {error}"
            ) from error


def _features_of(
    schema: schema_pb2.GraphSchema, set_type: const.SetType, set_name: const.SetName
) -> Mapping[str, schema_pb2.Feature]:
    if set_type == const.CONTEXT:
        return schema.context.features
    # Reading a missing key of a protobuf map would create it.
    if set_type == const.NODES:
        return schema.node_sets[set_name].features if set_name in schema.node_sets else {}
    return schema.edge_sets[set_name].features if set_name in schema.edge_sets else {}


def _sizes(feature: schema_pb2.Feature) -> list[int]:
    return [dim.size for dim in feature.shape.dim]


def _fulfils(found: Sequence[int], required: Sequence[int]) -> bool:
    return len(found) == len(required) and all(need in (0, have) for need, have in zip(required, found, strict=True))

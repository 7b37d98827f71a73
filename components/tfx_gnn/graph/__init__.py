"""What a graph is: graph tensors, their schema and files, and operations on them.

Names are resolved when they are first used, so that importing one module of this package does
not import all of them.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES_BY_MODULE = {
    "adjacency": (
        "Adjacency",
        "HyperAdjacency",
    ),
    "adjacency_spec": (
        "AdjacencySpec",
        "HyperAdjacencySpec",
    ),
    "batch_packing": ("pack_batches",),
    "broadcasting": (
        "broadcast",
        "broadcast_context_to_edges",
        "broadcast_context_to_nodes",
        "broadcast_node_to_edges",
    ),
    "combine": ("combine_values",),
    "context": ("Context",),
    "dataset_filtering": ("dataset_filter_with_summary",),
    "dynamic_batching": ("dynamic_batch",),
    "edge_masking": ("mask_edges",),
    "edge_set": ("EdgeSet",),
    "edge_sorting": ("sort_edges",),
    "example_layout": ("get_io_spec",),
    "example_parsing": (
        "parse_and_merge",
        "parse_example",
        "parse_merge_and_pad",
        "parse_single_example",
    ),
    "example_writing": ("write_example",),
    "feature_piece_spec": (
        "ContextSpec",
        "EdgeSetSpec",
        "NodeSetSpec",
    ),
    "fields": (
        "is_dense_tensor",
        "is_ragged_tensor",
    ),
    "first_node_readout": (
        "add_readout_from_first_node",
        "gather_first_node",
    ),
    "fit_or_skip": ("learn_fit_or_skip_size_constraints",),
    "flat_tensors": (
        "graph_flat_tensor_specs",
        "graph_from_flat_tensors",
        "graph_to_flat_tensors",
    ),
    "generated_dataset": ("dataset_from_generator",),
    "graph_assertions": ("assert_constraints",),
    "graph_checks": (
        "check_homogeneous_graph_tensor",
        "check_scalar_graph_tensor",
        "get_aux_type_prefix",
        "get_homogeneous_node_and_edge_set_name",
        "is_graph_tensor",
    ),
    "graph_constants": (
        "CONTEXT",
        "DEFAULT_STATE_NAME",
        "EDGES",
        "EdgeSetName",
        "Field",
        "FieldName",
        "FieldOrFields",
        "FieldSpec",
        "Fields",
        "FieldsSpec",
        "HIDDEN_STATE",
        "IncidentNodeOrContextTag",
        "IncidentNodeTag",
        "NODES",
        "NodeSetName",
        "RESERVED_FEATURE_NAME_PATTERN",
        "SIZE_NAME",
        "SOURCE",
        "SOURCE_NAME",
        "SetName",
        "SetType",
        "TARGET",
        "TARGET_NAME",
    ),
    "graph_tensor": ("GraphTensor",),
    "graph_tensor_spec": ("GraphTensorSpec",),
    "graph_values": ("graph_tensor_to_values",),
    "homogeneous_graph": ("homogeneous",),
    "line_graph": ("convert_to_line_graph",),
    "neighbors": (
        "pool_neighbors_to_node",
        "pool_neighbors_to_node_feature",
    ),
    "node_order": (
        "reorder_nodes",
        "shuffle_features_globally",
        "shuffle_nodes",
    ),
    "node_set": ("NodeSet",),
    "normalization": (
        "softmax",
        "softmax_edges_per_node",
    ),
    "padding": (
        "FeatureDefaultValues",
        "pad_to_total_sizes",
    ),
    "padding_masks": ("padding_mask",),
    "pooling": (
        "get_registered_reduce_operation_names",
        "node_degree",
        "pool",
        "pool_edges_to_context",
        "pool_edges_to_node",
        "pool_nodes_to_context",
    ),
    "proto.graph_schema_pb2": (
        "Feature",
        "GraphSchema",
    ),
    "random_graphs": ("random_graph_tensor",),
    "readout": (
        "readout_named",
        "readout_named_into_feature",
        "structured_readout",
        "structured_readout_into_feature",
    ),
    "readout_structure": (
        "validate_graph_tensor_for_readout",
        "validate_graph_tensor_spec_for_readout",
    ),
    "schema": (
        "iter_features",
        "iter_sets",
        "parse_schema",
        "read_schema",
        "write_schema",
    ),
    "schema_spec": (
        "check_compatible_with_schema_pb",
        "create_graph_spec_from_schema_pb",
        "create_schema_pb_from_graph_spec",
    ),
    "schema_validation": (
        "ValidationError",
        "check_required_features",
        "validate_schema",
    ),
    "self_loops": ("add_self_loops",),
    "size_checks": (
        "assert_satisfies_size_constraints",
        "assert_satisfies_total_sizes",
        "satisfies_size_constraints",
        "satisfies_total_sizes",
    ),
    "size_constraints": ("SizeConstraints",),
    "size_search": ("find_tight_size_constraints",),
    "sorted_adjacency": ("SortedAdjacency",),
    "sorted_adjacency_spec": ("SortedAdjacencySpec",),
    "tags": ("reverse_tag",),
    "validation_mode": (
        "disable_graph_tensor_validation",
        "disable_graph_tensor_validation_at_runtime",
        "enable_graph_tensor_validation",
        "enable_graph_tensor_validation_at_runtime",
    ),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted(_MODULE_BY_NAME)  # noqa: PLE0605 - computed once, from the table above


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_BY_NAME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_BY_NAME])

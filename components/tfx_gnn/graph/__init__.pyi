from tfx_gnn.graph.batching.dynamic_batching import dynamic_batch as dynamic_batch
from tfx_gnn.graph.batching.graph_datasets import dataset_filter_with_summary as dataset_filter_with_summary
from tfx_gnn.graph.batching.graph_datasets import dataset_from_generator as dataset_from_generator
from tfx_gnn.graph.batching.padding import FeatureDefaultValues as FeatureDefaultValues
from tfx_gnn.graph.batching.padding import pad_to_total_sizes as pad_to_total_sizes
from tfx_gnn.graph.batching.padding import padding_mask as padding_mask
from tfx_gnn.graph.batching.size_checks import assert_satisfies_size_constraints as assert_satisfies_size_constraints
from tfx_gnn.graph.batching.size_checks import assert_satisfies_total_sizes as assert_satisfies_total_sizes
from tfx_gnn.graph.batching.size_checks import satisfies_size_constraints as satisfies_size_constraints
from tfx_gnn.graph.batching.size_checks import satisfies_total_sizes as satisfies_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints as SizeConstraints
from tfx_gnn.graph.batching.size_search import find_tight_size_constraints as find_tight_size_constraints
from tfx_gnn.graph.batching.size_search import learn_fit_or_skip_size_constraints as learn_fit_or_skip_size_constraints
from tfx_gnn.graph.codec.batch_packing import pack_batches as pack_batches
from tfx_gnn.graph.codec.example_layout import get_io_spec as get_io_spec
from tfx_gnn.graph.codec.example_parsing import parse_and_merge as parse_and_merge
from tfx_gnn.graph.codec.example_parsing import parse_example as parse_example
from tfx_gnn.graph.codec.example_parsing import parse_merge_and_pad as parse_merge_and_pad
from tfx_gnn.graph.codec.example_parsing import parse_single_example as parse_single_example
from tfx_gnn.graph.codec.example_writing import write_example as write_example
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs as graph_flat_tensor_specs
from tfx_gnn.graph.codec.flat_tensors import graph_from_flat_tensors as graph_from_flat_tensors
from tfx_gnn.graph.codec.flat_tensors import graph_to_flat_tensors as graph_to_flat_tensors
from tfx_gnn.graph.graph_constants import CONTEXT as CONTEXT
from tfx_gnn.graph.graph_constants import DEFAULT_STATE_NAME as DEFAULT_STATE_NAME
from tfx_gnn.graph.graph_constants import EDGES as EDGES
from tfx_gnn.graph.graph_constants import HIDDEN_STATE as HIDDEN_STATE
from tfx_gnn.graph.graph_constants import NODES as NODES
from tfx_gnn.graph.graph_constants import RESERVED_FEATURE_NAME_PATTERN as RESERVED_FEATURE_NAME_PATTERN
from tfx_gnn.graph.graph_constants import SIZE_NAME as SIZE_NAME
from tfx_gnn.graph.graph_constants import SOURCE as SOURCE
from tfx_gnn.graph.graph_constants import SOURCE_NAME as SOURCE_NAME
from tfx_gnn.graph.graph_constants import TARGET as TARGET
from tfx_gnn.graph.graph_constants import TARGET_NAME as TARGET_NAME
from tfx_gnn.graph.graph_constants import EdgeSetName as EdgeSetName
from tfx_gnn.graph.graph_constants import Field as Field
from tfx_gnn.graph.graph_constants import FieldName as FieldName
from tfx_gnn.graph.graph_constants import FieldOrFields as FieldOrFields
from tfx_gnn.graph.graph_constants import Fields as Fields
from tfx_gnn.graph.graph_constants import FieldSpec as FieldSpec
from tfx_gnn.graph.graph_constants import FieldsSpec as FieldsSpec
from tfx_gnn.graph.graph_constants import IncidentNodeOrContextTag as IncidentNodeOrContextTag
from tfx_gnn.graph.graph_constants import IncidentNodeTag as IncidentNodeTag
from tfx_gnn.graph.graph_constants import NodeSetName as NodeSetName
from tfx_gnn.graph.graph_constants import SetName as SetName
from tfx_gnn.graph.graph_constants import SetType as SetType
from tfx_gnn.graph.ops.broadcasting import broadcast as broadcast
from tfx_gnn.graph.ops.broadcasting import broadcast_context_to_edges as broadcast_context_to_edges
from tfx_gnn.graph.ops.broadcasting import broadcast_context_to_nodes as broadcast_context_to_nodes
from tfx_gnn.graph.ops.broadcasting import broadcast_node_to_edges as broadcast_node_to_edges
from tfx_gnn.graph.ops.broadcasting import combine_values as combine_values
from tfx_gnn.graph.ops.edge_edits import add_self_loops as add_self_loops
from tfx_gnn.graph.ops.edge_edits import mask_edges as mask_edges
from tfx_gnn.graph.ops.edge_edits import sort_edges as sort_edges
from tfx_gnn.graph.ops.homogeneous_graph import homogeneous as homogeneous
from tfx_gnn.graph.ops.line_graph import convert_to_line_graph as convert_to_line_graph
from tfx_gnn.graph.ops.neighbors import pool_neighbors_to_node as pool_neighbors_to_node
from tfx_gnn.graph.ops.neighbors import pool_neighbors_to_node_feature as pool_neighbors_to_node_feature
from tfx_gnn.graph.ops.node_order import reorder_nodes as reorder_nodes
from tfx_gnn.graph.ops.node_order import shuffle_features_globally as shuffle_features_globally
from tfx_gnn.graph.ops.node_order import shuffle_nodes as shuffle_nodes
from tfx_gnn.graph.ops.normalization import softmax as softmax
from tfx_gnn.graph.ops.normalization import softmax_edges_per_node as softmax_edges_per_node
from tfx_gnn.graph.ops.pooling import get_registered_reduce_operation_names as get_registered_reduce_operation_names
from tfx_gnn.graph.ops.pooling import node_degree as node_degree
from tfx_gnn.graph.ops.pooling import pool as pool
from tfx_gnn.graph.ops.pooling import pool_edges_to_context as pool_edges_to_context
from tfx_gnn.graph.ops.pooling import pool_edges_to_node as pool_edges_to_node
from tfx_gnn.graph.ops.pooling import pool_nodes_to_context as pool_nodes_to_context
from tfx_gnn.graph.ops.random_graphs import random_graph_tensor as random_graph_tensor
from tfx_gnn.graph.ops.readout import add_readout_from_first_node as add_readout_from_first_node
from tfx_gnn.graph.ops.readout import gather_first_node as gather_first_node
from tfx_gnn.graph.ops.readout import readout_named as readout_named
from tfx_gnn.graph.ops.readout import readout_named_into_feature as readout_named_into_feature
from tfx_gnn.graph.ops.readout import structured_readout as structured_readout
from tfx_gnn.graph.ops.readout import structured_readout_into_feature as structured_readout_into_feature
from tfx_gnn.graph.ops.readout_structure import validate_graph_tensor_for_readout as validate_graph_tensor_for_readout
from tfx_gnn.graph.ops.readout_structure import (
    validate_graph_tensor_spec_for_readout as validate_graph_tensor_spec_for_readout,
)
from tfx_gnn.graph.ops.tags import reverse_tag as reverse_tag
from tfx_gnn.graph.proto.graph_schema_pb2 import Feature as Feature
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema as GraphSchema
from tfx_gnn.graph.schema.schema_io import iter_features as iter_features
from tfx_gnn.graph.schema.schema_io import iter_sets as iter_sets
from tfx_gnn.graph.schema.schema_io import parse_schema as parse_schema
from tfx_gnn.graph.schema.schema_io import read_schema as read_schema
from tfx_gnn.graph.schema.schema_io import write_schema as write_schema
from tfx_gnn.graph.schema.schema_spec import check_compatible_with_schema_pb as check_compatible_with_schema_pb
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb as create_graph_spec_from_schema_pb
from tfx_gnn.graph.schema.schema_spec import create_schema_pb_from_graph_spec as create_schema_pb_from_graph_spec
from tfx_gnn.graph.schema.schema_validation import ValidationError as ValidationError
from tfx_gnn.graph.schema.schema_validation import check_required_features as check_required_features
from tfx_gnn.graph.schema.schema_validation import validate_schema as validate_schema
from tfx_gnn.graph.tensor.adjacency import Adjacency as Adjacency
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec as AdjacencySpec
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency as HyperAdjacency
from tfx_gnn.graph.tensor.adjacency import HyperAdjacencySpec as HyperAdjacencySpec
from tfx_gnn.graph.tensor.fields import is_dense_tensor as is_dense_tensor
from tfx_gnn.graph.tensor.fields import is_ragged_tensor as is_ragged_tensor
from tfx_gnn.graph.tensor.graph_checks import check_homogeneous_graph_tensor as check_homogeneous_graph_tensor
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor as check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix as get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_checks import (
    get_homogeneous_node_and_edge_set_name as get_homogeneous_node_and_edge_set_name,
)
from tfx_gnn.graph.tensor.graph_checks import is_graph_tensor as is_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor as GraphTensor
from tfx_gnn.graph.tensor.graph_tensor import graph_tensor_to_values as graph_tensor_to_values
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec as GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec as ContextSpec
from tfx_gnn.graph.tensor.piece_specs import EdgeSetSpec as EdgeSetSpec
from tfx_gnn.graph.tensor.piece_specs import NodeSetSpec as NodeSetSpec
from tfx_gnn.graph.tensor.pieces import Context as Context
from tfx_gnn.graph.tensor.pieces import EdgeSet as EdgeSet
from tfx_gnn.graph.tensor.pieces import NodeSet as NodeSet
from tfx_gnn.graph.tensor.run_time_checks import assert_constraints as assert_constraints
from tfx_gnn.graph.tensor.run_time_checks import disable_graph_tensor_validation as disable_graph_tensor_validation
from tfx_gnn.graph.tensor.run_time_checks import (
    disable_graph_tensor_validation_at_runtime as disable_graph_tensor_validation_at_runtime,
)
from tfx_gnn.graph.tensor.run_time_checks import enable_graph_tensor_validation as enable_graph_tensor_validation
from tfx_gnn.graph.tensor.run_time_checks import (
    enable_graph_tensor_validation_at_runtime as enable_graph_tensor_validation_at_runtime,
)
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency as SortedAdjacency
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacencySpec as SortedAdjacencySpec

"""Names, tags and type aliases shared by the whole graph core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

import tensorflow as tf

#: The three kinds of graph pieces, as they are spelled in tf.Example keys and schemas.
CONTEXT = "context"
NODES = "nodes"
EDGES = "edges"

#: Feature names reserved by the tf.Example layout.
SIZE_NAME = "#size"
SOURCE_NAME = "#source"
TARGET_NAME = "#target"
#: The end of hyperedges with tag 2 is "#node.2".
HYPEREDGE_END_PREFIX = "#node."
RESERVED_FEATURES = frozenset({SIZE_NAME, SOURCE_NAME, TARGET_NAME})
#: Pattern for `re.fullmatch` that matches feature names users must not choose.
RESERVED_FEATURE_NAME_PATTERN = r"#.*"

#: The feature that convolutions read and write by default.
HIDDEN_STATE = "hidden_state"
DEFAULT_STATE_NAME = HIDDEN_STATE

#: Tags of the two endpoints of an edge. Hyperedges may use further non-negative integers.
SOURCE = 0
TARGET = 1

#: Kind of a graph piece, one of the three above; and user-chosen names of features and sets.
SetType = str
FieldName = str
NodeSetName = str
EdgeSetName = str
SetName = str
#: Tag identifying an edge endpoint: SOURCE, TARGET or, for hyperedges, a further integer. The second type also
#: allows CONTEXT.
IncidentNodeTag = int
IncidentNodeOrContextTag = Union[int, str]

#: Values of one feature, shape [*batch_shape, num_items, ...]; ragged if items differ in size, or if the graphs of a
#: batch differ in their number of items.
Field = Union[tf.Tensor, tf.RaggedTensor]
FieldSpec = Union[tf.TensorSpec, tf.RaggedTensorSpec]
Fields = Mapping[FieldName, Field]
FieldsSpec = Mapping[FieldName, FieldSpec]
FieldOrFields = Union[Field, Fields]
FieldNameOrNames = Union[FieldName, "list[FieldName]", "tuple[FieldName, ...]"]
#: Any nest of lists, tuples and mappings whose leaves are fields.
FieldsNest = Any
ShapeLike = Union[tf.TensorShape, "tuple[int | None, ...]", "list[int | None]"]

#: dtype of indices and sizes of a new piece without tensors to infer it from. XLA on TPU has no
#: int64 cumulative sum, so indices default to int32.
DEFAULT_INDICES_DTYPE = tf.int32
#: dtype of row splits of a new piece without ragged features, the default of `tf.RaggedTensor`.
DEFAULT_ROW_SPLITS_DTYPE = tf.int64

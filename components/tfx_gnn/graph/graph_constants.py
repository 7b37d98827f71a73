"""Names, tags and type aliases that the whole graph core shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

import tensorflow as tf

#: The three kinds of graph pieces, as they are spelled in tf.Example keys and schemas.
CONTEXT = "context"
NODES = "nodes"
EDGES = "edges"

#: Feature names that the tf.Example layout keeps for itself.
SIZE_NAME = "#size"
SOURCE_NAME = "#source"
TARGET_NAME = "#target"
RESERVED_FEATURES = frozenset({SIZE_NAME, SOURCE_NAME, TARGET_NAME})
#: For `re.fullmatch` against a feature name that a user may not choose.
RESERVED_FEATURE_NAME_PATTERN = r"#.*"

#: The feature that convolutions read and write unless told otherwise.
HIDDEN_STATE = "hidden_state"
DEFAULT_STATE_NAME = HIDDEN_STATE

#: Ends of an edge. Hyperedges may use further non-negative integers.
SOURCE = 0
TARGET = 1

#: What kinds, features and sets go by: one of the three kinds above, and names that users choose.
SetType = str
FieldName = str
NodeSetName = str
EdgeSetName = str
SetName = str
#: What ends of edges go by: SOURCE, TARGET or a further integer of hyperedges; or CONTEXT.
IncidentNodeTag = int
IncidentNodeOrContextTag = Union[int, str]

#: Values of one feature, shape [*batch_shape, num_items, ...]; ragged where items differ in size, or graphs in items.
Field = Union[tf.Tensor, tf.RaggedTensor]
FieldSpec = Union[tf.TensorSpec, tf.RaggedTensorSpec]
Fields = Mapping[FieldName, Field]
FieldsSpec = Mapping[FieldName, FieldSpec]
FieldOrFields = Union[Field, Fields]
FieldNameOrNames = Union[FieldName, "list[FieldName]", "tuple[FieldName, ...]"]
#: Any nest of lists, tuples and mappings whose leaves are fields.
FieldsNest = Any
ShapeLike = Union[tf.TensorShape, "tuple[int | None, ...]", "list[int | None]"]

#: dtype of indices and sizes of a new piece that holds no tensor to tell it. XLA on TPU has no
#: int64 cumulative sum, so indices default to int32.
DEFAULT_INDICES_DTYPE = tf.int32
#: dtype of row splits of a new piece without ragged features; `tf.RaggedTensor`'s own default.
DEFAULT_ROW_SPLITS_DTYPE = tf.int64

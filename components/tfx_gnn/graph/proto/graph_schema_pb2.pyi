from tensorflow.core.framework import tensor_shape_pb2 as _tensor_shape_pb2
from tensorflow.core.framework import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf.internal import python_message as _python_message
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CONTEXT: SetType
DESCRIPTOR: _descriptor.FileDescriptor
EDGES: SetType
FULL: GraphType
NODES: SetType
RANDOM_WALKS: GraphType
SUBGRAPH: GraphType
UNDEFINED: GraphType
UNSPECIFIED: SetType

class BigQuery(_message.Message):
    __slots__ = ["read_method", "reshuffle", "sql", "table_spec"]
    class ReadMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class TableSpec(_message.Message):
        __slots__ = ["dataset", "project", "table"]
        DATASET_FIELD_NUMBER: _ClassVar[int]
        PROJECT_FIELD_NUMBER: _ClassVar[int]
        TABLE_FIELD_NUMBER: _ClassVar[int]
        dataset: str
        project: str
        table: str
        def __init__(self, project: _Optional[str] = ..., dataset: _Optional[str] = ..., table: _Optional[str] = ...) -> None: ...
    DIRECT_READ: BigQuery.ReadMethod
    EXPORT: BigQuery.ReadMethod
    READ_METHOD_FIELD_NUMBER: _ClassVar[int]
    RESHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    TABLE_SPEC_FIELD_NUMBER: _ClassVar[int]
    UNSPECIFIED: BigQuery.ReadMethod
    read_method: BigQuery.ReadMethod
    reshuffle: bool
    sql: str
    table_spec: BigQuery.TableSpec
    def __init__(self, table_spec: _Optional[_Union[BigQuery.TableSpec, _Mapping]] = ..., sql: _Optional[str] = ..., read_method: _Optional[_Union[BigQuery.ReadMethod, str]] = ..., reshuffle: bool = ...) -> None: ...

class Context(_message.Message):
    __slots__ = ["features", "metadata"]
    class FeaturesEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Feature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Feature, _Mapping]] = ...) -> None: ...
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    features: _containers.MessageMap[str, Feature]
    metadata: Metadata
    def __init__(self, features: _Optional[_Mapping[str, Feature]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class EdgeSet(_message.Message):
    __slots__ = ["context", "description", "features", "metadata", "source", "target"]
    class FeaturesEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Feature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Feature, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    context: _containers.RepeatedScalarFieldContainer[str]
    description: str
    features: _containers.MessageMap[str, Feature]
    metadata: Metadata
    source: str
    target: str
    def __init__(self, description: _Optional[str] = ..., features: _Optional[_Mapping[str, Feature]] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., context: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class Feature(_message.Message):
    __slots__ = ["description", "dtype", "shape", "source"]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    Extensions: _python_message._ExtensionDict
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    description: str
    dtype: _types_pb2.DataType
    shape: _tensor_shape_pb2.TensorShapeProto
    source: str
    def __init__(self, description: _Optional[str] = ..., dtype: _Optional[_Union[_types_pb2.DataType, str]] = ..., shape: _Optional[_Union[_tensor_shape_pb2.TensorShapeProto, _Mapping]] = ..., source: _Optional[str] = ...) -> None: ...

class GraphSchema(_message.Message):
    __slots__ = ["context", "edge_sets", "info", "node_sets"]
    class EdgeSetsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: EdgeSet
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[EdgeSet, _Mapping]] = ...) -> None: ...
    class NodeSetsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: NodeSet
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[NodeSet, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    EDGE_SETS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    NODE_SETS_FIELD_NUMBER: _ClassVar[int]
    context: Context
    edge_sets: _containers.MessageMap[str, EdgeSet]
    info: OriginInfo
    node_sets: _containers.MessageMap[str, NodeSet]
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., node_sets: _Optional[_Mapping[str, NodeSet]] = ..., edge_sets: _Optional[_Mapping[str, EdgeSet]] = ..., info: _Optional[_Union[OriginInfo, _Mapping]] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ["bigquery", "cardinality", "extra", "filename"]
    class KeyValue(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BIGQUERY_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    bigquery: BigQuery
    cardinality: int
    extra: _containers.RepeatedCompositeFieldContainer[Metadata.KeyValue]
    filename: str
    def __init__(self, extra: _Optional[_Iterable[_Union[Metadata.KeyValue, _Mapping]]] = ..., filename: _Optional[str] = ..., cardinality: _Optional[int] = ..., bigquery: _Optional[_Union[BigQuery, _Mapping]] = ...) -> None: ...

class NodeSet(_message.Message):
    __slots__ = ["context", "description", "features", "metadata"]
    class FeaturesEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Feature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Feature, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    context: _containers.RepeatedScalarFieldContainer[str]
    description: str
    features: _containers.MessageMap[str, Feature]
    metadata: Metadata
    def __init__(self, description: _Optional[str] = ..., features: _Optional[_Mapping[str, Feature]] = ..., context: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class OriginInfo(_message.Message):
    __slots__ = ["graph_type", "root_set"]
    GRAPH_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROOT_SET_FIELD_NUMBER: _ClassVar[int]
    graph_type: GraphType
    root_set: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, graph_type: _Optional[_Union[GraphType, str]] = ..., root_set: _Optional[_Iterable[str]] = ...) -> None: ...

class GraphType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class SetType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RANDOM_UNIFORM: SamplingStrategy
RANDOM_WEIGHTED: SamplingStrategy
TOP_K: SamplingStrategy

class SamplingOp(_message.Message):
    __slots__ = ["edge_set_name", "input_op_names", "op_name", "sample_size", "strategy"]
    EDGE_SET_NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_OP_NAMES_FIELD_NUMBER: _ClassVar[int]
    OP_NAME_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    edge_set_name: str
    input_op_names: _containers.RepeatedScalarFieldContainer[str]
    op_name: str
    sample_size: int
    strategy: SamplingStrategy
    def __init__(self, op_name: _Optional[str] = ..., input_op_names: _Optional[_Iterable[str]] = ..., edge_set_name: _Optional[str] = ..., sample_size: _Optional[int] = ..., strategy: _Optional[_Union[SamplingStrategy, str]] = ...) -> None: ...

class SamplingSpec(_message.Message):
    __slots__ = ["sampling_ops", "seed_op", "symmetric_link_seed_op"]
    SAMPLING_OPS_FIELD_NUMBER: _ClassVar[int]
    SEED_OP_FIELD_NUMBER: _ClassVar[int]
    SYMMETRIC_LINK_SEED_OP_FIELD_NUMBER: _ClassVar[int]
    sampling_ops: _containers.RepeatedCompositeFieldContainer[SamplingOp]
    seed_op: SeedOp
    symmetric_link_seed_op: SymmetricLinkSeedOp
    def __init__(self, seed_op: _Optional[_Union[SeedOp, _Mapping]] = ..., symmetric_link_seed_op: _Optional[_Union[SymmetricLinkSeedOp, _Mapping]] = ..., sampling_ops: _Optional[_Iterable[_Union[SamplingOp, _Mapping]]] = ...) -> None: ...

class SeedOp(_message.Message):
    __slots__ = ["node_set_name", "op_name"]
    NODE_SET_NAME_FIELD_NUMBER: _ClassVar[int]
    OP_NAME_FIELD_NUMBER: _ClassVar[int]
    node_set_name: str
    op_name: str
    def __init__(self, op_name: _Optional[str] = ..., node_set_name: _Optional[str] = ...) -> None: ...

class SymmetricLinkSeedOp(_message.Message):
    __slots__ = ["op_name"]
    OP_NAME_FIELD_NUMBER: _ClassVar[int]
    op_name: str
    def __init__(self, op_name: _Optional[str] = ...) -> None: ...

class SamplingStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

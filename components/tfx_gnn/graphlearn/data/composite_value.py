"""Base classes of data objects that TensorFlow takes apart: in tf.function, tf.data and SavedModel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.tensor import tf_hooks

_Spec = TypeVar("_Spec", bound="CompositeSpec")


class CompositeSpec(tf.TypeSpec):
    """Type spec of a data object: the specs of its arrays, and what is no tensor.

    Attributes:
        components: nest of `tf.TensorSpec`, in the form of the value's arrays.
        static: plain values that do not change from batch to batch, such as names and schemas.
    """

    #: Set by the class of the values when it is defined.
    _VALUE_TYPE: ClassVar[type[Any]]

    def __init__(self, components: Any, static: Any) -> None:
        """Describes a value.

        Args:
            components: nest of specs.
            static: plain values.
        """
        super().__init__()
        self.components = components
        self.static = static

    @property
    def value_type(self) -> type[Any]:
        """The class of the values."""
        return self._VALUE_TYPE

    @property
    def shape(self) -> tf.TensorShape:
        """The batch shape, [], as of a scalar GraphTensor: a value is one whole, which Keras does not slice."""
        return tf.TensorShape([])

    def relax(self: _Spec) -> _Spec:
        """Returns the spec without the numbers of rows, which differ between batches."""
        return type(self)(self._VALUE_TYPE._relaxed(self.components), self.static)

    def _serialize(self) -> tuple[Any, Any]:
        return self.components, self.static

    @property
    def _component_specs(self) -> Any:
        return self.components

    def _to_components(self, value: Any) -> Any:
        return tf.nest.map_structure(as_tensor, value._components())

    def _from_components(self, components: Any) -> Any:
        return self._VALUE_TYPE._from_components(components, self.static)


class CompositeValue(tf_hooks.CompositeTensor):
    """A data object whose arrays are numpy arrays or tensors."""

    _SPEC_TYPE: ClassVar[type[CompositeSpec]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        spec_type = cls._SPEC_TYPE
        if "_VALUE_TYPE" not in vars(spec_type):
            spec_type._VALUE_TYPE = cls
            tf_hooks.register_type_spec(f"tfx_gnn.graphlearn.{spec_type.__name__}")(spec_type)

    def _components(self) -> Any:
        """Returns a nest of the arrays; absent ones are left out."""
        raise NotImplementedError

    def _static(self) -> Any:
        """Returns what is no tensor, in plain values."""
        return None

    @classmethod
    def _from_components(cls, components: Any, static: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def _relaxed(cls, components: Any) -> Any:
        """Forgets the first dimension of all specs; classes with other dimensions that vary override it."""
        return tf.nest.map_structure(relaxed, components)

    @property
    def _type_spec(self) -> CompositeSpec:
        return self._SPEC_TYPE(tf.nest.map_structure(array_spec, self._components()), self._static())

    @property
    def spec(self) -> Any:
        """The type spec of the value."""
        return self._type_spec


def relaxed(spec: tf.TensorSpec) -> tf.TensorSpec:
    """Forgets the first dimension of a spec."""
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) if spec.shape.rank else spec


def array_spec(array: Any) -> tf.TensorSpec:
    """Returns the spec of an array or tensor."""
    if tf.is_tensor(array):
        return tf.TensorSpec(array.shape, array.dtype)
    if isinstance(array, tf.TensorSpec):
        return array
    values = np.asarray(array)
    return tf.TensorSpec(values.shape, tf.string if values.dtype.kind in "OSU" else tf.as_dtype(values.dtype))


def as_tensor(array: Any) -> tf.Tensor:
    """Converts an array to a tensor; texts become bytes."""
    if tf.is_tensor(array):
        return array
    values = np.asarray(array)
    return tf.constant(values, tf.string) if values.dtype.kind in "OSU" else tf.convert_to_tensor(values)


def num_rows(array: Any) -> Any:
    """Returns the first dimension of an array: an int if it is known, else a scalar int64 tensor."""
    static = array.shape[0]
    return tf.shape(array, tf.int64)[0] if static is None else int(static)


def is_symbolic(nest: Any) -> bool:
    """Returns whether values are not known yet, because a function is being traced."""
    return any(tf.is_tensor(leaf) and not hasattr(leaf, "numpy") for leaf in tf.nest.flatten(nest))


def describe(values: Mapping[str, Any]) -> str:
    """Returns "name=[shape]" for each array."""
    return ", ".join(f"{name}={list(array_spec(value).shape)}" for name, value in values.items())


def check_is_name(key: object) -> None:
    """Refuses a position in place of a name, which would let a loop over a graph never end."""
    if not isinstance(key, str):
        raise TypeError(f"`key` must be the name of an array; got {key!r}. A batch has single graphs in to_graphs().")

"""Further arrays of batches of subgraphs, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graphlearn.data.batch_parts import check_is_free, offsets_of_rows, ordered
from tfx_gnn.graphlearn.data.composite_value import check_is_name


class WithAdditionalArrays:
    """A batch with further arrays, whose rows belong to the subgraphs."""

    _additional_keys: list[str]
    _additional: dict[str, Any]
    _additional_offsets: dict[str, Any]

    def _node_starts(self) -> tuple[Any, Any]:
        """Returns where the nodes of each subgraph begin, and their number, for arrays that are set later."""
        raise NotImplementedError

    @property
    def additional_keys(self) -> list[str]:
        """The names of further arrays, also of declared ones that are not set yet; `batch[key]` is the array."""
        return list(self._additional_keys)

    @tf.autograph.experimental.do_not_convert
    def __getitem__(self, key: str) -> Any:
        """Returns an additional array, or an attribute, by name; None if there is none."""
        check_is_name(key)
        return None if key.startswith("_") else getattr(self, key, None)

    @tf.autograph.experimental.do_not_convert
    def __setitem__(self, key: str, value: Any) -> None:
        """Sets an additional array by name, with the rows of the array that it replaces, of nodes, or of subgraphs."""
        check_is_free(type(self), key)
        if not tf.is_tensor(value):
            value = np.asarray(value)
        offsets = offsets_of_rows(key, value, self._additional_offsets, self._additional, self._node_starts())
        if key not in self._additional_keys:
            self._additional_keys = [*self._additional_keys, key]
        self._additional = ordered(self._additional_keys, {**self._additional, key: value})
        self._additional_offsets = ordered(self._additional_keys, {**self._additional_offsets, key: offsets})

    def __getattr__(self, key: str) -> Any:
        if not key.startswith("_") and key in (arrays := vars(self).get("_additional", {})):
            return arrays[key]
        raise AttributeError(
            f"`{key}` must be an attribute or an additional array of {type(self).__name__}; got none of that name."
        )

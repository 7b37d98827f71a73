"""Makes batches of a list of examples, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.data.collated_batch import Batch
from tfx_gnn.graph.data.collating import Collator
from tfx_gnn.graph.data.graph_data import GraphData
from tfx_gnn.graph.data.graph_layout import FieldRule, GraphLayout, Key

_NO_RULES: Mapping[Key, FieldRule] = MappingProxyType({})


class DataLoader:
    """Yields batches of examples in memory: PyG's `DataLoader`.

    Each iteration is an epoch. Batches are made in the calling thread, which is faster than sending them between
    processes.

    Example:
        >>> data = [tfx_gnn.GraphData(x=np.ones([size, 16]), y=size) for size in (3, 2, 4)]
        >>> for batch in tfx_gnn.DataLoader(data, batch_size=2):
        ...     print(batch.y.tolist(), batch.ptr.tolist())
        [3, 2] [0, 3, 5]
        [4] [0, 4]
    """

    def __init__(
        self,
        data: Sequence[GraphData],
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        drop_last: bool = False,
        layout: GraphLayout | None = None,
        rules: Mapping[Key, FieldRule] = _NO_RULES,
        follow_batch: Sequence[str] = (),
        exclude_keys: Sequence[str] = (),
        guesses_by_name: bool = False,
        seed: int = 0,
    ) -> None:
        """Prepares batches.

        Args:
            data: examples, with `len` and indices.
            batch_size: number of examples of a batch, at least 1.
            shuffle: whether to draw another order for each epoch.
            sampler: indices of examples in their order, iterated over anew for each epoch.
            batch_sampler: lists of the indices of each batch, iterated over anew for each epoch.
            drop_last: whether to leave out a last batch with fewer examples.
            layout: as for `collate`.
            rules: as for `collate`.
            follow_batch: as for `collate`.
            exclude_keys: as for `collate`.
            guesses_by_name: as for `collate`.
            seed: determines all orders, together with the number of the epoch.

        Raises:
            TypeError: if `data` has no length.
            ValueError: if `batch_size` is below 1, or options exclude each other.
        """
        if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
            raise TypeError(f"`data` must be a list of examples; got {type(data).__name__}. Write list(data).")
        if not isinstance(batch_size, (int, np.integer)) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"`batch_size` must be an integer of at least 1; got {batch_size!r}.")
        if batch_sampler is not None and (shuffle or sampler is not None or drop_last or batch_size != 1):
            raise ValueError(
                "`batch_sampler` must be given without batch_size, shuffle, sampler and drop_last; got some of them. "
                "It decides what is in each batch."
            )
        if sampler is not None and shuffle:
            raise ValueError("`sampler` must be given without shuffle; got both. The sampler decides the order.")
        if isinstance(sampler, Iterator) or isinstance(batch_sampler, Iterator):
            raise TypeError(
                "`sampler` and `batch_sampler` must start again with each epoch; got an iterator. Give a list, or an "
                "object with __iter__."
            )
        self._data = data
        self._batch_size = int(batch_size)
        self._shuffle = shuffle
        self._sampler = sampler
        self._batch_sampler = batch_sampler
        self._drop_last = drop_last
        self._layout = layout
        self._seed = seed
        self._epoch = 0
        self._collator = Collator(
            layout=layout,
            rules=rules,
            follow_batch=follow_batch,
            exclude_keys=exclude_keys,
            guesses_by_name=guesses_by_name,
        )

    def __len__(self) -> int:
        """Returns the number of batches of an epoch; TypeError if the sampler does not know it."""
        if self._batch_sampler is not None:
            return len(self._batch_sampler)  # type: ignore[arg-type]
        size = len(self._data if self._sampler is None else self._sampler)  # type: ignore[arg-type]
        return size // self._batch_size if self._drop_last else -(-size // self._batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """Yields the batches of the next epoch."""
        epoch, self._epoch = self._epoch, self._epoch + 1
        for indices in self._batches(epoch):
            yield self._collator.collate([self._data[index] for index in self._checked(indices)])

    def _checked(self, indices: Sequence[int]) -> Sequence[int]:
        if self._sampler is None and self._batch_sampler is None:
            return indices
        size = len(self._data)
        for index in indices:
            if not -size <= index < size:
                raise IndexError(f"`sampler` must yield indices in [0, {size}), the examples of `data`; got {index}.")
        return indices

    def _batches(self, epoch: int) -> Iterator[Sequence[int]]:
        if self._batch_sampler is not None:
            yield from self._batch_sampler
            return
        if self._sampler is None:
            order: Sequence[int] = range(len(self._data))
            if self._shuffle:
                order = np.random.default_rng([self._seed, epoch]).permutation(len(self._data)).tolist()
            stop = len(order) - len(order) % self._batch_size if self._drop_last else len(order)
            for start in range(0, stop, self._batch_size):
                yield order[start : start + self._batch_size]
            return
        batch: list[int] = []
        for index in self._sampler:
            batch.append(int(index))
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and not self._drop_last:
            yield batch

    def as_dataset(self) -> tf.data.Dataset:
        """Returns the batches as a data set of TensorFlow; each iteration over it is an epoch.

        Returns:
            Data set of scalar graphs with one component per example if the loader has a layout; else of dicts of
            tensors, of shape [num_nodes, ...] and so on, by key. Strings are tensors of shape [num_examples].

        Raises:
            ValueError: if there are no examples, or, without a layout, examples have types of nodes or hold dicts or
                lists of arrays.
        """
        if not len(self._data):
            raise ValueError("`data` must hold an example, which tells the types of all; got none.")
        batch = self._collator.collate([self._data[0]])
        if self._layout is not None:
            signature = self._element(batch).spec.relax(num_components=True, num_nodes=True, num_edges=True)
        else:
            signature = {
                key: tf.TensorSpec(_varying_shape(batch, key, value.shape), tf.as_dtype(value.dtype))
                for key, value in self._element(batch).items()
            }
        dataset = tf.data.Dataset.from_generator(lambda: map(self._element, self), output_signature=signature)
        try:
            return dataset.apply(tf.data.experimental.assert_cardinality(len(self)))
        except TypeError:
            # A sampler without a length.
            return dataset

    def _element(self, batch: Batch) -> Any:
        if self._layout is not None:
            return batch.to_graph_tensor(self._layout)
        if len(batch._stores) > 1:
            raise ValueError("`layout` must be given for examples with types of nodes; got none. Write a GraphLayout.")
        return {key: _as_array(key, value) for key, value in batch.to_dict().items()}


def _as_array(key: str, value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, (str, bytes)) for item in value):
        return np.array([item.encode() if isinstance(item, str) else item for item in value], object)
    if isinstance(value, (np.ndarray, int)):
        array = np.asarray(value)
        return np.char.encode(array, "utf-8").astype(object) if array.dtype.kind == "U" else array
    raise ValueError(
        f"`{key}` must hold arrays, numbers or strings, to be a tensor; got {type(value).__name__}. Write "
        "exclude_keys, or a layout without it."
    )


def _varying_shape(batch: Batch, key: str, shape: tuple[int, ...]) -> list[int | None]:
    """Returns the shape of a value without the dimension that differs between batches."""
    axis = batch.axis_of(key)
    return [None if dimension == axis else size for dimension, size in enumerate(shape)]

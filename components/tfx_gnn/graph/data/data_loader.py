"""Makes batches of a list of examples, epoch by epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.data.collated_batch import Batch
from tfx_gnn.graph.data.collating import Collator
from tfx_gnn.graph.data.graph_layout import FieldRule, GraphLayout, Key

_LOGGER = logging.getLogger(__name__)
_NO_RULES: Mapping[Key, FieldRule] = MappingProxyType({})

#: Arguments of PyTorch's loader that concern its worker processes and pinned memory, with their defaults.
_WITHOUT_EFFECT: Mapping[str, Any] = MappingProxyType(
    {
        "num_workers": 0,
        "pin_memory": False,
        "timeout": 0,
        "worker_init_fn": None,
        "multiprocessing_context": None,
        "prefetch_factor": None,
        "persistent_workers": False,
        "pin_memory_device": "",
        "in_order": True,
    }
)
_said: set[str] = set()


class DataLoader:
    """Yields batches of examples in memory: PyG's `DataLoader`.

    Each iteration is an epoch. Batches are made in the calling thread, which is faster than sending them between
    processes. So arguments of PyTorch's loader that concern worker processes and pinned memory are accepted, but have
    no effect, which is logged once for each; they are attributes of the loader, as there.

    Example:
        >>> data = [tfx_gnn.GraphData(x=np.ones([size, 16]), y=size) for size in (3, 2, 4)]
        >>> for batch in tfx_gnn.DataLoader(data, batch_size=2):
        ...     print(batch.y.tolist(), batch.ptr.tolist())
        [3, 2] [0, 3, 5]
        [4] [0, 4]
    """

    def __init__(
        self,
        data: Sequence[Any] | None = None,
        batch_size: int = 1,
        shuffle: bool | None = False,
        follow_batch: Sequence[str] | None = (),
        exclude_keys: Sequence[str] | None = (),
        *,
        dataset: Sequence[Any] | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        generator: Any = None,
        layout: GraphLayout | None = None,
        rules: Mapping[Key, FieldRule] = _NO_RULES,
        guesses_by_name: bool = False,
        seed: int = 0,
        **without_effect: Any,
    ) -> None:
        """Prepares batches.

        Args:
            data: examples, with `len` and indices.
            batch_size: number of examples of a batch, at least 1.
            shuffle: whether to draw another order for each epoch.
            follow_batch: as for `collate`.
            exclude_keys: as for `collate`.
            dataset: another name of `data`.
            sampler: indices of examples in their order, iterated over anew for each epoch.
            batch_sampler: lists of the indices of each batch, iterated over anew for each epoch.
            drop_last: whether to leave out a last batch with fewer examples.
            collate_fn: makes a batch of a list of examples, which may be of any kind, instead of `collate`.
            generator: draws the orders: a `numpy.random.Generator`, which each epoch advances; of a generator of
                PyTorch, its `initial_seed()` is taken as `seed`.
            layout: as for `collate`.
            rules: as for `collate`.
            guesses_by_name: as for `collate`.
            seed: determines all orders, together with the number of the epoch.
            **without_effect: `num_workers`, `pin_memory`, `timeout`, `worker_init_fn`, `multiprocessing_context`,
                `prefetch_factor`, `persistent_workers`, `pin_memory_device` and `in_order`.

        Raises:
            TypeError: if `data` has no length, or an argument is unknown.
            ValueError: if `batch_size` is below 1, or options exclude each other.
        """
        if dataset is not None:
            if data is not None:
                raise ValueError("`data` and `dataset` must not both be given; got both. Remove one of them.")
            data = dataset
        if data is None or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
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
        if collate_fn is not None and (layout is not None or rules or follow_batch or exclude_keys or guesses_by_name):
            raise ValueError(
                "`collate_fn` must be given without layout, rules, follow_batch, exclude_keys and guesses_by_name; got "
                "some of them. They are options of `collate`, which it replaces."
            )
        self._data: Sequence[Any] = data
        self._batch_size = int(batch_size)
        self._shuffle = bool(shuffle)
        self._collate_fn = collate_fn
        self._generator = generator
        self._without_effect = {**_WITHOUT_EFFECT, **_checked_without_effect(without_effect)}
        self._sampler = sampler
        self._batch_sampler = batch_sampler
        self._drop_last = drop_last
        self._layout = layout
        self._seed = _seed_of(generator, seed)
        self._epoch = 0
        self._follow_batch = follow_batch
        self._exclude_keys = exclude_keys
        self._collator = Collator(
            layout=layout,
            # A mapping proxy, as the default is, cannot be pickled.
            rules=dict(rules),
            follow_batch=follow_batch or (),
            exclude_keys=exclude_keys or (),
            guesses_by_name=guesses_by_name,
        )

    @property
    def dataset(self) -> Sequence[Any]:
        """The examples."""
        return self._data

    @property
    def batch_size(self) -> int | None:
        """The number of examples of a batch; None if a `batch_sampler` decides it."""
        return self._batch_size if self._batch_sampler is None else None

    @property
    def drop_last(self) -> bool:
        """Whether a last batch with fewer examples is left out."""
        return self._drop_last

    @property
    def sampler(self) -> Iterable[int]:
        """The indices of examples in the order of the next epoch."""
        return _Indices(self._order, len(self._data)) if self._sampler is None else self._sampler

    @property
    def batch_sampler(self) -> Iterable[Sequence[int]]:
        """The indices of the examples of each batch of the next epoch."""
        return _Indices(self._batches, self) if self._batch_sampler is None else self._batch_sampler

    @property
    def collate_fn(self) -> Callable[[list[Any]], Any]:
        """What makes a batch of a list of examples."""
        return self._collate_fn or self._collator.collate

    @property
    def generator(self) -> Any:
        """What draws the orders; None if the seed does."""
        return self._generator

    @property
    def follow_batch(self) -> Sequence[str] | None:
        """The keys of which a batch tells the example of each row."""
        return self._follow_batch

    @property
    def exclude_keys(self) -> Sequence[str] | None:
        """The keys that batches leave out."""
        return self._exclude_keys

    def __getattr__(self, name: str) -> Any:
        if name in _WITHOUT_EFFECT:
            return self._without_effect[name]
        raise AttributeError(f"`{name}` must be an attribute of DataLoader; got none of that name.")

    def __len__(self) -> int:
        """Returns the number of batches of an epoch; TypeError if the sampler does not know it."""
        if self._batch_sampler is not None:
            return len(self._batch_sampler)  # type: ignore[arg-type]
        size = len(self._data if self._sampler is None else self._sampler)  # type: ignore[arg-type]
        return size // self._batch_size if self._drop_last else -(-size // self._batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """Yields the batches of the next epoch."""
        batches = self._batches(self._epoch)
        self._epoch += 1
        for indices in batches:
            yield self.collate_fn([self._data[index] for index in self._checked(indices)])

    def _checked(self, indices: Sequence[int]) -> Sequence[int]:
        if self._sampler is None and self._batch_sampler is None:
            return indices
        size = len(self._data)
        for index in indices:
            if not -size <= index < size:
                raise IndexError(f"`sampler` must yield indices in [0, {size}), the examples of `data`; got {index}.")
        return indices

    def _order(self, epoch: int | None = None) -> Sequence[int]:
        """Returns the order of an epoch; by default, of the next one."""
        if not self._shuffle:
            return range(len(self._data))
        if isinstance(self._generator, np.random.Generator):
            random = self._generator
        else:
            random = np.random.default_rng([self._seed, self._epoch if epoch is None else epoch])
        order: list[int] = random.permutation(len(self._data)).tolist()
        return order

    def _batches(self, epoch: int | None = None) -> Iterator[Sequence[int]]:
        if self._batch_sampler is not None:
            yield from self._batch_sampler
            return
        if self._sampler is None:
            order = self._order(epoch)
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
        if self._collate_fn is not None:
            raise ValueError(
                "`collate_fn` must be absent to make a data set, because it does not tell the types of batches; got "
                "one. Call tf.data.Dataset.from_generator with an output_signature."
            )
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


class _Indices:
    """What a sampler of PyTorch is: it can be iterated over again and again, and has a length."""

    def __init__(self, indices: Callable[[], Iterable[Any]], sized: Any) -> None:
        self._indices = indices
        self._sized = sized

    def __iter__(self) -> Iterator[Any]:
        return iter(self._indices())

    def __len__(self) -> int:
        return self._sized if isinstance(self._sized, int) else len(self._sized)


def _seed_of(generator: Any, seed: int) -> int:
    if generator is None:
        return seed
    if seed:
        raise ValueError(f"`seed` must be absent if there is a `generator`; got {seed}. Remove one of them.")
    if isinstance(generator, np.random.Generator):
        return 0
    if hasattr(generator, "initial_seed"):
        return int(generator.initial_seed())
    raise TypeError(
        f"`generator` must be a numpy.random.Generator or a generator of PyTorch; got {type(generator).__name__}. "
        "Write numpy.random.default_rng(seed)."
    )


def _checked_without_effect(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuses unknown arguments; says once of each known one that it has no effect."""
    unknown = [name for name in given if name not in _WITHOUT_EFFECT]
    if unknown:
        raise TypeError(
            f"`{unknown[0]}` must be an argument of DataLoader; got one that neither it nor PyTorch's loader has. "
            "Remove it."
        )
    num_workers = given.get("num_workers", 0)
    if not isinstance(num_workers, (int, np.integer)) or isinstance(num_workers, bool) or num_workers < 0:
        raise ValueError(f"`num_workers` must be an integer of at least 0; got {num_workers!r}.")
    for name, value in given.items():
        if value != _WITHOUT_EFFECT[name] and name not in _said:
            _said.add(name)
            _LOGGER.warning("`%s` of DataLoader has no effect: batches are made in the calling thread.", name)
    return given


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

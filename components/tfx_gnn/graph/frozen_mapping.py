"""A mapping that cannot be changed, for the sets and features of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

_Value = TypeVar("_Value")


class FrozenMapping(Mapping[str, _Value]):
    """Names to values in the order they were given, without item assignment.

    `tf.nest` takes it apart and rebuilds it like a dict.

    Example:
        >>> FrozenMapping({"a": 1})
        {'a': 1}
    """

    # Tells tf.nest that the constructor takes key-value pairs.
    __supported_by_tf_nest__ = True
    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, _Value] | Iterable[tuple[str, _Value]] = ()) -> None:
        """Copies `items`.

        Args:
            items: mapping, or key-value pairs.
        """
        self._items = dict(items)

    def __getitem__(self, key: str) -> _Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> dict[str, _Value]:
        """Returns a dict with the same items, free to be changed."""
        return dict(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

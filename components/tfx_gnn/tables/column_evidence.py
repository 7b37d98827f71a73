"""What the values of a column say about its type and shape, gathered block by block."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# "007" and "+1" are names rather than integers: as numbers they could not be told from "7" and "1".
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
# So is what has more digits than int64 holds. No column with one of these is of floats.
_NAME_OF_DIGITS = r"^([+-]?(0[0-9]+|[0-9]{19,})|\+[0-9]+)$"
_TRUTH = r"(?i)^(true|false)$"


@dataclasses.dataclass
class ColumnEvidence:
    """What is known of one column.

    Cells of a CSV file say nothing about the type, so every one is looked at: a column
    is of integers, numbers or truth values if all of its cells are. Other blocks have a
    type.

    Attributes:
        num_rows: rows that were seen.
        num_missing: rows without a value.
        num_infinite: values that are no finite float32, in a column of numbers.
        dtypes: Arrow types of the values, as far as blocks had one.
        lengths: by level of nested lists, the least and the greatest length.
    """

    num_rows: int = 0
    num_missing: int = 0
    num_infinite: int = 0
    dtypes: set[pa.DataType] = dataclasses.field(default_factory=set)
    lengths: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    _has_cells: bool = False
    _cell_kinds: set[str] = dataclasses.field(default_factory=lambda: {"bool", "int", "float"})

    def add(self, array: pa.Array, *, are_cells: bool = False) -> None:
        """Takes in a block.

        Args:
            array: values of some rows, null where one is missing.
            are_cells: whether they are cells of a CSV file, as large_binary.
        """
        self.num_rows += len(array)
        self.num_missing += array.null_count
        array = array.drop_null()
        if not len(array):
            return
        if are_cells:
            self._add_cells(array)
            return
        level = 0
        while _is_list(array.type):
            lengths = _lengths_of(array)
            if len(lengths):
                self.add_lengths(level, int(lengths.min()), int(lengths.max()))
            array, level = array.flatten(), level + 1
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not pa.types.is_null(array.type):
            self.dtypes.add(array.type)
        if pa.types.is_float32(array.type) or pa.types.is_float64(array.type):
            self._count_infinite(array)

    def add_lengths(self, level: int, least: int, greatest: int) -> None:
        """Takes in lengths of lists.

        Args:
            level: how deep the lists are nested in others, from 0.
            least: number of values of the shortest one.
            greatest: number of values of the longest one.
        """
        if level == len(self.lengths):
            self.lengths.append((least, greatest))
        self.lengths[level] = min(least, self.lengths[level][0]), max(greatest, self.lengths[level][1])

    @property
    def dtype(self) -> pa.DataType | None:
        """Type that holds all values: bool, an integer type, float32 or large_string.

        None if there are no values, or none of these types holds them.
        """
        if self._has_cells:
            kinds = {"int": pa.int64(), "bool": pa.bool_(), "float": pa.float32()}
            return next((kinds[kind] for kind in kinds if kind in self._cell_kinds), pa.large_string())
        found = {_declarable(dtype) for dtype in self.dtypes}
        if len(found) <= 1:
            return found.pop() if found else None
        if all(dtype is not None and pa.types.is_integer(dtype) for dtype in found):
            return pa.int64()
        if all(dtype is not None and (pa.types.is_integer(dtype) or dtype == pa.float32()) for dtype in found):
            return pa.float32()
        return None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """`()` for single values, sizes for a fixed shape, `(-1,)` for any number of values; None for others."""
        if all(least == greatest > 0 for least, greatest in self.lengths):
            return tuple(least for least, _ in self.lengths)
        return (-1,) if len(self.lengths) == 1 else None

    def _add_cells(self, cells: pa.Array) -> None:
        self._has_cells = True
        try:
            texts = cells.cast(pa.large_string())
        except pa.ArrowInvalid:  # No UTF-8: what reads the table says where.
            self._cell_kinds.clear()
            return
        if "bool" in self._cell_kinds and not _all_match(texts, _TRUTH):
            self._cell_kinds.discard("bool")
        if "int" in self._cell_kinds and not (_all_match(texts, _INTEGER) and _casts(texts, pa.int64())):
            self._cell_kinds.discard("int")
        if "float" in self._cell_kinds:
            if pc.any(pc.match_substring_regex(texts, _NAME_OF_DIGITS)).as_py() or not _casts(texts, pa.float32()):
                self._cell_kinds.discard("float")
            else:
                self._count_infinite(texts.cast(pa.float32()))

    def _count_infinite(self, numbers: pa.Array) -> None:
        finite = pc.is_finite(numbers.cast(pa.float32(), safe=False))
        self.num_infinite += len(numbers) - int(pc.sum(finite).as_py() or 0)


def _declarable(dtype: pa.DataType) -> pa.DataType | None:
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return dtype
    if pa.types.is_floating(dtype):
        return pa.float32()
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        return pa.int64()
    if pa.types.is_decimal(dtype):
        return pa.int64() if dtype.scale == 0 else pa.float32()
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return pa.large_string() if dtype in texts else None


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _casts(texts: pa.Array, dtype: pa.DataType) -> bool:
    try:
        texts.cast(dtype)
    except pa.ArrowInvalid:
        return False
    return True


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


def _lengths_of(array: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_fixed_size_list(array.type):
        return np.full(len(array), array.type.list_size, np.int64)
    return np.asarray(pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False), np.int64)

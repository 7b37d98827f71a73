"""Decodes columns that pack several values into one text, such as "28:0:0.2:Hangzhou:1,5,12"."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.tables.row_rules import DECODER, show_value
from tfx_gnn.tables.table_layout import CellProblem

_FIELD = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(r"(?P<name>[^\[\]#]*)(?:\[(?P<delimiter>[^\[\]]+)\])?(?:#(?P<buckets>\d+))?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedPart:
    """One part of a packed cell: a value or a list of values.

    Attributes:
        name: name of the feature that the part becomes. Empty: the part is not read.
        value_delimiter: separator of the values of a list. Empty: a single value.
        num_buckets: if given, each text is replaced by its bucket, int64 in
            [0, num_buckets): `tf.strings.to_hash_bucket_fast` of its UTF-8 bytes, so
            that a model can compute it too.
    """

    name: str
    value_delimiter: str = ""
    num_buckets: int | None = None

    def __post_init__(self) -> None:
        if self.num_buckets is not None and self.num_buckets < 1:
            raise ValueError(
                f"`num_buckets` must be at least 1; got {self.num_buckets} for part {self.name!r}. "
                "Leave it out to keep the text."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedColumn:
    """A column of packed cells and its parts: a `ColumnDecoder`.

    Attributes:
        name: name of the column in the table.
        parts: parts of each cell, in order.
        delimiter: separator of the parts; set to "" if there is only one part.
    """

    name: str
    parts: tuple[PackedPart, ...]
    delimiter: str = ":"

    def __post_init__(self) -> None:
        names = self.feature_names
        if not names or len(set(names)) != len(names):
            raise ValueError(
                f"`parts` must have at least one name, and each once; got {list(names)} for column {self.name!r}. "
                "Rename the repeated ones."
            )
        if len(self.parts) > 1 and not self.delimiter:
            raise ValueError(
                f"`delimiter` must be given for {len(self.parts)} parts; got none for column {self.name!r}. "
                "Name the separator."
            )
        if len(self.parts) == 1:
            object.__setattr__(self, "delimiter", "")
        for part in self.parts:
            if self.delimiter and part.value_delimiter and self.delimiter in part.value_delimiter:
                raise ValueError(
                    f"`value_delimiter` must not hold the delimiter of the parts, {self.delimiter!r}; got "
                    f"{part.value_delimiter!r} for part {part.name!r} of column {self.name!r}. Use another one."
                )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the parts that are read, in their order in a cell."""
        return tuple(part.name for part in self.parts if part.name)

    def decode(self, texts: pa.Array) -> tuple[Mapping[str, pa.Array], tuple[CellProblem, ...]]:
        """Splits packed cells into one column per part; see `ColumnDecoder`.

        A column is large_string, null where the part is empty; or, for a list, a large_list of large_string, empty
        where the part is empty. Where texts are hashed, it has int64 in place of large_string. A cell with the wrong
        number of parts is a problem, and null in all columns.

        Example:
            >>> import pyarrow as pa
            >>> user = parse_packed_column("user", "{age}:{tags[,]}")
            >>> columns, problems = user.decode(pa.array(["28:a,b", "31:", "x"], pa.large_string()))
            >>> columns["age"].to_pylist(), columns["tags"].to_pylist()
            (['28', '31', None], [['a', 'b'], [], None])
            >>> problems[0].row, problems[0].requirement, problems[0].value
            (2, "have 2 parts between ':'", "1 in 'x'")
        """
        if len(self.parts) == 1:
            return {self.parts[0].name: _decoded(self.parts[0], texts)}, ()
        lists = pc.split_pattern(texts, self.delimiter)
        counts = np.asarray(pc.list_value_length(lists).to_numpy(zero_copy_only=False), np.int64)
        fits = counts == len(self.parts)
        if fits.all():
            values, spread = lists.flatten(), None
        else:
            values = lists.filter(pa.array(fits)).flatten()
            spread = pa.array(np.cumsum(fits) - 1, mask=~fits)
        columns = {}
        for position, part in enumerate(self.parts):
            if part.name:
                column = _decoded(part, values.take(pa.array(np.arange(position, len(values), len(self.parts)))))
                columns[part.name] = column if spread is None else column.take(spread)
        return columns, tuple(
            CellProblem(
                row=row,
                rule=DECODER,
                column=self.name,
                requirement=f"have {len(self.parts)} parts between {self.delimiter!r}",
                value=f"{counts[row]} in {show_value(texts[row].as_py())}",
                advice=f"Write {self.template}, or correct the decoder.",
            )
            for row in np.flatnonzero(~fits).tolist()
        )

    @property
    def template(self) -> str:
        """Template of the column for `parse_packed_column`: the parts in braces, with delimiters between them."""
        return self.delimiter.join(
            f"{{{part.name}{f'[{part.value_delimiter}]' if part.value_delimiter else ''}"
            f"{'' if part.num_buckets is None else f'#{part.num_buckets}'}}}"
            for part in self.parts
        )


def parse_packed_column(name: str, template: str, place: str = "") -> PackedColumn:
    """Parses a template that describes the cells of a packed column.

    A graph schema declares the template of a column by
    `metadata { extra { key: "decoder.<column>" value: "<template>" } }`. Each part of the
    template is the name of a declared feature in braces. The name may be followed by the
    separator of list values, in brackets, and by `#` and the number of buckets that texts
    are hashed to. A part without a name is not read. All parts have the same delimiter
    between them.

    Example:
        >>> parse_packed_column("user", "{age}:{tags[,]}").parts[1]
        PackedPart(name='tags', value_delimiter=',', num_buckets=None)
    """
    where = f" for column {name!r}{f' of {place}' if place else ''}"
    fields = list(_FIELD.finditer(template))
    between = {template[left.end() : right.start()] for left, right in itertools.pairwise(fields)}
    outside = template[: fields[0].start()] + template[fields[-1].end() :] if fields else template
    if not fields or outside or len(between) > 1:
        raise ValueError(
            f"`decoder` must be names in braces with one and the same delimiter between them; got {template!r}{where}. "
            'Write it like "{age}:{score}:{tags[,]}".'
        )
    parts = []
    for field in fields:
        match = _PART.fullmatch(field[1])
        if match is None:
            raise ValueError(f"`decoder` must name parts as in {{tags[,]#100}}; got {field[0]!r}{where}. Correct it.")
        parts.append(
            PackedPart(
                name=match["name"],
                value_delimiter=match["delimiter"] or "",
                num_buckets=int(match["buckets"]) if match["buckets"] else None,
            )
        )
    return PackedColumn(name=name, parts=tuple(parts), delimiter=between.pop() if between else "")


def _decoded(part: PackedPart, texts: pa.Array) -> pa.Array:
    is_empty = np.asarray(pc.equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False), bool)  # noqa: FBT003
    if not part.value_delimiter:
        values = _values(part, texts)
        return pc.if_else(pa.array(is_empty), pa.scalar(None, values.type), values) if is_empty.any() else values
    lists = pc.split_pattern(texts, part.value_delimiter)
    lengths = np.array(pc.list_value_length(lists).to_numpy(zero_copy_only=False), np.int64)
    values = lists.flatten()
    if is_empty.any():  # An empty text splits into one empty text.
        values = values.filter(pa.array(np.repeat(~is_empty, lengths)))
        lengths[is_empty] = 0
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), _values(part, values))


def _values(part: PackedPart, texts: pa.Array) -> pa.Array:
    return texts if part.num_buckets is None else pa.array(hash_buckets(texts, part.num_buckets))


def hash_buckets(texts: pa.Array, num_buckets: int) -> npt.NDArray[np.int64]:
    """Hashes texts to buckets as `tf.strings.to_hash_bucket_fast` does.

    Example:
        >>> import pyarrow as pa
        >>> hash_buckets(pa.array(["Hangzhou", "Bern", "Hangzhou"]), 10).tolist()
        [4, 1, 4]
    """
    encoded = texts.dictionary_encode()
    words = encoded.dictionary.cast(pa.large_binary()).to_numpy(zero_copy_only=False)
    if not len(words):
        return np.empty(0, np.int64)
    buckets = tf.strings.to_hash_bucket_fast(tf.constant(words, tf.string), num_buckets).numpy()
    return np.asarray(buckets[np.asarray(encoded.indices)], np.int64)

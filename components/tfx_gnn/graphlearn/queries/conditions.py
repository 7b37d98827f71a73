"""The condition on negatives: which share of them has which attributes of the positive."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.plan.negatives import SHARE_TOLERANCE, counts_of_shares

_KINDS = {"int": "int", "float": "float", "str": "string"}
_FLAGS = ("batch_share", "unique")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionColumn:
    """A column of attributes that a share of the negatives has in common with the positive.

    Attributes:
        kind: stored type: "int", "float" or "string".
        column: position among the attributes of that type.
        share: share of the negatives, in [0, 1].
    """

    kind: str
    column: int
    share: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on negatives.

    Attributes:
        columns: integer columns, then float columns, then string columns.
        is_unique: whether the negatives of an input differ from each other.
        is_shared: whether the positives of the whole batch are excluded, in place of the
            neighbors and the own positive.
    """

    columns: tuple[ConditionColumn, ...] = ()
    is_unique: bool = False
    is_shared: bool = False

    @classmethod
    def of(cls, condition: Mapping[str, Any], decoder: Decoder, path: str) -> Condition:
        """Reads GraphLearn's dict; see `NodeStep.where`."""
        keys = [*_FLAGS, *(f"{kind}_{word}" for kind in _KINDS for word in ("cols", "props"))]
        if not isinstance(condition, Mapping):
            raise ValueError(
                f"`condition` must be a dict; got {condition!r} at {path}. Write {{'int_cols': [0], ...}}."
            )
        for key in condition:
            if key not in keys:
                raise ValueError(
                    f"`condition` must have keys of {keys}; got {key!r} at {path}. {did_you_mean(key, keys)}"
                )
        for key in _FLAGS:
            if not isinstance(condition.get(key, False), bool):
                raise ValueError(f"`{key}` must be True or False; got {condition[key]!r} at {path}. Correct it.")
        numbers = {"int": decoder.int_attr_num, "float": decoder.float_attr_num, "str": decoder.string_attr_num}
        columns = [column for kind in _KINDS for column in _columns(condition, kind, numbers[kind], path)]
        total = sum(column.share for column in columns)
        if total > 1 + SHARE_TOLERANCE:
            raise ValueError(
                f"`int_props`, `float_props` and `str_props` must add up to at most 1; got {total:g} at {path}. "
                "Lower some."
            )
        return cls(
            columns=tuple(columns),
            is_unique=condition.get("unique", False),
            is_shared=condition.get("batch_share", False),
        )

    def counts(self, num_negatives: int) -> tuple[int, ...]:
        """Returns how many of the negatives each column gets; the rest has no condition.

        The shares of the columns and of the rest are rounded by largest remainder; ties go to
        the earlier column.

        Example:
            >>> columns = [ConditionColumn(kind="int", column=0, share=share) for share in (0.5, 0.25)]
            >>> Condition(columns=tuple(columns)).counts(5)
            (3, 1)
        """
        return counts_of_shares([column.share for column in self.columns], num_negatives)


def _columns(condition: Mapping[str, Any], kind: str, num_attributes: int, path: str) -> list[ConditionColumn]:
    """Reads the columns of one kind."""
    cols, props = (_list(condition, f"{kind}_{word}", path) for word in ("cols", "props"))
    if len(cols) != len(props):
        raise ValueError(
            f"`{kind}_props` must have one share for each of `{kind}_cols`; got {len(props)} for {len(cols)} at "
            f"{path}. Add or remove some."
        )
    for column, share in zip(cols, props, strict=True):
        if not isinstance(column, int) or isinstance(column, bool) or not 0 <= column < num_attributes:
            raise ValueError(
                f"`{kind}_cols` must be columns of the {_KINDS[kind]} attributes, of which there are {num_attributes}; "
                f"got {column!r} at {path}. Count from 0, hashed strings as integers."
            )
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
            raise ValueError(f"`{kind}_props` must be in [0, 1]; got {share!r} at {path}. Correct it.")
    return [
        ConditionColumn(kind=_KINDS[kind], column=column, share=float(share))
        for column, share in zip(cols, props, strict=True)
    ]


def _list(condition: Mapping[str, Any], key: str, path: str) -> Sequence[Any]:
    values = condition.get(key)
    if values is None:
        return ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f"`{key}` must be a list; got {values!r} at {path}. Write [{values!r}].")
    return values

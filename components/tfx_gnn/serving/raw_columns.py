"""The columns of raw graph tf.Examples: values of single items as the tables had them, and copies with other values."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.feature_defaults import feature_defaults, time_features
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.serving.example_edges import ExampleGraph, list_of
from tfx_gnn.serving.model_interface import REQUEST_SCHEMA_FILE, SAMPLING_PLAN_FILE
from tfx_gnn.tables.table_names import names_time

_ROW_LENGTHS = re.compile(r"(.*)\.d[0-9]+")
_MOST_DISTINCT = 32
_FIRST_SECOND, _LAST_SECOND = 315_532_800, 4_102_444_800
"""The years 1980 and 2100: the rule by which `tfx_gnn.tables` takes whole numbers for times."""


def split_key(key: str) -> tuple[str, str]:
    """Splits the key of a feature into its set and its name.

    Example:
        >>> split_key("nodes/user.age"), split_key("context/year")
        (('nodes/user', 'age'), ('context', 'year'))
    """
    kind, _, rest = key.partition("/")
    if kind == CONTEXT:
        return CONTEXT, rest
    set_name, _, feature = rest.rpartition(".")
    return f"{kind}/{set_name}", feature


class ExampleColumns:
    """The columns of one example, by key such as "nodes/user.age".

    What begins with `#` and auxiliary sets, which hold labels, are no columns; nor are features with more than one
    ragged dimension.

    Args:
        example: raw graph tf.Example.
        graph: its structure.
    """

    def __init__(self, example: tf.train.Example, graph: ExampleGraph) -> None:
        self._example = example
        sizes = {f"{NODES}/{name}": size for name, size in graph.node_sizes.items()}
        sizes |= {f"{EDGES}/{name}": indices.shape[1] for name, indices in graph.edges.items()}
        sizes[CONTEXT] = 1
        features = example.features.feature
        lengths: dict[str, list[str]] = {}
        for key in features:
            if found := _ROW_LENGTHS.fullmatch(key):
                lengths.setdefault(found[1], []).append(key)
        self.ragged = {key: names[0] for key, names in lengths.items() if len(names) == 1}
        self.rows: dict[str, list[list[Any]]] = {}
        for key in sorted(features):
            set_name, feature = split_key(key)
            if set_name not in sizes or feature.startswith("#") or _ROW_LENGTHS.fullmatch(key):
                continue
            if key in lengths and key not in self.ragged:
                continue
            row_lengths = list(list_of(features[self.ragged[key]])) if key in self.ragged else None
            rows = _rows(list(list_of(features[key])), sizes[set_name], row_lengths)
            if rows is not None:
                self.rows[key] = rows

    def replaced(self, changes: Mapping[str, Mapping[int, Sequence[Any]]]) -> tf.train.Example:
        """Copies the example with other values of single items.

        Args:
            changes: numbers or bytes by item, by column; as many as there are but in ragged columns.

        Returns:
            The copy.
        """
        changed = tf.train.Example()
        changed.CopyFrom(self._example)
        features = changed.features.feature
        for key, of_items in changes.items():
            rows = [of_items.get(index, row) for index, row in enumerate(self.rows[key])]
            if key in self.ragged:
                lengths = list_of(features[self.ragged[key]])
                inner = max(1, sum(map(len, self.rows[key])) // max(1, sum(lengths)))
                lengths[:] = [len(row) // inner for row in rows]
            list_of(features[key])[:] = [value for row in rows for value in row]
        return changed


def _rows(values: list[Any], num_items: int, row_lengths: Sequence[int] | None) -> list[list[Any]] | None:
    """Splits the values of a column by item; None if there are none, as of labels that a request lacks."""
    if row_lengths is not None:
        inner = len(values) // sum(row_lengths) if sum(row_lengths) else 1
        ends = [int(end) * inner for end in np.cumsum(row_lengths)]
        return [values[end - length * inner : end] for end, length in zip(ends, row_lengths, strict=True)]
    width = len(values) // num_items if num_items else 0
    return [values[start : start + width] for start in range(0, len(values), width)] if width else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawColumns:
    """What a model's files, and a sample of examples, tell of columns.

    Attributes:
        missing: what stands for no value, spelled as in a CSV file, by column that declares it.
        times: columns of seconds since 1970.
        ragged: columns whose items have different numbers of values.
        typical: what a removed value becomes: the mean of floats, the median of integers and the most frequent text,
            place by place; none in ragged columns.
        distinct: up to 32 different values of an item, by column.
    """

    missing: Mapping[str, str]
    times: Collection[str]
    ragged: Collection[str]
    typical: Mapping[str, list[Any]]
    distinct: Mapping[str, list[tuple[Any, ...]]]

    @classmethod
    def of(cls, examples: Sequence[ExampleColumns], saved_model_dir: str) -> RawColumns:
        """Reads them.

        A column holds times if the schema, the plan of the examples or its name says so; and if all of its values are
        whole seconds between 1980 and 2100.

        Args:
            examples: a sample, at least one.
            saved_model_dir: folder that holds `saved_model.pb`.
        """
        path = os.path.join(saved_model_dir, REQUEST_SCHEMA_FILE)
        schema = read_schema(path) if tf.io.gfile.exists(path) else GraphSchema()
        missing, declared_times = _missing_values(schema), _declared_times(schema)
        rows: dict[str, list[list[Any]]] = {}
        for example in examples:
            for key, found in example.rows.items():
                rows.setdefault(key, []).extend(found)
        filled = {key: [row for row in found if not _is_missing(row, missing.get(key))] for key, found in rows.items()}
        named = _planned_times(saved_model_dir) | declared_times
        ragged = {key for example in examples for key in example.ragged}
        return cls(
            missing=missing,
            times={
                key
                for key, found in filled.items()
                if (key in named or names_time(split_key(key)[1])) and _are_seconds(found)
            },
            ragged=ragged,
            typical={key: [] if key in ragged else _typical(filled[key] or rows[key]) for key in rows},
            distinct={key: sorted(set(map(tuple, found)))[:_MOST_DISTINCT] for key, found in rows.items()},
        )

    def values_of(self, example: ExampleColumns, item_set: str, index: int) -> dict[str, Any]:
        """Returns the values of an item by column, as JSON values.

        Args:
            example: the example.
            item_set: such as "nodes/user", or "context".
            index: position in the set.

        Returns:
            Numbers, truth values and texts; lists in columns of several values; None where a value is missing; times as
            texts in ISO 8601, in UTC.
        """
        found = {}
        for key, rows in example.rows.items():
            set_name, feature = split_key(key)
            if set_name == item_set:
                plain: Any = [self._plain(key, value) for value in rows[index]]
                if _is_missing(rows[index], self.missing.get(key)):
                    plain = None
                elif len(plain) == 1 and key not in self.ragged:
                    (plain,) = plain
                found[feature] = plain
        return found

    def _plain(self, key: str, value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, float):
            # Examples hold float32, and 0.1 is read as 0.10000000149011612.
            return float(str(np.float32(value)))
        if key in self.times:
            return dt.datetime.fromtimestamp(value, dt.timezone.utc).isoformat().replace("+00:00", "Z")
        return value


def _declarations(schema: GraphSchema) -> Iterator[tuple[str, Any]]:
    """Yields the beginning of the keys of each set's columns, and what is declared of the set."""
    yield f"{CONTEXT}/", schema.context
    yield from ((f"{NODES}/{name}.", declared) for name, declared in schema.node_sets.items())
    yield from ((f"{EDGES}/{name}.", declared) for name, declared in schema.edge_sets.items())


def _missing_values(schema: GraphSchema) -> dict[str, str]:
    return {
        start + name: value
        for start, declared in _declarations(schema)
        for name, value in feature_defaults(declared).items()
    }


def _declared_times(schema: GraphSchema) -> set[str]:
    return {start + name for start, declared in _declarations(schema) for name in time_features(declared)}


def _planned_times(saved_model_dir: str) -> set[str]:
    """Lists the columns that the plan of the examples takes for times."""
    recorded = read_recorded_plan(os.path.join(saved_model_dir, SAMPLING_PLAN_FILE))
    if recorded is None:
        return set()
    plan, found = recorded.plan, set()
    seeds = {f"{NODES}/{plan.seed_node_set}", f"{EDGES}/{plan.seed_edge_set}"}
    for name in (plan.temporal.seed_time if plan.temporal else "", plan.splits.time_feature):
        found |= {f"{one}.{name}" for one in seeds} | {f"{CONTEXT}/{name}"} if name else set()
    if plan.temporal:
        found |= {f"{EDGES}/{name}.{feature}" for name, feature in plan.temporal.edge_times.items()}
    return found


def _is_missing(values: Sequence[Any], spelled: str | None) -> bool:
    """Whether the values of an item are those that the tables declare for items without one."""
    return spelled is not None and len(values) > 0 and all(_equals(value, spelled) for value in values)


def _equals(value: Any, spelled: str) -> bool:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace") == spelled
    if spelled.lower() in ("true", "false"):
        return bool(value) == (spelled.lower() == "true")
    number = float(spelled or 0)
    return bool(np.float32(value) == np.float32(number)) or bool(np.isnan(number) and np.isnan(value))


def _are_seconds(rows: Sequence[Sequence[Any]]) -> bool:
    values = [value for row in rows for value in row]
    return bool(values) and all(isinstance(value, int) and _FIRST_SECOND <= value < _LAST_SECOND for value in values)


def _typical(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [_typical_of(values) for values in zip(*rows, strict=True)]


def _typical_of(values: Sequence[Any]) -> Any:
    if isinstance(values[0], bytes):
        return collections.Counter(values).most_common(1)[0][0]
    if isinstance(values[0], float):
        finite = [value for value in values if np.isfinite(value)]
        return float(np.mean(finite)) if finite else 0.0
    return sorted(values)[(len(values) - 1) // 2]

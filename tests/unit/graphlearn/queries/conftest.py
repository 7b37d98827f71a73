"""Small stores for the tests of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graphlearn import Decoder, GraphStore
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

Columns = Mapping[str, Sequence[Any]]


def _arrow(values: Sequence[Any]) -> pa.Array:
    if isinstance(values[0] if len(values) else "", str):
        return pa.array(list(values), pa.large_string())
    return pa.array(np.asarray(values))


def _decoder(columns: Columns) -> Decoder:
    names = [name for name in columns if name not in ("id", "weight", "label", "timestamp")]
    types = {str: "string", int: "int", float: "float"}
    return Decoder(
        weighted="weight" in columns,
        labeled="label" in columns,
        timestamped="timestamp" in columns,
        attr_types=[types[type(columns[name][0])] for name in names],
        attr_names=names,
    )


def _declare(declared: Any, columns: Columns) -> None:
    declared.SetInParent()
    dtypes = {str: types_pb2.DT_STRING, int: types_pb2.DT_INT64, float: types_pb2.DT_FLOAT}
    for name, values in columns.items():
        if name != "id":
            declared.features[name].dtype = dtypes[type(values[0])]


@pytest.fixture(scope="session")
def make_store() -> Callable[..., GraphStore]:
    """Makes a store from {node type: columns, "id" first} and {edge type: (source, target, pairs, columns)}."""

    def make(
        nodes: Mapping[str, Columns],
        edges: Mapping[str, tuple[str, str, Sequence[tuple[Any, Any]], Columns]],
        **options: Any,
    ) -> GraphStore:
        schema = GraphSchema()
        node_tables, edge_tables = {}, {}
        for name, columns in nodes.items():
            _declare(schema.node_sets[name], columns)
            features = {key: _arrow(values) for key, values in columns.items() if key != "id"}
            node_tables[name] = NodeTable(path=name, ids=_arrow(columns["id"]), features=features)
        for name, (source, target, pairs, columns) in edges.items():
            schema.edge_sets[name].source, schema.edge_sets[name].target = source, target
            _declare(schema.edge_sets[name], columns)
            rows = [{one: row for row, one in enumerate(nodes[end]["id"])} for end in (source, target)]
            edge_tables[name] = EdgeTable(
                path=name,
                source_set=source,
                target_set=target,
                sources=np.array([rows[0][pair[0]] for pair in pairs], np.int64),
                targets=np.array([rows[1][pair[1]] for pair in pairs], np.int64),
                features={key: _arrow(values) for key, values in columns.items()},
            )
        return GraphStore(
            GraphTables(schema=schema, node_tables=node_tables, edge_tables=edge_tables),
            node_decoders={name: _decoder(columns) for name, columns in nodes.items()},
            edge_decoders={name: _decoder(edge[3]) for name, edge in edges.items()},
            **options,
        )

    return make


@pytest.fixture(scope="session")
def shop(make_store: Callable[..., GraphStore]) -> GraphStore:
    """Ten users, each of whom bought the three items after their own number, modulo ten, at times 1, 2 and 3."""
    users, items = list(range(1, 11)), list(range(100, 110))
    pairs = [(user, 100 + (user + number) % 10) for user in users for number in range(3)]
    return make_store(
        {
            "user": {"id": users, "weight": [float(user) for user in users], "label": [user % 2 for user in users]},
            "item": {
                "id": items,
                "size": [item % 2 for item in items],
                "price": [item / 2 for item in items],
                "color": [["red", "blue"][item % 2] for item in items],
            },
        },
        {
            "buy": ("user", "item", pairs, {"weight": [3.0, 2.0, 1.0] * 10, "timestamp": [1, 2, 3] * 10}),
            "knows": ("user", "user", [(user, user % 10 + 1) for user in users], {}),
        },
    )


def chi_square(observed: Sequence[float], expected: Sequence[float]) -> float:
    """Pearson's statistic of counts against expected shares."""
    counts, shares = np.asarray(observed, float), np.asarray(expected, float)
    means = counts.sum() * shares / shares.sum()
    return float(((counts - means) ** 2 / means).sum())


@pytest.fixture(scope="session")
def statistic() -> Callable[[Sequence[float], Sequence[float]], float]:
    """Pearson's statistic; for k shares it is below the 0.999 quantile of chi-square with k - 1 degrees."""
    return chi_square

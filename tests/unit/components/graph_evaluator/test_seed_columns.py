from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.components.graph_evaluator.seed_columns import SeedColumns, find_seed_columns
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

FEATURES = """
  features { key: "#id" value { dtype: DT_STRING } }
  features { key: "color" value { dtype: DT_STRING } }
  features { key: "at" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  features { key: "year" value { dtype: DT_INT64 } }
"""
OF_NODES = f"""
node_sets {{ key: "item" value {{ {FEATURES} }} }}
node_sets {{ key: "_readout" value {{ features {{ key: "label" value {{ dtype: DT_STRING }} }} }} }}
edge_sets {{ key: "_readout/seed" value {{ source: "item" target: "_readout" }} }}
"""
OF_EDGES = f"""
node_sets {{ key: "shop" value {{ }} }}
node_sets {{ key: "_shadow/item" value {{ }} }}
node_sets {{ key: "_readout" value {{ }} }}
edge_sets {{ key: "item" value {{ source: "shop" target: "shop" {FEATURES} }} }}
edge_sets {{ key: "_readout/seed" value {{ source: "_shadow/item" target: "_readout" }} }}
"""
OF_PAIRS = """
node_sets { key: "item" value { features { key: "year" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value { } }
edge_sets { key: "_readout/source" value { source: "item" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""


def _schema(text: str) -> GraphSchema:
    return text_format.Parse(text, GraphSchema())


def _features(**changes: Sequence[Any]) -> Mapping[str, Any]:
    """Three items of which the second is the seed."""
    content: dict[str, Sequence[Any]] = {
        "size": [3],
        "color": [b"red", b"blue", b"red"],
        "at": [0.0, 0.5, float("nan"), 1.5, 2.0, 2.5],
        "year": [2001, 2002, 2003],
        "seed": [1],
        **changes,
    }
    example = tf.train.Example()
    for name, values in content.items():
        key = {"size": "nodes/item.#size", "seed": "edges/_readout/seed.#source"}.get(name, f"nodes/item.{name}")
        kind = {"color": "bytes_list", "at": "float_list"}.get(name, "int64_list")
        getattr(example.features.feature[key], kind).value.extend(values)
    return example.features.feature


def _columns(text: str) -> SeedColumns:
    found = find_seed_columns(_schema(text))
    assert found is not None
    return found


@pytest.mark.parametrize("schema", [OF_NODES, OF_EDGES], ids=["nodes", "edges"])
def test_columns_are_the_features_of_one_shape(schema: str) -> None:
    columns = _columns(schema)

    assert columns.set_name == "item"
    assert columns.names == ("at[0]", "at[1]", "color", "year")
    assert columns.is_text.tolist() == [False, False, True, False]
    assert columns.left_out == ("words",)


def test_pairs_have_no_columns() -> None:
    assert find_seed_columns(_schema(OF_PAIRS)) is None


def test_values_are_those_of_the_seed_and_equal_texts_have_equal_numbers() -> None:
    examples = [_features(), _features(seed=[0]), _features(seed=[2])]

    values = _columns(OF_NODES).values(examples, ["a", "b", "c"])

    np.testing.assert_array_equal(values[:, 0], [np.nan, 0.0, 2.0])
    assert values[:, 1].tolist() == [1.5, 0.5, 2.5]
    assert values[:, 3].tolist() == [2002.0, 2001.0, 2003.0]
    blue, *reds = values[:, 2].tolist()
    assert reds[0] == reds[1] != blue
    assert all(one == int(one) < 1 << 53 for one in (blue, *reds))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"seed": []}, "one seed of 'item' each; got none in somewhere"),
        ({"seed": [3]}, "one seed of 'item' each; got none in somewhere"),
        (
            {"year": [2001]},
            "1 values of 'nodes/item.year' per item, as its graph schema says; got 1 values for 3 items",
        ),
    ],
)
def test_examples_that_do_not_fit_their_schema_are_refused(changes: dict[str, list[Any]], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        _columns(OF_NODES).values([_features(**changes)], ["somewhere"])

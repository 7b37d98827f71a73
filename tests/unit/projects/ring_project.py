"""Rings of 3 to 6 atoms with two labels: a whole user project for tasks about graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.layers import MapFeatures

SCHEMA = """
context { metadata { filename: "rings.csv" }
  features { key: "heat" value { dtype: DT_FLOAT } }
  features { key: "length" value { dtype: DT_FLOAT } }
  features { key: "is_even" value { dtype: DT_INT64 } } }
node_sets { key: "atom" value { metadata { filename: "atoms.csv" }
  features { key: "mass" value { dtype: DT_FLOAT } } } }
edge_sets { key: "bond" value { source: "atom" target: "atom" metadata { filename: "bonds.csv" } } }
"""


def write_tables(folder: Path) -> None:
    """Writes 24 rings, whose heat says nothing."""
    folder.mkdir()
    sizes = [3 + number % 4 for number in range(24)]
    rings = [f"{i},0.5,{size},{1 - size % 2}" for i, size in enumerate(sizes)]
    atoms = [f"{i},{k},1" for i, size in enumerate(sizes) for k in range(size)]
    bonds = [f"{i},{k},{(k + 1) % size}" for i, size in enumerate(sizes) for k in range(size)]
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    (folder / "rings.csv").write_text("\n".join(["graph_id,heat,length,is_even", *rings]))
    (folder / "atoms.csv").write_text("\n".join(["graph_id,id,mass", *atoms]))
    (folder / "bonds.csv").write_text("\n".join(["graph_id,source,target", *bonds]))


def preprocessing_fn(graph: Any) -> Any:
    return graph


def model_fn(graph_spec: Any, tft_output: Any, *, objective: Any) -> tf_keras.Model:
    names = sorted(graph_spec.context_spec.features_spec)
    assert names == ["heat"], names
    inputs = tf_keras.Input(type_spec=graph_spec)
    states = MapFeatures(node_sets_fn=lambda nodes, **_: nodes["mass"][:, tf.newaxis])(inputs)
    model = tf_keras.Model(inputs, objective.output_layer()(states))
    model.compile(tf_keras.optimizers.Adam(0.01), **objective.compile_arguments())
    return model

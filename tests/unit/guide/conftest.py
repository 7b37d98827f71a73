"""Data for the snippets of TF-GNN's input pipeline guide: papers ("docs") that cite each other, and their authors.

The snippets stand in the tests as the guide has them, but for the import (`import tfx_gnn as tfgnn`), Keras
(`tf_keras`), and what the guide leaves out.
"""

from __future__ import annotations

import types

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn

# Numbers of docs and of citations of the first three graphs, as in the guide's section on merging.
SIZES = ((4, 3), (5, 6), (6, 2))
_LABEL = 'features { key: "class_id" value { dtype: DT_INT64 } }'


def schema_text(*, label_on: str | None = "_readout", readout: bool = True) -> str:
    """The schema of graphs whose label is a feature of the given node set."""
    readout_sets = f"""
        node_sets {{ key: "_readout" value {{ {_LABEL if label_on == "_readout" else ""} }} }}
        edge_sets {{ key: "_readout/seed" value {{ source: "docs" target: "_readout" }} }}
    """
    return f"""
        node_sets {{
          key: "docs"
          value {{
            features {{ key: "id" value {{ dtype: DT_STRING }} }}
            features {{ key: "x" value {{ dtype: DT_FLOAT shape {{ dim {{ size: 2 }} }} }} }}
            features {{ key: "words" value {{ dtype: DT_STRING shape {{ dim {{ size: -1 }} }} }} }}
            {_LABEL if label_on == "docs" else ""}
          }}
        }}
        node_sets {{ key: "authors" value {{ features {{ key: "id" value {{ dtype: DT_STRING }} }} }} }}
        edge_sets {{ key: "cites" value {{ source: "docs" target: "docs" }} }}
        edge_sets {{ key: "writes" value {{ source: "authors" target: "docs" }} }}
        {readout_sets if readout else ""}
    """


def record(i: int, *, label_on: str | None = "_readout", readout: bool = True, prefix: str = "") -> bytes:
    """The i-th graph as a tf.Example, written key by key. The seed is doc 0; x of all docs tells the class, i % 2."""
    num_docs, num_cites = SIZES[i % 3]
    features = {
        "nodes/docs.#size": [num_docs],
        "nodes/docs.id": [f"{i}-{doc}".encode() for doc in range(num_docs)],
        "nodes/docs.x": [1.0 - 2.0 * (i % 2), float(i % 3)] * num_docs,
        "nodes/docs.words": [b"graph", b"neural"] * (num_docs // 2),
        "nodes/docs.words.d1": [2] * (num_docs // 2) + [0] * (num_docs - num_docs // 2),
        "nodes/authors.#size": [1],
        "nodes/authors.id": [b"ann" if i % 2 else b"bob"],
        "edges/cites.#size": [num_cites],
        "edges/cites.#source": [edge % num_docs for edge in range(num_cites)],
        "edges/cites.#target": [0] * num_cites,
        "edges/writes.#size": [num_docs],
        "edges/writes.#source": [0] * num_docs,
        "edges/writes.#target": list(range(num_docs)),
    }
    if readout:
        features["nodes/_readout.#size"] = [1]
        features["edges/_readout/seed.#size"] = [1]
        features["edges/_readout/seed.#source"] = [0]
        features["edges/_readout/seed.#target"] = [0]
    if label_on == "_readout":
        features["nodes/_readout.class_id"] = [i % 2]
    if label_on == "docs":
        features["nodes/docs.class_id"] = [i % 2] + [7] * (num_docs - 1)
    return example({prefix + key: values for key, values in features.items()})


def example(features: dict[str, list]) -> bytes:
    """A serialized tf.Example of lists of bytes, ints or floats."""
    proto = tf.train.Example()
    for key, values in features.items():
        feature = proto.features.feature[key]
        kinds = {bytes: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        kinds[type(values[0])].value.extend(values)
    return proto.SerializeToString()


@pytest.fixture(scope="session")
def my_graph(tmp_path_factory):
    """Makes a folder with data.tfrecord and graph_schema.pbtxt, once for each kind."""
    folders = {}

    def make(num_graphs=12, **options):
        key = (num_graphs, *sorted(options.items()))
        if key not in folders:
            folder = folders[key] = tmp_path_factory.mktemp("my_graph")
            (folder / "graph_schema.pbtxt").write_text(schema_text(**options))
            with tf.io.TFRecordWriter(str(folder / "data.tfrecord")) as writer:
                for i in range(num_graphs):
                    writer.write(record(i, **options))
        return folders[key]

    return make


def node_sets_fn(node_set, *, node_set_name):
    """The guide's callback for MapFeatures."""
    features = node_set.get_features_dict()

    # Replace "id" by "hashed_id".
    ids = features.pop("id")
    num_bins = 100000 if node_set_name == "docs" else 20000
    features["hashed_id"] = tf_keras.layers.Hashing(num_bins=num_bins)(ids)

    # More features could be handled here.

    return features


def gnn_logits(model_input):
    """What the guide leaves to its modeling guide: hidden states, one convolution, and a readout of the seeds."""

    def set_initial_node_states(node_set, *, node_set_name):
        if node_set_name == "docs":
            return tf_keras.layers.Dense(4)(node_set["x"])
        return tf_keras.layers.Embedding(20000, 4)(node_set["hashed_id"])

    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=set_initial_node_states)(model_input)
    graph = tfgnn.keras.layers.GraphUpdate(
        node_sets={
            "docs": tfgnn.keras.layers.NodeSetUpdate(
                {
                    "cites": tfgnn.keras.layers.SimpleConv(tf_keras.layers.Dense(4, "relu")),
                    "writes": tfgnn.keras.layers.SimpleConv(tf_keras.layers.Dense(4, "relu")),
                },
                tfgnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(4)),
            )
        }
    )(graph)
    seeds = tfgnn.keras.layers.StructuredReadout("seed")(graph)
    return tf_keras.layers.Dense(2)(seeds)


@pytest.fixture(scope="session", name="data")
def data_fixture():
    """The functions above."""
    return types.SimpleNamespace(
        SIZES=SIZES,
        example=example,
        gnn_logits=gnn_logits,
        node_sets_fn=node_sets_fn,
        record=record,
        schema_text=schema_text,
    )


@pytest.fixture(scope="session")
def graphs():
    """Makes graphs of docs that cite each other, of the guide's sizes, and nothing else; class_id on docs."""
    schema = (
        'node_sets { key: "docs" value { ' + _LABEL + " } }"
        ' edge_sets { key: "cites" value { source: "docs" target: "docs" } }'
    )
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(schema))

    def make(sizes=SIZES):
        records = [
            example(
                {
                    "nodes/docs.#size": [num_docs],
                    "nodes/docs.class_id": list(range(num_docs)),
                    "edges/cites.#size": [num_cites],
                    **({"edges/cites.#source": [num_docs - 1] * num_cites} if num_cites else {}),
                    **({"edges/cites.#target": [0] * num_cites} if num_cites else {}),
                }
            )
            for num_docs, num_cites in sizes
        ]
        return tf.data.Dataset.from_tensor_slices(records).map(lambda s: tfgnn.parse_single_example(spec, s))

    return make

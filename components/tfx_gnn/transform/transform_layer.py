"""The saved transform as a function on graphs, and as a Keras layer.

A model sees only numbers, without labels and original ids. Training batches and served
requests both go through the functions here, so a model gets the same features in both.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.records import examples_folder
from tfx_gnn.transform.application import TRANSFORMED_METADATA_DIR, SavedGraphTransform, transform_merged_features


def check_numeric_features(spec: GraphTensorSpec, *, is_declared: bool = False) -> None:
    """Refuses a spec of transformed graphs with strings, except in features whose names begin with `#`.

    Args:
        spec: the spec.
        is_declared: whether the features are declared by the option `features`, without a preprocessing function.

    Raises:
        ValueError: if there are strings.
    """
    strings = []
    for kind, sets in (("nodes", spec.node_sets_spec), ("edges", spec.edge_sets_spec)):
        for set_name, set_spec in sets.items():
            strings += [f"{kind}/{set_name}.{name}" for name in _strings(set_spec.features_spec)]
    strings += [f"context/{name}" for name in _strings(spec.context_spec.features_spec)]
    if strings:
        option, advice = (
            "preprocessing_fn",
            ("Map them to numbers, for example with tft.compute_and_apply_vocabulary, or leave them out."),
        )
        if is_declared:
            option, advice = "features", "Choose `vocabulary`, `hash` or `drop` for them."
        raise ValueError(f"`{option}` must turn every feature into numbers; got strings in {sorted(strings)}. {advice}")


def without_reserved_features(graph: GraphTensor) -> GraphTensor:
    """Removes the features whose names begin with `#`, such as original ids."""
    return graph.remove_features(
        context=_reserved(graph.context.features),
        node_sets={name: _reserved(node_set.features) for name, node_set in graph.node_sets.items()},
        edge_sets={name: _reserved(edge_set.features) for name, edge_set in graph.edge_sets.items()},
    )


def with_declared_shapes(value: const.Field, spec: Any) -> const.Field:
    """Gives a feature of a scalar graph the dtype and the static item shape declared in a spec of one graph.

    Its number of items stays as static as before; items of another shape raise an error at run time.
    """
    value = tf.cast(value, spec.dtype)
    if isinstance(value, tf.RaggedTensor):
        return value.with_row_splits_dtype(spec.row_splits_dtype)
    return tf.ensure_shape(value, [value.shape[0], *spec.shape[1:]])


def _reserved(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith("#")]


def _strings(features_spec: Mapping[str, Any]) -> list[str]:
    return [name for name, spec in features_spec.items() if spec.dtype == tf.string and not name.startswith("#")]


class GraphTransformLayer(tf_keras.layers.Layer):
    """Transforms raw graphs as GraphTransform did, for code that reads raw examples.

    Create it under `strategy.scope()` and use it in `Dataset.map` after `parse_and_merge`: it has no weights,
    only vocabularies, which tf.data shares between replicas. Neither Beam nor tf.Transform is needed.

    Call arguments:
        graph: scalar GraphTensor of the schema before the transform, with any number of components; labels
            may be absent.

    Call returns:
        The same graph with the transformed features.
    """

    def __init__(self, transform_graph_dir: str, spec: GraphTensorSpec | None = None, **kwargs: Any) -> None:
        """Loads the transform.

        Args:
            transform_graph_dir: output of GraphTransform.
            spec: spec of one transformed graph with the features to return, their dtypes and shapes; by
                default all features of the transformed graph schema.
            **kwargs: arguments of every Keras layer, such as `name`.

        Raises:
            ValueError: if the folder holds no transform of graphs, or `spec` has a feature that the transform
                does not make.
        """
        super().__init__(autocast=False, **kwargs)
        self._transform_graph_dir = transform_graph_dir
        self._spec = spec
        self._transform = SavedGraphTransform(transform_graph_dir)
        self._transformed_spec = spec or _transformed_spec(transform_graph_dir)
        missing = sorted(_keys_of(self._transformed_spec) - set(self._transform.transformed_keys))
        if missing:
            raise ValueError(
                f"`spec` must have features of the transformed graph; got {missing}, which {transform_graph_dir!r} "
                f"does not make. Choose among {list(self._transform.transformed_keys)}."
            )

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Transforms a graph; see the class.

        Args:
            graph: scalar raw graph.

        Returns:
            The transformed graph.
        """
        return transform_graph_tensor(graph, self._transform, self._transformed_spec)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that create the same layer; refers to the folder without copying it."""
        return {**super().get_config(), "transform_graph_dir": self._transform_graph_dir, "spec": self._spec}


def transform_graph_tensor(
    raw: GraphTensor, transform: SavedGraphTransform, spec: GraphTensorSpec, *, labels: Collection[str] = ()
) -> GraphTensor:
    """Transforms a scalar graph of any number of components; the result has the features of `spec`.

    `spec` is that of one transformed graph. Features of auxiliary sets, and labels, may be absent; `labels` are
    tf.Example keys of labels in other sets.
    """
    if raw.rank != 0:
        raise ValueError(
            f"`raw` must be a scalar graph; got one of shape {raw.shape}. Merge a batch by "
            "merge_batch_to_components, or parse it by parse_and_merge."
        )
    features: dict[str, const.Field] = {f"context/{name}": value for name, value in raw.context.features.items()}
    sizes = {}
    for name, node_set in raw.node_sets.items():
        sizes[f"nodes/{name}"] = node_set.sizes
        features.update({f"nodes/{name}.{feature}": value for feature, value in node_set.features.items()})
    for name, edge_set in raw.edge_sets.items():
        sizes[f"edges/{name}"] = edge_set.sizes
        features.update({f"edges/{name}.{feature}": value for feature, value in edge_set.features.items()})
        features[f"edges/{name}.{const.SOURCE_NAME}"] = edge_set.adjacency.source
        features[f"edges/{name}.{const.TARGET_NAME}"] = edge_set.adjacency.target
    transformed = transform_merged_features(transform, features, sizes, labels=labels)

    def pick(prefix: str, specs: Mapping[str, Any]) -> dict[str, const.Field]:
        return {name: with_declared_shapes(transformed[prefix + name], declared) for name, declared in specs.items()}

    return raw.replace_features(
        context=pick("context/", spec.context_spec.features_spec),
        node_sets={name: pick(f"nodes/{name}.", piece.features_spec) for name, piece in spec.node_sets_spec.items()},
        edge_sets={name: pick(f"edges/{name}.", piece.features_spec) for name, piece in spec.edge_sets_spec.items()},
    )


def _transformed_spec(transform_graph_dir: str) -> GraphTensorSpec:
    path = examples_folder.graph_schema_path(os.path.join(transform_graph_dir, TRANSFORMED_METADATA_DIR))
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`spec` must be given if the transform does not describe its output; got None, and no {path!r}. It was "
            "made by an earlier version: run GraphTransform again, or give the spec."
        )
    return create_graph_spec_from_schema_pb(graph_schema_io.read_schema(path))


def _keys_of(spec: GraphTensorSpec) -> set[str]:
    keys = {f"context/{name}" for name in spec.context_spec.features_spec}
    for kind, sets in ((const.NODES, spec.node_sets_spec), (const.EDGES, spec.edge_sets_spec)):
        keys |= {f"{kind}/{name}.{feature}" for name, piece in sets.items() for feature in piece.features_spec}
    return keys

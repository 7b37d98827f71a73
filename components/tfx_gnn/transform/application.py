"""The saved transform: the contents of a TransformGraph folder, and its application to a merged batch of raw graphs.

Training data and served requests both go through `transform_merged_features`, so they cannot
differ. It needs only TensorFlow: neither Beam nor tf.Transform is imported.

tf.Transform describes a ragged output by generated columns (`<key>$ragged_values`,
`<key>$row_lengths_1`), which the transformed examples do not have.
`rewrite_transformed_metadata` gives its schema the keys that the examples do have.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_metadata.proto.v0 import schema_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.context_labels import remove_lost_marks
from tfx_gnn.graph.schema.feature_defaults import remove_feature_defaults
from tfx_gnn.graph.tensor.fields import row_indices
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.text_files import read_json
from tfx_gnn.records import examples_folder
from tfx_gnn.records.graph_layout import FeatureColumn, graph_layout, schema_features
from tfx_gnn.records.tfmd_schema import make_tfmd_schema, read_tfmd_schema, write_tfmd_schema

TRANSFORM_FN_DIR = "transform_fn"
RAW_METADATA_DIR = "metadata"
TRANSFORMED_METADATA_DIR = "transformed_metadata"
"""`tft.TFTransformOutput` expects all three at these paths."""

TRANSFORM_RECORD_FILE = "graph_transform.json"
"""File in the transform graph and next to the transformed examples."""

EXAMPLES_AT_ONCE = 256
"""Number of examples in a block that GraphTransform transforms at once.

In some TensorFlow operations, such as logarithms, the last bit of a result depends on whether the value is in the
middle or at the end of a tensor. To get exactly the same floats, transform the same blocks.
"""

_DTYPES = {
    schema_pb2.INT: types_pb2.DT_INT64,
    schema_pb2.FLOAT: types_pb2.DT_FLOAT,
    schema_pb2.BYTES: types_pb2.DT_STRING,
}


class SavedGraphTransform(tf.Module):
    """The transform of a TransformGraph folder, ready to be called and exported.

    Vocabulary files are assets of the loaded SavedModel. Keep this object as an attribute of the
    exported tf.Module, so that they are exported with it.

    Attributes:
        raw_layout: the keys of a graph before the transform.
        transformed_keys: keys of the transformed features, in alphabetical order.
        nonfinite_features: keys of transformed features that may be NaN or infinite.
    """

    def __init__(self, transform_graph_dir: str) -> None:
        """Loads the transform.

        Args:
            transform_graph_dir: output of GraphTransform.

        Raises:
            ValueError: if the folder does not hold a transform of graphs.
        """
        super().__init__()
        path = examples_folder.graph_schema_path(os.path.join(transform_graph_dir, RAW_METADATA_DIR))
        if not tf.io.gfile.exists(path):
            raise ValueError(
                f"`transform_graph_dir` must be an output of GraphTransform; got {transform_graph_dir!r}, where "
                f"{path!r} is missing. A TransformGraph of the stock Transform component does not handle graphs."
            )
        self.raw_layout = graph_layout(graph_schema_io.read_schema(path))
        record = read_transform_record(transform_graph_dir)
        self.nonfinite_features = frozenset(record.nonfinite_features if record else ())
        self._loaded: Any = tf.saved_model.load(os.path.join(transform_graph_dir, TRANSFORM_FN_DIR))
        # Older versions of tf.Transform saved a tf.function with one concrete function; newer ones save only this one.
        saved_fn = self._loaded.transform_fn
        self._transform_fn: Any = (
            saved_fn.concrete_functions[0] if hasattr(saved_fn, "concrete_functions") else saved_fn
        )
        structure = {key for one_set in self.raw_layout.sets for key in one_set.structure_keys}
        self.transformed_keys = tuple(sorted(set(self._transform_fn.structured_outputs) - structure))

    @property
    def graph(self) -> tf.Graph:
        """The graph of the transform's operations."""
        return self._transform_fn.graph

    @property
    def captures(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Resources and constants that the transform uses, each with the placeholder of `graph` that stands for it."""
        return list(self._transform_fn.graph.captures)

    @property
    def placeholders(self) -> dict[str, tf.Tensor]:
        """Placeholders of `graph` that stand for the flat values of features, by key."""
        (signature,), _ = self._transform_fn.structured_input_signature
        inputs = iter(self._transform_fn.graph.inputs)
        parts = {
            key: [next(inputs) for _ in tf.nest.flatten(signature[key], expand_composites=True)]
            for key in sorted(signature)
        }
        return {key: tensors[0] for key, tensors in parts.items()}

    def apply_to_ragged(self, tensors: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
        """Transforms parsed examples; `transform_merged_features` is easier to use.

        Args:
            tensors: tensors of shape `[num_graphs, (num_items), *feature_shape]` for every key of `raw_layout`.

        Returns:
            Tensors of that form for every key of the transformed graph, including structure keys.
        """
        outputs: dict[str, tf.RaggedTensor] = self._transform_fn(dict(tensors))
        return outputs


def transform_merged_features(
    transform: SavedGraphTransform,
    raw: Mapping[str, const.Field],
    sizes: Mapping[str, tf.Tensor],
    *,
    labels: Collection[str] = (),
) -> dict[str, const.Field]:
    """Transforms the features of a batch of graphs that were merged into one.

    `raw` maps tf.Example keys to the features of all items of all graphs in order, shape `[total_items,
    *feature_shape]`; and for every edge set "edges/<set>.#source" and "#target" to positions in the merged node sets,
    shape [total_edges]. Numeric dtypes other than int64 and float32 are converted. Features of auxiliary sets, whose
    names start with "_", and `labels` may be absent, as in a request; zeros and empty strings replace them. `sizes`
    maps the prefix of every node set and edge set to the number of items in each graph, shape [num_graphs].

    The result maps keys to tensors of shape `[total_items, *feature_shape]` and dtype int64, float32 or string, without
    structure keys. Raises ValueError if a key is missing or unknown, or a value's shape differs from the schema's.
    """
    layout = transform.raw_layout
    optional = {column.key for one_set in layout.sets if one_set.name.startswith("_") for column in one_set.features}
    optional |= set(labels)
    ends = {key for one_set in layout.sets for key in one_set.structure_keys if key != one_set.size_key}
    _check_keys("raw", raw, required=(ends | set(layout.features)) - optional, optional=optional)
    _check_keys("sizes", sizes, required=set(layout.set_by_prefix) - {const.CONTEXT}, optional=set())
    sizes = {prefix: tf.cast(value, tf.int64) for prefix, value in sizes.items()}
    row_splits = {prefix: tf.concat([[0], tf.cumsum(value)], axis=0) for prefix, value in sizes.items()}
    num_graphs = tf.size(next(iter(sizes.values())), out_type=tf.int64)
    row_splits[const.CONTEXT] = tf.range(num_graphs + 1)

    inputs: dict[str, tf.RaggedTensor] = {}
    for one_set in layout.sets:
        splits = row_splits[one_set.prefix]
        for column in one_set.features:
            value = raw[column.key] if column.key in raw else _default_value(column, splits[-1])
            inputs[column.key] = _split(_as_saved(column, value), splits)
        if one_set.set_type != const.CONTEXT:
            inputs[one_set.size_key] = _split(sizes[one_set.prefix], tf.range(num_graphs + 1))
        if one_set.set_type == const.EDGES:
            for key, node_set in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target)):
                merged = _split(tf.cast(raw[key], tf.int64), splits)
                begins = tf.gather(row_splits[f"{const.NODES}/{node_set}"], row_indices(merged))
                inputs[key] = merged.with_values(merged.values - begins)
    outputs = transform.apply_to_ragged(inputs)
    return {key: outputs[key].values for key in transform.transformed_keys}


def _check_keys(argument: str, given: Mapping[str, Any], *, required: set[str], optional: set[str]) -> None:
    unknown = sorted(set(given) - required - optional)
    missing = sorted(required - set(given))
    if unknown or missing:
        raise ValueError(
            f"`{argument}` must have the keys of the graph that the transform was made for; got unknown keys "
            f"{unknown}, missing keys {missing}. Parse the examples with that graph's schema."
        )


def _default_value(column: FeatureColumn, num_items: tf.Tensor) -> const.Field:
    """Returns zeros or empty strings for a dense feature, and no values for a ragged one."""
    empty: Any = "" if column.dtype == tf.string else tf.zeros([], column.dtype)
    if not column.is_ragged:
        shape = tf.concat([[num_items], tf.constant(column.shape, tf.int64, shape=[len(column.shape)])], axis=0)
        return tf.fill(shape, empty)
    sizes = list(column.shape)
    last_ragged = max(axis for axis, size in enumerate(sizes) if size is None)
    value: const.Field = tf.fill([0, *sizes[last_ragged + 1 :]], empty)
    num_rows = [num_items]
    for size in sizes[:last_ragged]:
        num_rows.append(num_rows[-1] * (size or 0))
    for rows in reversed(num_rows):
        previous = value.nrows(out_type=tf.int64) if isinstance(value, tf.RaggedTensor) else tf.constant(0, tf.int64)
        per_row = tf.math.floordiv(previous, tf.maximum(rows, 1))
        value = tf.RaggedTensor.from_row_splits(value, tf.range(rows + 1) * per_row, validate=False)
    return value


def _as_saved(column: FeatureColumn, value: const.Field) -> const.Field:
    """Gives a value the dtype and row partitions of the saved function's argument."""
    if value.dtype != column.dtype:
        if tf.string in (value.dtype, column.dtype):
            raise ValueError(
                f"`raw` must hold {column.dtype.name} values; got {value.dtype.name} in {column.key!r}. "
                "Parse the examples with the schema of the data that the transform was made for."
            )
        value = tf.cast(value, column.dtype)
    if not value.shape.is_compatible_with([None, *column.shape]):
        raise ValueError(
            f"`raw` must hold values of shape {[None, *column.shape]}; got {value.shape} in {column.key!r}. "
            "Parse the examples with the schema of the data that the transform was made for."
        )
    if not column.is_ragged:
        if isinstance(value, tf.RaggedTensor):
            raise ValueError(
                f"`raw` must hold dense tensors for features without ragged dimension; got a RaggedTensor in "
                f"{column.key!r}. Pass its values."
            )
        return value
    if not isinstance(value, tf.RaggedTensor):
        raise ValueError(
            f"`raw` must hold RaggedTensors for features with a ragged dimension; got a tensor of shape "
            f"{value.shape} in {column.key!r}. Parse the examples with their graph schema."
        )
    # The saved function takes only row splits; partitions into rows of equal length are encoded differently.
    return tf.RaggedTensor.from_nested_row_splits(
        value.flat_values, [tf.cast(splits, tf.int64) for splits in value.nested_row_splits], validate=False
    )


def _split(value: const.Field, row_splits: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(value, row_splits, validate=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformRecord:
    """Record of one run of GraphTransform.

    Attributes:
        transform: fingerprint of the transform graph; it differs in every run, because the graph contains names of
            functions that are numbered in each process.
        raw_examples: `fingerprint_examples_folder` of the examples before the transform.
        nonfinite_features: tf.Example keys of transformed features that may be NaN or infinite.
        num_spans: spans that the statistics are of.
        num_spans_read: spans among these whose examples were read for the statistics; the others' were in the cache.
    """

    transform: str
    raw_examples: str
    nonfinite_features: tuple[str, ...] = ()
    num_spans: int = 1
    num_spans_read: int = 1

    def write(self, folder: str) -> None:
        """Writes the record into an existing folder."""
        with tf.io.gfile.GFile(os.path.join(folder, TRANSFORM_RECORD_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read_transform_record(folder: str) -> TransformRecord | None:
    """Reads the record of a transform graph, or of transformed examples; None if there is none."""
    path = os.path.join(folder, TRANSFORM_RECORD_FILE)
    if not tf.io.gfile.exists(path):
        return None
    found = read_json(path)
    try:
        return TransformRecord(
            transform=str(found["transform"]),
            raw_examples=str(found["raw_examples"]),
            nonfinite_features=tuple(map(str, found["nonfinite_features"])),
            num_spans=int(found.get("num_spans", 1)),
            num_spans_read=int(found.get("num_spans_read", 1)),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"`{path}` must be a record of GraphTransform; got something else. Transform the examples again."
        ) from error


def check_transformed_by(transformed_examples_dir: str, transform_graph_dir: str) -> None:
    """Refuses examples that another transform made, and a transform whose files have changed since.

    Folders without a record, as earlier releases wrote them, pass.
    """
    examples, graph = map(read_transform_record, (transformed_examples_dir, transform_graph_dir))
    if examples and graph and examples.transform != graph.transform:
        raise ValueError(
            f"`transform_graph_dir` must hold the transform that made the examples; got {transform_graph_dir!r}, "
            f"which did not make {transformed_examples_dir!r}. Name two outputs of the same run of GraphTransform: "
            "the model would see other features when it is served."
        )
    if graph and fingerprint_folders([transform_graph_dir], without=[TRANSFORM_RECORD_FILE]) != graph.transform:
        raise ValueError(
            f"`transform_graph_dir` must hold what GraphTransform wrote; got {transform_graph_dir!r}, whose files have "
            "changed since. Transform the examples again: with an edited vocabulary, say, the model would see other "
            "features when it is served."
        )


def rewrite_transformed_metadata(
    transform_graph_dir: str, raw_schema: graph_schema_pb2.GraphSchema
) -> graph_schema_pb2.GraphSchema:
    """Gives `transformed_metadata/schema.pbtxt` the keys of the transformed examples.

    Domains and annotations that tf.Transform wrote (vocabulary sizes, ranges of indices) stay. Returns the schema of
    the transformed graph: the same sets with other features, whose dtypes are int64, float32 and string. All dimensions
    up to the last ragged one are declared ragged.
    """
    folder = os.path.join(transform_graph_dir, TRANSFORMED_METADATA_DIR)
    written = read_tfmd_schema(folder)
    schema = _transformed_graph_schema(written, raw_schema)
    rewritten = make_tfmd_schema(graph_layout(schema))
    columns = {feature.name: feature for feature in written.feature}
    representations = written.tensor_representation_group[""].tensor_representation
    for feature in rewritten.feature:
        if feature.name in representations:
            key = feature.name
            feature.MergeFrom(columns[_value_column(representations[key])])
            feature.name = key
    rewritten.annotation.CopyFrom(written.annotation)
    write_tfmd_schema(rewritten, folder)
    return schema


def _transformed_graph_schema(
    written: schema_pb2.Schema, raw_schema: graph_schema_pb2.GraphSchema
) -> graph_schema_pb2.GraphSchema:
    layout = graph_layout(raw_schema)
    schema = graph_schema_pb2.GraphSchema()
    schema.CopyFrom(raw_schema)
    schema.context.features.clear()
    for name in schema.node_sets:
        schema.node_sets[name].features.clear()
    for name in schema.edge_sets:
        schema.edge_sets[name].features.clear()
    structure = {key for one_set in layout.sets for key in one_set.structure_keys}
    columns = {feature.name: feature for feature in written.feature}
    representations = written.tensor_representation_group[""].tensor_representation
    for key in sorted(set(representations) - structure):
        owner = layout.owner_of(key)
        name = key[len(owner.prefix) + 1 :]
        feature = schema_features(schema, owner.prefix)[name]
        raw_features = schema_features(raw_schema, owner.prefix)
        if name in raw_features and raw_features[name].HasField("description"):
            feature.description = raw_features[name].description
        feature.dtype = _DTYPES[columns[_value_column(representations[key])].type]
        for partition in representations[key].ragged_tensor.partition:
            size = partition.uniform_row_length if partition.HasField("uniform_row_length") else -1
            feature.shape.dim.add(size=size)
    remove_lost_marks(schema)
    remove_feature_defaults(schema)
    return schema


def _value_column(representation: schema_pb2.TensorRepresentation) -> str:
    step: str = representation.ragged_tensor.feature_path.step[0]
    return step

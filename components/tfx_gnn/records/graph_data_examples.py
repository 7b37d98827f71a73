"""Writes examples in memory as graph tf.Examples, which the trainer and the stages before it read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.batching.index_shifts import shift_index_features
from tfx_gnn.graph.batching.unbatching import component_offsets
from tfx_gnn.graph.data.collating import collate
from tfx_gnn.graph.data.graph_data import GraphData
from tfx_gnn.graph.data.graph_layout import GraphLayout
from tfx_gnn.graph.schema.context_labels import mark_context_labels
from tfx_gnn.graph.schema.index_features import mark_index_features
from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.graph.schema.schema_spec import create_schema_pb_from_graph_spec
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import FeaturePiece
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.examples_folder import graph_schema_path, write_split_shard
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder, RecordSlices

_EXAMPLES_AT_ONCE = 1024


def write_graph_data(
    examples: Mapping[str, Sequence[GraphData]],
    layout: GraphLayout,
    examples_dir: str,
    *,
    label_features: Sequence[str] = (),
    num_shards: int = 1,
) -> dict[str, int]:
    """Writes examples as a folder of graph-level examples, one record per example, and their graph schema.

    The folder is what GraphTransform, SizeConstraintLearner and GraphTrainer read. The schema is written last: a folder
    without one is incomplete. Floats are stored as float32, integers and bools as int64. Features that grow by a rule
    of the layout count from the first node of their example, and are marked in the schema; see `mark_index_features`.

    Args:
        examples: split names to examples, such as {"train": ..., "eval": ...}; no split is empty.
        layout: which keys belong to which sets; other keys are not written.
        examples_dir: folder that does not exist yet, or is empty.
        label_features: features of the context that are labels, which models do not see.
        num_shards: record files of each split; at most as many as it has examples.

    Returns:
        Number of records by split.

    Raises:
        ValueError: if the folder is not empty, a split is empty, a label is not a feature of the context, the examples
            do not fit together, or a feature cannot be stored.
    """
    _check(examples, layout, examples_dir, label_features, num_shards)
    first = _graph_of(next(iter(examples.values()))[:1], layout).spec
    counts = {}
    for split, data in examples.items():
        bounds = np.linspace(0, len(data), num_shards + 1).astype(int).tolist()
        counts[split] = sum(
            write_split_shard(examples_dir, split, shard, num_shards, _records(data[start:stop], layout, first))
            for shard, (start, stop) in enumerate(itertools.pairwise(bounds))
        )
    schema = create_schema_pb_from_graph_spec(first.relax(num_nodes=True, num_edges=True))
    mark_context_labels(schema, label_features)
    mark_index_features(schema, layout.index_features())
    write_schema(schema, graph_schema_path(examples_dir))
    return counts


def _check(
    examples: Mapping[str, Sequence[GraphData]],
    layout: GraphLayout,
    examples_dir: str,
    label_features: Sequence[str],
    num_shards: int,
) -> None:
    if tf.io.gfile.exists(examples_dir) and tf.io.gfile.listdir(examples_dir):
        raise ValueError(f"`examples_dir` must be a new or empty folder; got {examples_dir!r}, which has content.")
    if not examples:
        raise ValueError("`examples` must have a split; got none. Write {'train': examples}.")
    for split, data in examples.items():
        if num_shards < 1 or len(data) < num_shards:
            raise ValueError(
                f"`num_shards` must be at least 1, and at most the number of examples of each split; got {num_shards} "
                f"for {len(data)} examples of {split!r}."
            )
    if unknown := sorted(set(label_features) - set(layout.context)):
        raise ValueError(
            f"`label_features` must name features of the context; got {unknown}. Known are {sorted(layout.context)}. "
            f"{did_you_mean(unknown[0], layout.context)}"
        )


def _graph_of(examples: Sequence[GraphData], layout: GraphLayout) -> GraphTensor:
    """Returns examples as one graph with the features that records have."""
    graph = collate(examples, layout=layout).to_graph_tensor(layout, indices_dtype=tf.int64)
    graph = shift_index_features(graph, layout.index_features(), backward=True)
    return graph.replace_features(
        _stored(graph.context),
        {name: _stored(node_set) for name, node_set in graph.node_sets.items()},
        {name: _stored(edge_set) for name, edge_set in graph.edge_sets.items()},
    )


def _stored(piece: FeaturePiece) -> dict[str, tf.Tensor]:
    stored = {}
    for name, value in piece.features.items():
        if value.dtype.is_floating:
            stored[name] = tf.cast(value, tf.float32)
        elif value.dtype.is_integer or value.dtype == tf.bool:
            stored[name] = tf.cast(value, tf.int64)
        elif value.dtype == tf.string:
            stored[name] = value
        else:
            raise ValueError(f"`{name}` must hold numbers or strings, to be stored; got {value.dtype.name}.")
    return stored


def _records(examples: Sequence[GraphData], layout: GraphLayout, first: GraphTensorSpec) -> Iterator[bytes]:
    for start in range(0, len(examples), _EXAMPLES_AT_ONCE):
        some = examples[start : start + _EXAMPLES_AT_ONCE]
        graph = _graph_of(some, layout)
        _check_features(graph.spec, first)
        yield from _encode(graph, len(some))


def _check_features(spec: GraphTensorSpec, first: GraphTensorSpec) -> None:
    """Refuses features of other dtypes and shapes than those in the schema."""
    pieces = [(spec.context_spec, first.context_spec)]
    pieces += [(piece, first.node_sets_spec[name]) for name, piece in spec.node_sets_spec.items()]
    pieces += [(piece, first.edge_sets_spec[name]) for name, piece in spec.edge_sets_spec.items()]
    for piece, expected in pieces:
        for name, feature in piece.features_spec.items():
            known = expected.features_spec[name]
            if feature.dtype != known.dtype or feature.shape[1:].as_list() != known.shape[1:].as_list():
                raise ValueError(
                    f"`examples` must have features of one dtype and shape; got {feature} for {name!r}, but {known} in "
                    "the first example. Convert some of them."
                )


def _encode(graph: GraphTensor, num_records: int) -> list[bytes]:
    columns: dict[str, pa.Array] = {}
    slices = RecordSlices(num_records)

    def add(prefix: str, piece: FeaturePiece, splits: npt.NDArray[np.int64]) -> None:
        for name, value in piece.features.items():
            columns[prefix + name] = _as_column(value.numpy())
            slices.columns[prefix + name] = np.arange(splits[-1]), splits

    starts = {name: component_offsets(graph, node_set_name=name).numpy() for name in graph.node_sets}
    add("context/", graph.context, slices.one_each)
    for name, node_set in graph.node_sets.items():
        slices.add_nodes(name, starts[name])
        add(f"nodes/{name}.", node_set, starts[name])
    for name, edge_set in graph.edge_sets.items():
        splits = component_offsets(graph, edge_set_name=name).numpy()
        adjacency: Adjacency = edge_set.adjacency
        positions = np.repeat(np.arange(num_records), np.diff(splits))
        slices.add_edges(
            name,
            adjacency.source.numpy() - starts[adjacency.source_name][positions],
            adjacency.target.numpy() - starts[adjacency.target_name][positions],
            splits,
        )
        add(f"edges/{name}.", edge_set, splits)
    return RecordEncoder(columns).encode(num_records, slices.columns, slices.integers)


def _as_column(values: npt.NDArray[np.generic]) -> pa.Array:
    flat = values.reshape(-1)
    column = pa.array(flat.tolist(), pa.large_binary()) if flat.dtype == object else pa.array(flat)
    if values.ndim == 1:
        return column
    return pa.FixedSizeListArray.from_arrays(column, int(np.prod(values.shape[1:])))

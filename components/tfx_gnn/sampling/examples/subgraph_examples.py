"""Sampled subgraphs as tf.Examples in TF-GNN's layout: serialized, or as a tf.data.Dataset that needs no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, STRUCTURE_LABEL
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledReadouts, SampledSubgraphs
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder, RecordSlices
from tfx_gnn.sampling.index.graph_index import IndexedGraph
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.plan import LABEL_FEATURE, SamplingPlan
from tfx_gnn.sampling.plan.subgraph_schema import (
    READOUT_EDGE_SET,
    make_subgraph_schema,
    readout_edge_set,
    shadow_node_set,
)
from tfx_gnn.sampling.random_choice import mix
from tfx_gnn.tables.graph_tables import GraphTables
from tfx_gnn.tables.table_layout import ID_FEATURE

_BLOCK_SIZE = 256  # larger blocks gain nothing, smaller ones pay for more NumPy calls
_MAX_SEED = 2**63

_Rows = npt.NDArray[np.int64]


class SubgraphExampleEncoder:
    """Turns sampled subgraphs into serialized tf.Examples.

    The keys are `context/<feature>`, `nodes/<set>.#size`, `nodes/<set>.<feature>`,
    `edges/<set>.#size`, `edges/<set>.#source`, `edges/<set>.#target` and
    `edges/<set>.<feature>`, for exactly the sets and features of `schema`. Every record
    has every key; an empty set has empty lists.

    Attributes:
        schema: graph schema of the records.
    """

    def __init__(
        self,
        tables: GraphTables,
        plan: SamplingPlan,
        *,
        seed_features: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Encodes the values of all tables: of the whole graph, or of the part that subgraphs contain.

        The values of a `GraphIndex` are encoded as subgraphs need them.

        `seed_features` holds the columns of the seed table that `plan.label_features` names, and its
        `input_features`; `SampledReadouts.seed_rows` are rows of these columns.
        """
        self.schema: GraphSchema = make_subgraph_schema(tables.schema, plan)
        self._plan = plan
        columns: dict[str, pa.Array] = {}
        self._node_keys: dict[str, list[str]] = {}
        for name in self.schema.node_sets:
            if name.startswith("_"):
                continue
            table = tables.node_tables[name]
            features = {f"nodes/{name}.{feature}": feature for feature in self._table_features(name)}
            self._node_keys[name] = list(features)
            for key, feature in features.items():
                columns[key] = table.ids if feature == ID_FEATURE else table.features[feature]
        self._edge_keys: dict[str, list[str]] = {}
        for name in plan.edge_set_names:
            edges = tables.edge_tables[name]
            features = {f"edges/{name}.{feature}": feature for feature in self.schema.edge_sets[name].features}
            self._edge_keys[name] = list(features)
            for key, feature in features.items():
                columns[key] = edges.row_column if feature == ID_FEATURE else edges.features[feature]
        for label in plan.label_features:
            columns[_readout_key(label)] = _label_column(label, tables, plan, seed_features or {})
        for name in plan.context_features:
            columns[f"context/{name}"] = _context_column(name, tables)
        self._seed_features = dict(seed_features or {})
        self._encoder = RecordEncoder(columns, ahead=not isinstance(tables, IndexedGraph))

    def encode(self, subgraphs: SampledSubgraphs, *, seed_inputs: Mapping[str, pa.Array] | None = None) -> list[bytes]:
        """Returns one serialized tf.Example per subgraph, in order.

        `seed_inputs` holds the seed table's `input_features` where `SampledReadouts.seed_rows` are not rows of
        `seed_features`.
        """
        readouts = subgraphs.readouts
        if readouts is None:
            raise ValueError("`subgraphs` must have readouts; got none. Sample them by the plan.")
        slices = RecordSlices(subgraphs.num_subgraphs)
        for name, keys in self._node_keys.items():
            nodes = subgraphs.node_sets[name]
            slices.add_nodes(name, nodes.splits)
            slices.columns.update(dict.fromkeys(keys, (nodes.rows, nodes.splits)))
            if self._plan.structure_labels:
                labels = subgraphs.structure_labels[name]
                key = f"nodes/{name}.{STRUCTURE_LABEL}"
                slices.integers[key] = labels.reshape(-1), nodes.splits * (labels.shape[1] if labels.ndim > 1 else 1)
        for name, keys in self._edge_keys.items():
            edges = subgraphs.edge_sets[name]
            slices.add_edges(name, edges.sources, edges.targets, edges.splits)
            slices.columns.update(dict.fromkeys(keys, (edges.rows, edges.splits)))
        for name in self._plan.context_features:
            zeros = np.zeros(subgraphs.num_subgraphs, np.int64)
            slices.columns[f"context/{name}"] = zeros, slices.one_each
        self._add_readouts(slices, subgraphs, readouts)
        for name, tree in subgraphs.trees.items():
            slices.integers[f"context/{name}"] = tree.reshape(-1), slices.one_each * tree.shape[1]
        if readouts.seed_edges is not None:
            edge_set = self._plan.seed_edge_set
            slices.add_nodes(shadow_node_set(edge_set), subgraphs.edge_sets[edge_set].splits)
            targets = np.zeros_like(readouts.seed_edges)
            slices.add_edges(READOUT_EDGE_SET, readouts.seed_edges, targets, readouts.splits)
        given = self._seed_features if seed_inputs is None else seed_inputs
        rows = pa.array(readouts.seed_rows)
        inputs = {f"context/{name}": _seed_column(name, given).take(rows) for name in self._plan.seed_inputs}
        return self._encoder.encode(subgraphs.num_subgraphs, slices.columns, slices.integers, inputs)

    def _add_readouts(self, slices: RecordSlices, subgraphs: SampledSubgraphs, readouts: SampledReadouts) -> None:
        slices.add_nodes(READOUT_NODE_SET, readouts.splits)
        sizes = np.diff(readouts.splits)
        # With a seed table, labels of the node itself are in the node's own row, not in the seed table's row.
        for label in self._plan.label_features:
            rows = readouts.seed_rows
            if self._plan.seed_table and label not in self._plan.seed_table_features:
                rows = _seed_nodes(self._plan, subgraphs, readouts)
            slices.columns[_readout_key(label)] = np.repeat(rows, sizes), readouts.splits
        if readouts.labels is not None:
            slices.integers[_readout_key(LABEL_FEATURE)] = readouts.labels.astype(np.int64), readouts.splits
        numbers = np.arange(int(readouts.splits[-1])) - np.repeat(readouts.splits[:-1], sizes)
        for root, positions in readouts.positions.items():
            slices.add_edges(readout_edge_set(root), positions, numbers, readouts.splits)

    def _table_features(self, node_set: str) -> list[str]:
        """Features of a node set that its table has; `check_plan` refuses tables with structure labels."""
        names = self.schema.node_sets[node_set].features
        return [name for name in names if not self._plan.structure_labels or name != STRUCTURE_LABEL]


def _readout_key(feature: str) -> str:
    return f"nodes/{READOUT_NODE_SET}.{feature}"


def _label_column(
    label: str, tables: GraphTables, plan: SamplingPlan, seed_features: Mapping[str, pa.Array]
) -> pa.Array:
    if label in plan.seed_table_features:
        return _seed_column(label, seed_features)
    if plan.is_link_plan:
        return tables.edge_tables[plan.seed_edge_set].features[label]
    return tables.node_tables[plan.seed_node_set].features[label]


def _seed_column(name: str, seed_features: Mapping[str, pa.Array]) -> pa.Array:
    if name not in seed_features:
        raise ValueError(
            f"`seed_features` must have the columns of the seed table that are labels or inputs; got "
            f"{sorted(seed_features)}, without {name!r}. Read it with the seeds."
        )
    return seed_features[name]


def _seed_nodes(plan: SamplingPlan, subgraphs: SampledSubgraphs, readouts: SampledReadouts) -> _Rows:
    nodes = subgraphs.node_sets[plan.seed_node_set]
    return nodes.rows[nodes.splits[:-1] + readouts.positions[SEED]]


def _context_column(name: str, tables: GraphTables) -> pa.Array:
    if tables.context_table is None or tables.context_table.num_rows != 1:
        raise ValueError(
            f"`context_features` must be those of a context table with one row; got {name!r} and "
            f"{'no table' if tables.context_table is None else f'{tables.context_table.num_rows} rows'}. "
            "Add the table, or leave the feature out of the plan."
        )
    return tables.context_table.features[name]


def subgraph_dataset(
    tables: GraphTables,
    plan: SamplingPlan,
    seeds: Seeds,
    *,
    sampling_seed: int = 0,
    edge_ranks: Mapping[str, npt.NDArray[np.int8]] | None = None,
    seed_features: Mapping[str, pa.Array] | None = None,
    shuffle_seed: int | None = None,
    num_epochs: int | None = 1,
    samples_anew: bool = False,
    parses: bool = True,
) -> tf.data.Dataset:
    """Makes a dataset of the subgraphs around seeds.

    Iterating over it again gives the same elements in the same order, because epochs are
    counted from the start of each iteration. To get another order in each epoch of Keras'
    `fit`, use `num_epochs=None` and `steps_per_epoch`.

    The subgraphs come from Python, so the dataset is bound to the process that made it:
    it cannot be saved with a function, sent to the tf.data service, or feed a
    `TPUStrategy`, whose input runs on other machines. Write files for these uses. Delete its
    iterators before the process ends, or read them to their end: as with
    `tf.data.Dataset.from_generator`, a process may wait for ever at its exit while one still
    draws from Python.

    Args:
        tables: the graph, in memory or as a `GraphIndex`.
        plan: what to sample.
        seeds: the seeds, for example those of one split that `make_seeds` returns.
        sampling_seed: seed of all random choices, in [0, 2**63).
        edge_ranks: see `InMemorySampler`.
        seed_features: see `SubgraphExampleEncoder`.
        shuffle_seed: in [0, 2**63): each epoch has an order of its own that depends on
            this number and the keys of the seeds. None: the order of the seeds.
        num_epochs: number of times that each seed is repeated, at least 1; None: endlessly.
        samples_anew: whether each epoch draws its own edges. The first epoch draws the
            same edges as the files that SubgraphExampleGen writes.
        parses: whether elements are scalar GraphTensors; otherwise they are serialized
            tf.Examples, which are faster to batch before parsing.

    Returns:
        Dataset of scalar GraphTensors or scalar string tensors, of known cardinality.

    Raises:
        ValueError: if the plan does not fit the graph, there is no seed, or a number is
            out of range.
    """
    for name, seed in (("sampling_seed", sampling_seed), ("shuffle_seed", shuffle_seed)):
        if seed is not None and not 0 <= seed < _MAX_SEED:
            raise ValueError(f"`{name}` must be in [0, 2**63); got {seed}. Choose another number.")
    if num_epochs is not None and num_epochs < 1:
        raise ValueError(f"`num_epochs` must be at least 1 or None; got {num_epochs}. Use None for ever.")
    if not seeds.num_subgraphs:
        raise ValueError("`seeds` must have at least one; got none. Choose a split that has seeds.")
    sampler = InMemorySampler(tables, plan, sampling_seed=sampling_seed, edge_ranks=edge_ranks)
    encoder = SubgraphExampleEncoder(tables, plan, seed_features=seed_features)

    def records_of_epoch(epoch: np.int64) -> Iterator[npt.NDArray[np.object_]]:
        order = _order(seeds, shuffle_seed, int(epoch))
        epoch_seed = _epoch_seed(sampling_seed, int(epoch)) if samples_anew else sampling_seed
        for start in range(0, len(order), _BLOCK_SIZE):
            block = seeds.take(order[start : start + _BLOCK_SIZE])
            yield np.array(encoder.encode(sampler.sample(block, sampling_seed=epoch_seed)), np.object_)

    def records(epoch: tf.Tensor) -> tf.data.Dataset:
        signature = tf.TensorSpec([None], tf.string)
        return tf.data.Dataset.from_generator(records_of_epoch, output_signature=signature, args=(epoch,))

    epochs = tf.data.Dataset.counter() if num_epochs is None else tf.data.Dataset.range(num_epochs)
    examples = epochs.flat_map(records).unbatch()
    cardinality = tf.data.INFINITE_CARDINALITY if num_epochs is None else num_epochs * seeds.num_subgraphs
    examples = examples.apply(tf.data.experimental.assert_cardinality(cardinality))
    if not parses:
        return examples
    spec = create_graph_spec_from_schema_pb(encoder.schema)
    return examples.map(lambda record: parse_single_example(spec, record), num_parallel_calls=tf.data.AUTOTUNE)


def _order(seeds: Seeds, shuffle_seed: int | None, epoch: int) -> npt.NDArray[np.int64]:
    if shuffle_seed is None:
        return np.arange(seeds.num_subgraphs)
    salt = mix(mix(np.array([shuffle_seed], np.uint64)) ^ np.uint64(epoch))
    return np.lexsort((seeds.rows, mix(seeds.keys ^ salt)))


def _epoch_seed(sampling_seed: int, epoch: int) -> int:
    if epoch == 0:
        return sampling_seed
    return int(mix(mix(np.array([sampling_seed], np.uint64)) ^ np.uint64(epoch))[0]) % _MAX_SEED

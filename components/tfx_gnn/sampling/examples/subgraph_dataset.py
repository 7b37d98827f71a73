"""Subgraphs as a tf.data.Dataset that samples on the fly, without files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.random_choice import mix
from tfx_gnn.tables.graph_tables import GraphTables

_BLOCK_SIZE = 256  # larger blocks gain nothing, smaller ones pay for more NumPy calls
_MAX_SEED = 2**63


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
    """Makes a data set of the subgraphs around seeds.

    Iterating over it a second time gives the same elements in the same order. What
    epoch follows what is counted from the start of an iteration: for orders that
    change from epoch to epoch in Keras' `fit`, take `num_epochs=None` and
    `steps_per_epoch`.

    The subgraphs come from Python, so the data set lives in the process that made it:
    it cannot be saved with a function, sent to tf.data's service, or feed a
    `TPUStrategy`, whose input runs on other machines. Write files for these.

    Args:
        tables: the graph.
        plan: what to sample.
        seeds: the seeds, for example those of one split that `make_seeds` returns.
        sampling_seed: seed of all random choices, in [0, 2**63).
        edge_ranks: see `InMemorySampler`.
        seed_features: see `SubgraphExampleEncoder`.
        shuffle_seed: in [0, 2**63): each epoch has an order of its own that depends on
            this number and the keys of the seeds. None: the order of the seeds.
        num_epochs: how often each seed comes, at least 1; None for ever.
        samples_anew: whether each epoch draws edges of its own. The first epoch is
            that of the files that SubgraphExampleGen writes.
        parses: whether elements are scalar GraphTensors; otherwise serialized
            tf.Examples, which are faster to batch before they are parsed.

    Returns:
        Data set of scalar GraphTensors or scalar string tensors, of known cardinality.

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
    return examples.map(
        lambda record: parse_single_example(spec, record, trusted=True), num_parallel_calls=tf.data.AUTOTUNE
    )


def _order(seeds: Seeds, shuffle_seed: int | None, epoch: int) -> npt.NDArray[np.int64]:
    if shuffle_seed is None:
        return np.arange(seeds.num_subgraphs)
    salt = mix(mix(np.array([shuffle_seed], np.uint64)) ^ np.uint64(epoch))
    return np.lexsort((seeds.rows, mix(seeds.keys ^ salt)))


def _epoch_seed(sampling_seed: int, epoch: int) -> int:
    if epoch == 0:
        return sampling_seed
    return int(mix(mix(np.array([sampling_seed], np.uint64)) ^ np.uint64(epoch))[0]) % _MAX_SEED

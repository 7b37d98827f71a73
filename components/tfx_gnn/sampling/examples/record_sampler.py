"""Samples the tf.Examples that a trained model is asked about, by the ids of their seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.block_sampling import ranked_edge_sets
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.graph_index import IndexedGraph
from tfx_gnn.sampling.plan.edge_ranks import ALWAYS_VISIBLE
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED
from tfx_gnn.sampling.plan.inference_plan import inputs_of_request, plan_of_ids
from tfx_gnn.sampling.plan.plan import root_node_sets
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.seed_splits import pair_keys

_Rows = npt.NDArray[np.int64]
_ARROW_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.large_string()}


class RecordSampler:
    """Samples records around nodes, or around pairs of nodes, of a graph index or a snapshot of one with added rows.

    A record is, byte for byte, the one that `tfx-gnn sample` makes of the same seed with `--every-node` or `--ids`, and
    so that of the training but for labels and for what an earlier split may not see. It depends on nothing but its
    seed: neither on the order of the seeds nor on the others. May be used by several threads.

    Attributes:
        graph: the index or snapshot.
        schema: graph schema of the records.
        root_sets: node sets of the seeds: of "seed", or of "source" and "target" for a plan of links.
        input_types: types of what a seed has beside its id, int64, float32 or large_string, where the seeds of training
            were rows of a table.
        now_input: the one of them that is the time in seconds since 1970; empty if there is none.
    """

    def __init__(self, graph: IndexedGraph, recorded: RecordedPlan) -> None:
        """Prepares to sample by the plan that a model was trained with.

        Raises:
            ValueError: if the plan does not fit the graph, or if ids alone do not say what its examples hold.
        """
        plan = plan_of_ids(recorded.plan, graph.schema)
        self.graph, self._plan = graph, plan
        ranked = ranked_edge_sets(plan, graph.schema)
        # One number for all edges, whatever their number.
        ranks = {name: np.broadcast_to(np.int8(ALWAYS_VISIBLE), graph.edge_tables[name].num_edges) for name in ranked}
        self._has_ranks = bool(ranked)
        self._sampler = InMemorySampler(graph, plan, sampling_seed=recorded.sampling_seed, edge_ranks=ranks)
        self._encoder = SubgraphExampleEncoder(graph, plan)
        self._codes = {name: graph.node_codes(name) for name in set(root_node_sets(plan, graph.schema).values())}
        self.input_types: Mapping[str, pa.DataType] = {
            name: _ARROW_TYPES[plan.seed_table_features[name]] for name in inputs_of_request(plan)
        }
        self.now_input: str = plan.seed_table.now_feature if plan.seed_table else ""
        self._times = None
        if plan.temporal is not None and plan.seed_table is None:
            self._times = graph.node_tables[plan.seed_node_set].features[plan.temporal.seed_time]
        self.schema: GraphSchema = self._encoder.schema
        self.root_sets: Mapping[str, str] = root_node_sets(plan, graph.schema)

    @property
    def id_types(self) -> dict[str, pa.DataType]:
        """Types of the ids of the roots: large_string or int64."""
        return {root: self.graph.node_tables[name].ids.type for root, name in self.root_sets.items()}

    def find(self, ids: Mapping[str, Sequence[str | int]]) -> dict[str, _Rows]:
        """Finds the roots of seeds by their ids.

        Args:
            ids: by root, the ids of its node set, of the type that `id_types` has; shape [num_seeds].

        Returns:
            By root, int64 array, shape [num_seeds]: row of each node in its table, or -1 for an id that is not there.
        """
        types = self.id_types
        return {
            root: self.graph.find_nodes(name, pa.array(ids[root], types[root])) for root, name in self.root_sets.items()
        }

    def sample(self, rows: Mapping[str, _Rows], inputs: Mapping[str, pa.Array] | None = None) -> list[bytes]:
        """Samples one record for each seed.

        Args:
            rows: by root, rows of its node table, as `find` returns them, in [0, num_nodes).
            inputs: values of the seeds for each of `input_types`.

        Returns:
            Serialized tf.Examples, in the order of the seeds.
        """
        num_seeds = len(next(iter(rows.values())))
        codes = {root: self._codes[name][rows[root]] for root, name in self.root_sets.items()}
        seeds = Seeds(
            keys=pair_keys(codes[ROOT_SOURCE], codes[ROOT_TARGET]) if self._plan.is_link_plan else codes[SEED],
            rows=np.arange(num_seeds) if self._plan.seed_table else rows[SEED],
            readout_splits=np.arange(num_seeds + 1),
            readout_nodes=rows,
            rank_limits=np.full(num_seeds, ALWAYS_VISIBLE, np.int8) if self._has_ranks else None,
            time_limits=self._time_limits(rows, inputs or {}),
        )
        return self._encoder.encode(self._sampler.sample(seeds), seed_inputs=inputs)

    def _time_limits(self, rows: Mapping[str, _Rows], inputs: Mapping[str, pa.Array]) -> _Rows | None:
        if self._plan.temporal is None:
            return None
        if self._times is None:
            return _integers(inputs[self._plan.temporal.seed_time])
        return _integers(self._times.take(pa.array(rows[SEED])))


def _integers(column: pa.Array) -> _Rows:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)

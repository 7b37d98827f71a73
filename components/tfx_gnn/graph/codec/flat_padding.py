"""Pads graphs during parsing, with few operations for all sets and features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.padding import FeatureDefaultValues, append_items, padding_values_by_set
from tfx_gnn.graph.batching.size_constraints import SetKey, SizeConstraints, SizeRule
from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.codec.flat_graphs import FlatField, FlatGraphs, SizeTable, finish_features
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.adjacency import make_adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

#: An upper bound of the number of missing items.
_MANY = 2**31
#: Node indices of padding edges are computed as float64, exactly up to this product of sizes.
_LARGEST_PRODUCT = 2**44


class FlatPadder:
    """Pads batches of a fixed or varying number of graphs, of one component each, to fixed sizes."""

    def __init__(
        self,
        spec: GraphTensorSpec,
        constraints: SizeConstraints,
        num_examples: int | None,
        padding_values: FeatureDefaultValues,
    ) -> None:
        """Prepares everything that does not depend on the graphs; `num_examples` is None if it varies."""
        self._spec = spec
        self._constraints = constraints
        self._num_examples = num_examples
        self._padding_values = padding_values_by_set(spec, padding_values)
        rule = SizeRule.from_constraints(spec, constraints)
        self._rule = rule
        self._num_components = int(rule.target_components)

    @staticmethod
    def can_pad(spec: GraphTensorSpec, constraints: SizeConstraints, num_examples: int | None) -> bool:
        """Returns whether this class supports the graphs and sizes, which it does in the usual case."""
        pieces = [spec.context_spec, *spec.node_sets_spec.values(), *spec.edge_sets_spec.values()]
        if len(pieces) == 1 or any(piece.sizes_spec.shape != [1] for piece in pieces):
            return False
        rule = SizeRule.from_constraints(spec, constraints)
        if not isinstance(rule.target_components, int) or rule.target_components <= (num_examples or 0):
            return False
        if not isinstance(rule.targets, np.ndarray) or not isinstance(rule.demands, np.ndarray):
            return False
        products = rule.targets[rule.edge_positions].astype(float) * rule.targets[rule.end_positions]
        return bool((products < _LARGEST_PRODUCT).all())

    def assert_fit(self, table: SizeTable) -> list[tf.Operation]:
        """Asserts that graphs of these sizes can be padded; returns what must run before `pad`."""
        rule, demands = self._rule, self._rule.demands[:, np.newaxis]
        num_fake = self._num_fake(table)
        eye = np.eye(len(rule.sets), dtype=np.int64)
        # Each condition is (factors, minimum): factors * missing >= minimum * number of padding components.
        conditions: list[tuple[npt.NDArray[np.int64], int]] = []
        causes = []
        if self._num_examples is None:
            conditions.append((0 * eye[0], -1))
            causes.append(
                "Could not pad graph as it already has more graph components then it is allowed by "
                "`total_sizes.total_num_components`."
            )
        # Each set must lack at least the items that padding components demand. If edges are missing, nodes must be
        # missing at both ends.
        conditions += [(eye[row], int(demand)) for row, demand in enumerate(rule.demands)]
        causes += [
            f"Could not pad <{name}> as it already has more {kind} then it is allowed by the "
            f"`total_sizes.total_num_{kind}[<{name}>]`."
            for kind, name in rule.sets
        ]
        for edge, end in zip(rule.edge_positions, rule.end_positions, strict=True):
            conditions.append((_MANY * eye[end] - eye[edge], 0))
            causes.append(f"Could not create fake incident edges for the node set {rule.sets[end][1]}.")
        if self._num_examples is None:
            # A batch that already has all components must also have all items.
            conditions += [(-row, -_MANY) for row in eye]
            causes += [
                f"Could not pad <{name}> {kind}. To do this, at least one graph component must be added to the input "
                "graph, but it already has `total_sizes.total_num_components` graph components."
                for kind, name in rule.sets
            ]
        factors, least = (np.asarray(part) for part in zip(*conditions, strict=True))
        fits = tf.matmul(factors, self._missing(table)) >= least[:, np.newaxis] * num_fake
        assertions = self._assert_rows(fits, causes, table)
        if demands.any():
            causes = [
                f"Some graph components have fewer <{name}> nodes than it is required by the "
                f"`total_sizes.min_nodes_per_component[<{name}>]`."
                for _, name in rule.sets
            ]
            assertions += self._assert_rows(table.items >= demands, causes, table)
        return assertions

    def _assert_rows(self, fits: tf.Tensor, causes: list[str], table: SizeTable) -> list[tf.Operation]:
        """Asserts that a matrix is all True; `causes` has the message for each row."""
        names = ", ".join(name for _, name in self._rule.sets)
        facts = (
            f"In all there must be at most {self._num_components} graph components, and "
            f"{self._rule.targets.tolist()} of ({names}), padding included; got"
        )
        num_real, totals = table.num_examples, table.splits[:, -1:]
        if not tf.executing_eagerly():
            told = [f"Could not pad. {facts}", num_real, totals]
            data = [*told, f"The cause is the first of these whose row is False: {causes}", fits]
            return [tf.raw_ops.Assert(condition=tf.reduce_all(fits), data=data, summarize=-1)]
        if not tf.reduce_all(fits):
            cause = causes[int(np.argmin(fits.numpy().all(axis=1)))]
            got = f"{int(num_real)}, {totals.numpy().reshape([-1]).tolist()}"
            raise tf.errors.InvalidArgumentError(None, None, f"{cause} {facts} {got}.")
        return []

    def pad(self, flat: FlatGraphs) -> tuple[GraphTensor, tf.Tensor]:
        """Makes a padded graph and its mask, like `pad_to_total_sizes`; called under dependencies on all checks."""
        missing = tf.identity(self._missing(flat.table))
        finish_features(flat, keep_vectors=True)
        features = self._features(flat, missing)
        sizes = self._sizes(flat.table, missing)
        indices = self._indices(flat, missing)
        node_sets, edge_sets = {}, {}
        for flat_set in flat.sets[1:]:
            name = flat_set.layout.set_name
            arguments: dict[str, Any] = {
                "features": features[flat_set.layout.set_type, name],
                "sizes": sizes[flat_set.row or 0],
                "validate": False,
            }
            if flat_set.layout.set_type == const.NODES:
                node_sets[name] = NodeSet.from_fields(**arguments)
            else:
                adjacency_spec = flat_set.spec.adjacency_spec
                ends = {tag: (adjacency_spec.node_set_name(tag), next(indices)) for tag in flat_set.layout.index_keys}
                edge_sets[name] = EdgeSet.from_fields(
                    **arguments, adjacency=make_adjacency(ends, like=adjacency_spec, validate=False)
                )
        context = Context.from_fields(
            features=features[const.CONTEXT, ""],
            sizes=tf.ones([self._num_components], self._spec.indices_dtype),
            validate=False,
        )
        is_real = np.arange(self._num_components) < flat.table.num_examples
        return GraphTensor.from_pieces(context, node_sets, edge_sets, validate=False), tf.convert_to_tensor(is_real)

    def _num_fake(self, table: SizeTable) -> Any:
        """Returns the number of padding components, as an int if it is static."""
        return self._num_components - table.num_examples

    def _missing(self, table: SizeTable) -> tf.Tensor:
        """Returns the number of items that each set lacks, int64 of shape [num_sets, 1]."""
        return self._rule.targets[:, np.newaxis] - table.splits[:, -1:]

    def _sizes(self, table: SizeTable, missing: tf.Tensor) -> list[tf.Tensor]:
        """Returns the sizes of each set, with padding components at the end."""
        demands = self._rule.demands[:, np.newaxis]
        first = missing - demands * (self._num_fake(table) - 1) if demands.any() else missing
        # If the number of examples varies, there are as many padding components as possible; the excess is cut off.
        others = np.repeat(demands, self._num_components - (self._num_examples or 0) - 1, axis=1)
        sizes = tf.cast(tf.concat([table.items, first, tf.constant(others)], axis=1), self._spec.indices_dtype)
        if self._num_examples is None:
            sizes = tf.ensure_shape(sizes[:, : self._num_components], [None, self._num_components])
        return tf.unstack(sizes, num=len(self._rule.sets))

    def _features(self, flat: FlatGraphs, missing: tf.Tensor) -> dict[SetKey, dict[const.FieldName, const.Field]]:
        result: dict[SetKey, dict[const.FieldName, const.Field]] = {}
        dense: list[tuple[SetKey, const.FieldName, int, FlatField]] = []
        # The items of the context, the components, come after those of all sets.
        targets = [*self._rule.targets.tolist(), self._num_components]
        if flat.sets[0].features:
            num_fake = tf.fill([1, 1], tf.cast(self._num_fake(flat.table), tf.int64))
            missing = tf.concat([missing, num_fake], axis=0)
        for flat_set in flat.sets:
            key = flat_set.layout.set_type, flat_set.layout.set_name
            row = len(self._rule.sets) if flat_set.row is None else flat_set.row
            result[key] = {}
            for name, field in flat_set.features.items():
                if field.partitions:
                    items = field.items(self._spec.row_splits_dtype, None)
                    padded = append_items(items, missing[row, 0], self._padding_values[key][name])
                    result[key][name] = fields.with_item_count(padded, targets[row])
                else:
                    # A placeholder that fixes the order of features; its final value is set below.
                    result[key][name] = field.values
                    dense.append((key, name, row, field))
        if dense:
            # Numbers of values to append to each feature, in the form that tf.pad expects.
            factors = np.array([[[0, _num_values(field)] for *_, field in dense]])
            lacking = tf.gather(missing, [row for _, _, row, _ in dense]) * factors
            for (key, name, row, field), paddings in zip(dense, tf.unstack(lacking, len(dense), axis=1), strict=True):
                values = example_layout.from_stored(field.values, field.spec.dtype)
                values = values if values.shape.rank == 1 else tf.reshape(values, [-1])
                padded = tf.pad(values, paddings, constant_values=self._padding_values[key][name])
                shape = [targets[row], *field.spec.shape[1:].as_list()]
                if len(shape) == 1:
                    padded.set_shape(shape)
                result[key][name] = padded if len(shape) == 1 else tf.reshape(padded, shape)
        return result

    def _indices(self, flat: FlatGraphs, missing: tf.Tensor) -> Iterator[tf.Tensor]:
        """Yields the node indices of each end of each edge set, with padding edges at the end."""
        if flat.ends is None:
            return
        dtype = self._spec.indices_dtype
        num_ends = len(flat.ends.keys)
        edges, nodes = self._rule.edge_positions, self._rule.end_positions
        real = tf.split(flat.ends.joined(dtype, merge=True), flat.ends.counts, num=num_ends)
        num_fake = tf.gather(missing[:, 0], edges)
        # The indices of padding edges increase evenly from the first padding node to the last one.
        lacking = tf.cast(missing[:, 0], tf.float64)
        lacking_nodes = tf.gather(lacking, nodes)
        # A step is never zero, which tf.range refuses. Without missing edges it is infinite and yields no indices.
        step = tf.maximum(lacking_nodes, 0.5) / tf.gather(lacking, edges)
        targets = self._rule.targets[nodes].astype(np.float64)
        # The offset is less than a step, so rounding neither reaches the limit nor adds an edge.
        start = targets + 0.5 / max(1, self._rule.targets[edges].max()) - lacking_nodes
        spread = tf.raw_ops.RaggedRange(starts=start, limits=targets, deltas=step, Tsplits=tf.int64).rt_dense_values
        fake = tf.split(tf.cast(spread, dtype), num_fake, num=num_ends)
        for edge, end_real, end_fake in zip(edges, real, fake, strict=True):
            index = tf.concat([end_real, end_fake], axis=0)
            index.set_shape([int(self._rule.targets[edge])])
            yield index


def _num_values(field: FlatField) -> int:
    return math.prod(field.spec.shape[1:].as_list())

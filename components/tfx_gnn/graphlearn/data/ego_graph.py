"""GraphLearn's `EgoGraph`: seeds and a fixed number of neighbors a hop, dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.batching.ego_batches import SEED_READOUT
from tfx_gnn.graph.graph_constants import HIDDEN_STATE
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graphlearn.data.composite_value import CompositeSpec, CompositeValue, as_tensor, check_is_name, describe
from tfx_gnn.graphlearn.data.data import ENCODED, Data, as_data, data_of, data_or_encoded
from tfx_gnn.graphlearn.data.handler_scope import transform_in_scope
from tfx_gnn.graphlearn.data.schema import (
    GivenSchema,
    TypeSchema,
    as_type_schemas,
    schemas_from_plain,
    schemas_to_plain,
)
from tfx_gnn.graphlearn.feature_spec import EncodingError

SEED_SET = "seed"
"""Node set of the seeds in `EgoGraph.to_graph_tensor`; the hops are "hop_0" and so on."""

MASK = "mask"
"""Key of the bools that tell real neighbors from padding."""


class EgoGraphSpec(CompositeSpec):
    """Type spec of `EgoGraph`."""


class EgoGraph(CompositeValue):
    """Seeds and their neighbors: k_0 for each seed, k_1 for each of these, and so on.

    Row r of hop i belongs to row r // k_i of the hop before it, or of the seeds. So models need no edges but dense
    operations only, which TPUs prefer. TensorFlow takes an `EgoGraph` as a value: in tf.function, tf.data and
    SavedModel. `to_graph_tensor` converts it to a GraphTensor.

    Example:
        >>> graph = EgoGraph(
        ...     Data(ids=np.array([1, 2])), [Data(ids=np.arange(6)), Data(ids=np.arange(24))], None, [3, 4]
        ... )
        >>> graph.hop_node(1).num_items, graph.nbr_nums.tolist()
        (24, [3, 4])
    """

    _SPEC_TYPE: ClassVar[type[CompositeSpec]] = EgoGraphSpec

    def __init__(
        self,
        src: Any,
        nbr_nodes: Sequence[Any],
        node_schema: Sequence[GivenSchema] | None,
        nbr_nums: Sequence[int] | npt.NDArray[Any],
        nbr_edges: Sequence[Any] = (),
        edge_schema: Sequence[GivenSchema] | None = (),
        **kwargs: Any,
    ) -> None:
        """Holds seeds and neighbors.

        Args:
            src: the seeds, a `Data` or a float tensor of shape [batch_size, dimension].
            nbr_nodes: the neighbors of each hop, in the same form, with batch_size * k_0 * ... * k_i rows. The array
                "mask" of a `Data`, if there is one, is False for neighbors that only fill a row.
            node_schema: (name of the type, FeatureSpec or Decoder) of the seeds and of each hop; None if the
                attributes are not to be encoded, or are already.
            nbr_nums: the number of neighbors of each hop: k_0, k_1, ....
            nbr_edges: the edges to the neighbors of each hop, with as many rows; empty for none.
            edge_schema: the same as `node_schema`, for the edges of each hop; empty or None for none.
            **kwargs: further arrays by name, which are attributes of the graph, and kept by `transform`.

        Raises:
            EncodingError: if `node_schema` does not have one item more than `nbr_nums`; it is an AssertionError, too.
            TypeError: if nodes or edges are neither a Data nor a tensor.
            ValueError: if the numbers of hops or rows do not fit together.
        """
        self._nbr_nums = _as_numbers(nbr_nums)
        self._node_schema = as_type_schemas(node_schema, "node_schema")
        self._edge_schema = as_type_schemas(edge_schema, "edge_schema") or ()
        num_hops = len(self._nbr_nums)
        if self._node_schema is not None and len(self._node_schema) != num_hops + 1:
            raise EncodingError(
                "`node_schema` must have one item for the source and one for each hop; got "
                f"{len(self._node_schema)} for {num_hops} `nbr_nums`. Add or remove items."
            )
        _check_length("nbr_nodes", nbr_nodes, num_hops)
        if len(nbr_edges):
            _check_length("nbr_edges", nbr_edges, num_hops)
        if self._edge_schema:
            _check_length("edge_schema", self._edge_schema, len(nbr_edges))
        self._levels = (
            as_data(src, "src"),
            *(as_data(nodes, f"nbr_nodes[{hop}]") for hop, nodes in enumerate(nbr_nodes)),
        )
        self._edge_levels = tuple(as_data(edges, f"nbr_edges[{hop}]") for hop, edges in enumerate(nbr_edges))
        self._further: dict[str, Any] = {}
        self._check_rows()
        for key, value in kwargs.items():
            self[key] = value

    @tf.autograph.experimental.do_not_convert
    def __getitem__(self, key: str) -> Any:
        """Returns a further array, or an attribute, by name; None if there is none."""
        check_is_name(key)
        return None if key.startswith("_") else getattr(self, key, None)

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets a further array by name."""
        check_is_name(key)
        if key.startswith("_") or hasattr(type(self), key):
            raise ValueError(
                f"`{key}` must be a free name without an underscore in front; got the name of something that EgoGraph "
                "has already. Use another name."
            )
        self._further = {**self._further, key: value if tf.is_tensor(value) else np.asarray(value)}

    def __contains__(self, key: object) -> bool:
        """Returns whether there is a further array of this name."""
        return key in self._further

    def __getattr__(self, key: str) -> Any:
        if not key.startswith("_") and key in (arrays := vars(self).get("_further", {})):
            return arrays[key]
        raise AttributeError(f"`{key}` must be an attribute or a further array of EgoGraph; got none of that name.")

    def _check_rows(self) -> None:
        rows = self._levels[0].num_items
        if not isinstance(rows, int):
            return
        for hop, num in enumerate(self._nbr_nums.tolist()):
            rows *= num
            for what, levels in (("nbr_nodes", self._levels[1:]), ("nbr_edges", self._edge_levels)):
                found = levels[hop].num_items if levels else rows
                if isinstance(found, int) and found != rows:
                    raise ValueError(
                        f"`{what}[{hop}]` must have {rows} rows, {num} for each of hop {hop - 1}; got {found}. Flatten "
                        "neighbors of shape [batch_size, k] to [batch_size * k]."
                        if hop
                        else f"`{what}[{hop}]` must have {rows} rows, {num} for each of the seeds; got {found}. "
                        "Flatten neighbors of shape [batch_size, k] to [batch_size * k]."
                    )

    @property
    def src(self) -> Any:
        """The seeds: a `Data`, or after `transform` a float tensor of shape [batch_size, dimension]."""
        return data_or_encoded(self._levels[0])

    @property
    def nbr_nodes(self) -> list[Any]:
        """The neighbors of each hop, in the form of `src`."""
        return [data_or_encoded(level) for level in self._levels[1:]]

    @property
    def nbr_edges(self) -> list[Any]:
        """The edges of each hop, in the form of `src`; empty if there are none."""
        return [data_or_encoded(level) for level in self._edge_levels]

    @property
    def nbr_nums(self) -> npt.NDArray[np.int64]:
        """The number of neighbors of each hop."""
        return self._nbr_nums

    @property
    def node_schema(self) -> tuple[TypeSchema, ...] | None:
        """(name, FeatureSpec) of the seeds and of each hop; None if nothing is to be encoded."""
        return self._node_schema

    @property
    def edge_schema(self) -> tuple[TypeSchema, ...]:
        """(name, FeatureSpec) of the edges of each hop; empty if nothing is to be encoded."""
        return self._edge_schema

    @property
    def levels(self) -> tuple[Data, ...]:
        """The seeds and the neighbors of each hop, always as `Data`: labels and weights stay there."""
        return self._levels

    @property
    def edge_levels(self) -> tuple[Data, ...]:
        """The edges of each hop, always as `Data`; empty if there are none."""
        return self._edge_levels

    @property
    def labels(self) -> Any:
        """The labels of the seeds, or None."""
        return self._levels[0].labels

    @property
    def weights(self) -> Any:
        """The weights of the seeds, or None."""
        return self._levels[0].weights

    @property
    def batch_size(self) -> Any:
        """The number of seeds: an int if it is known, else a scalar tensor."""
        return self._levels[0].num_items

    @tf.autograph.experimental.do_not_convert
    def hop_node(self, i: int) -> Any:
        """Returns the neighbors of a hop.

        Args:
            i: the hop, from 0.

        Returns:
            A `Data`, or after `transform` a float tensor; batch_size * k_0 * ... * k_i rows.

        Raises:
            ValueError: if there is no such hop.
        """
        self._check_hop(i)
        return data_or_encoded(self._levels[i + 1])

    @tf.autograph.experimental.do_not_convert
    def hop_edge(self, i: int) -> Any:
        """Returns the edges of a hop, one to each neighbor.

        Args:
            i: the hop, from 0.

        Returns:
            As for `hop_node`.

        Raises:
            ValueError: if there are no edges, or no such hop.
        """
        if not self._edge_levels:
            raise ValueError("No edge data. Give the edges of each hop as `nbr_edges`.")
        self._check_hop(i)
        return data_or_encoded(self._edge_levels[i])

    @tf.autograph.experimental.do_not_convert
    def hop_mask(self, i: int) -> Any:
        """Returns which neighbors of a hop are real.

        Args:
            i: the hop, from 0.

        Returns:
            Bools, one a row: False if the array "mask" of the hop is False, or the row of an earlier hop that it
            belongs to is not real. All True if no hop has a mask.

        Raises:
            ValueError: if there is no such hop.
        """
        self._check_hop(i)
        mask: Any = None
        for level, num in zip(self._levels[1 : i + 2], self._nbr_nums.tolist(), strict=False):
            own = level[MASK]
            if mask is not None:
                mask = _repeat(mask, num)
                own = mask if own is None else own & mask
            mask = own
        if mask is not None:
            return mask
        rows = self._levels[i + 1].num_items
        return np.ones([rows], bool) if isinstance(rows, int) else tf.ones([rows], tf.bool)

    def _check_hop(self, i: int) -> None:
        if not 0 <= i < len(self._nbr_nums):
            raise ValueError(
                f"`i` must be a hop from 0 to {len(self._nbr_nums) - 1}; got {i}. The seeds are graph.src."
            )

    @tf.autograph.experimental.do_not_convert
    def replace(self, levels: Sequence[Data], edge_levels: Sequence[Data]) -> EgoGraph:
        """Returns a graph of the same form with other attributes, which are not encoded any further.

        Args:
            levels: the seeds and the neighbors of each hop.
            edge_levels: the edges of each hop; empty for none.
        """
        return EgoGraph(levels[0], levels[1:], None, self._nbr_nums, edge_levels, **self._further)

    def transform(self, transform_func: Callable[[EgoGraph], EgoGraph] | None = None) -> EgoGraph:
        """Encodes the attributes with the feature handlers of the enclosing model.

        Args:
            transform_func: applied to the graph first; returns an EgoGraph.

        Returns:
            The graph with float tensors of the width of the feature specs as seeds, neighbors and edges, and with
            `node_schema` None. Labels, weights and ids stay in `levels`. A graph without `node_schema` is returned
            as it is, so that a second call changes nothing.

        Raises:
            RuntimeError: if no model encloses the call.
        """
        if self._node_schema is None and transform_func is None:
            return self
        return transform_in_scope(self, transform_func)

    @tf.autograph.experimental.do_not_convert
    def to_graph_tensor(self) -> GraphTensor:
        """Converts to a scalar GraphTensor with one component for each seed.

        It has the form that `tfx_gnn.ego_batch` makes, so `tfx_gnn.models.EgoGNN` computes states of seeds from it.

        Returns:
            Graph with the node sets "seed", "hop_0", "hop_1" and so on. Edge set "hop_<i>/neighbor" leads from each
            node of node set "hop_<i>" to the node it is a neighbor of; context feature "hop_<i>", bool
            [batch_size, k_0, ..., k_i], is False for neighbors that only fill a row. The arrays of a `Data` become
            features under their names, encoded attributes the feature "hidden_state". Edge set "_readout/seed" leads
            from the seeds to node set "_readout", which has their labels.
        """
        batch_size = tf.cast(self.batch_size, tf.int32)
        node_sets, edge_sets, masks = {}, {}, {}
        parent, rows = SEED_SET, 1
        for position, level in enumerate(self._levels):
            name = f"hop_{position - 1}" if position else SEED_SET
            num = int(self._nbr_nums[position - 1]) if position else 1
            rows *= num
            features = graph_features(level)
            features.pop(MASK, None)
            labels = features.pop("labels", None) if not position else None
            sizes = tf.fill([batch_size], tf.constant(rows, tf.int32))
            node_sets[name] = NodeSet.from_fields(features=features, sizes=sizes)
            if position:
                fan_outs = self._nbr_nums[:position].tolist()
                masks[name] = tf.reshape(as_tensor(self.hop_mask(position - 1)), [-1, *fan_outs])
                children = tf.range(batch_size * rows)
                edges = self._edge_levels[position - 1] if self._edge_levels else Data()
                edge_sets[f"{name}/neighbor"] = EdgeSet.from_fields(
                    features=graph_features(edges),
                    sizes=sizes,
                    adjacency=Adjacency.from_indices((name, children), (parent, children // num)),
                )
            else:
                seeds = tf.range(batch_size)
                node_sets[READOUT_NODE_SET] = NodeSet.from_fields(
                    features={} if labels is None else {"labels": labels}, sizes=sizes
                )
                edge_sets[SEED_READOUT] = EdgeSet.from_fields(
                    sizes=sizes, adjacency=Adjacency.from_indices((SEED_SET, seeds), (READOUT_NODE_SET, seeds))
                )
            parent = name
        context = Context.from_fields(features=masks, sizes=tf.ones([batch_size], tf.int32))
        return GraphTensor.from_pieces(context, node_sets, edge_sets)

    def _components(self) -> Any:
        return {
            "levels": [level.arrays for level in self._levels],
            "edge_levels": [level.arrays for level in self._edge_levels],
            "further": self._further,
        }

    def _static(self) -> Any:
        return {
            "nbr_nums": tuple(self._nbr_nums.tolist()),
            "node_schema": schemas_to_plain(self._node_schema),
            "edge_schema": schemas_to_plain(self._edge_schema),
        }

    @classmethod
    def _from_components(cls, components: Any, static: Any) -> EgoGraph:
        # Not checked again: TensorFlow also rebuilds values around placeholders that have no rows.
        graph = cls.__new__(cls)
        graph._levels = tuple(data_of(arrays) for arrays in components["levels"])
        graph._edge_levels = tuple(data_of(arrays) for arrays in components["edge_levels"])
        graph._further = dict(components["further"])
        graph._nbr_nums = np.array(static["nbr_nums"], np.int64)
        graph._node_schema = schemas_from_plain(static["node_schema"])
        graph._edge_schema = schemas_from_plain(static["edge_schema"]) or ()
        return graph

    def __repr__(self) -> str:
        edges = f", nbr_edges={list(self._edge_levels)}" if self._edge_levels else ""
        further = f", {describe(self._further)}" if self._further else ""
        return f"EgoGraph(src={self._levels[0]}, nbr_nums={self._nbr_nums.tolist()}{edges}{further})"


def graph_features(data: Data) -> dict[str, tf.Tensor]:
    """Returns the arrays of a `Data` as features of a node or edge set."""
    return {HIDDEN_STATE if key == ENCODED else key: as_tensor(value) for key, value in data.arrays.items()}


def _as_numbers(nbr_nums: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    numbers = np.asarray(nbr_nums)
    if numbers.ndim != 1 or (numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 1)):
        raise ValueError(
            f"`nbr_nums` must hold the number of neighbors of each hop, at least 1; got {nbr_nums!r}. Write a list of "
            f"integers. A result of all neighbors has no such number: take Dataset.get_batchgraph()."
        )
    return numbers.astype(np.int64)


def _check_length(what: str, given: Sequence[Any], expected: int) -> None:
    if len(given) != expected:
        raise ValueError(
            f"`{what}` must have one item for each hop; got {len(given)} for {expected}. Add or remove items."
        )


def _repeat(mask: Any, num: int) -> Any:
    return tf.repeat(mask, num) if tf.is_tensor(mask) else np.repeat(mask, num)

"""The identity of items: how nodes and edges are recognized in other subgraphs and files.

Identities are 64-bit hashes (`value_hashes`). Those of integer ids never collide. Among a billion
items with other ids the chance that any two collide is about one in forty; one of the two would
then go uncounted.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import ExampleBatch
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout, SetLayout
from tfx_gnn.records.split_statistics import flat_index
from tfx_gnn.records.value_hashes import Hashes, hash_items, hash_pairs
from tfx_gnn.sampling.random_choice import mix
from tfx_gnn.transform.item_columns import ItemColumns, check_ends, check_ids


@dataclasses.dataclass(frozen=True, kw_only=True)
class IdentityRule:
    """How the items of one set are identified.

    A set with "#id" goes by that. An edge set without goes by the "#id" of the nodes at both ends, by all features, and
    by how many equal edges come before it in its example: so parallel edges keep their number. All
    other items have no identity, and each occurrence counts.

    Attributes:
        one_set: the set.
        id_column: its "#id", if it has one.
        ends: of an edge set without "#id", that of the source and of the target node set, by the key
            of the end; empty if one of them has none.
    """

    one_set: SetLayout
    id_column: FeatureColumn | None = None
    ends: tuple[tuple[str, SetLayout], ...] = ()

    @property
    def knows_items(self) -> bool:
        """Whether items are known again."""
        return self.id_column is not None or bool(self.ends)

    @property
    def keys(self) -> tuple[str, ...]:
        """tf.Example keys that identities are made of, sizes included."""
        if self.id_column is not None:
            return (self.one_set.size_key, self.id_column.key)
        if not self.ends:
            return ()
        keys = [self.one_set.size_key]
        for column in self.one_set.features:
            keys += [column.key, *column.row_length_keys.values()]
        for key, nodes in self.ends:
            assert nodes.id_column is not None
            keys += [key, nodes.size_key, nodes.id_column.key]
        return tuple(keys)

    @property
    def reason(self) -> str:
        """Why each occurrence of an item counts; empty if items are known again."""
        if self.knows_items:
            return ""
        if self.one_set.set_type == const.EDGES:
            return "neither the edges nor the nodes at both of their ends have '#id'"
        if self.one_set.set_type == const.NODES:
            return "its nodes have no '#id'"
        return "each graph has its own"

    def identities(self, batch: ExampleBatch) -> Hashes:
        """Hashes the identities of the items of a batch: uint64 [num_items], items of all examples one below the other.

        Raises BrokenRecordError if an item lacks its "#id" or a feature, or an edge its ends.
        """
        prefix = self.one_set.prefix
        if self.id_column is not None:
            check_ids(batch, self.one_set, self.id_column)
            return hash_items(batch, self.id_column, prefix)
        check_ends(batch, self.one_set, self.ends)
        ItemColumns(self.one_set, self.one_set.features).check(batch)
        ends = []
        for key, nodes in self.ends:
            assert nodes.id_column is not None
            check_ids(batch, nodes, nodes.id_column)
            ids = hash_items(batch, nodes.id_column, nodes.prefix)
            ends.append(ids[flat_index(batch, key, nodes.name)])
        hashes = hash_pairs(*ends)
        for column in self.one_set.features:
            hashes = hash_pairs(hashes, hash_items(batch, column, prefix))
        return mix(hashes ^ mix(_earlier_equals(hashes, batch.column(self.ends[0][0]).owners())))


def identity_rule(one_set: SetLayout, layout: GraphLayout) -> IdentityRule:
    """Finds how the items of a set are identified."""
    if one_set.set_type == const.CONTEXT:
        return IdentityRule(one_set=one_set)
    if one_set.id_column is not None or one_set.set_type == const.NODES:
        return IdentityRule(one_set=one_set, id_column=one_set.id_column)
    ends = tuple(
        (key, layout.set_by_prefix[f"{const.NODES}/{name}"])
        for key, name in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target))
    )
    has_ids = all(nodes.id_column is not None for _, nodes in ends)
    return IdentityRule(one_set=one_set, ends=ends if has_ids else ())


def _earlier_equals(hashes: Hashes, owners: npt.NDArray[np.int64]) -> Hashes:
    """How many values before each one are equal to it and of the same owner; uint64 [n]."""
    counts = np.zeros(len(hashes), np.uint64)
    if len(hashes):
        order = np.lexsort([hashes, owners])
        is_first = np.ones(len(hashes), bool)
        is_first[1:] = (hashes[order][1:] != hashes[order][:-1]) | (owners[order][1:] != owners[order][:-1])
        positions = np.arange(len(hashes))
        counts[order] = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    return counts

"""One handler a type: source and neighbor nodes of one type share their tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler
from tfx_gnn.tables.feature_spec import FeatureSpec


@dataclasses.dataclass
class FeatureHandlers:
    """One handler for each type of nodes or edges: who asks by the same name shares its tables.

    Attributes:
        fuse_embedding: as for `FeatureHandler`.
        handlers: the handlers by name, for a model to hold.
    """

    fuse_embedding: bool = True
    handlers: dict[str, FeatureHandler] = dataclasses.field(default_factory=dict)

    def get(self, name: str, feature_spec: FeatureSpec) -> FeatureHandler:
        """Finds or makes the handler of a type.

        Args:
            name: name of the type.
            feature_spec: how its attributes are encoded.

        Returns:
            The same handler for the same name.

        Raises:
            ValueError: if there is one of this name with another spec.
        """
        if name not in self.handlers:
            self.handlers[name] = FeatureHandler(name, feature_spec, self.fuse_embedding)
        if not self.handlers[name].has_spec(feature_spec):
            raise ValueError(
                f"`feature_spec` must be the same wherever a type is encoded; got another for {name!r}. Give it "
                "another name."
            )
        return self.handlers[name]

    def encode(self, node_schema: Sequence[tuple[str, FeatureSpec]], nodes: Sequence[Any]) -> list[tf.Tensor]:
        """Encodes the source nodes and the neighbors of each hop.

        Args:
            node_schema: name of the type and feature spec, of the source and of each hop.
            nodes: their attributes, as `FeatureHandler` takes them.

        Returns:
            One float tensor of shape [num_items, dimension] for each.

        Raises:
            ValueError: if there are more or fewer of one than of the other.
        """
        if len(node_schema) != len(nodes):
            raise ValueError(
                f"`node_schema` must have one item for the source and one for each hop; got {len(node_schema)} for "
                f"{len(nodes)} `nodes`. Give as many."
            )
        return [self.get(name, spec)(data) for (name, spec), data in zip(node_schema, nodes, strict=True)]

"""An objective that combines several objectives in dicts by task name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, NodeSetSpec
from tfx_gnn.models.tasks.output_layers import MultiOutputLayers, OutputLayers
from tfx_gnn.models.tasks.task import Objective

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.task_kinds import MultiTask


class MultiObjective(Objective):
    """Several objectives; see `Objective`."""

    def __init__(self, task: MultiTask, parts: Mapping[str, Objective]) -> None:
        self.task = task
        self._loss_weights = task.loss_weights
        self._parts = dict(parts)
        self.input_features = tuple(dict.fromkeys(name for part in parts.values() for name in part.input_features))

    @property
    def parts(self) -> Mapping[str, Objective]:
        """The objectives by name."""
        return dict(self._parts)

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Runs the check of every part."""
        for part in self._parts.values():
            part.check_spec(spec)

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Runs the check of every part."""
        for part in self._parts.values():
            part.check_budget(budget, spec)

    def without_labels(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Removes the labels of all parts."""
        for part in self._parts.values():
            spec = part.without_labels(spec)
        return spec

    def labels_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Keeps the labels of all parts."""
        kept = [part.labels_only(spec) for part in self._parts.values()]
        context: dict[str, Any] = {}
        node_sets: dict[str, NodeSetSpec] = {}
        for part_spec in kept:
            context |= part_spec.context_spec.features_spec
            for name, node_set in part_spec.node_sets_spec.items():
                features = {**(node_sets[name].features_spec if name in node_sets else {}), **node_set.features_spec}
                node_sets[name] = NodeSetSpec.from_field_specs(features_spec=features, sizes_spec=node_set.sizes_spec)
        context_spec = ContextSpec.from_field_specs(features_spec=context, sizes_spec=spec.context_spec.sizes_spec)
        return GraphTensorSpec.from_piece_specs(context_spec, node_sets, {})

    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, dict[str, tf.Tensor]]:
        """Splits off the labels of all parts."""
        labels = {}
        for name, part in self._parts.items():
            graph, labels[name] = part.split_off_labels(graph)
        return graph, labels

    def counts(
        self, labels: Mapping[str, tf.Tensor], graph: GraphTensor, is_real_component: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns which labels of every part count."""
        return {name: part.counts(labels[name], graph, is_real_component) for name, part in self._parts.items()}

    def weights(self, labels: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the label weights of every part."""
        return {name: part.weights(labels[name]) for name, part in self._parts.items()}

    def safe_labels(self, labels: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the safe labels of every part."""
        return {name: part.safe_labels(labels[name]) for name, part in self._parts.items()}

    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Requires a dict with the output of every part."""
        if not isinstance(output, Mapping) or set(output) != set(self._parts):
            got = sorted(output) if isinstance(output, Mapping) else str(type(output))
            raise ValueError(
                f"`model_fn` must return a model with a dict of outputs by task name, "
                f"{sorted(self._parts)}; got {got}. End it with `objective.output_layer()`, or return such a dict."
            )
        for name, part in self._parts.items():
            part.check_output(output[name], graph)

    def loss(self) -> dict[str, Any]:
        """Makes the loss of every part."""
        return {name: part.loss() for name, part in self._parts.items()}

    def weighted_metrics(self) -> dict[str, list[Any]]:
        """Makes the metrics of every part."""
        return {name: part.weighted_metrics() for name, part in self._parts.items()}

    def compile_arguments(self) -> dict[str, Any]:
        """Makes the losses, metrics and loss weights."""
        loss_weights = {name: self._loss_weights.get(name, 1.0) for name in self._parts}
        return {**super().compile_arguments(), "loss_weights": loss_weights}

    def output_layer(self, *, embeddings_name: str = "embeddings") -> MultiOutputLayers:
        """Makes the layers of every part; parts with the same readout share it.

        A single readout is named `embeddings_name`. If there are several, each is named
        "<name of its first part>_<embeddings_name>".
        """
        keys = {part.readout_key for part in self._parts.values()}
        shared: dict[str, OutputLayers] = {}
        layers = {}
        for name, part in self._parts.items():
            readout_name = embeddings_name if len(keys) == 1 else f"{name}_{embeddings_name}"
            own = part.output_layers(embeddings_name=readout_name, output_name=name)
            first = shared.setdefault(part.readout_key, own)
            layers[name] = OutputLayers(first.readout, own.head)
        return MultiOutputLayers(layers)

    def served_outputs(self, output: Mapping[str, tf.Tensor], graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Returns the served outputs of every part, prefixed by its name and "/"."""
        return {
            f"{name}/{key}": value
            for name, part in self._parts.items()
            for key, value in part.served_outputs(output[name], graph).items()
        }

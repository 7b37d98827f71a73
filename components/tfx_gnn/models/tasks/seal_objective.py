"""The objective of SEAL: one score for each subgraph, from the states of all its nodes (arXiv:1802.09691)."""

from __future__ import annotations

import logging

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, STRUCTURE_LABEL
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.metrics import CandidateAuc
from tfx_gnn.models.pair_scoring import SubgraphScore
from tfx_gnn.models.tasks.label_places import SubgraphReadout
from tfx_gnn.models.tasks.link_objective import LinkObjective
from tfx_gnn.models.tasks.output_layers import OutputLayers
from tfx_gnn.models.tasks.pair_tasks import LinkPrediction
from tfx_gnn.serving import model_interface

_LOG = logging.getLogger(__name__)


class SealObjective(LinkObjective):
    """Objective with one candidate pair for each example, scored by its subgraph; see `Objective`."""

    def __init__(self, task: LinkPrediction) -> None:
        super().__init__(task)
        self.readout_key = f"links by subgraph, {task.pooling}"
        self.pools_nodes = True

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Requires what links require, and warns if nothing tells the pair from other nodes."""
        super().check_spec(spec)
        if not any(STRUCTURE_LABEL in node_set.features_spec for node_set in spec.node_sets_spec.values()):
            _LOG.warning(
                "scoring 'seal' sees all nodes of an example alike unless a feature tells which are the pair; got no "
                "feature %r in any node set. Set `structure_labels` in the sampling plan, and keep the feature in "
                "`preprocessing_fn`.",
                STRUCTURE_LABEL,
            )

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Requires one candidate for each component of a padded batch."""
        self._place.check_budget(budget, spec)

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes AUC and average precision over all candidates.

        There are no ranks: the candidates of one source are in examples of their own, in any batches.
        """
        return [CandidateAuc("ROC"), CandidateAuc("PR")]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "scores") -> OutputLayers:
        """Makes the readout of subgraphs, whose vectors are the embeddings, and the layer that scores them."""
        return OutputLayers(
            SubgraphReadout(self._task.pooling, name=embeddings_name),
            SubgraphScore(self._task.hidden_units, dtype=tf.float32, name=output_name),
        )

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Returns scores, [n, 1], and numbers of candidates, all 1; other examples are refused."""
        sizes = graph.node_sets[READOUT_NODE_SET].sizes
        message = (
            f"`{model_interface.EXAMPLES_INPUT}` must have one candidate pair each, because its whole subgraph is "
            "scored; got several. Send an example for each pair."
        )
        check = tf.debugging.assert_equal(sizes, tf.ones_like(sizes), message=message)
        # In eager mode the check has been made.
        with tf.control_dependencies([] if check is None else [check]):
            return super().served_outputs(tf.identity(output), graph)

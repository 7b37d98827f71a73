"""The objective of link prediction: scores of candidate pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.readout import Readout, StructuredReadout
from tfx_gnn.models.candidate_groups import Candidates, pad_candidates
from tfx_gnn.models.losses import CandidateSigmoid, CandidateSoftmax
from tfx_gnn.models.metrics import CandidateAuc, HitsAt, MeanReciprocalRank, UnrankedPairs
from tfx_gnn.models.pair_scoring import DistMultScore, DotScore, HadamardScore, StateProjection
from tfx_gnn.models.tasks.label_objectives import LabelObjective
from tfx_gnn.models.tasks.label_places import (
    ReadoutLabels,
    readout_components,
    readout_sizes,
)
from tfx_gnn.models.tasks.output_layers import OutputLayers, check_tensor_output, shape_in_words
from tfx_gnn.serving import model_interface

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.pair_tasks import LinkPrediction

SOURCE_EDGE_SET = f"{READOUT_NODE_SET}/source"
TARGET_EDGE_SET = f"{READOUT_NODE_SET}/target"


class LinkObjective(LabelObjective):
    """Objective with one score per candidate pair; see `Objective`."""

    def __init__(self, task: LinkPrediction) -> None:
        super().__init__(task, ReadoutLabels(task.label_feature))
        self._task = task
        self.readout_key = "links"
        self.reads_seeds = False
        self.reads_pairs = True
        self.num_classes = 2
        self.input_features = (task.relation_feature,) if task.relation_feature else ()

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Requires an int64 label, the relation if there is one, and edge sets to both ends of each pair."""
        label = self._place.label_spec(spec)
        features = {self._task.label_feature: label}
        if self._task.relation_feature:
            features[self._task.relation_feature] = ReadoutLabels(self._task.relation_feature).label_spec(spec)
        for name, feature in features.items():
            if not isinstance(feature, tf.TensorSpec) or feature.dtype != tf.int64 or feature.shape.rank != 1:
                raise ValueError(
                    f"`task` must name int64 features with one value per candidate; got {feature.dtype.name} of shape "
                    f"{shape_in_words(feature.shape)} in {name!r}. Cast it in `preprocessing_fn`, or look it up "
                    "in a vocabulary."
                )
        missing = sorted({SOURCE_EDGE_SET, TARGET_EDGE_SET} - set(spec.edge_sets_spec))
        if missing:
            raise ValueError(
                f"`task` must have candidates connected to both ends of each pair; got no edge sets {missing}. Sample "
                "with a plan that has `seed_edge_set`."
            )

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Requires one edge of each kind for each candidate of a padded batch, and rivals for softmax."""
        sizes = readout_sizes(budget, spec)
        if None in sizes.values() or len(set(sizes.values())) != 1:
            raise ValueError(
                f"`size_constraints_dir` must hold a budget with as many edges to {READOUT_NODE_SET!r} as nodes; got "
                f"{sizes}. Learn it from examples whose candidates are connected to both ends."
            )
        if self._task.loss == "softmax" and sizes[READOUT_NODE_SET] == budget.total_num_components:
            raise ValueError(
                "`loss` must be 'sigmoid' where each example has a single candidate, which softmax compares with none; "
                f"got 'softmax' and a budget for {budget.total_num_components} candidates of as many examples. Choose "
                "'sigmoid', or sample negatives without `own_subgraphs`."
            )

    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the labels, int64 [candidates, 2], off a graph; see `candidate_groups`."""
        graph, label = self._place.split_off(graph)
        sizes = graph.node_sets[READOUT_NODE_SET].sizes
        starts = tf.gather(tf.cumsum(sizes, exclusive=True), readout_components(graph))
        return graph, tf.stack([label, tf.cast(starts, tf.int64)], axis=1)

    def counts(self, labels: tf.Tensor, graph: GraphTensor, is_real_component: tf.Tensor) -> tf.Tensor:
        """Returns which candidates count, bool [candidates]: true and false pairs, for softmax only true pairs."""
        candidates = Candidates.of(labels)
        is_real = self._place.by_row(graph, is_real_component)
        if self._task.loss == "softmax":
            return is_real & candidates.is_true
        return is_real & (candidates.is_true | candidates.is_false)

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Weights all candidates equally, float32 [candidates]."""
        return tf.ones_like(labels[:, 0], tf.float32)

    def safe_labels(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the labels unchanged: the losses ignore candidates that are neither true nor false."""
        return labels

    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Requires scores, [candidates]."""
        check_tensor_output(
            output,
            [self._place.num_rows(graph)],
            form="[num_readouts]",
            advice="Read out both ends of each pair, and end with one score for it.",
        )

    def loss(self) -> tf_keras.losses.Loss:
        """Makes the cross entropy of each candidate, or of each true pair among the candidates."""
        kind = CandidateSoftmax if self._task.loss == "softmax" else CandidateSigmoid
        return kind(self._task.label_smoothing)

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes the link metrics.

        They are MRR and hits@k among the candidates of each example, AUC and average precision over all candidates,
        and the number of true pairs without a rank.
        """
        hits = [HitsAt(k) for k in self._task.hits_at]
        return [MeanReciprocalRank(), *hits, CandidateAuc("ROC"), CandidateAuc("PR"), UnrankedPairs()]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "scores") -> OutputLayers:
        """Makes the readout of both ends and the layer that scores them; see `Objective`.

        Scores are float32: half precision would make many ties.
        """
        says_no = self._task.loss == "sigmoid"
        kinds: dict[str, Callable[[], Callable[..., tf.Tensor]]] = {
            "dot": lambda: DotScore(use_bias=says_no, dtype=tf.float32, name=output_name),
            "hadamard": lambda: HadamardScore(self._task.hidden_units, dtype=tf.float32, name=output_name),
            "distmult": lambda: DistMultScore(
                self._task.num_relations, use_bias=says_no, dtype=tf.float32, name=output_name
            ),
        }
        return OutputLayers(
            PairReadout(self._task.relation_feature, name=embeddings_name, projects=self._task.projects_states),
            kinds[self._task.scoring](),
        )

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Returns scores, [n, max candidates], with minus infinity after the last one, and numbers of candidates."""
        sizes = graph.node_sets[READOUT_NODE_SET].sizes
        return {
            model_interface.SCORES_OUTPUT: pad_candidates(tf.cast(output, tf.float32), sizes, float("-inf")),
            model_interface.NUM_CANDIDATES_OUTPUT: tf.cast(sizes, tf.int64),
        }


class PairReadout(tf.Module):
    """Reads the states of both ends of each candidate, and its relation if there is one.

    The two Keras layers that return the embeddings are named `source_<name>` and `target_<name>`.
    """

    def __init__(self, relation_feature: str, *, name: str, projects: bool) -> None:
        super().__init__()
        self._source = _end_layers("source", name=name, projects=projects)
        self._target = _end_layers("target", name=name, projects=projects)
        self._relation = None
        if relation_feature:
            self._relation = Readout(node_set_name=READOUT_NODE_SET, feature_name=relation_feature)

    def __call__(self, graph: GraphTensor) -> tuple[tf.Tensor, ...]:
        """Reads states [candidates, units] of sources and of targets, and relations [candidates], if any."""
        source: Any = graph
        for layer in self._source:
            source = layer(source)
        target: Any = graph
        for layer in self._target:
            target = layer(target)
        ends = (source, target)
        return ends if self._relation is None else (*ends, self._relation(graph))


def _end_layers(key: str, *, name: str, projects: bool) -> list[tf_keras.layers.Layer]:
    """Makes the layers that map a graph to the embeddings of one end; the last one has the name."""
    if not projects:
        return [StructuredReadout(key, name=f"{key}_{name}")]
    return [StructuredReadout(key), StateProjection(name=f"{key}_{name}")]

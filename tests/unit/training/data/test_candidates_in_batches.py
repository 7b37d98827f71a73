"""Candidates of links, whose number differs from example to example, in learned budgets and padded batches."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import LinkPrediction
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.data.padded_batches import padded_batches

SCHEMA = """
node_sets { key: "item" value { features { key: "hidden_state" value { dtype: DT_FLOAT shape { dim { size: 1 } } } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/source" value { source: "item" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""
NUM_CANDIDATES = [1 + i % 4 for i in range(30)]


def _example(num_candidates):
    """The source is item 0 with state 1, candidate k is item k + 1 with state -k: the first one ranks first."""
    counting = list(range(num_candidates))
    return {
        "nodes/item.#size": [num_candidates + 1],
        "nodes/item.hidden_state": [1.0, *(-float(k) for k in counting)],
        "nodes/_readout.#size": [num_candidates],
        "nodes/_readout.label": [1] + [0] * (num_candidates - 1),
        "edges/_readout/source.#size": [num_candidates],
        "edges/_readout/source.#source": [0] * num_candidates,
        "edges/_readout/source.#target": counting,
        "edges/_readout/target.#size": [num_candidates],
        "edges/_readout/target.#source": [k + 1 for k in counting],
        "edges/_readout/target.#target": counting,
    }


@pytest.fixture(scope="module")
def learned(write_examples, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("links"))
    write_examples(folder, {"train": [[_example(number) for number in NUM_CANDIDATES]]}, SCHEMA)
    budgets = learn_size_constraints(
        examples_dir=folder,
        graph_schema_dir=folder,
        size_constraints_dir=f"{folder}/sizes",
        options=SizeConstraintLearnerOptions(batch_size=8, success_ratios=(0.9,), splits=("train",)),
    )
    return folder, budgets


@pytest.mark.parametrize(
    ("kind", "batching"), [("packing", "packed"), ("tight", "tight"), ("fit_or_skip", "fit_or_skip")]
)
def test_all_candidates_are_ranked_whatever_the_padding(learned, kind, batching):
    folder, budgets = learned
    spec = create_graph_spec_from_schema_pb(read_schema(f"{folder}/graph_schema.pbtxt"))
    objective = LinkPrediction(projects_states=False).objective()
    budget = budgets.find(kind)
    objective.check_spec(spec)
    objective.check_budget(budget.constraints, spec)
    labelled = LabelledGraphs(graph_spec=spec, objective=objective)
    layers, [mrr, *_] = objective.output_layer(), objective.weighted_metrics()
    num_true, num_candidates = 0, 0

    for batch in padded_batches(read_split(folder, "train"), spec, budget, batching):
        parts = labelled(batch.graph, batch.is_real)
        scores = layers(parts.graph)
        objective.check_output(scores, parts.graph)
        weights = tf.cast(parts.counts, tf.float32)
        mrr.update_state(parts.labels, scores, weights)
        assert tf.math.is_finite(objective.loss()(parts.labels, scores, sample_weight=weights))
        num_candidates += int(tf.reduce_sum(weights))
        num_true += int(tf.reduce_sum(weights * tf.cast(parts.labels[:, 0], tf.float32)))

    assert float(mrr.result()) == 1.0
    if batching == "fit_or_skip":
        assert 0 < num_true <= 30
    else:
        assert (num_true, num_candidates) == (30, sum(NUM_CANDIDATES))

"""The TFX component GraphEvaluator and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.graph_evaluator import executor
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions


class GraphEvaluatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphEvaluator."""

    PARAMETERS = parameters.execution_parameters(GraphEvaluatorOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "blessed_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
    }
    OUTPUTS = {
        "evaluation": ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
    }
    TYPE_ANNOTATION = system_executions.Evaluate


class GraphEvaluator(base_beam_component.BaseBeamComponent):
    """Measures the exported model on raw examples and blesses it if it is good enough.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples with labels |
    | input | model | Model | the exported model |
    | input | blessed_model | Model | optional: the latest blessed model, which this one must not be worse than |
    | output | evaluation | ModelEvaluation | `metrics.json`, kept predictions, and files of TensorFlow Model Analysis |
    | output | blessing | ModelBlessing | `BLESSED` or `NOT_BLESSED`, with the reasons |
    | parameter | label_feature | str | label feature of the `_readout` node set, for node classification |
    | parameter | task | JSON | what the model was trained for; replaces the label feature |
    | parameter | split | str | split to evaluate |
    | parameter | baseline_split | str | split whose most frequent class, or mean, is the baseline |
    | parameter | main_metric | str | metric in which the baseline must be beaten, if not the usual one |
    | parameter | min_accuracy_over_majority | float | gain over the baseline that a blessing requires |
    | parameter | min_accuracy | float | accuracy that a blessing requires |
    | parameter | min_macro_f1 | float | macro-F1 that a blessing requires |
    | parameter | baseline_confidence | float | confidence that the model is better than the baseline; 0: no matter |
    | parameter | bootstrap_replicas | int | replicas from which this is computed |
    | parameter | max_examples_without_label | int | examples that may lack a label |
    | parameter | thresholds | JSON | bounds on any metrics that a blessing requires |
    | parameter | change_thresholds | JSON | least improvements over the latest blessed model |
    | parameter | slices | JSON | features by which metrics are also broken down |
    | parameter | slice_edges | JSON | numbers between slices of numeric features |
    | parameter | slice_quantiles | JSON | numbers of slices of equal size, by numeric feature |
    | parameter | num_slices | int | how many of the largest and of the smallest slices of each feature are reported |
    | parameter | slice_thresholds | JSON | bounds that every slice must meet |
    | parameter | slice_change_thresholds | JSON | least improvements of every slice |
    | parameter | min_slice_examples | int | labelled examples that a slice must have for thresholds to apply |
    | parameter | max_slice_intervals | JSON | widest intervals on which bounds on slices decide |
    | parameter | trees_baseline | str | "auto": trees on the seeds' own columns stand beside the model; "none": not |
    | parameter | trees_thresholds | JSON | least improvements over trees |
    | parameter | known_links | str | table of true links; negatives found in it are excluded from rankings |
    | parameter | known_link_features | JSON | columns of that table that distinguish links between the same nodes |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        model: channel of Model.
        options: what to measure, and what a blessing requires.
        blessed_model: channel of Model, from LatestBlessedModelResolver.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphEvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        model: BaseChannel,
        options: GraphEvaluatorOptions,
        blessed_model: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphEvaluatorSpec,
                options,
                runtime_parameters,
                examples=examples,
                model=model,
                blessed_model=blessed_model,
            )
        )

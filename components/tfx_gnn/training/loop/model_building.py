"""Builds the user's model with its `model_fn`, compiles it and checks it."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.user_errors import user_errors_explained
from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declare_weight_index, declared_weight_index
from tfx_gnn.models.tasks import Objective
from tfx_gnn.training.export.unsafe_operations import has_unsafe_kernels
from tfx_gnn.training.loop.determinism import generators_in_layers
from tfx_gnn.training.loop.loss_checks import check_loss
from tfx_gnn.training.loop.optimizers import set_optimizer
from tfx_gnn.training.options import OptimizationOptions

RULE_OF_MODEL_FN = "build a model of the transformed graph"
"""What `model_fn` must do, as error messages say it."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelBuilder:
    """Builds models of the same kind.

    Attributes:
        model_fn: the user's function, as described in `GraphTrainerOptions.model_fn`.
        reference: its name, for messages.
        graph_spec: spec of a scalar graph of any size, without labels and original ids.
        tft_output: the transform.
        objective: what is predicted.
        hyperparameters: hyperparameters for the function, and the learning rate for an uncompiled model.
        num_steps: expected number of training steps.
        precision: name of the Keras policy under which layers are created.
        optimization: optimizer of an uncompiled model, and what is added to a compiled one.
    """

    model_fn: Callable[..., Any]
    reference: str
    graph_spec: GraphTensorSpec
    tft_output: tft.TFTransformOutput
    objective: Objective
    hyperparameters: Mapping[str, Any]
    num_steps: int
    precision: str
    optimization: OptimizationOptions = dataclasses.field(default_factory=OptimizationOptions)

    def build(self, sample: GraphTensor) -> tf_keras.Model:
        """Builds a compiled model with variables, in the scope of the caller's strategy.

        It calls the untrained model on the padded graph `sample`, which creates the variables and reveals mistakes.
        """
        with _precision(self.precision), generators_in_layers():
            with user_errors_explained("model_fn", RULE_OF_MODEL_FN):
                model = self._call()
            if not isinstance(model, tf_keras.Model):
                raise TypeError(
                    f"`model_fn` must return a tf_keras.Model; got {type(model)} from {self.reference!r}. Import Keras "
                    "as tf_keras."
                )
            with user_errors_explained("model_fn", "return a model that can be called on a batch"):
                output = model(sample, training=False)
        self._check_widths(model)
        try:
            self.objective.check_output(output, sample)
        except ValueError as error:
            raise ValueError(f"{error} This is the model of {self.reference!r}.") from error
        set_optimizer(
            model,
            self.optimization,
            reference=self.reference,
            objective=self.objective,
            hyperparameters=self.hyperparameters,
            num_steps=self.num_steps,
        )
        _declare_classes(model, self.objective)
        check_loss(model, self.objective, output, reference=self.reference)
        _warn_of_unweighted_metrics(model, self.reference)
        # Not in the first step: TensorFlow raises an error for variables that are created in a loop.
        model.optimizer.build(model.trainable_variables)
        return model

    def _check_widths(self, model: tf_keras.Model) -> None:
        # A product with a matrix of no rows, plus a bias, kills the process in the oneDNN of TensorFlow 2.16.
        if not has_unsafe_kernels():
            return
        matrices = [weight for weight in model.variables if weight.shape.rank == 2]
        empty = {weight.name: weight.shape.as_list() for weight in matrices if 0 in weight.shape}
        if empty:
            raise ValueError(
                f"`model_fn` must give a model whose matrices have elements; got shapes {empty} from "
                f"{self.reference!r}. Their layers get states of width 0, as of a set without features: make its first "
                "state by tfx_gnn.keras.feature_encoders.LearnedState."
            )

    def _call(self) -> Any:
        known = {
            "tft_output": self.tft_output,
            "objective": self.objective,
            "hyperparameters": dict(self.hyperparameters),
            "num_steps": self.num_steps,
        }
        parameters = list(inspect.signature(self.model_fn).parameters.values())
        positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL][1:]
        arguments: list[Any] = [self.graph_spec]
        if positional and positional[0].name not in known and positional[0].default is inspect.Parameter.empty:
            # `model_fn(graph_spec, tft_output)`, whatever the name of the second parameter.
            arguments.append(self.tft_output)
            positional = positional[1:]
            del known["tft_output"]
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return self.model_fn(*arguments, **known)
        rest = [*positional, *(parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)]
        missing = [
            parameter.name for parameter in rest if parameter.name not in known and parameter.default is parameter.empty
        ]
        if missing:
            raise TypeError(
                f"`model_fn` must take the graph's spec, and further parameters by names among {sorted(known)}; got "
                f"{missing} in {self.reference!r}. "
                f"{did_you_mean(missing[0], known, otherwise='Give these a default, or leave them out.')}"
            )
        names = {parameter.name for parameter in rest}
        return self.model_fn(*arguments, **{name: value for name, value in known.items() if name in names})


def _declare_classes(model: tf_keras.Model, objective: Objective) -> None:
    """Records which classes number the units of the user's own last layer, as `objective.output_layer()` does."""
    vocabulary = getattr(objective.task, "class_vocabulary", None)
    if vocabulary is None or not getattr(model, "_is_graph_network", False) or len(model.outputs) != 1:
        return
    head = model.outputs[0].node.layer
    is_classifier = isinstance(head, tf_keras.layers.Dense) and head.units == objective.num_classes
    if is_classifier and declared_weight_index(head) is None:
        classes = IndexBlock(name="", size=objective.num_classes, vocabulary=vocabulary)
        declare_weight_index(head, WeightIndex(axis=-1, blocks=(classes,)))


@contextlib.contextmanager
def _precision(policy: str) -> Iterator[None]:
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(policy)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _warn_of_unweighted_metrics(model: tf_keras.Model, reference: str) -> None:
    compiled = getattr(model, "compiled_metrics", None)
    unweighted = getattr(compiled, "_user_metrics", None)
    if unweighted:
        names = sorted(str(getattr(metric, "name", metric)) for metric in tf.nest.flatten(unweighted))
        _LOG.warning(
            "`model_fn` must compile its metrics as `weighted_metrics`; got `metrics` %s in %r, which count padding as "
            "examples and so are wrong. Write `weighted_metrics=` in `model.compile`.",
            names,
            reference,
        )

"""Tries transform and model on a few examples: the analysis, a batch and two training steps."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.size_constraint_learner.stage import check_batch_sizes, learn_size_constraints
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.user_code import fingerprint_function, load_function
from tfx_gnn.records.examples_folder import read_records, record_files
from tfx_gnn.records.size_constraints_file import TIGHT
from tfx_gnn.records.warning_kinds import LARGE_INPUTS, LARGE_STEP
from tfx_gnn.training.data.batching_names import EGO
from tfx_gnn.training.data.input_pipeline import counted_rows, training_weights, weights_of_global_mean
from tfx_gnn.training.loop.determinism import seeded
from tfx_gnn.training.loop.learning_check import describe_large_inputs
from tfx_gnn.training.loop.model_building import RULE_OF_MODEL_FN
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.loop.training_setup import TrainingSetup
from tfx_gnn.transform.analyze_modes import AS_SAMPLED
from tfx_gnn.transform.preprocessing import RULE_OF_PREPROCESSING
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.config import PipelineConfig

_TRIED_BATCH = 32
_NUM_STEPS = 2
_STEP = "GraphTrainer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleFolders:
    """Where the few examples are that a check tries.

    Attributes:
        examples: raw examples and their schema.
        transformed: folder of all that transform and budgets write.
    """

    examples: str
    transformed: str

    def of(self, name: str) -> str:
        """Returns one of the transformed folders."""
        return os.path.join(self.transformed, name)


def transform_sample(
    config: PipelineConfig, examples_dir: str, parent: str, found: FindingsCollector
) -> SampleFolders | None:
    """Transforms examples and learns budgets of small batches; None if either fails.

    The results are in a folder below `parent`, named after what they depend on: if it exists, they are reused.
    """
    folders = SampleFolders(examples=examples_dir, transformed=os.path.join(parent, _fingerprint(config, examples_dir)))
    # Counting each occurrence takes fewer steps of Beam than finding out which are the same item. Whether statistics
    # may be taken as the options say was checked when the function was traced.
    options = dataclasses.replace(config.graph_transform, analyze=AS_SAMPLED)
    has_failed = True
    argument = "preprocessing_fn" if config.graph_transform.preprocessing_fn else "features"
    with found.caught("GraphTransform", argument=argument, rule=RULE_OF_PREPROCESSING):
        if not os.path.isdir(folders.of("transform_graph")):
            transform_graphs(
                examples_dir=examples_dir,
                graph_schema_dir=examples_dir,
                transform_graph_dir=folders.of("transform_graph"),
                transformed_examples_dir=folders.of("transformed_examples"),
                transformed_graph_schema_dir=folders.of("transformed_schema"),
                options=options,
            )
        found.looked_at.append("the transform, with statistics over some examples")
        has_failed = False
    if has_failed:
        return None
    with found.caught("SizeConstraintLearner"):
        if not os.path.isdir(folders.of("size_constraints")):
            learn_size_constraints(
                examples_dir=folders.of("transformed_examples"),
                graph_schema_dir=folders.of("transformed_schema"),
                size_constraints_dir=folders.of("size_constraints"),
                transform_graph_dir=folders.of("transform_graph"),
                options=dataclasses.replace(
                    config.size_constraint_learner,
                    batch_size=_tried_batch(config),
                    extra_batch_sizes=(),
                    max_slice_loss=1.0,
                ),
                only_tight=True,
            )
        return folders
    return None


def _tried_batch(config: PipelineConfig) -> int:
    return min(config.size_constraint_learner.batch_size, _TRIED_BATCH)


def _fingerprint(config: PipelineConfig, examples_dir: str) -> str:
    """Hashes the examples, the code of the transform, and the options of transform and budgets."""
    records = hashlib.sha256()
    for file in record_files(examples_dir):
        for record in read_records(file):
            records.update(record)
    parts = [
        records.hexdigest(),
        *map(fingerprint_function, filter(None, [config.graph_transform.preprocessing_fn])),
        options_json.to_json(config.graph_transform),
        options_json.to_json(config.size_constraint_learner),
    ]
    return fingerprint_text("\n".join(parts))[:32]


def check_batch_size(config: PipelineConfig, num_examples: Mapping[str, int], found: FindingsCollector) -> None:
    """Compares the batch size with the training split."""
    options = config.size_constraint_learner
    if num_examples.get(options.train_split):
        with found.caught("SizeConstraintLearner", argument="batch_size"):
            check_batch_sizes(options, num_examples[options.train_split])


def check_model(config: PipelineConfig, folders: SampleFolders, found: FindingsCollector) -> None:
    """Builds the model and trains it for two steps on what `transform_sample` wrote."""
    options = config.graph_trainer
    function = load_function(options.model_fn)
    with found.caught(_STEP, argument="model_fn", rule=RULE_OF_MODEL_FN, function=function):
        batching = dataclasses.replace(
            options.batching,
            kind=EGO if options.batching.kind == EGO else TIGHT,
            batch_size=min(options.batching.batch_size, _TRIED_BATCH),
        )
        of_trainer = TrainerFolders(
            transformed_examples_dir=folders.of("transformed_examples"),
            transform_graph_dir=folders.of("transform_graph"),
            graph_schema_dir=folders.examples,
            transformed_graph_schema_dir=folders.of("transformed_schema"),
            size_constraints_dir=folders.of("size_constraints"),
        )
        with seeded(options.training_seed, deterministic=False):
            setup = TrainingSetup(
                of_trainer, tf.distribute.get_strategy(), dataclasses.replace(options, batching=batching)
            )
            model = setup.builder.build(setup.sample.graph)
            found.looked_at.append(f"the model, with {model.count_params():,} parameters")
            _train(config, setup, model, found)


def _train(config: PipelineConfig, setup: TrainingSetup, model: tf_keras.Model, found: FindingsCollector) -> None:
    sample, reference = setup.sample, config.graph_trainer.model_fn
    function = load_function(reference)
    before = model.get_weights()
    weights = training_weights(sample)
    scaled = weights_of_global_mean(weights, counted_rows(weights), 1)

    def step() -> dict[str, Any]:
        return dict(model.train_step((sample.graph, sample.labels, scaled)))

    concrete = tf.function(step, autograph=False).get_concrete_function()
    losses = [float(tf.reduce_sum(concrete().get("loss", 0.0))) for _ in range(_NUM_STEPS)]
    if not np.isfinite(losses).all() or not all(_is_finite(weight) for weight in model.trainable_variables):
        model.set_weights(before)
        found.add(_STEP, _why_not_finite(model, sample.graph, losses, reference), function=function)
        return
    found.looked_at.append(f"{_NUM_STEPS} training steps of {setup.budgets.evaluation.batch_size} graphs")
    check_inputs(config, sample.graph, found)
    _check_memory(config, concrete.graph, setup.budgets.evaluation.batch_size, found)


def check_inputs(config: PipelineConfig, graph: Any, found: FindingsCollector) -> None:
    """Warns of numbers that go into the network as they are and are far from 1."""
    words = describe_large_inputs([graph])
    if words:
        user_code = config.graph_transform.preprocessing_fn
        found.add(
            _STEP,
            f"`{'preprocessing_fn' if user_code else 'features'}` should give numbers of a sane scale; {words}.",
            warning=LARGE_INPUTS,
            function=load_function(user_code) if user_code else None,
        )


def _why_not_finite(model: tf_keras.Model, graph: Any, losses: list[float], reference: str) -> str:
    if _is_finite(model(graph, training=False)):
        return (
            f"`model_fn` must train with a finite loss; got {losses} in the first {_NUM_STEPS} steps of {reference!r}, "
            "although its outputs are finite before. Look at its loss, its learning rate, and square roots and norms, "
            "whose gradient at 0 is infinite."
        )
    return (
        f"`model_fn` must return a model with finite outputs; got NaN or infinity from {reference!r} before any "
        f"training{_first_nonfinite(model, graph)}. Keep values in the domain of logarithms, roots and divisions, as "
        "tf.maximum(x, 1e-6) does."
    )


def _is_finite(values: Any) -> bool:
    return all(
        bool(tf.reduce_all(tf.math.is_finite(value)))
        for value in tf.nest.flatten(values, expand_composites=True)
        if value.dtype.is_floating
    )


def _first_nonfinite(model: tf_keras.Model, graph: Any) -> str:
    """Names the first layer of a functional model whose output is not finite."""
    outputs = [(layer.name, layer.output) for layer in getattr(model, "layers", []) if hasattr(layer, "output")]
    try:
        values = tf_keras.Model(model.input, [output for _, output in outputs])(graph, training=False)
    except (AttributeError, ValueError, TypeError):
        return ""  # not a functional model
    found = next((name for (name, _), value in zip(outputs, values, strict=True) if not _is_finite(value)), "")
    return f", first from layer {found!r}" if found else ""


def _check_memory(config: PipelineConfig, graph: tf.Graph, batch_size: int, found: FindingsCollector) -> None:
    """Estimates the memory of a step of the whole batch: what all operations of the small one return, in proportion."""
    wanted = config.graph_trainer.batching.batch_size or config.size_constraint_learner.batch_size
    num_bytes = sum(_sizes(graph)) * wanted // max(batch_size, 1)
    found.looked_at.append(f"a training step of {wanted} graphs: at most {num_bytes / 2**20:,.0f} MiB")
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if num_bytes > available and not tf.config.list_physical_devices("GPU"):
        found.add(
            _STEP,
            f"`batch_size` must leave room for a training step; got {wanted}, whose step needs up to "
            f"{num_bytes / 2**30:,.1f} GiB of this machine's {available / 2**30:,.1f}. Choose a smaller batch or fewer "
            "units, or train on a machine with more memory.",
            warning=LARGE_STEP,
        )


def _sizes(graph: tf.Graph) -> Iterator[int]:
    for operation in graph.get_operations():
        for value in operation.outputs:
            elements = value.shape.num_elements()
            if elements and value.dtype.is_floating:
                yield elements * value.dtype.size

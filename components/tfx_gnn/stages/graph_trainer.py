"""GraphTrainer: transformed graphs and a user's model become one SavedModel that answers raw examples."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from tfx_gnn.graph import schema as graph_schema_io
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.serving.signature import MODEL_ARTIFACT_FOLDER
from tfx_gnn.stages.examples_folder import graph_schema_path
from tfx_gnn.stages.files.atomic_folder import atomic_folder
from tfx_gnn.stages.files.blessing import is_blessed, read_reasons
from tfx_gnn.stages.files.record_files import record_files
from tfx_gnn.stages.padded_batches import BUDGET_KINDS
from tfx_gnn.stages.ready_batches import ready_batches_dataset
from tfx_gnn.stages.sizes import size_constraints_file
from tfx_gnn.stages.sizes.size_constraints_file import Budget, fingerprint_examples, fingerprint_graph_schema
from tfx_gnn.stages.training import input_pipeline as training_input
from tfx_gnn.stages.training.callbacks import BestWeights, InputFigures, KeepCheckpoints, RefuseNonFiniteLoss
from tfx_gnn.stages.training.epochs import fit_epochs
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.input_tally import InputTally
from tfx_gnn.stages.training.labels import SplitLabels, count_labels
from tfx_gnn.stages.training.model_export import ServedClassifier
from tfx_gnn.stages.training.model_graph import check_model_features, without_label
from tfx_gnn.stages.training.path_export import TRAINING_PATH_DIR, TrainingPath
from tfx_gnn.stages.training.progress import TrainingProgress
from tfx_gnn.stages.training.ready_batches_manifest import read_manifest
from tfx_gnn.stages.training.summary import TrainingSummary, write_training_summary
from tfx_gnn.stages.transform.application import SavedGraphTransform
from tfx_gnn.stages.user_code import load_function

LOGS_DIR = "logs"
CHECKPOINTS_DIR = "checkpoints"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTrainerOptions:
    """What to train, and how.

    Attributes:
        model_fn: "package.module:function" of the user's `model_fn(graph_spec, tft_output)`.
            It gets the spec of a scalar, padded, label-free graph of any size and the
            `tft.TFTransformOutput`, and returns a compiled tf_keras.Model from such a graph
            to logits, float [num_readouts, num_classes]. Batches come with sample weights,
            0 for padding: compile with `weighted_metrics`, not `metrics`.
        task: what is predicted.
        num_epochs: passes over the training split, at least 1.
        train_split: split to train on.
        eval_split: split to watch after each epoch.
        batching: how graphs of the training split are batched. "packed" fills each batch with as many
            as fit the budget; "fit_or_skip" takes a fixed number and removes batches that do not fit, with
            a count; "tight" takes a fixed number and pads to the largest. Evaluation is always tight, and
            scores every example.
        batch_size: which of the learned budgets to take; 0 for the learner's own batch size.
        success_ratio: which of the learned fit-or-skip budgets to take, in (0, 1].
        shuffle_buffer_size: examples that are mixed at a time, at least 1.
        training_seed: seed of weights, dropout and order, in [0, 2**31).
        early_stopping_patience: epochs without a lower validation loss after which
            training stops; the weights of the best epoch are then exported, also if it never
            came to a stop. 0: train all epochs and export the last weights.
    """

    model_fn: str
    task: NodeClassification
    num_epochs: int = 10
    train_split: str = "train"
    eval_split: str = "val"
    batching: str = "packed"
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    training_seed: int = 0
    early_stopping_patience: int = 0

    def __post_init__(self) -> None:
        least_values = {"num_epochs": 1, "batch_size": 0, "shuffle_buffer_size": 1, "early_stopping_patience": 0}
        for name, least in least_values.items():
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        if not 0 <= self.training_seed < 2**31:
            raise ValueError(
                f"`training_seed` must lie in [0, 2**31); got {self.training_seed}. Choose another number."
            )
        if self.batching not in BUDGET_KINDS:
            raise ValueError(
                f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {self.batching!r}. Packed wastes least."
            )
        if not 0.0 < self.success_ratio <= 1.0:
            raise ValueError(
                f"`success_ratio` must lie in (0, 1]; got {self.success_ratio}. Name one that budgets were learned for."
            )
        if not self.train_split or self.train_split == self.eval_split:
            raise ValueError(
                f"`eval_split` must be another split than `train_split`; got {self.eval_split!r} for both. "
                "A model is watched on examples that it does not learn from."
            )


def train_graph_model(
    *,
    transformed_examples_dir: str,
    transform_graph_dir: str,
    graph_schema_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str,
    model_dir: str,
    model_run_dir: str,
    blessing_dir: str = "",
    ready_batches_dir: str = "",
    options: GraphTrainerOptions,
) -> TrainingSummary:
    """Trains the user's model and exports it together with the transform.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transform_graph_dir: the transform that made them.
        graph_schema_dir: folder of `graph_schema.pbtxt` before the transform.
        transformed_graph_schema_dir: folder of `graph_schema.pbtxt` after it.
        size_constraints_dir: padding budgets, learned from the same examples.
        model_dir: absent or empty folder for the SavedModel, in `Format-Serving/`.
        model_run_dir: absent or empty folder for `logs/` (TensorBoard), `checkpoints/`,
            `training_path/` (what training saw, for GraphSkewValidator) and `training_summary.json`.
        blessing_dir: verdict of GraphExampleValidator on the raw examples, which must be a blessing; empty to
            train on whatever examples there are.
        ready_batches_dir: output of `write_ready_batches` for the training split and the budget of `options`:
            each epoch reads the next stored one instead of making batches. Empty to make them.
        options: what to train, and how.

    Returns:
        What was done.

    Raises:
        ValueError: if the examples are not blessed, inputs do not fit each other, labels are missing, a class
            of the training split is unknown, the model is no classifier of this task, or the loss is not finite.
        ModuleNotFoundError: if the module of `model_fn` cannot be found.
    """
    if blessing_dir:
        _check_blessing(blessing_dir)
    model_fn = load_function(options.model_fn)
    graph_spec = _graph_spec(transformed_graph_schema_dir)
    check_model_features(graph_spec, options.task)
    budget, eval_budget = _matching_budgets(
        size_constraints_dir, transformed_examples_dir, transformed_graph_schema_dir, graph_spec, options
    )
    tft_output = tft.TFTransformOutput(transform_graph_dir)
    class_names = _class_names(tft_output, options.task)
    train_files = record_files(transformed_examples_dir, (options.train_split,))
    eval_files = record_files(transformed_examples_dir, (options.eval_split,))
    count = functools.partial(count_labels, label_feature=options.task.label_feature, num_classes=len(class_names))
    train_labels, eval_labels = count(train_files), count(eval_files)
    _check_train_labels(train_labels, options)

    with (
        libraries_traced_as_written(),
        atomic_folder(model_run_dir) as run_partial,
        atomic_folder(model_dir) as model_partial,
    ):
        # Python's, NumPy's and TensorFlow's generators: initial weights, dropout and order follow from it.
        tf_keras.utils.set_random_seed(options.training_seed)
        labelled = training_input.LabelledGraphs(graph_spec=graph_spec, task=options.task, num_classes=len(class_names))
        tally = InputTally()
        if ready_batches_dir:
            steps_per_epoch = _ready_steps(ready_batches_dir, options)
            batches = ready_batches_dataset(
                ready_batches_dir,
                transformed_examples_dir=transformed_examples_dir,
                transformed_graph_schema_dir=transformed_graph_schema_dir,
                budget=budget,
            )
            train_data = training_input.weighted_batches(batches, labelled, tally=tally)
        else:
            steps_per_epoch = training_input.expected_steps(budget, train_labels.num_examples)
            train_data = training_input.training_dataset(
                train_files,
                labelled,
                budget=budget,
                batching=options.batching,
                shuffle_buffer_size=options.shuffle_buffer_size,
                seed=options.training_seed,
                tally=tally,
            )
        eval_data = training_input.evaluation_dataset(
            eval_files,
            labelled,
            budget=eval_budget,
            num_graphs=eval_labels.num_examples,
            num_scored=eval_labels.num_examples - eval_labels.num_unknown,
        )
        model_spec = train_data.element_spec[0].relax(num_components=True, num_nodes=True, num_edges=True)
        with tf.distribute.get_strategy().scope():
            model = model_fn(model_spec, tft_output)
        # A first batch through the untrained model: it gets its variables, and mistakes show.
        _check_model(model, options.model_fn, next(iter(eval_data))[0], len(class_names))
        served = ServedClassifier(
            raw_spec=_graph_spec(graph_schema_dir),
            transformed_spec=without_label(graph_spec, options.task),
            transform=SavedGraphTransform(transform_graph_dir),
            model=model,
            class_names=class_names,
        )
        # A trial: what cannot be exported is found out now, not after hours of training.
        trial_dir = os.path.join(model_partial, "trial")
        served.save(trial_dir)
        tf.io.gfile.rmtree(trial_dir)

        start = time.monotonic()
        best = BestWeights(patience=options.early_stopping_patience) if options.early_stopping_patience else None
        inputs = InputFigures(tally=tally, logs_dir=os.path.join(run_partial, LOGS_DIR))
        progress = TrainingProgress(num_epochs=options.num_epochs, steps_per_epoch=steps_per_epoch)
        with contextlib.closing(progress):
            history = fit_epochs(
                model,
                train_data,
                validation_data=eval_data,
                num_epochs=options.num_epochs,
                callbacks=_callbacks(run_partial, best, inputs, progress),
            )
        seconds = time.monotonic() - start
        served.save(os.path.join(model_partial, MODEL_ARTIFACT_FOLDER))
        # Evaluation's batches, not those of training: all examples can be asked, and padding is the same.
        preprocess = functools.partial(training_input.evaluation_batch, labelled=labelled, budget=eval_budget)
        TrainingPath(graph_spec=graph_spec, preprocess=preprocess, model=model, batch_size=eval_budget.batch_size).save(
            os.path.join(run_partial, TRAINING_PATH_DIR)
        )
        tf.train.Checkpoint(model=model).write(os.path.join(run_partial, CHECKPOINTS_DIR, "exported"))
        summary = TrainingSummary(
            model_fn=options.model_fn,
            num_parameters=int(model.count_params()),
            num_classes=len(class_names),
            num_train_examples=train_labels.num_examples,
            num_eval_examples=eval_labels.num_examples,
            num_eval_examples_of_unknown_class=eval_labels.num_unknown,
            batching=options.batching,
            budget=dataclasses.asdict(budget),
            eval_budget=dataclasses.asdict(eval_budget),
            num_steps=int(model.optimizer.iterations.numpy()),
            epochs=_epochs(history),
            epoch_inputs=tuple(inputs.epochs),
            exported_epoch=best.best_epoch if best is not None else len(history.epoch),
            stopped_early=best is not None and best.stopped_early,
            seconds=seconds,
        )
        write_training_summary(summary, run_partial)
    return summary


def _check_blessing(blessing_dir: str) -> None:
    if not is_blessed(blessing_dir):
        raise ValueError(
            f"`blessing_dir` must bless the examples; got NOT_BLESSED in {blessing_dir!r}: "
            f"{' '.join(read_reasons(blessing_dir))} Mend the examples, or choose severities that let them pass."
        )


def _graph_spec(graph_schema_dir: str) -> GraphTensorSpec:
    return create_graph_spec_from_schema_pb(graph_schema_io.read_schema(graph_schema_path(graph_schema_dir)))


def _matching_budgets(
    size_constraints_dir: str,
    examples_dir: str,
    graph_schema_dir: str,
    graph_spec: GraphTensorSpec,
    options: GraphTrainerOptions,
) -> tuple[Budget, Budget]:
    """The budgets of training and of evaluation."""
    content = size_constraints_file.read_size_constraints(size_constraints_dir)
    content.check_matches(
        data_fingerprint=fingerprint_examples(examples_dir, tuple(content.options["splits"])),
        graph_schema_fingerprint=fingerprint_graph_schema(graph_schema_dir),
    )
    content.check_covers((options.train_split, options.eval_split))
    batch_size = options.batch_size or None
    training = content.find(BUDGET_KINDS[options.batching], batch_size, options.success_ratio)
    evaluation = content.find(size_constraints_file.TIGHT, batch_size)
    for budget in (training, evaluation):
        training_input.check_readouts(budget, graph_spec)
    return training, evaluation


def _ready_steps(ready_batches_dir: str, options: GraphTrainerOptions) -> int:
    """The number of batches of the first stored epoch."""
    manifest = read_manifest(ready_batches_dir)
    if manifest.options.split != options.train_split:
        raise ValueError(
            f"`ready_batches_dir` must hold batches of the training split {options.train_split!r}; got those of "
            f"{manifest.options.split!r} in {ready_batches_dir!r}. Make batches of that split by `tfx-gnn batches`."
        )
    return manifest.epochs[0].num_batches


def _class_names(tft_output: tft.TFTransformOutput, task: NodeClassification) -> list[bytes]:
    try:
        names = tft_output.vocabulary_by_name(task.class_vocabulary)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"`task` must name the vocabulary of the classes; got class_vocabulary={task.class_vocabulary!r}, which "
            "the transform lacks. Give tft.compute_and_apply_vocabulary of the label this vocab_filename. "
            f"Cause: {error}"
        ) from error
    return [bytes(name) for name in names]


def _check_train_labels(labels: SplitLabels, options: GraphTrainerOptions) -> None:
    if labels.num_unknown:
        raise ValueError(
            f"`transformed_examples_dir` must have labels in [0, {len(labels.class_counts)}) in split "
            f"{options.train_split!r}; got {labels.num_unknown} others among {labels.num_examples}. Let the transform "
            f"analyze that split, so that the vocabulary {options.task.class_vocabulary!r} has all of its classes."
        )


def _check_model(model: Any, reference: str, sample: GraphTensor, num_classes: int) -> None:
    if not isinstance(model, tf_keras.Model):
        raise TypeError(
            f"`model_fn` must return a tf_keras.Model; got {type(model)} from {reference!r}. Import Keras as tf_keras."
        )
    if getattr(model, "optimizer", None) is None:
        raise ValueError(
            f"`model_fn` must return a compiled model; got one without optimizer from {reference!r}. Call compile()."
        )
    logits = model(sample, training=False)
    expected = (sample.spec.total_num_components, num_classes)
    if not isinstance(logits, tf.Tensor) or tuple(logits.shape) != expected:
        got = f"shape {logits.shape}" if isinstance(logits, tf.Tensor) else str(type(logits))
        raise ValueError(
            f"`model_fn` must return a model with one output of shape [num_readouts, num_classes], {list(expected)} "
            f"for this batch; got {got} from {reference!r}. Read out the seeds, and end with one unit a class."
        )


def _callbacks(
    run_dir: str, best: BestWeights | None, inputs: InputFigures, progress: TrainingProgress
) -> list[tf_keras.callbacks.Callback]:
    return [
        RefuseNonFiniteLoss(),
        inputs,
        KeepCheckpoints(folder=os.path.join(run_dir, CHECKPOINTS_DIR)),
        tf_keras.callbacks.TensorBoard(os.path.join(run_dir, LOGS_DIR), write_graph=False),
        *([best] if best is not None else []),
        progress,
    ]


def _epochs(history: tf_keras.callbacks.History) -> tuple[dict[str, float], ...]:
    names = list(history.history)
    rows = zip(*history.history.values(), strict=True)
    return tuple({name: float(value) for name, value in zip(names, row, strict=True)} for row in rows)

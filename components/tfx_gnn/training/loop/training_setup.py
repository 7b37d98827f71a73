"""Everything a training needs before its first step: inputs, budgets, batches and a model builder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.sharding import choose_sharding, num_input_pipelines
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.user_code import load_function
from tfx_gnn.records.examples_folder import ordered_records
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.data.input_pipeline import LabelledBatch
from tfx_gnn.training.data.padded_batches import PaddedBatch, padded_batches
from tfx_gnn.training.data.precomputed_batches import precomputed_batches_dataset
from tfx_gnn.training.data.replica_input import TrainingInput
from tfx_gnn.training.loop.model_building import ModelBuilder
from tfx_gnn.training.loop.steps import Evaluation, training_steps
from tfx_gnn.training.loop.trainer_inputs import (
    TrainerBudgets,
    TrainerFolders,
    TrainerInputs,
    check_batching,
    check_blessing,
    check_class_sampling,
    class_sampler,
    precomputed_batches_of_first_epoch,
    read_budgets,
    read_inputs,
)
from tfx_gnn.training.loop.training_loop import EpochSteps
from tfx_gnn.training.options import GraphTrainerOptions

_MOST_FILES = 16


class TrainingSetup:
    """A training that has not started; several models can be trained from one setup.

    Attributes:
        strategy: where training runs.
        options: what to train, and how.
        inputs: contents of the input folders.
        budgets: what batches are padded to.
        labelled: splits a batch into graphs and labels.
        sharding: how files are divided among processes.
        data: batches of the training split.
        sample: a padded evaluation batch, the same for all strategies.
        builder: builds models with the `hyperparameters` of the options.
    """

    def __init__(self, folders: TrainerFolders, strategy: tf.distribute.Strategy, options: GraphTrainerOptions) -> None:
        self._folders = folders
        self.strategy, self.options = strategy, options
        # The quickest checks come first.
        check_batching(folders, options)
        check_class_sampling(folders, options)
        check_blessing(folders)
        model_fn = load_function(options.model_fn)
        self.inputs: TrainerInputs = read_inputs(folders, options)
        self.budgets: TrainerBudgets = read_budgets(
            folders, options, self.inputs, num_replicas=strategy.num_replicas_in_sync
        )
        self.labelled = self.inputs.labelled
        self.sharding = choose_sharding(
            num_files=len(self.inputs.train_files),
            num_pipelines=num_input_pipelines(strategy),
            asked=options.batching.sharding,
        )
        sampler, self._num_epoch_examples = class_sampler(self.inputs, options)
        self.data = TrainingInput(
            files=self.inputs.train_files,
            labelled=self.labelled,
            budget=self.budgets.training,
            batching=options.batching.kind,
            shuffle_buffer_size=options.batching.shuffle_buffer_size,
            seed=options.training_seed,
            sharding=self.sharding,
            read_precomputed=self._read_precomputed if folders.precomputed_batches_dir else None,
            times=sampler,
        )
        self.sample = self._sample_batch()
        self.builder = ModelBuilder(
            model_fn=model_fn,
            reference=options.model_fn,
            graph_spec=self.sample.graph.spec.relax(num_components=True, num_nodes=True, num_edges=True),
            tft_output=self.inputs.tft_output,
            objective=self.inputs.objective,
            hyperparameters=options.hyperparameters,
            num_steps=options.num_epochs * self.steps_per_epoch,
            precision=options.execution.precision,
            optimization=options.optimization,
        )

    @functools.cached_property
    def steps_per_epoch(self) -> int:
        """Expected number of steps in an epoch."""
        num_replicas = self.strategy.num_replicas_in_sync
        if self._folders.precomputed_batches_dir:
            return -(
                -precomputed_batches_of_first_epoch(self._folders.precomputed_batches_dir, self.options) // num_replicas
            )
        return input_pipeline.expected_steps(self.budgets.training, self._num_epoch_examples, num_replicas)

    def steps(self, model: tf_keras.Model, *, one_at_a_time: bool = False) -> EpochSteps:
        """Makes the training steps for a compiled model that was built in the scope of the strategy.

        `one_at_a_time` runs each step in its own call, whatever the options say.
        """
        options = self.options
        if one_at_a_time:
            options = dataclasses.replace(
                options, execution=dataclasses.replace(options.execution, steps_per_execution=1)
            )
        return training_steps(self.strategy, model, self.data, options, steps_per_epoch=self.steps_per_epoch)

    def evaluation(self, model: tf_keras.Model) -> Evaluation:
        """Makes the evaluation of a compiled model's loss and metrics on the evaluation split."""
        return Evaluation(
            self.strategy,
            model,
            inputs=self.inputs,
            budgets=self.budgets,
            labelled=self.labelled,
            num_pipelines=self.sharding.num_pipelines,
        )

    def evaluation_batches(self) -> tf.data.Dataset:
        """Reads the `PaddedBatch`es of the watched split, once and in order."""
        return padded_batches(
            ordered_records(self.inputs.eval_files),
            self.inputs.graph_spec,
            self.budgets.evaluation,
            "tight",
        )

    def training_examples(self, num_examples: int) -> Iterator[LabelledBatch]:
        """Reads the first examples of the training split, from up to 16 of its files alike, as evaluation batches."""
        files = self.inputs.train_files[:: max(1, len(self.inputs.train_files) // _MOST_FILES)][:_MOST_FILES]
        of_each = -(-num_examples // max(1, len(files)))
        for file in files:
            records = ordered_records([file]).take(of_each).batch(self.budgets.evaluation.batch_size)
            for serialized in records:
                yield input_pipeline.evaluation_batch(serialized, self.labelled, self.budgets.evaluation)

    def _read_precomputed(self, epochs: tf.data.Dataset, keep: Any) -> tf.data.Dataset:
        assert isinstance(self.budgets.training, Budget)  # as `check_batching` says
        batches = precomputed_batches_dataset(
            self._folders.precomputed_batches_dir,
            transformed_examples_dir=self._folders.transformed_examples_dir,
            transformed_graph_schema_dir=self._folders.transformed_graph_schema_dir,
            budget=self.budgets.training,
            epochs=epochs,
            keep=keep,
        )
        return _without_other_labels(batches, self.inputs.graph_spec)

    def _sample_batch(self) -> LabelledBatch:
        records = ordered_records(self.inputs.eval_files)
        (serialized,) = records.batch(self.budgets.evaluation.batch_size).take(1)
        return input_pipeline.evaluation_batch(serialized, self.labelled, self.budgets.evaluation)


def _without_other_labels(batches: tf.data.Dataset, spec: GraphTensorSpec) -> tf.data.Dataset:
    """Removes what is not in `spec` of one graph: precomputed batches have all features of the examples."""
    given = batches.element_spec.graph
    context = sorted(given.context_spec.features_spec.keys() - spec.context_spec.features_spec.keys())
    node_sets = {
        name: sorted(node_set.features_spec.keys() - spec.node_sets_spec[name].features_spec.keys())
        for name, node_set in given.node_sets_spec.items()
    }
    if not context and not any(node_sets.values()):
        return batches

    def remove(batch: PaddedBatch) -> PaddedBatch:
        return batch._replace(graph=batch.graph.remove_features(context=context, node_sets=node_sets))

    return batches.map(tf.autograph.experimental.do_not_convert(remove))

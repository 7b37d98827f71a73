"""Reads and checks the trainer's inputs: examples, schemas, budgets, labels."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tfx_gnn.distribution.distributed_datasets import per_replica_batch_size
from tfx_gnn.graph.batching.ego_batches import EgoTrees, ego_batch_spec
from tfx_gnn.graph.graph_constants import CONTEXT
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.context_labels import context_labels
from tfx_gnn.graph.schema.ego_trees import ego_trees
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, present_index_features
from tfx_gnn.models.tasks import GraphClassification, GraphRegression, LabelSummary, MultiTask, Objective, Task
from tfx_gnn.models.tasks.label_places import without_context_features, without_other_readout_features
from tfx_gnn.records.blessing import BlessingSubject, check_blessing_subject, is_blessed, read_reasons
from tfx_gnn.records.examples_folder import RecordFile, graph_schema_path, record_files
from tfx_gnn.records.size_constraints_file import TIGHT
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.training.data.batching_names import EGO
from tfx_gnn.training.data.class_sampling import ClassSampler, expected_examples, sampling_rates
from tfx_gnn.training.data.class_subset import ClassSubset, choose_class_subset
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.data.labels import LabelReader, check_train_labels, read_in_batches
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS, BatchBudget, EgoBudget, read_matching_size_constraints
from tfx_gnn.training.data.precomputed_batches import read_manifest
from tfx_gnn.training.options import GraphTrainerOptions
from tfx_gnn.transform.application import check_transformed_by, read_transform_record
from tfx_gnn.transform.transform_layer import check_numeric_features
from tfx_gnn.transform.transform_results import TransformResults


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerFolders:
    """Folders that the trainer reads; see `train_graph_model`."""

    transformed_examples_dir: str
    transform_graph_dir: str
    graph_schema_dir: str
    transformed_graph_schema_dir: str
    size_constraints_dir: str = ""
    blessing_dir: str = ""
    precomputed_batches_dir: str = ""
    examples_dir: str = ""
    blessed_model_dir: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerInputs:
    """The contents of these folders.

    Attributes:
        raw_schema: schema of the graphs before the transform.
        raw_spec: spec of one graph before the transform.
        graph_spec: spec of one graph after the transform, including the labels of the task. Other features of
            `_readout`, which requests lack, are left out.
        other_labels: features of the context that are labels of other tasks. A model sees none of them.
        tft_output: the transform.
        index_features: features of the transformed graph that hold indices of nodes, labels excepted.
        objective: what is predicted, including what was derived from the training split's labels.
        train_files: files of the training split.
        eval_files: files of the evaluation split.
        train_labels: labels of the training split, by output; under "" if there is only one output.
        eval_labels: labels of the evaluation split, in the same form.
        num_train_examples: examples in the training split.
        num_eval_examples: examples in the evaluation split.
        trees: form of the sampled trees that batches consist of; None: batches consist of whole examples.
    """

    raw_schema: GraphSchema
    raw_spec: GraphTensorSpec
    graph_spec: GraphTensorSpec
    other_labels: frozenset[str]
    tft_output: TransformResults
    index_features: IndexFeatures
    objective: Objective
    train_files: Sequence[RecordFile]
    eval_files: Sequence[RecordFile]
    train_labels: Mapping[str, LabelSummary]
    eval_labels: Mapping[str, LabelSummary]
    num_train_examples: int
    num_eval_examples: int
    trees: EgoTrees | None = None

    @property
    def labelled(self) -> LabelledGraphs:
        """Splits the labels off batches."""
        return LabelledGraphs(
            graph_spec=self.graph_spec,
            objective=self.objective,
            # In batches of trees, indices have been replaced by the nodes themselves.
            index_features={} if self.trees else self.index_features,
            trees=self.trees,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerBudgets:
    """What the batches of one replica are padded to.

    Attributes:
        training: for the training split.
        evaluation: for the evaluation split, of kind "tight" unless batches consist of trees.
    """

    training: BatchBudget
    evaluation: BatchBudget


def check_blessing(folders: TrainerFolders) -> None:
    """Refuses examples that are not blessed, or that differ from the blessed ones."""
    if folders.blessing_dir and not is_blessed(folders.blessing_dir):
        raise ValueError(
            f"`blessing_dir` must bless the examples; got NOT_BLESSED in {folders.blessing_dir!r}: "
            f"{' '.join(read_reasons(folders.blessing_dir))} Fix the examples, or choose severities that let them "
            "pass."
        )
    record = read_transform_record(folders.transformed_examples_dir)
    if folders.blessing_dir and record:
        subject = BlessingSubject(kind="examples", fingerprint=record.raw_examples)
        check_blessing_subject(folders.blessing_dir, subject, argument="blessing_dir")


def read_inputs(folders: TrainerFolders, options: GraphTrainerOptions) -> TrainerInputs:
    """Reads and checks all inputs except the budgets."""
    check_blessing(folders)
    check_transformed_by(folders.transformed_examples_dir, folders.transform_graph_dir)
    raw_schema = _schema(folders.graph_schema_dir)
    other_labels = context_labels(raw_schema) - _labels_in_context(options.task)
    transformed_schema = _schema(folders.transformed_graph_schema_dir)
    graph_spec = without_context_features(create_graph_spec_from_schema_pb(transformed_schema), other_labels)
    tft_output = TransformResults(folders.transform_graph_dir)
    objective = options.task.objective(tft_output.vocabulary_by_name)
    objective.check_spec(graph_spec)
    graph_spec = without_other_readout_features(graph_spec, _readout_features(objective, graph_spec))
    check_numeric_features(graph_spec)
    train_files = record_files(folders.transformed_examples_dir, (options.train_split,), argument="train_split")
    eval_files = record_files(folders.transformed_examples_dir, (options.eval_split,), argument="eval_split")
    labels = LabelReader(graph_spec, objective)
    (train_labels, num_train), (eval_labels, num_eval) = labels.summarize(train_files), labels.summarize(eval_files)
    check_train_labels(train_labels, objective, split=options.train_split)
    indices = _index_features(transformed_schema, graph_spec, objective)
    trees = None
    if options.batching.kind == EGO:
        trees = _trees(transformed_schema, graph_spec, objective, indices)
    return TrainerInputs(
        raw_schema=raw_schema,
        raw_spec=create_graph_spec_from_schema_pb(raw_schema),
        graph_spec=graph_spec,
        other_labels=other_labels,
        tft_output=tft_output,
        index_features=indices,
        objective=options.task.objective(tft_output.vocabulary_by_name, train_labels.get("", train_labels)),
        train_files=train_files,
        eval_files=eval_files,
        train_labels=train_labels,
        eval_labels=eval_labels,
        num_train_examples=num_train,
        num_eval_examples=num_eval,
        trees=trees,
    )


def read_budgets(
    folders: TrainerFolders, options: GraphTrainerOptions, inputs: TrainerInputs, *, num_replicas: int
) -> TrainerBudgets:
    """Reads the budgets of one replica; they must have been learned for its part of the global batch.

    Trees need no budget: the batch size determines everything.
    """
    if inputs.trees is not None:
        of_trees = EgoBudget(
            batch_size=per_replica_batch_size(options.batching.batch_size, num_replicas), trees=inputs.trees
        )
        return TrainerBudgets(training=of_trees, evaluation=of_trees)
    if not folders.size_constraints_dir:
        raise ValueError(
            f"`size_constraints_dir` must be given for batching {options.batching.kind!r}; got none. Run "
            f"SizeConstraintLearner, or train on sampled trees with batching {EGO!r}."
        )
    content = read_matching_size_constraints(
        folders.size_constraints_dir,
        transformed_examples_dir=folders.transformed_examples_dir,
        transformed_graph_schema_dir=folders.transformed_graph_schema_dir,
        splits=(options.train_split, options.eval_split),
    )
    batch_size = (
        per_replica_batch_size(options.batching.batch_size, num_replicas) if options.batching.batch_size else None
    )
    budgets = TrainerBudgets(
        training=content.find(BUDGET_KINDS[options.batching.kind], batch_size, options.batching.success_ratio),
        evaluation=content.find(TIGHT, batch_size),
    )
    for budget in (budgets.training, budgets.evaluation):
        inputs.objective.check_budget(budget.constraints, inputs.graph_spec)
    return budgets


def check_batching(folders: TrainerFolders, options: GraphTrainerOptions) -> None:
    """Refuses options that a way of batching has no use for."""
    if options.batching.kind == EGO and folders.precomputed_batches_dir:
        raise ValueError(
            f"`precomputed_batches_dir` must be left out with batching {EGO!r}; got "
            f"{folders.precomputed_batches_dir!r}. Precomputed batches are padded to a budget."
        )


def check_class_sampling(folders: TrainerFolders, options: GraphTrainerOptions) -> None:
    """Refuses to sample precomputed batches, which hold every example once."""
    if options.batching.examples_per_class and folders.precomputed_batches_dir:
        raise ValueError(
            f"`examples_per_class` must be 0 for precomputed batches, which hold every example once; got "
            f"{options.batching.examples_per_class} with {folders.precomputed_batches_dir!r}. Leave "
            "`precomputed_batches_dir` out."
        )
    if options.batching.class_sampling and folders.precomputed_batches_dir:
        raise ValueError(
            f"`class_sampling` must be '' for precomputed batches, which hold every example once; got "
            f"{options.batching.class_sampling!r} with {folders.precomputed_batches_dir!r}. Leave "
            "`precomputed_batches_dir` out, or weight the loss by the task's `class_weights` instead."
        )


def class_sampler(inputs: TrainerInputs, options: GraphTrainerOptions) -> tuple[ClassSampler | ClassSubset | None, int]:
    """Makes what decides how many times each training example comes in an epoch; None: once.

    The second result is the expected number of examples in an epoch.
    """
    objective, batching = inputs.objective, options.batching
    if batching.examples_per_class:
        subset = choose_class_subset(
            itertools.chain.from_iterable(map(read_in_batches, inputs.train_files)),
            LabelReader(inputs.graph_spec, objective).classes,
            num_classes=objective.num_classes,
            per_class=batching.examples_per_class,
        )
        return subset, subset.num_examples
    if not batching.class_sampling:
        return None, inputs.num_train_examples
    rates = sampling_rates(batching.class_sampling, objective.class_names, inputs.train_labels[""])
    sampler = ClassSampler(
        rates=rates, classes=LabelReader(inputs.graph_spec, objective).classes, seed=options.training_seed
    )
    return sampler, expected_examples(rates, inputs.train_labels[""])


def precomputed_batches_of_first_epoch(precomputed_batches_dir: str, options: GraphTrainerOptions) -> int:
    """Returns the number of batches in the first stored epoch; the split must be the training split."""
    manifest = read_manifest(precomputed_batches_dir)
    if manifest.options.split != options.train_split:
        raise ValueError(
            f"`precomputed_batches_dir` must hold batches of the training split {options.train_split!r}; got those of "
            f"{manifest.options.split!r} in {precomputed_batches_dir!r}. Make them with `tfx-gnn batches`."
        )
    return manifest.epochs[0].num_batches


def _schema(graph_schema_dir: str) -> GraphSchema:
    return graph_schema_io.read_schema(graph_schema_path(graph_schema_dir))


def _index_features(schema: GraphSchema, graph_spec: GraphTensorSpec, objective: Objective) -> IndexFeatures:
    """Returns the features that hold indices of nodes; refuses labels among them."""
    declared = present_index_features(graph_spec, index_features(schema))
    found = present_index_features(objective.without_labels(graph_spec), declared)
    if found != declared:
        raise ValueError(
            "`task` must have labels that are not declared to hold indices of nodes, which change with the batch; got "
            f"a label among {dict(declared)}. Remove its mark from the graph schema."
        )
    return found


def _trees(schema: GraphSchema, graph_spec: GraphTensorSpec, objective: Objective, indices: IndexFeatures) -> EgoTrees:
    """Reads the form of the trees; refuses what batches of trees cannot hold."""
    trees = ego_trees(schema)
    if trees is None:
        raise ValueError(
            f"`batching` must be {EGO!r} only for examples with sampled trees; got examples without. Sample by a plan "
            "with `is_ego`, or choose 'packed'."
        )
    names = sorted(type(part.task).__name__ for part in objective.parts.values() if part.readout_key != SEED)
    if names:
        raise ValueError(
            f"`task` must be about the seeds of examples, without pooling, with batching {EGO!r}; got {names}. Choose "
            "'packed'."
        )
    others = {
        set_key: names
        for set_key, by_name in indices.items()
        if (names := sorted(set(by_name) - {hop.feature for hop in trees.hops if set_key == CONTEXT}))
    }
    if others:
        raise ValueError(
            f"`batching` must not be {EGO!r} for graphs with features that hold indices of nodes, because trees hold "
            f"copies of nodes; got {others}. Leave them out in `preprocessing_fn`, or choose 'packed'."
        )
    ego_batch_spec(graph_spec, trees)
    return trees


def _readout_features(objective: Objective, spec: GraphTensorSpec) -> set[str]:
    """Returns the features of `_readout` that the task reads."""
    node_sets = objective.labels_only(spec).node_sets_spec
    labels = node_sets[READOUT_NODE_SET].features_spec if READOUT_NODE_SET in node_sets else {}
    return {*labels, *objective.input_features}


def _labels_in_context(task: Task) -> set[str]:
    parts = task.tasks.values() if isinstance(task, MultiTask) else [task]
    return {part.label_feature for part in parts if isinstance(part, (GraphClassification, GraphRegression))}

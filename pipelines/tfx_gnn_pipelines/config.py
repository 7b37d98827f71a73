"""The settings of one pipeline: where it reads and writes, and the options of every component."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.components import (
    GraphEvaluatorOptions,
    GraphExampleValidatorOptions,
    GraphIndexerOptions,
    GraphLayerwiseInferrerOptions,
    GraphPusherOptions,
    GraphSchemaGenOptions,
    GraphSkewValidatorOptions,
    GraphTrainerOptions,
    GraphTransformOptions,
    GraphTunerOptions,
    LatestBlessedModelResolverOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
    expectations_of_graphs,
    expectations_of_plan,
)
from tfx_gnn.components.graph_skew_validator.plan_rules import objection_to_plan
from tfx_gnn.io import options_json
from tfx_gnn.io.package_paths import resolve_package_path
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.models import tasks
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.spans import check_num_spans, find_window
from tfx_gnn.training.options import NO_WARM_START
from tfx_gnn.transform.feature_preparations import Age, Drop
from tfx_gnn_pipelines.bulk_inference import (
    BulkInferenceOptions,
    check_layerwise_inference,
    options_of_inference_example_gen,
)
from tfx_gnn_pipelines.option_changes import changed, merged, read_options
from tfx_gnn_pipelines.ready_features import features_of_task
from tfx_gnn_pipelines.task import PipelineTask

_PIPELINE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_TUNER, _TRAINER = "graph_tuner", "trainer"
_OPTIONAL: dict[str, type] = {
    "latest_blessed_model_resolver": LatestBlessedModelResolverOptions,
    "graph_bulk_inferrer": BulkInferenceOptions,
    "graph_layerwise_inferrer": GraphLayerwiseInferrerOptions,
}
"""Steps that a pipeline has only if their options are given, and whose options do not start from another step's."""
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """Complete settings of one pipeline: two equal configs build equal pipelines.

    Attributes:
        pipeline_name: lower-case letters, digits and hyphens, at most 128.
        root: folder or URI of everything that the pipeline writes, except pushed models; empty only in a pipeline
            that is compiled for Kubeflow, whose clusters have a default.
        tables_dir: folder or URI of the tables; in a pipeline that is compiled, also a pattern of spans.
        tables_pattern: the pattern of which `tables_dir` is the folder of a span; empty if there is none, or if
            `tables_dir` is the pattern, whose span is found when the compiled pipeline runs.
        span: number or date of the span; empty for the newest, or if there is no pattern.
        push_destination: folder or URI of served versions.
        tables_fingerprint: text that changes when the tables change; empty: a hash of
            the tables, which must be readable where the pipeline is built.
        subgraph_example_gen: options of SubgraphExampleGen.
        graph_schema_gen: options of GraphSchemaGen.
        graph_example_validator: options of GraphExampleValidator.
        graph_transform: options of GraphTransform.
        size_constraint_learner: options of SizeConstraintLearner.
        graph_trainer: options of GraphTrainer.
        graph_evaluator: options of GraphEvaluator.
        graph_skew_validator: options of GraphSkewValidator.
        graph_pusher: options of GraphPusher.
        graph_tuner: options of GraphTuner, which then runs before GraphTrainer and finds the hyperparameters that
            `graph_trainer` leaves open; None: no search.
        latest_blessed_model_resolver: options of LatestBlessedModelResolver, which then finds the newest version in
            `push_destination`, so that GraphEvaluator compares the new model with it; None: no comparison.
        graph_bulk_inferrer: options of GraphBulkInferrer, which then writes what a blessed model answers to every node,
            or to a table of ids; None: no answers.
        graph_layerwise_inferrer: options of GraphLayerwiseInferrer, which then writes what a blessed model answers to
            every node, layer by layer, from the index that GraphIndexer builds of the tables; None: no such answers.
            GraphSkewValidator uses the same index if `graph_skew_validator.asks_server` is set.
        enable_cache: whether a component may reuse the outputs of an identical execution.
        beam_args: command-line arguments of every Beam pipeline; empty: Beam runs inside
            the component's process, which is fastest on small data.
        runtime_parameters: parameters that are set only when a compiled pipeline is run,
            each as "Component.parameter", or one of `assembly.STANDARD_PARAMETERS`.
    """

    pipeline_name: str
    root: str
    tables_dir: str
    push_destination: str
    tables_pattern: str = ""
    span: int | str = ""
    tables_fingerprint: str = ""
    subgraph_example_gen: SubgraphExampleGenOptions
    graph_schema_gen: GraphSchemaGenOptions
    graph_example_validator: GraphExampleValidatorOptions
    graph_transform: GraphTransformOptions
    size_constraint_learner: SizeConstraintLearnerOptions
    graph_trainer: GraphTrainerOptions
    graph_evaluator: GraphEvaluatorOptions
    graph_skew_validator: GraphSkewValidatorOptions
    graph_pusher: GraphPusherOptions
    graph_tuner: GraphTunerOptions | None = None
    latest_blessed_model_resolver: LatestBlessedModelResolverOptions | None = None
    graph_bulk_inferrer: BulkInferenceOptions | None = None
    graph_layerwise_inferrer: GraphLayerwiseInferrerOptions | None = None
    enable_cache: bool = True
    beam_args: tuple[str, ...] = ()
    runtime_parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _PIPELINE_NAME.fullmatch(self.pipeline_name):
            raise ValueError(
                "`pipeline_name` must be made of lower-case letters, digits and hyphens, at most 128, as Kubeflow "
                f"demands; got {self.pipeline_name!r}. Rename the pipeline."
            )
        if self.beam_args:
            # Not in the first task that needs them, which may run elsewhere, hours later. Beam takes seconds to import.
            from tfx_gnn.records.beam_arguments import read_beam_args

            read_beam_args(self.beam_args)
        check_num_spans(self.tables_pattern or self.tables_dir, self.subgraph_example_gen.num_spans)
        if self.graph_skew_validator.asks_server:
            _check_server_can_be_asked(self.subgraph_example_gen.plan, self.graph_skew_validator.splits)
        if self.graph_bulk_inferrer is not None:
            options_of_inference_example_gen(self.subgraph_example_gen, self.graph_bulk_inferrer)
            self._check_bigquery("graph_bulk_inferrer", self.graph_bulk_inferrer.bigquery_table)
        if self.graph_layerwise_inferrer is not None:
            check_layerwise_inference(self.subgraph_example_gen, self.graph_trainer)
            self._check_bigquery("graph_layerwise_inferrer", self.graph_layerwise_inferrer.bigquery_table)

    @property
    def inference_example_gen(self) -> SubgraphExampleGenOptions | None:
        """Options of the second SubgraphExampleGen, InferenceExampleGen; None if the pipeline has none."""
        if self.graph_bulk_inferrer is None:
            return None
        return options_of_inference_example_gen(self.subgraph_example_gen, self.graph_bulk_inferrer)

    @property
    def graph_indexer(self) -> GraphIndexerOptions | None:
        """Options of GraphIndexer, which indexes what the model is trained on; None if the pipeline has none."""
        if self.graph_layerwise_inferrer is None and not self.graph_skew_validator.asks_server:
            return None
        sampled = self.subgraph_example_gen
        temporal = sampled.plan.temporal if sampled.plan else None
        return GraphIndexerOptions(
            rules=sampled.rules,
            edge_times=temporal.edge_times if temporal else {},
            access=sampled.access,
            execution=sampled.execution,
        )

    def _check_bigquery(self, step: str, table: str) -> None:
        # A pipeline that is compiled without a root gets one from the service.
        if table and self.root and not self.root.startswith("gs://"):
            raise ValueError(
                f"`root` must be on Cloud Storage for {step}.bigquery_table {table!r}; got {self.root!r}. BigQuery "
                "loads files from there alone: give another `--root`, or run without a table: "
                f"`--set \"{step}.bigquery_table=''\"`."
            )

    def find_tables_folders(self) -> tuple[str, ...]:
        """Finds the folders of tables that the model is trained on now: several of a window, the newest last."""
        pattern = resolve_package_path(self.tables_pattern or self.tables_dir)
        window = find_window(pattern, str(self.span), num_spans=self.subgraph_example_gen.num_spans)
        return tuple(one.folder for one in window.spans)

    @property
    def artifacts_dir(self) -> str:
        """Folder of the artifacts, by component and output."""
        return os.path.join(self.root, "artifacts")

    @property
    def metadata_path(self) -> str:
        """File of ML Metadata's SQLite database, for local runners."""
        return os.path.join(self.root, "metadata.sqlite")


def step_names() -> tuple[str, ...]:
    """Lists the steps whose options can be given, as they are called in `PipelineConfig`."""
    return tuple(step_kinds())


def is_uri(path: str) -> bool:
    """Tells whether a path is on an object store or other remote file system."""
    return _URI.match(path) is not None


def quickstart(
    task: PipelineTask,
    *,
    root: str,
    tables_dir: str = "",
    tables_pattern: str = "",
    span: int | str = "",
    tables_fingerprint: str = "",
    push_destination: str = "",
    num_epochs: int | None = None,
    batch_size: int | None = None,
    training_seed: int = 0,
    sampling_seed: int = 0,
    enable_cache: bool = True,
    beam_args: tuple[str, ...] = (),
    runtime_parameters: tuple[str, ...] = (),
) -> PipelineConfig:
    """Builds a config with settings that suit a task; arguments override them.

    Args:
        task: the task.
        root: folder or URI of everything that the pipeline writes; empty: see PipelineConfig.
        tables_dir: folder or URI of the tables, or package://PACKAGE/FOLDER; empty: the task's own.
        tables_pattern: see PipelineConfig.
        span: see PipelineConfig.
        tables_fingerprint: see PipelineConfig.
        push_destination: folder or URI of served versions; empty: `serving` under `root`, if models can be pushed
            there.
        num_epochs: passes over the training split; None: the task's own.
        batch_size: graphs in a batch; None: the task's own.
        training_seed: seed of the weights and of the order of examples.
        sampling_seed: seed of the sampled subgraphs.
        enable_cache: see PipelineConfig.
        beam_args: see PipelineConfig.
        runtime_parameters: see PipelineConfig.

    Returns:
        The config. Local paths in it are absolute.

    Raises:
        ValueError: if a value breaks a rule of the options it goes to, or the task's `step_options` name an unknown
            step or option.
    """
    root = _absolute(root)
    if not push_destination and root and (root.startswith("gs://") or not is_uri(root)):
        push_destination = os.path.join(root, "serving")
    label_feature, class_vocabulary = _named_classes(task.prediction)
    config = PipelineConfig(
        pipeline_name=task.name.replace("_", "-"),
        root=root,
        tables_dir=_absolute(resolve_package_path(tables_dir or task.tables_dir)),
        tables_pattern=_absolute(tables_pattern),
        span=str(span),
        tables_fingerprint=tables_fingerprint,
        push_destination=_absolute(push_destination),
        subgraph_example_gen=SubgraphExampleGenOptions(
            plan=task.plan, graph_level_examples=task.graph_level_examples, sampling_seed=sampling_seed
        ),
        graph_schema_gen=GraphSchemaGenOptions(),
        graph_example_validator=_expectations(task),
        graph_transform=GraphTransformOptions(preprocessing_fn=task.preprocessing_fn, features=features_of_task(task)),
        size_constraint_learner=SizeConstraintLearnerOptions(
            batch_size=task.batch_size if batch_size is None else batch_size,
            label_feature=label_feature,
            class_vocabulary=class_vocabulary,
        ),
        graph_trainer=GraphTrainerOptions(
            model_fn=task.model_fn,
            task=task.prediction,
            num_epochs=task.num_epochs if num_epochs is None else num_epochs,
            training_seed=training_seed,
            early_stopping_patience=task.early_stopping_patience,
        ),
        graph_evaluator=GraphEvaluatorOptions(task=task.prediction),
        graph_skew_validator=GraphSkewValidatorOptions(),
        graph_pusher=GraphPusherOptions(),
        enable_cache=enable_cache,
        beam_args=beam_args,
        runtime_parameters=runtime_parameters,
    )
    return _with_step_options(config, task.step_options)


def step_kinds() -> dict[str, type]:
    """Classes of the steps' options, by the step's name."""
    kinds = typing.get_type_hints(PipelineConfig)
    found = {name: next(iter(typing.get_args(kind)), kind) for name, kind in kinds.items()}
    return {name: kind for name, kind in found.items() if dataclasses.is_dataclass(kind) and isinstance(kind, type)}


def _check_server_can_be_asked(plan: SamplingPlan | None, splits: Sequence[str]) -> None:
    """Refuses splits none of whose examples GraphSkewValidator could compare, before anything is trained."""
    objection = objection_to_plan(plan, splits) if plan else "Graph-level examples have no seeds."
    if objection:
        compared = f" for splits {list(splits)}" if splits else ""
        raise ValueError(
            "`graph_skew_validator.asks_server` must be false for a plan whose examples a server, which is asked by "
            f"ids, does not sample; got true{compared}. {objection} Leave it out."
        )


def _with_step_options(config: PipelineConfig, given: Mapping[str, Any]) -> PipelineConfig:
    kinds = step_kinds()
    unknown = sorted(set(given) - set(kinds))
    if unknown:
        raise ValueError(
            f"`step_options` must name steps among {sorted(kinds)}; got {unknown}. {did_you_mean(unknown[0], kinds)}"
        )
    steps = {
        name: changed(getattr(config, name), given[name], place=name)
        for name in given
        if name not in (_TUNER, *_OPTIONAL)
    }
    steps |= {
        name: read_options(given[name], kind, place=name)
        for name, kind in _OPTIONAL.items()
        if given.get(name) is not None
    }
    config = dataclasses.replace(config, **steps)
    if given.get(_TUNER) is None:
        return config
    # Trials train as the pipeline does, but for what the search says of them.
    trainer = dataclasses.replace(config.graph_trainer, warm_start=NO_WARM_START)
    plain = merged({_TRAINER: json.loads(options_json.to_json(trainer))}, given[_TUNER])
    return dataclasses.replace(config, graph_tuner=read_options(plain, GraphTunerOptions, place=_TUNER))


def _expectations(task: PipelineTask) -> GraphExampleValidatorOptions:
    if task.plan is None:
        assert task.graph_level_examples is not None
        return expectations_of_graphs(task.graph_level_examples)
    expected = expectations_of_plan(task.plan)
    # Nothing reads what is dropped, and of a time only how long before the seed it was.
    unread = [
        f"{prefix}.{name}"
        for prefix, of_set in task.features.items()
        for name, preparation in of_set.items()
        if isinstance(preparation, (Age, Drop))
    ]
    return dataclasses.replace(expected, unstable_features=(*expected.unstable_features, *unread))


def _named_classes(prediction: tasks.Task) -> tuple[str, str]:
    """Label and vocabulary of a node classification with named classes, for the losses per class in budget reports."""
    if isinstance(prediction, tasks.NodeClassification) and prediction.class_vocabulary:
        return prediction.label_feature, prediction.class_vocabulary
    return "", ""


def _absolute(path: str) -> str:
    return path if is_uri(path) or not path else os.path.abspath(path)

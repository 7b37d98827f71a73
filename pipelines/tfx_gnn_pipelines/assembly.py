"""Wires the components, once for every task and runner; compiled pipelines may leave parameters open."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration import metadata
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline

from tfx_gnn import components
from tfx_gnn.components import (
    GraphBulkInferrer,
    GraphEvaluator,
    GraphExampleValidator,
    GraphIndexer,
    GraphLayerwiseInferrer,
    GraphPusher,
    GraphSchemaGen,
    GraphSkewValidator,
    GraphTrainer,
    GraphTransform,
    GraphTuner,
    LatestBlessedModelResolver,
    SizeConstraintLearner,
    SubgraphExampleGen,
)
from tfx_gnn.io.option_groups import flat_values
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.training.options import NO_WARM_START
from tfx_gnn_pipelines.bulk_inference import INFERENCE_EXAMPLE_GEN
from tfx_gnn_pipelines.config import PipelineConfig

COMPONENTS = (
    "SubgraphExampleGen",
    "GraphSchemaGen",
    "GraphExampleValidator",
    "GraphTransform",
    "SizeConstraintLearner",
    "GraphTrainer",
    "GraphEvaluator",
    "GraphSkewValidator",
    "GraphPusher",
)
"""Ids of the components that every pipeline has, in the order in which they run."""

STANDARD_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "tables_dir": (
        "SubgraphExampleGen.tables_dir",
        "GraphTransform.tables_dir",
        f"{INFERENCE_EXAMPLE_GEN}.tables_dir",
        "GraphIndexer.tables_dir",
    ),
    "span": ("SubgraphExampleGen.span", f"{INFERENCE_EXAMPLE_GEN}.span", "GraphIndexer.span"),
    "tables_version": (
        "SubgraphExampleGen.tables_fingerprint",
        "GraphTransform.tables_fingerprint",
        f"{INFERENCE_EXAMPLE_GEN}.tables_fingerprint",
        "GraphIndexer.tables_fingerprint",
    ),
    "push_destination": ("GraphPusher.push_destination", "LatestBlessedModelResolver.push_destination"),
    "num_epochs": ("GraphTrainer.num_epochs",),
    "batch_size": ("SizeConstraintLearner.batch_size",),
}
"""Parameters that every compiled pipeline leaves open, and the components' parameters that each of them sets."""


def component_ids(config: PipelineConfig) -> tuple[str, ...]:
    """Lists the components of a pipeline, in the order in which they run."""
    ids: list[str] = list(COMPONENTS)
    if config.graph_tuner is not None:
        ids.insert(ids.index("GraphTrainer"), "GraphTuner")
    if config.latest_blessed_model_resolver is not None:
        ids.insert(1, "LatestBlessedModelResolver")
    if config.inference_example_gen is not None:
        ids.append(INFERENCE_EXAMPLE_GEN)
    if config.graph_bulk_inferrer is not None:
        ids.append("GraphBulkInferrer")
    if config.graph_skew_validator.asks_server:
        ids.insert(ids.index("GraphSkewValidator"), "GraphIndexer")
    elif config.graph_indexer is not None:
        ids.append("GraphIndexer")
    if config.graph_layerwise_inferrer is not None:
        ids.append("GraphLayerwiseInferrer")
    return tuple(ids)


def build_components(config: PipelineConfig) -> list[BaseComponent]:
    """Builds all components, from tables to a pushed model and its answers, in topological order."""
    opened = open_parameters(config)
    example_gen = SubgraphExampleGen(
        tables_dir=config.tables_pattern or config.tables_dir,
        span=str(config.span),
        options=config.subgraph_example_gen,
        tables_fingerprint=config.tables_fingerprint,
        runtime_parameters=opened.pop("SubgraphExampleGen", None),
    )
    resolver = None
    if config.latest_blessed_model_resolver is not None:
        resolver = LatestBlessedModelResolver(
            push_destination=config.push_destination,
            options=config.latest_blessed_model_resolver,
            runtime_parameters=opened.pop("LatestBlessedModelResolver", None),
        )
    schema_gen = GraphSchemaGen(
        examples=example_gen.outputs["examples"],
        options=config.graph_schema_gen,
        runtime_parameters=opened.pop("GraphSchemaGen", None),
    )
    compares_data = config.graph_example_validator.compares_with_latest_blessed
    validator = GraphExampleValidator(
        examples=example_gen.outputs["examples"],
        graph_schema=schema_gen.outputs["graph_schema"],
        options=config.graph_example_validator,
        blessed_model=resolver.outputs["blessed_model"] if resolver and compares_data else None,
        runtime_parameters=opened.pop("GraphExampleValidator", None),
    )
    # The next window has most spans of this one.
    keeps_counts = resolver is not None and config.subgraph_example_gen.num_spans > 1
    analyzes_tables = config.graph_transform.analyze == "tables"
    transform = GraphTransform(
        examples=example_gen.outputs["examples"],
        graph_schema=schema_gen.outputs["graph_schema"],
        options=config.graph_transform,
        blessed_model=resolver.outputs["blessed_model"] if resolver and keeps_counts else None,
        keep_analyzer_cache=keeps_counts,
        tables_dir=config.tables_dir if analyzes_tables else "",
        tables_fingerprint=config.tables_fingerprint if analyzes_tables else "",
        runtime_parameters=opened.pop("GraphTransform", None),
    )
    size_learner = SizeConstraintLearner(
        examples=transform.outputs["transformed_examples"],
        graph_schema=transform.outputs["transformed_graph_schema"],
        transform_graph=transform.outputs["transform_graph"],
        options=config.size_constraint_learner,
        runtime_parameters=opened.pop("SizeConstraintLearner", None),
    )
    tuner = None
    if config.graph_tuner is not None:
        tuner = GraphTuner(
            transformed_examples=transform.outputs["transformed_examples"],
            transform_graph=transform.outputs["transform_graph"],
            graph_schema=schema_gen.outputs["graph_schema"],
            transformed_graph_schema=transform.outputs["transformed_graph_schema"],
            size_constraints=size_learner.outputs["size_constraints"],
            blessing=validator.outputs["blessing"],
            options=config.graph_tuner,
            runtime_parameters=opened.pop("GraphTuner", None),
        )
    starts_warm = config.graph_trainer.warm_start != NO_WARM_START
    trainer = GraphTrainer(
        transformed_examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        graph_schema=schema_gen.outputs["graph_schema"],
        transformed_graph_schema=transform.outputs["transformed_graph_schema"],
        size_constraints=size_learner.outputs["size_constraints"],
        blessing=validator.outputs["blessing"],
        examples=example_gen.outputs["examples"],
        best_hyperparameters=tuner.outputs["best_hyperparameters"] if tuner else None,
        blessed_model=resolver.outputs["blessed_model"] if resolver and starts_warm else None,
        options=config.graph_trainer,
        runtime_parameters=opened.pop("GraphTrainer", None),
    )
    evaluator = GraphEvaluator(
        examples=example_gen.outputs["examples"],
        model=trainer.outputs["model"],
        options=config.graph_evaluator,
        blessed_model=resolver.outputs["blessed_model"] if resolver else None,
        runtime_parameters=opened.pop("GraphEvaluator", None),
    )
    indexer = None
    if config.graph_indexer is not None:
        indexer = GraphIndexer(
            tables_dir=config.tables_pattern or config.tables_dir,
            span=str(config.span),
            same_span_as=example_gen.outputs["examples"],
            options=config.graph_indexer,
            tables_fingerprint=config.tables_fingerprint,
            runtime_parameters=opened.pop("GraphIndexer", None),
        )
    asks_server = config.graph_skew_validator.asks_server
    if indexer is not None and not asks_server:
        # Nothing is indexed for a model that could not be trained.
        indexer.add_upstream_node(evaluator)
    skew_validator = GraphSkewValidator(
        examples=example_gen.outputs["examples"],
        transformed_examples=transform.outputs["transformed_examples"],
        model=trainer.outputs["model"],
        model_run=trainer.outputs["model_run"],
        graph_index=indexer.outputs["graph_index"] if indexer and asks_server else None,
        options=config.graph_skew_validator,
        runtime_parameters=opened.pop("GraphSkewValidator", None),
    )
    pusher = GraphPusher(
        model=trainer.outputs["model"],
        blessing=evaluator.outputs["blessing"],
        examples=example_gen.outputs["examples"],
        infra_blessing=skew_validator.outputs["infra_blessing"],
        statistics=validator.outputs["statistics"] if compares_data else None,
        analyzer_cache=transform.outputs["updated_analyzer_cache"] if keeps_counts else None,
        push_destination=config.push_destination,
        options=config.graph_pusher,
        runtime_parameters=opened.pop("GraphPusher", None),
    )
    asked_gen = inferrer = None
    if config.inference_example_gen is not None:
        asked_gen = SubgraphExampleGen(
            tables_dir=config.tables_pattern or config.tables_dir,
            span=str(config.span),
            # A newer one may have arrived since the training.
            same_span_as=example_gen.outputs["examples"],
            options=config.inference_example_gen,
            tables_fingerprint=config.tables_fingerprint,
            runtime_parameters=opened.pop(INFERENCE_EXAMPLE_GEN, None),
        ).with_id(INFERENCE_EXAMPLE_GEN)
        # Nothing is sampled for a model that could not be trained.
        asked_gen.add_upstream_node(evaluator)
    if config.graph_bulk_inferrer is not None:
        inferrer = GraphBulkInferrer(
            examples=(asked_gen or example_gen).outputs["examples"],
            model=trainer.outputs["model"],
            blessing=evaluator.outputs["blessing"],
            infra_blessing=skew_validator.outputs["infra_blessing"],
            options=config.graph_bulk_inferrer.of_component,
            runtime_parameters=opened.pop("GraphBulkInferrer", None),
        )
    layerwise_inferrer = None
    if indexer is not None and config.graph_layerwise_inferrer is not None:
        layerwise_inferrer = GraphLayerwiseInferrer(
            graph_index=indexer.outputs["graph_index"],
            model=trainer.outputs["model"],
            blessing=evaluator.outputs["blessing"],
            infra_blessing=skew_validator.outputs["infra_blessing"],
            options=config.graph_layerwise_inferrer,
            runtime_parameters=opened.pop("GraphLayerwiseInferrer", None),
        )
    return [
        example_gen,
        *([resolver] if resolver else []),
        schema_gen,
        validator,
        transform,
        size_learner,
        *([tuner] if tuner else []),
        trainer,
        evaluator,
        *([indexer] if indexer and asks_server else []),
        skew_validator,
        pusher,
        *([asked_gen] if asked_gen else []),
        *([inferrer] if inferrer else []),
        *([indexer] if indexer and not asks_server else []),
        *([layerwise_inferrer] if layerwise_inferrer else []),
    ]


def build_pipeline(config: PipelineConfig, *, sqlite_metadata: bool) -> Pipeline:
    """Builds the pipeline that a runner runs or compiles.

    `sqlite_metadata` stores lineage in a SQLite file under the root; remote runners have their own metadata store.
    """
    connection = metadata.sqlite_metadata_connection_config(config.metadata_path) if sqlite_metadata else None
    return Pipeline(
        pipeline_name=config.pipeline_name,
        pipeline_root=config.artifacts_dir if sqlite_metadata else config.root,
        components=build_components(config),
        enable_cache=config.enable_cache,
        metadata_connection_config=connection,
        beam_pipeline_args=list(config.beam_args),
    )


def open_parameters(config: PipelineConfig) -> dict[str, dict[str, RuntimeParameter]]:
    """Makes the runtime parameters of a config, by component and parameter."""
    opened: dict[str, dict[str, RuntimeParameter]] = {}
    for name, targets in _open_targets(config).items():
        for component, parameter in targets:
            kind = _component_class(component).SPEC_CLASS.PARAMETERS[parameter].type
            opened.setdefault(component, {})[parameter] = RuntimeParameter(name=name, ptype=kind)
    return opened


def open_values(config: PipelineConfig) -> dict[str, int | float | str]:
    """Returns the default values of open parameters, by name of the runtime parameter."""
    values: dict[str, int | float | str] = {}
    for name, ((component, parameter), *_) in _open_targets(config).items():
        holder = config if hasattr(config, parameter) else getattr(config, _snake_case(component))
        values[name] = flat_values(holder)[parameter] if holder is not config else getattr(config, parameter)
    return values


def _open_targets(config: PipelineConfig) -> dict[str, list[tuple[str, str]]]:
    """Components and parameters that each runtime parameter of a config sets, by its name.

    A name of the form "GraphTrainer.num_epochs" gives a parameter called `graph_trainer_num_epochs`.
    """
    present = component_ids(config)
    reads_tables = {"SubgraphExampleGen", INFERENCE_EXAMPLE_GEN, "GraphIndexer"} | (
        {"GraphTransform"} if config.graph_transform.analyze == "tables" else set()
    )
    found: dict[str, list[tuple[str, str]]] = {}
    taken: set[tuple[str, str]] = set()
    for name in config.runtime_parameters:
        targets = [
            _split_parameter_name(target, config)
            for target in STANDARD_PARAMETERS.get(name, (name,))
            if name not in STANDARD_PARAMETERS or target.partition(".")[0] in present
        ]
        if name in STANDARD_PARAMETERS:
            targets = [
                (component, parameter)
                for component, parameter in targets
                if not parameter.startswith("tables_") or component in reads_tables
            ]
        for component, parameter in targets:
            if (component, parameter) in taken:
                raise ValueError(
                    "`runtime_parameters` (--open-parameter) must open each parameter once; got "
                    f"{component}.{parameter} twice. Leave {name!r} out."
                )
        taken.update(targets)
        found[name if name in STANDARD_PARAMETERS else _snake_case(name)] = targets
    return found


def _split_parameter_name(name: str, config: PipelineConfig) -> tuple[str, str]:
    component, _, parameter = name.partition(".")
    known = component_ids(config)
    if component not in known:
        advice = did_you_mean(component, known, otherwise="Write, for example, 'GraphTrainer.training_seed'.")
        raise ValueError(
            "`runtime_parameters` (--open-parameter) must have the form 'Component.parameter' with a component among "
            f"{list(known)}; got {name!r}. {advice}"
        )
    declared = _component_class(component).SPEC_CLASS.PARAMETERS
    if parameter not in declared:
        raise ValueError(
            f"`runtime_parameters` (--open-parameter) must name a parameter of {component} among {sorted(declared)}; "
            f"got {name!r}. {did_you_mean(parameter, declared)}"
        )
    return component, parameter


def _component_class(component_id: str) -> type[BaseComponent]:
    found: type[BaseComponent] = (
        SubgraphExampleGen if component_id == INFERENCE_EXAMPLE_GEN else getattr(components, component_id)
    )
    return found


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace(".", "_").lower()

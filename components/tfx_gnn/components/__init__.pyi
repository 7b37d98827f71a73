from tfx_gnn.components.artifacts import ExamplesBlessingArtifact as ExamplesBlessingArtifact
from tfx_gnn.components.artifacts import GraphIndexArtifact as GraphIndexArtifact
from tfx_gnn.components.artifacts import GraphSchemaArtifact as GraphSchemaArtifact
from tfx_gnn.components.artifacts import InferenceTableArtifact as InferenceTableArtifact
from tfx_gnn.components.artifacts import SizeConstraintsArtifact as SizeConstraintsArtifact
from tfx_gnn.components.artifacts import SkewReportArtifact as SkewReportArtifact
from tfx_gnn.components.graph_bulk_inferrer.bulk_inference import BulkInference as BulkInference
from tfx_gnn.components.graph_bulk_inferrer.component import GraphBulkInferrer as GraphBulkInferrer
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions as GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk as infer_in_bulk
from tfx_gnn.components.graph_evaluator.component import GraphEvaluator as GraphEvaluator
from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation as GraphEvaluation
from tfx_gnn.components.graph_evaluator.evaluation_report import SliceEvaluation as SliceEvaluation
from tfx_gnn.components.graph_evaluator.evaluation_report import TaskEvaluation as TaskEvaluation
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions as GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model as evaluate_graph_model
from tfx_gnn.components.graph_evaluator.thresholds import Verdict as Verdict
from tfx_gnn.components.graph_example_validator.checks import Anomaly as Anomaly
from tfx_gnn.components.graph_example_validator.component import GraphExampleValidator as GraphExampleValidator
from tfx_gnn.components.graph_example_validator.expectations import expectations_of_graphs as expectations_of_graphs
from tfx_gnn.components.graph_example_validator.expectations import expectations_of_plan as expectations_of_plan
from tfx_gnn.components.graph_example_validator.options import (
    GraphExampleValidatorOptions as GraphExampleValidatorOptions,
)
from tfx_gnn.components.graph_example_validator.stage import GraphValidation as GraphValidation
from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples as validate_graph_examples
from tfx_gnn.components.graph_indexer.component import GraphIndexer as GraphIndexer
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions as GraphIndexerOptions
from tfx_gnn.components.graph_indexer.stage import build_graph_index as build_graph_index
from tfx_gnn.components.graph_layerwise_inferrer.component import GraphLayerwiseInferrer as GraphLayerwiseInferrer
from tfx_gnn.components.graph_layerwise_inferrer.options import (
    GraphLayerwiseInferrerOptions as GraphLayerwiseInferrerOptions,
)
from tfx_gnn.components.graph_layerwise_inferrer.stage import LayerwiseInference as LayerwiseInference
from tfx_gnn.components.graph_layerwise_inferrer.stage import infer_layerwise as infer_layerwise
from tfx_gnn.components.graph_pusher.component import GraphPusher as GraphPusher
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions as GraphPusherOptions
from tfx_gnn.components.graph_pusher.stage import PushedVersion as PushedVersion
from tfx_gnn.components.graph_pusher.stage import push_graph_model as push_graph_model
from tfx_gnn.components.graph_schema_gen.component import GraphSchemaGen as GraphSchemaGen
from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions as GraphSchemaGenOptions
from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema as generate_graph_schema
from tfx_gnn.components.graph_skew_validator.component import GraphSkewValidator as GraphSkewValidator
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions as GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.report import SkewReport as SkewReport
from tfx_gnn.components.graph_skew_validator.stage import validate_skew as validate_skew
from tfx_gnn.components.graph_trainer.component import GraphTrainer as GraphTrainer
from tfx_gnn.components.graph_trainer.stage import train_graph_model as train_graph_model
from tfx_gnn.components.graph_transform.component import GraphTransform as GraphTransform
from tfx_gnn.components.graph_transform.options import GraphTransformOptions as GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs as transform_graphs
from tfx_gnn.components.graph_tuner.component import GraphTuner as GraphTuner
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions as GraphTunerOptions
from tfx_gnn.components.graph_tuner.search_space import Choice as Choice
from tfx_gnn.components.graph_tuner.search_space import FloatRange as FloatRange
from tfx_gnn.components.graph_tuner.search_space import IntRange as IntRange
from tfx_gnn.components.graph_tuner.search_space import SearchRange as SearchRange
from tfx_gnn.components.graph_tuner.stage import tune_graph_model as tune_graph_model
from tfx_gnn.components.graph_tuner.trials import TuningSummary as TuningSummary
from tfx_gnn.components.latest_blessed_model_resolver.component import (
    LatestBlessedModelResolver as LatestBlessedModelResolver,
)
from tfx_gnn.components.latest_blessed_model_resolver.options import (
    LatestBlessedModelResolverOptions as LatestBlessedModelResolverOptions,
)
from tfx_gnn.components.latest_blessed_model_resolver.stage import (
    resolve_latest_blessed_model as resolve_latest_blessed_model,
)
from tfx_gnn.components.notebook_views import register_notebook_views as register_notebook_views
from tfx_gnn.components.size_constraint_learner.component import SizeConstraintLearner as SizeConstraintLearner
from tfx_gnn.components.size_constraint_learner.options import (
    SizeConstraintLearnerOptions as SizeConstraintLearnerOptions,
)
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints as learn_size_constraints
from tfx_gnn.components.subgraph_example_gen.component import SubgraphExampleGen as SubgraphExampleGen
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions as SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples as generate_subgraph_examples
from tfx_gnn.distribution.options import StrategyOptions as StrategyOptions
from tfx_gnn.io.options_json import to_json as to_json
from tfx_gnn.records.example_gen_report import ExampleGenReport as ExampleGenReport
from tfx_gnn.tables.row_rules import RowRules as RowRules
from tfx_gnn.tables.table_access import TableAccess as TableAccess
from tfx_gnn.training.loop.summary import TrainingSummary as TrainingSummary
from tfx_gnn.training.options import BatchingOptions as BatchingOptions
from tfx_gnn.training.options import CheckpointOptions as CheckpointOptions
from tfx_gnn.training.options import ExecutionOptions as ExecutionOptions
from tfx_gnn.training.options import ExportOptions as ExportOptions
from tfx_gnn.training.options import GraphTrainerOptions as GraphTrainerOptions
from tfx_gnn.training.options import OptimizationOptions as OptimizationOptions

"""The stages as TFX components, and the artifact types that join them."""

from tfx_gnn.components.artifacts import (
    ExamplesBlessingArtifact,
    GraphSchemaArtifact,
    SizeConstraintsArtifact,
    SkewReportArtifact,
)
from tfx_gnn.components.graph_evaluator import GraphEvaluator
from tfx_gnn.components.graph_example_validator import GraphExampleValidator
from tfx_gnn.components.graph_pusher import GraphPusher
from tfx_gnn.components.graph_schema_gen import GraphSchemaGen
from tfx_gnn.components.graph_skew_validator import GraphSkewValidator
from tfx_gnn.components.graph_trainer import GraphTrainer
from tfx_gnn.components.graph_transform import GraphTransform
from tfx_gnn.components.graph_tuner import GraphTuner
from tfx_gnn.components.size_constraint_learner import SizeConstraintLearner
from tfx_gnn.components.subgraph_example_gen import SubgraphExampleGen

__all__ = [
    "ExamplesBlessingArtifact",
    "GraphEvaluator",
    "GraphExampleValidator",
    "GraphPusher",
    "GraphSchemaArtifact",
    "GraphSchemaGen",
    "GraphSkewValidator",
    "GraphTrainer",
    "GraphTransform",
    "GraphTuner",
    "SizeConstraintLearner",
    "SizeConstraintsArtifact",
    "SkewReportArtifact",
    "SubgraphExampleGen",
]

from tfx_gnn import experimental as experimental
from tfx_gnn import graph as graph
from tfx_gnn import keras as keras
from tfx_gnn import runner as runner
from tfx_gnn.components.artifacts import ExamplesBlessingArtifact as ExamplesBlessingArtifact
from tfx_gnn.components.artifacts import GraphIndexArtifact as GraphIndexArtifact
from tfx_gnn.components.artifacts import GraphSchemaArtifact as GraphSchemaArtifact
from tfx_gnn.components.artifacts import InferenceTableArtifact as InferenceTableArtifact
from tfx_gnn.components.artifacts import SizeConstraintsArtifact as SizeConstraintsArtifact
from tfx_gnn.components.artifacts import SkewReportArtifact as SkewReportArtifact
from tfx_gnn.graph import *  # noqa: F403 - all of the graph's names are names of the package
from tfx_gnn.graph import proto as proto
from tfx_gnn.interchange import from_networkx as from_networkx
from tfx_gnn.interchange import from_pandas as from_pandas
from tfx_gnn.interchange import from_pyg as from_pyg
from tfx_gnn.interchange import to_networkx as to_networkx
from tfx_gnn.interchange import to_pandas as to_pandas
from tfx_gnn.interchange import to_pyg as to_pyg
from tfx_gnn.tables_run import TablesRun as TablesRun
from tfx_gnn.tables_run import run as run

__version__: str

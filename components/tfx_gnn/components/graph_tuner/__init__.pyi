from tfx_gnn.components.graph_tuner.component import GraphTuner as GraphTuner
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions as GraphTunerOptions
from tfx_gnn.components.graph_tuner.search_space import Choice as Choice
from tfx_gnn.components.graph_tuner.search_space import FloatRange as FloatRange
from tfx_gnn.components.graph_tuner.search_space import IntRange as IntRange
from tfx_gnn.components.graph_tuner.search_space import SearchRange as SearchRange
from tfx_gnn.components.graph_tuner.stage import tune_graph_model as tune_graph_model
from tfx_gnn.components.graph_tuner.trials import TuningSummary as TuningSummary

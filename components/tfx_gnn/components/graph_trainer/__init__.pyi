from tfx_gnn.components.graph_trainer.component import GraphTrainer as GraphTrainer
from tfx_gnn.components.graph_trainer.stage import train_graph_model as train_graph_model
from tfx_gnn.training.loop.summary import TrainingSummary as TrainingSummary
from tfx_gnn.training.options import GraphTrainerOptions as GraphTrainerOptions

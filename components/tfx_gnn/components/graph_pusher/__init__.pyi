from tfx_gnn.components.graph_pusher.component import GraphPusher as GraphPusher
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions as GraphPusherOptions
from tfx_gnn.components.graph_pusher.stage import PushedVersion as PushedVersion
from tfx_gnn.components.graph_pusher.stage import push_graph_model as push_graph_model

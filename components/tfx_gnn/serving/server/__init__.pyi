from tfx_gnn.serving.server.options import ServerOptions as ServerOptions
from tfx_gnn.serving.server.process import serve_model as serve_model

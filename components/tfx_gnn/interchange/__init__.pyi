from tfx_gnn.interchange.networkx_graphs import from_networkx as from_networkx
from tfx_gnn.interchange.networkx_graphs import to_networkx as to_networkx
from tfx_gnn.interchange.pandas_frames import EdgeFrame as EdgeFrame
from tfx_gnn.interchange.pandas_frames import GraphFrames as GraphFrames
from tfx_gnn.interchange.pandas_frames import from_pandas as from_pandas
from tfx_gnn.interchange.pandas_frames import to_pandas as to_pandas
from tfx_gnn.interchange.pyg_data import from_pyg as from_pyg
from tfx_gnn.interchange.pyg_data import to_pyg as to_pyg

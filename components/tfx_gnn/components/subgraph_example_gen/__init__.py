"""The SubgraphExampleGen component: its contract and its executor."""

from tfx_gnn.components.subgraph_example_gen.component import SubgraphExampleGen

__all__ = ["SubgraphExampleGen"]

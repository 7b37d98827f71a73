"""From tables of a large graph to subgraphs around seeds.

This package exports the plan, which needs nothing but Python. What reads
tables and samples needs pyarrow (`pip install "tfx-gnn[beam]"`) and is imported
from its own modules.
"""

from tfx_gnn.sampling.plan import SEED, Hop, SamplingPlan

__all__ = ["SEED", "Hop", "SamplingPlan"]

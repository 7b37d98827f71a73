"""From tables of a large graph to subgraphs around seeds.

This package exports the plan, which needs nothing but Python. What reads
tables and samples needs pyarrow (`pip install "tfx-gnn[beam]"`) and is imported
from its own modules.
"""

from tfx_gnn.sampling.hop import SEED, SOURCE, TARGET, Hop
from tfx_gnn.sampling.plan import Negatives, SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.split_plan import SplitPlan

__all__ = [
    "SEED",
    "SOURCE",
    "TARGET",
    "Hop",
    "Negatives",
    "SamplingPlan",
    "SeedTable",
    "SplitPlan",
    "Temporal",
]

"""What to sample around a Debian package to predict its section."""

from __future__ import annotations

from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan

# A second step samples around these neighbours.
_NEAR = ("depends", "dependents", "siblings")

PLAN = SamplingPlan(
    seed_node_set="package",
    label_features=("section",),
    splits=SplitPlan(column="split"),
    hops=(
        Hop(edge_set="depends", fan_out=16),
        Hop(edge_set="depends", fan_out=8, direction="backward", name="dependents"),
        Hop(edge_set="recommends", fan_out=8),
        Hop(edge_set="recommends", fan_out=4, direction="backward", name="recommenders"),
        Hop(edge_set="suggests", fan_out=4),
        Hop(edge_set="suggests", fan_out=4, direction="backward", name="suggesters"),
        Hop(edge_set="built_from", fan_out=1),
        Hop(edge_set="built_from", fan_out=8, direction="backward", inputs=("built_from",), name="siblings"),
        Hop(edge_set="build_depends", fan_out=16, inputs=("built_from",)),
        Hop(edge_set="maintained_by", fan_out=1, inputs=("seed", *_NEAR)),
        Hop(edge_set="depends", fan_out=8, inputs=_NEAR, name="depends_of_near"),
        # A package's own tags would reveal its section, so the seed is not among the inputs.
        Hop(edge_set="tagged", fan_out=8, inputs=_NEAR),
    ),
)
"""The neighbourhood of a package, with its section as the label and the splits of `packages.csv`."""

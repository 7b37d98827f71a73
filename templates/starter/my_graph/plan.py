"""Which neighbours to sample around each user whose interest is predicted."""

from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan

PLAN = SamplingPlan(
    # Every user is the seed of one subgraph, which is one example.
    seed_node_set="user",
    # Labels move from the users to a node set `_readout` that is connected to the seed only. The
    # interests of the other users in a subgraph are left out, so they cannot reveal the seed's.
    label_features=("interest",),
    # Column of users.csv: train, val or test. Without it, a hash of the id decides.
    splits=SplitPlan(column="split"),
    # Steps outward. For each node that a hop starts from, at most `fan_out` of its edges are sampled at random.
    hops=(
        # What the seed bought ...
        Hop(edge_set="purchase", fan_out=8),
        # ... who else bought these products (backward, from products to users) ...
        Hop(edge_set="purchase", fan_out=4, direction="backward", inputs=("purchase",), name="other_buyers"),
        # ... and what else these users bought.
        Hop(edge_set="purchase", fan_out=4, inputs=("other_buyers",), name="their_purchases"),
    ),
)

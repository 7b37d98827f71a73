"""What is sampled around each user, whose interest is to be predicted."""

from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan

PLAN = SamplingPlan(
    # Every user is the seed of one subgraph: one example to learn from, or to predict.
    seed_node_set="user",
    # Labels move from the users to a node set `_readout` that only the seed is tied to. The
    # interests of other users in a subgraph are not in it: they cannot give the seed's away.
    label_features=("interest",),
    # Column of users.csv: train, val or test. Leave it out and a hash of the id decides.
    splits=SplitPlan(column="split"),
    # Steps outward. Each node that a hop starts from gets at most `fan_out` of its edges, by chance.
    hops=(
        # What the seed bought ...
        Hop(edge_set="purchase", fan_out=8),
        # ... who else bought that (from a product backward to users) ...
        Hop(edge_set="purchase", fan_out=4, direction="backward", inputs=("purchase",), name="other_buyers"),
        # ... and what else those bought.
        Hop(edge_set="purchase", fan_out=4, inputs=("other_buyers",), name="their_purchases"),
    ),
)

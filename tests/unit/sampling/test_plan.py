import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan import Hop, SamplingPlan, check_plan, hop_ends, reached_node_sets
from tfx_gnn.stages import options_json

SCHEMA = text_format.Parse(
    """
    node_sets { key: "user" value { features { key: "age" value { dtype: DT_INT64 } } } }
    node_sets { key: "item" value { } }
    node_sets { key: "shop" value { } }
    edge_sets { key: "buys" value { source: "user" target: "item"
      features { key: "count" value { dtype: DT_INT64 } } } }
    edge_sets { key: "knows" value { source: "user" target: "user" } }
    """,
    GraphSchema(),
)


def _plan(*hops, **fields):
    return SamplingPlan(seed_node_set="user", hops=hops, **fields)


def test_hops_without_a_name_get_different_ones_that_nobody_chose():
    plan = _plan(
        Hop(edge_set="knows", fan_out=1),
        Hop(edge_set="knows", fan_out=1),
        Hop(edge_set="knows", fan_out=1, direction="backward"),
        Hop(edge_set="buys", fan_out=1, name="knows_2"),
        Hop(edge_set="seed", fan_out=1),
    )

    assert [hop.name for hop in plan.hops] == ["knows", "knows_3", "knows_reverse", "knows_2", "seed_2"]


def test_a_plan_survives_json():
    plan = _plan(
        Hop(edge_set="buys", fan_out=3, name="bought"),
        Hop(edge_set="buys", fan_out=2, inputs=("bought",), direction="backward"),
        label_features=("age",),
        split_column="part",
        excluded_features={"buys": ("count",)},
    )

    assert options_json.from_json(options_json.to_json(plan), SamplingPlan) == plan


@pytest.mark.parametrize(
    "hops", [Hop(edge_set="knows", fan_out=1), ({"edge_set": "knows", "fan_out": 1},)], ids=["bare", "dict"]
)
def test_hops_are_a_tuple_of_hops(hops):
    with pytest.raises(TypeError, match=r"`hops` must be a tuple of Hop; got .*knows"):
        SamplingPlan(seed_node_set="user", hops=hops)


def test_a_plan_reaches_both_ends_of_its_hops_and_the_seed_set():
    assert reached_node_sets(_plan(Hop(edge_set="buys", fan_out=1)), SCHEMA) == ("item", "user")
    assert reached_node_sets(_plan(), SCHEMA) == ("user",)


def test_a_backward_hop_starts_at_the_targets():
    assert hop_ends(Hop(edge_set="buys", fan_out=1), SCHEMA) == ("user", "item")
    assert hop_ends(Hop(edge_set="buys", fan_out=1, direction="backward"), SCHEMA) == ("item", "user")


def test_a_plan_that_fits_is_accepted():
    check_plan(
        _plan(
            Hop(edge_set="buys", fan_out=1),
            Hop(edge_set="buys", fan_out=1, inputs=("buys",), direction="backward"),
            Hop(edge_set="knows", fan_out=1, inputs=("seed", "buys_reverse")),
            label_features=("age",),
            excluded_features={"buys": ("count",)},
        ),
        SCHEMA,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_set": ""}, "`edge_set` must name an edge set; got ''"),
        ({"fan_out": 0}, "`fan_out` must be an integer of at least 1; got 0 in the hop along 'buys'"),
        ({"fan_out": 2.0}, "`fan_out` must be an integer of at least 1; got 2.0"),
        ({"fan_out": True}, "`fan_out` must be an integer of at least 1; got True"),
        ({"inputs": ()}, r"`inputs` must be a tuple of hop names, at least one; got \(\)"),
        ({"inputs": "seed"}, "`inputs` must be a tuple of hop names, at least one; got 'seed'"),
        ({"inputs": ("a", "a")}, r"`inputs` must name each hop once; got \('a', 'a'\)"),
        ({"name": "seed"}, "`name` must not be 'seed'"),
        ({"direction": "up"}, r"`direction` must be one of \['forward', 'backward'\]; got 'up'"),
        ({"strategy": "weighted"}, r"`strategy` must be one of \['uniform'\]; got 'weighted'"),
    ],
)
def test_a_hop_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        Hop(**{"edge_set": "buys", "fan_out": 1, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SamplingPlan(seed_node_set=""), "`seed_node_set` must name a node set; got ''"),
        (
            lambda: _plan(
                Hop(edge_set="buys", fan_out=1, inputs=("later",)), Hop(edge_set="x", fan_out=1, name="later")
            ),
            r"`inputs` must name 'seed' or an earlier hop; got 'later' in hop 'buys', before which there are ",
        ),
        (
            lambda: _plan(Hop(edge_set="a", fan_out=1, name="x"), Hop(edge_set="b", fan_out=1, name="x")),
            r"`hops` must have different names; got \['x'\] more than once",
        ),
        (lambda: _plan(label_features="age"), "`label_features` must be a tuple of feature names; got 'age'"),
        (lambda: _plan(excluded_features={"buys": "count"}), r"`excluded_features\['buys'\]` must be a tuple"),
        (
            lambda: _plan(label_features=("age",), excluded_features={"user": ("age",)}),
            r"`excluded_features` must not name a label feature; got \['age'\] of 'user'",
        ),
        (
            lambda: _plan(label_features=("age",), split_column="age"),
            "`split_column` must not be a label feature; got 'age'",
        ),
    ],
)
def test_a_plan_refuses(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SamplingPlan(seed_node_set="usr"), r"`seed_node_set` must be one of \['item', 'shop', 'user'\]; got 'usr'"),
        (
            _plan(Hop(edge_set="sells", fan_out=1)),
            r"`edge_set` must be one of \['buys', 'knows'\] in hop 'sells'; got 'sells'",
        ),
        (
            _plan(Hop(edge_set="buys", fan_out=1, direction="backward")),
            "`inputs` must end in node set 'item', where edge set 'buys' starts .* got 'seed', which ends in 'user'",
        ),
        (_plan(label_features=("name",)), r"`label_features` must be one of \['age'\] for 'user'; got 'name'"),
        (
            _plan(excluded_features={"shop": ("x",)}),
            r"`excluded_features` must be one of \['user'\] among the sets that the plan reaches; got 'shop'",
        ),
        (
            _plan(Hop(edge_set="buys", fan_out=1), excluded_features={"buys": ("price",)}),
            r"`excluded_features` must be one of \['count'\] for 'buys'; got 'price'",
        ),
    ],
)
def test_a_plan_that_does_not_fit_the_graph_is_refused(plan, message):
    with pytest.raises(ValueError, match=message):
        check_plan(plan, SCHEMA)

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io import options_json
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import (
    SamplingPlan,
    SeedTable,
    Temporal,
    hop_ends,
    reached_node_sets,
    root_node_sets,
)
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = text_format.Parse(
    """
    context { features { key: "day" value { dtype: DT_INT64 } } }
    node_sets { key: "user" value { features { key: "age" value { dtype: DT_INT64 } } } }
    node_sets { key: "item" value { features { key: "kind" value { dtype: DT_STRING } }
      features { key: "vector" value { dtype: DT_INT64 shape { dim { size: 2 } } } } } }
    node_sets { key: "shop" value { } }
    edge_sets { key: "buys" value { source: "user" target: "item"
      features { key: "count" value { dtype: DT_INT64 } }
      features { key: "note" value { dtype: DT_STRING } } } }
    edge_sets { key: "bought_by" value { source: "item" target: "user" } }
    edge_sets { key: "knows" value { source: "user" target: "user" } }
    """,
    GraphSchema(),
)


def _plan(*hops, **fields):
    return SamplingPlan(seed_node_set="user", hops=hops, **fields)


def _link(*hops, **fields):
    return SamplingPlan(seed_edge_set="buys", hops=hops, **fields)


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
        splits=SplitPlan(column="part"),
        excluded_features={"buys": ("count",)},
    )

    assert options_json.from_json(options_json.to_json(plan), SamplingPlan) == plan


@pytest.mark.parametrize("written", [str(2**63), "1e300"])
def test_a_fan_out_beyond_all_edges_is_refused_in_json(written):
    text = options_json.to_json(_plan(Hop(edge_set="buys", fan_out=1))).replace('"fan_out": 1', f'"fan_out": {written}')

    assert written in text
    with pytest.raises(ValueError, match=r"`hops\.0\.fan_out` must be an integer of at most 64 bits; got"):
        options_json.from_json(text, SamplingPlan)


def test_the_largest_fan_out_takes_all_edges():
    assert Hop(edge_set="buys", fan_out=2**31 - 1).fan_out == 2**31 - 1


def test_a_link_plan_with_everything_survives_json():
    plan = SamplingPlan(
        seed_edge_set="buys",
        seed_table=SeedTable(filename="pairs.csv", columns={"source": "user"}, features={"when": "int64"}),
        hops=(
            Hop(edge_set="buys", fan_out=3, inputs=("source",), strategy="weighted", weight_feature="count"),
            Hop(edge_set="buys", strategy="full", inputs=("target",), direction="backward"),
        ),
        splits=SplitPlan(time_feature="when", until={"train": 5, "test": None}),
        temporal=Temporal(seed_time="when", edge_times={"buys": "count"}, inclusive=True),
        induced_edge_sets=("knows",),
        expands_seed_again=True,
        negatives=Negatives(
            num_per_positive=3, side="source", distribution="in_degree", conditions={"age": 2 / 3}, unique=False
        ),
        reverse_edge_sets=("bought_by",),
        context_features=("day",),
    )

    check_plan(plan, SCHEMA)
    assert options_json.from_json(options_json.to_json(plan), SamplingPlan) == plan


def test_a_link_plan_has_two_roots_and_reaches_the_ends_of_its_seeds():
    plan = SamplingPlan(seed_edge_set="buys", hops=(Hop(edge_set="knows", fan_out=1, inputs=("source",)),))

    assert plan.root_names == ("source", "target")
    assert root_node_sets(plan, SCHEMA) == {"source": "user", "target": "item"}
    assert reached_node_sets(plan, SCHEMA) == ("item", "user")
    assert (plan.edge_set_names, plan.table_edge_sets) == (("knows",), ("buys", "knows"))


def test_induced_and_kept_edges_are_edge_sets_of_the_subgraphs():
    assert _plan(Hop(edge_set="buys", fan_out=1), induced_edge_sets=("knows",)).edge_set_names == ("buys", "knows")
    assert SamplingPlan(seed_edge_set="buys", keeps_seed_edge=True).edge_set_names == ("buys",)


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
        ({"fan_out": 2**31}, "`fan_out` must be at most 2147483647 .*; got 2147483648 in the hop along 'buys'"),
        (
            {"fan_out": 2**15, "strategy": "uniform_with_replacement"},
            "`fan_out` must be at most 32767 with strategy 'uniform_with_replacement'; got 32768",
        ),
        ({"inputs": ()}, r"`inputs` must be a tuple of hop names, at least one; got \(\)"),
        ({"inputs": "seed"}, "`inputs` must be a tuple of hop names, at least one; got 'seed'"),
        ({"inputs": ("a", "a")}, r"`inputs` must name each hop once; got \('a', 'a'\)"),
        ({"name": "seed"}, "`name` must not be 'seed'"),
        ({"direction": "up"}, r"`direction` must be one of \['forward', 'backward'\]; got 'up'"),
        ({"name": "target"}, "`name` must not be 'target', which means a root"),
        ({"strategy": "best"}, r"`strategy` must be one of \['uniform', .*'full'\]; got 'best'"),
        (
            {"strategy": "full", "fan_out": -1},
            "`fan_out` must be an integer of at least 0; got -1 in the hop along 'buys'",
        ),
        ({"strategy": "weighted"}, "`weight_feature` must name an edge feature for .* got '' with 'weighted'"),
        ({"weight_feature": "count"}, "be empty for others; got 'count' with 'uniform' in the hop along 'buys'"),
    ],
)
def test_a_hop_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        Hop(**{"edge_set": "buys", "fan_out": 1, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (SamplingPlan, "`seed_node_set` must name a node set, or `seed_edge_set` an edge set, .* got '' and"),
        (lambda: _plan(seed_edge_set="buys"), "and only one of them; got 'user' and 'buys'"),
        (
            lambda: _plan(
                Hop(edge_set="buys", fan_out=1, inputs=("later",)), Hop(edge_set="x", fan_out=1, name="later")
            ),
            r"`inputs` must name 'seed' or an earlier hop; got 'later' in hop 'buys', before which there are ",
        ),
        (
            lambda: _plan(Hop(edge_set="buys", fan_out=1), Hop(edge_set="x", fan_out=1, inputs=("other",))),
            "got 'other' in hop 'x', before which .* Check the spelling, or hop 'buys', from which no hop starts",
        ),
        (
            lambda: _plan(Hop(edge_set="a", fan_out=1, name="x"), Hop(edge_set="b", fan_out=1, name="x")),
            r"`hops` must have different names; got \['x'\] more than once",
        ),
        (
            lambda: _plan(Hop(edge_set="a", fan_out=1, name="induced/a")),
            "`hops` must not be named induced/...; got 'induced/a'",
        ),
        (lambda: _plan(label_features="age"), "`label_features` must be a tuple of names; got 'age'"),
        (lambda: _plan(excluded_features={"buys": "count"}), r"`excluded_features\['buys'\]` must be a tuple"),
        (
            lambda: _plan(label_features=("age",), excluded_features={"user": ("age",)}),
            r"`excluded_features` must not name a label feature; got \['age'\] of 'user'",
        ),
        (
            lambda: _plan(label_features=("age",), splits=SplitPlan(column="age")),
            "`splits.column` must not be a label feature; got 'age'",
        ),
        (lambda: _plan(induced_edge_sets=("a", "a")), r"`induced_edge_sets` must name each once; got \('a', 'a'\)"),
        (lambda: _plan(keeps_seed_edge=True), "`keeps_seed_edge` must be left out of a node plan; got True"),
        (lambda: _plan(negatives=Negatives(num_per_positive=1)), "`negatives` must be left out of a node plan"),
        (lambda: _plan(reverse_edge_sets=("a",)), "`reverse_edge_sets` must be left out of a node plan"),
        (lambda: _plan(splits=SplitPlan(disjoint_train_share=0.5)), "`splits.disjoint_train_share` must be 0"),
        (
            lambda: _link(seed_table=SeedTable(filename="s.csv"), splits=SplitPlan(disjoint_train_share=0.5)),
            "`splits.disjoint_train_share` must be 0 in a plan with a seed table, whose rows are all seeds; got 0.5",
        ),
        (lambda: _link(splits=SplitPlan(visibility="inductive")), "`splits.visibility` must be 'transductive'"),
        (
            lambda: _link(keeps_seed_edge=True, negatives=Negatives(num_per_positive=1)),
            "`keeps_seed_edge` must not be set in a plan with `seed_table` or `negatives`",
        ),
        (
            lambda: _link(label_features=("count",), negatives=Negatives(num_per_positive=1)),
            r"`label_features` must be columns of the seed table other than 'label' .* got \['count'\]",
        ),
        (lambda: _link(Hop(edge_set="knows", fan_out=1)), "`inputs` must name 'source' or 'target' or an earlier hop"),
        (
            lambda: _plan(seed_table=SeedTable(filename="seeds.csv", columns={"source": "user"})),
            r"`columns` must give names for some of \['id'\] in `seed_table`; got \['source'\]",
        ),
        (lambda: SeedTable(filename="s.csv", input_features=("day",)), r"`input_features` must be .*got \['day'\]"),
        (
            lambda: SeedTable(filename="s.csv", features={"day": "int64"}, now_feature="day"),
            r"`now_feature` must be an int64 column that `input_features` names; got 'day' for \(\)",
        ),
        (
            lambda: SeedTable(filename="s.csv", features={"day": "string"}, input_features=("day",), now_feature="day"),
            "`now_feature` must be an int64 column",
        ),
        (
            lambda: _plan(
                seed_table=SeedTable(filename="s.csv", features={"won": "int64"}, input_features=("won",)),
                label_features=("won",),
            ),
            r"`input_features` must not name a label feature; got \['won'\]",
        ),
        (
            lambda: _plan(
                seed_table=SeedTable(filename="s.csv", features={"day": "int64"}, input_features=("day",)),
                context_features=("day",),
            ),
            r"`input_features` must not be named as other features of the context; got \['day'\]",
        ),
        (lambda: SeedTable(filename=""), "`filename` must be a name in `seed_table`; got ''"),
        (lambda: SeedTable(filename="a", features={"x": "int32"}), "got 'int32' for 'x' in `seed_table`"),
        (lambda: Temporal(seed_time="", edge_times={"a": "b"}), "`seed_time` must be a name in `temporal`; got ''"),
        (lambda: Temporal(seed_time="t", edge_times={}), "`edge_times` must name at least one edge set"),
        (lambda: Temporal(seed_time="t", edge_times={"a": 1}), "`edge_times` must map names to names in `temporal`"),
        (lambda: Negatives(num_per_positive=0), "`num_per_positive` must be an integer of at least 1; got 0"),
        (lambda: Negatives(num_per_positive=1, num_draws=0), "`num_draws` must be an integer of at least 1; got 0"),
        (lambda: Negatives(num_per_positive=1, num_draws=2**15), "`num_draws` must be at most 32767; got 32768"),
        (lambda: Negatives(num_per_positive=1, distribution="even"), "`distribution` must be one of .* got 'even'"),
        (
            lambda: Negatives(num_per_positive=1, distribution="node_weight"),
            "`weight_feature` must name a feature for distribution 'node_weight', .* got '' with 'node_weight'",
        ),
        (lambda: Negatives(num_per_positive=1, weight_feature="x"), "`weight_feature` .* got 'x' with 'uniform'"),
        (lambda: Negatives(num_per_positive=1, own_subgraphs=1), "`own_subgraphs` must be True or False; got 1 in"),
        (lambda: Negatives(num_per_positive=1, unique=None), "`unique` must be True or False; got None in"),
        (lambda: Negatives(num_per_positive=1, side="both"), r"`side` must be one of \['target', 's.*; got 'both' in"),
        (lambda: Negatives(num_per_positive=1, conditions=("x",)), r"`conditions` must map .* got \('x',\) in"),
        (
            lambda: Negatives(num_per_positive=1, conditions={"x": 1.0}, same_feature="y"),
            r"`conditions` must be left out beside `same_feature`, .* got \{'x': 1.0\} beside 'y' in",
        ),
        (lambda: Negatives(num_per_positive=1, conditions={"x": 0}), r"shares in \(0, 1\]; got 0 for 'x' in"),
        (lambda: Negatives(num_per_positive=1, conditions={"x": float("nan")}), "; got nan for 'x' in"),
        (
            lambda: Negatives(num_per_positive=9, conditions={"x": 0.5, "y": 0.75}),
            "`conditions` must have shares that add up to at most 1; got 1.25 in",
        ),
        (
            lambda: Negatives(num_per_positive=2, conditions={"x": 0.2}),
            "`conditions` must leave a negative for each feature; got none for 'x', whose share is 0.2 of 2, in",
        ),
        (
            lambda: _link(structure_labels="drn"),
            r"`structure_labels` must be one of \['', 'common.*'drnl'\]; got 'drn'",
        ),
        (lambda: _plan(structure_labels="drnl"), "`structure_labels` must be left out unless .* 'drnl' for 'user'"),
        (
            lambda: _link(structure_labels="drnl", keeps_seed_edge=True),
            "`structure_labels` must be left out unless .* for 'buys', `keeps_seed_edge` True",
        ),
        (
            lambda: _link(structure_labels="drnl", negatives=Negatives(num_per_positive=1)),
            r"`negatives` must have `own_subgraphs` .* got several pairs in an example. Set Negatives\(own_subgraphs=",
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
            r"`edge_set` must be one of \['bought_by', 'buys', 'knows'\] in hop 'sells'; got 'sells'",
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
            r"`excluded_features` must be one of \['count', 'note'\] for 'buys'; got 'price'",
        ),
        (SamplingPlan(seed_edge_set="sells"), r"`seed_edge_set` must be one of \['bought_by', 'buys', 'knows'\]; got"),
        (
            _plan(Hop(edge_set="buys", fan_out=1, strategy="top_k", weight_feature="note")),
            r"`weight_feature` must be one number for each .* got 'note' of type string and shape \[\] in hop 'buys'",
        ),
        (
            _plan(Hop(edge_set="buys", fan_out=1, strategy="top_k", weight_feature="price")),
            r"`weight_feature` must be one of \['count', 'note'\] in hop 'buys'; got 'price'",
        ),
        (
            _plan(Hop(edge_set="knows", fan_out=1), induced_edge_sets=("buys",)),
            r"`induced_edge_sets` must be between node sets that hops reach, \['user'\]; got 'buys'",
        ),
        (
            _link(reverse_edge_sets=("knows",)),
            "`reverse_edge_sets` must lead from 'item' to 'user', .* got 'knows', which leads from 'user' to 'user'",
        ),
        (
            _link(negatives=Negatives(num_per_positive=1, same_feature="age")),
            r"`same_feature` must be one of \['kind', 'vector'\] for 'item'; got 'age'",
        ),
        (
            _link(negatives=Negatives(num_per_positive=1, side="source", conditions={"kind": 1.0})),
            r"`conditions` must be one of \['age'\] for 'user'; got 'kind'",
        ),
        (
            _link(negatives=Negatives(num_per_positive=1, conditions={"vector": 1.0})),
            r"`conditions` must name features with one value for each node; got 'vector' of shape \[2\] for 'item'",
        ),
        (
            _plan(Hop(edge_set="buys", fan_out=1), temporal=Temporal(seed_time="age", edge_times={"knows": "t"})),
            r"`edge_times` must be one of \['buys'\] among the edge sets of the plan; got 'knows'",
        ),
        (
            _plan(Hop(edge_set="buys", fan_out=1), temporal=Temporal(seed_time="age", edge_times={"buys": "note"})),
            "`edge_times` must be an integer feature without a shape for 'buys'; got 'note' of type string",
        ),
        (
            SamplingPlan(
                seed_node_set="item",
                hops=(Hop(edge_set="bought_by", fan_out=1), Hop(edge_set="buys", fan_out=1, inputs=("bought_by",))),
                temporal=Temporal(seed_time="vector", edge_times={"buys": "count"}),
            ),
            r"`seed_time` must be an integer feature .* for 'item'; got 'vector' of type int64 and shape \[2\]",
        ),
        (
            _plan(
                Hop(edge_set="buys", fan_out=1),
                seed_table=SeedTable(filename="s.csv", features={"when": "string"}),
                temporal=Temporal(seed_time="when", edge_times={"buys": "count"}),
            ),
            "`seed_time` must be an int64 column; got 'when' of type 'string' in `seed_table`",
        ),
        (
            _plan(seed_table=SeedTable(filename="s.csv", features={"age": "int64"}), label_features=("age",)),
            "`label_features` must name a feature of the seed table or of 'user'; got 'age', which both have",
        ),
        (
            _plan(
                Hop(edge_set="buys", fan_out=1),
                seed_table=SeedTable(filename="s.csv", features={"when": "int64"}),
                temporal=Temporal(seed_time="age", edge_times={"buys": "count"}),
            ),
            r"`seed_time` must be a column of the seed table, .* got 'age', and the columns \['when'\]",
        ),
        (
            _link(seed_table=SeedTable(filename="s.csv", features={"grade": "int64"}), label_features=("count",)),
            r"`label_features` must be one of \['grade'\] for 'buys'; got 'count'",
        ),
        (
            _plan(splits=SplitPlan(time_feature="born", until={"train": None})),
            "`splits.time_feature` must be a feature of every table that has splits; got 'born', which node set 'user'",
        ),
        (_plan(context_features=("night",)), r"`context_features` must be one of \['day'\] for the context"),
    ],
)
def test_a_plan_that_does_not_fit_the_graph_is_refused(plan, message):
    with pytest.raises(ValueError, match=message):
        check_plan(plan, SCHEMA)


def test_edges_of_a_node_plan_are_of_no_split():
    with pytest.raises(
        ValueError, match="`splits_edges` must be left out of the `seed_table` of a node plan; got False"
    ):
        SamplingPlan(seed_node_set="n", seed_table=SeedTable(filename="s.csv", splits_edges=False))


def test_a_forecast_needs_pairs_and_times():
    table = SeedTable(filename="s.csv", features={"when": "int64"}, is_forecast=True)

    with pytest.raises(ValueError, match=r"`is_forecast` must be left out .* an edge between a pair may be the one"):
        SamplingPlan(seed_edge_set="buys", seed_table=table)
    with pytest.raises(ValueError, match="`is_forecast` must be left out"):
        SamplingPlan(seed_node_set="n", seed_table=table)


def test_edges_are_divided_unless_a_seed_table_says_no():
    table = SeedTable(filename="s.csv", splits_edges=False)
    hops = (Hop(edge_set="r", fan_out=1, inputs=("source",)),)

    assert SamplingPlan(seed_edge_set="e", reverse_edge_sets=("r",), hops=hops).split_edge_sets == ("e", "r")
    assert SamplingPlan(seed_edge_set="e", seed_table=SeedTable(filename="s.csv")).split_edge_sets == ("e",)
    assert SamplingPlan(seed_edge_set="e", seed_table=table).split_edge_sets == ()
    assert SamplingPlan(seed_node_set="n").split_edge_sets == ()

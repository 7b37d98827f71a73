from __future__ import annotations

import dataclasses

import pytest

from tfx_gnn.components.graph_example_validator.expectations import expectations_of_plan
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan

KNOWS = Hop(edge_set="knows", fan_out=2)
BY_TIME = SplitPlan(time_feature="day", until={"train": 10, "test": None})


@pytest.mark.parametrize(
    ("plan", "promised"),
    [
        (SamplingPlan(seed_node_set="user"), {}),
        (
            SamplingPlan(
                seed_node_set="user",
                label_features=("age",),
                splits=SplitPlan(weights={"a": 1, "b": 1}, visibility="inductive"),
            ),
            {"label_features": ("age",), "split_order": ("a", "b"), "inductive": True},
        ),
        (
            SamplingPlan(seed_node_set="user", hops=(KNOWS,), splits=BY_TIME),
            {"split_order": ("train", "test"), "seed_time_feature": "day"},
        ),
        (
            SamplingPlan(
                seed_node_set="user",
                hops=(KNOWS,),
                splits=BY_TIME,
                temporal=Temporal(seed_time="day", edge_times={"knows": "since", "buys": "since"}),
            ),
            {
                "split_order": ("train", "test"),
                "seed_time_feature": "day",
                "edge_time_features": {"knows": "since"},
                "only_earlier_edges": True,
            },
        ),
        (
            SamplingPlan(
                seed_node_set="user",
                hops=(KNOWS,),
                splits=BY_TIME,
                temporal=Temporal(seed_time="day", edge_times={"knows": "since"}, inclusive=True),
            ),
            {
                "split_order": ("train", "test"),
                "seed_time_feature": "day",
                "edge_time_features": {"knows": "since"},
            },
        ),
        (
            SamplingPlan(seed_node_set="user", splits=BY_TIME, excluded_features={"user": ("day",)}),
            {"split_order": ("train", "test")},
        ),
        (
            SamplingPlan(
                seed_edge_set="knows",
                hops=(Hop(edge_set="knows", fan_out=2, inputs=("source",)),),
                reverse_edge_sets=("knows",),
                negatives=Negatives(num_per_positive=1),
            ),
            {"seed_edge_set": "knows", "reverse_edge_sets": ("knows",), "pair_label_feature": "label"},
        ),
        (
            SamplingPlan(
                seed_edge_set="knows",
                hops=(Hop(edge_set="knows", fan_out=2, inputs=("source",)),),
                keeps_seed_edge=True,
            ),
            {},
        ),
        (
            SamplingPlan(
                seed_edge_set="knows",
                seed_table=SeedTable(filename="pairs.csv", features={"day": "int64"}),
                hops=(Hop(edge_set="knows", fan_out=2, inputs=("source",)),),
                temporal=Temporal(seed_time="day", edge_times={"knows": "since"}),
            ),
            {},
        ),
        (
            SamplingPlan(
                seed_edge_set="knows",
                splits=BY_TIME,
                temporal=Temporal(seed_time="day", edge_times={"knows": "day"}),
            ),
            {"split_order": ("train", "test"), "severities": {"seed_in_two_splits": "warning"}},
        ),
        (
            SamplingPlan(
                seed_node_set="user",
                seed_table=SeedTable(filename="q.csv", features={"day": "int64"}),
                splits=BY_TIME,
            ),
            {"split_order": ("train", "test"), "severities": {"seed_in_two_splits": "warning"}},
        ),
        (
            SamplingPlan(
                seed_node_set="user",
                seed_table=SeedTable(
                    filename="q.csv", features={"day": "int64"}, input_features=("day",), now_feature="day"
                ),
                splits=BY_TIME,
                temporal=Temporal(seed_time="day", edge_times={"knows": "since"}),
                hops=(KNOWS,),
            ),
            {
                "split_order": ("train", "test"),
                "seed_time_feature": "day",
                "edge_time_features": {"knows": "since"},
                "only_earlier_edges": True,
                "unstable_features": ("context/day",),
            },
        ),
        (
            SamplingPlan(seed_edge_set="knows", splits=BY_TIME, label_features=("day",)),
            {"split_order": ("train", "test"), "seed_time_feature": "day", "label_features": ("day",)},
        ),
        (
            SamplingPlan(seed_edge_set="knows", splits=SplitPlan(column="part"), keeps_seed_edge=True),
            {"split_order": ("train", "val", "test"), "severities": {"seed_in_two_splits": "warning"}},
        ),
        (
            SamplingPlan(
                seed_node_set="user",
                seed_table=SeedTable(filename="q.csv", features={"day": "int64"}),
                splits=SplitPlan(column="part"),
                hops=(Hop(edge_set="knows", fan_out=2),),
                temporal=Temporal(seed_time="day", edge_times={"knows": "since"}),
            ),
            {"split_order": ("train", "val", "test"), "severities": {"seed_in_two_splits": "warning"}},
        ),
        (
            SamplingPlan(seed_node_set="user", splits=SplitPlan(weights={"a": 1}, allows_empty_splits=True)),
            {"split_order": ("a",), "severities": {"no_examples": "warning"}},
        ),
    ],
    ids=[
        "nothing",
        "inductive",
        "by time",
        "times of edges",
        "the seed's time",
        "no time",
        "links",
        "kept edges",
        "recurring pairs",
        "pairs by time",
        "table by time",
        "table by times that are inputs",
        "known times",
        "parallel edges by column",
        "table at several times by column",
        "empty splits",
    ],
)
def test_a_plan_promises_what_it_hides(plan, promised):
    assert expectations_of_plan(plan) == GraphExampleValidatorOptions(**promised)


@pytest.mark.parametrize("hops", [(), (Hop(edge_set="buys", fan_out=2, inputs=("source",)),)], ids=["none", "others"])
def test_links_whose_edges_are_in_no_example_keep_their_promises(shop_dir, tmp_path, hops):
    plan = SamplingPlan(seed_edge_set="knows", hops=hops, splits=SplitPlan(weights={"train": 1}))
    examples_dir = str(tmp_path / "examples")
    generate_subgraph_examples(
        tables_dir=shop_dir, examples_dir=examples_dir, options=SubgraphExampleGenOptions(plan=plan)
    )

    validation = validate_graph_examples(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        statistics_dir=str(tmp_path / "statistics"),
        anomalies_dir=str(tmp_path / "anomalies"),
        blessing_dir=str(tmp_path / "blessing"),
        options=expectations_of_plan(plan),
    )

    assert validation.num_examples == {"train": 4}
    assert validation.blessed


@pytest.mark.parametrize("inclusive", [False, True])
def test_an_edge_of_the_seeds_very_time_breaks_the_promise_to_hide_it(tmp_path, inclusive):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { metadata { filename: "n.csv" } } }'
        + "".join(
            f'edge_sets {{ key: "{name}" value {{ source: "n" target: "n" metadata {{ filename: "e.csv" }}'
            ' features { key: "t" value { dtype: DT_INT64 } } } }'
            for name in "ef"
        )
    )
    (folder / "n.csv").write_text("id\na\nb\nc\n")
    (folder / "e.csv").write_text("source,target,t\na,b,1\na,b,2\na,c,3\n")
    plan = SamplingPlan(
        seed_edge_set="e",
        label_features=("t",),
        hops=tuple(Hop(edge_set=name, fan_out=9, inputs=("source",)) for name in "ef"),
        splits=SplitPlan(time_feature="t", until={"train": None}),
        temporal=Temporal(seed_time="t", edge_times={"e": "t", "f": "t"}),
    )
    sampled = dataclasses.replace(plan, temporal=dataclasses.replace(plan.temporal, inclusive=inclusive))
    examples_dir = str(tmp_path / "examples")
    generate_subgraph_examples(
        tables_dir=str(folder), examples_dir=examples_dir, options=SubgraphExampleGenOptions(plan=sampled)
    )

    validation = validate_graph_examples(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        statistics_dir=str(tmp_path / "statistics"),
        anomalies_dir=str(tmp_path / "anomalies"),
        blessing_dir=str(tmp_path / "blessing"),
        options=expectations_of_plan(plan),
    )

    assert validation.blessed is not inclusive
    assert {anomaly.check for anomaly in validation.anomalies} == ({"edge_newer_than_seed"} if inclusive else set())

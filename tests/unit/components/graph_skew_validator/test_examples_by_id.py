"""Examples that a server is asked about by the ids of their seeds."""

from __future__ import annotations

import pytest

from tfx_gnn.components.graph_skew_validator.examples_by_id import ExamplesById
from tfx_gnn.components.graph_skew_validator.skew_accumulator import ExampleBlock, ExamplePair
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = """
node_sets { key: "user" value { features { key: "#id" value { dtype: DT_STRING } } } }
node_sets { key: "item" value { features { key: "#id" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value {} }
edge_sets { key: "knows" value { source: "user" target: "user" } }
edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""
HOPS = (Hop(edge_set="knows", fan_out=2),)
HOPS_OF_PAIR = (Hop(edge_set="knows", fan_out=2, inputs=("source",)),)
NODES = SamplingPlan(seed_node_set="user", hops=HOPS)
INDUCTIVE = SamplingPlan(seed_node_set="user", hops=HOPS, splits=SplitPlan(visibility="inductive"))
PAIRS = SamplingPlan(
    seed_edge_set="buys", hops=HOPS_OF_PAIR, negatives=Negatives(num_per_positive=1, own_subgraphs=True)
)


@pytest.fixture
def collect(tmp_path):
    def made(plan, limit=8, splits=("test", "train")):
        extra = tmp_path / "assets.extra"
        extra.mkdir()
        (extra / "graph_schema.pbtxt").write_text(SCHEMA)
        if plan is not None:
            RecordedPlan(plan=plan, sampling_seed=0).write(str(extra / "sampling_plan.json"))
        return ExamplesById(str(tmp_path), splits=splits, limit=limit)

    return made


def block(records, split="train", prefix="graphs"):
    file = RecordFile(split=split, shard=0, num_shards=1, path=f"/Split-{split}/{prefix}-00000-of-00001.gz")
    pairs = [ExamplePair(file=file, record=i, raw=record, transformed=b"") for i, record in enumerate(records)]
    return ExampleBlock(pairs=tuple(pairs), raw=tuple(records))


@pytest.fixture
def user(make_record):
    """The example of a user, which is the second node of its subgraph."""
    return lambda name: make_record(
        {"nodes/user.#id": ["other", name], "nodes/_readout.#size": [1], "edges/_readout/seed.#source": [1]}
    )


@pytest.fixture
def pair(make_record):
    """The example of one user and some items."""
    return lambda *items, **labels: make_record(
        {
            "nodes/user.#id": ["ann"],
            "nodes/item.#id": list(items),
            "nodes/_readout.#size": [len(items)],
            "edges/_readout/source.#source": [0] * len(items),
            "edges/_readout/target.#source": list(range(len(items))),
            **{f"nodes/_readout.{name}": [value] for name, value in labels.items()},
        }
    )


def instances(found):
    return [one.instance for one in found.chosen]


def test_seeds_are_named_and_spread_over_splits(collect, user):
    found = collect(NODES, limit=4)

    found.add(block([user(name) for name in "abcdef"]))
    found.add(block([user("x")], split="test"))

    assert instances(found) == [{"id": "a"}, {"id": "x"}, {"id": "b"}, {"id": "c"}]
    assert found.chosen[1].place.text() == "record 0 of graphs-00000-of-00001.gz (split 'test', seed 'x')"
    assert (found.objection, found.num_not_comparable) == ("", {})


def test_examples_that_saw_another_graph_are_counted(collect, user):
    found = collect(INDUCTIVE, splits=("test", "train", "val"))

    found.add(block([user("a"), user("b")]))
    found.add(block([user("c")], split="test"))
    found.add(block([user("d")], split="test", prefix="span-4"))

    assert instances(found) == [{"id": "c"}]
    assert found.num_not_comparable == {
        "of a split that may not see all nodes and edges, as a server does": 2,
        "of an earlier span, which the index does not hold": 1,
    }


def test_pairs_are_named_and_others_are_counted(collect, pair, make_record):
    found = collect(PAIRS)

    found.add(block([pair(7, label=1), pair(7, 9), pair(9, label=0), make_record({"nodes/_readout.#size": [1]})]))

    assert instances(found) == [{"source": "ann", "target": 7}]
    assert found.chosen[0].place.id == "ann, 7"
    assert found.num_not_comparable == {
        "of several pairs, while a server samples around one": 1,
        "a negative, which hides its true pair as well": 1,
        "without the id of the seed": 1,
    }


@pytest.mark.parametrize(
    ("plan", "objection"),
    [
        (None, "The model was exported without assets.extra/sampling_plan.json"),
        (
            SamplingPlan(seed_edge_set="buys", hops=HOPS_OF_PAIR, keeps_seed_edge=True),
            "`plan` must not keep its seed edges",
        ),
    ],
)
def test_model_that_ids_cannot_ask_has_none(collect, user, plan, objection):
    found = collect(plan)

    found.add(block([user("a")]))

    assert (found.chosen, found.num_not_comparable) == ([], {})
    assert found.objection.startswith(objection)

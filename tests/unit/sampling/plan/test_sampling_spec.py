import types

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.sampling_spec_pb2 import SamplingSpec
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.sampling_spec import plan_from_sampling_spec, read_sampling_spec
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = parse_schema("""
node_sets { key: "paper" value { features { key: "topic" value { dtype: DT_STRING } } } }
node_sets { key: "author" value { } }
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "written" value {
  source: "paper" target: "author"
  features { key: "weight" value { dtype: DT_FLOAT } } features { key: "#weight" value { dtype: DT_INT64 } } } }
edge_sets { key: "wrote" value {
  source: "author" target: "paper" features { key: "weight" value { dtype: DT_FLOAT } } } }
edge_sets { key: "said" value {
  source: "paper" target: "paper" features { key: "weight" value { dtype: DT_STRING } } } }
""")
SEED = 'seed_op { op_name: "root" node_set_name: "paper" }'
LINK = 'symmetric_link_seed_op { op_name: "pair" }'


@pytest.fixture(scope="module")
def oracle() -> types.ModuleType:
    """tensorflow-gnn, where there is one for this Python."""
    pytest.importorskip("tensorflow_gnn", reason="tensorflow-gnn ends with Python 3.10")
    import tensorflow_gnn.sampler

    return tensorflow_gnn


def _spec(text):
    return text_format.Parse(text, SamplingSpec())


def _op(name, edge_set="cites", inputs=("root",), more="sample_size: 5 strategy: RANDOM_UNIFORM"):
    names = " ".join(f'input_op_names: "{name}"' for name in inputs)
    return f'sampling_ops {{ op_name: "{name}" {names} edge_set_name: "{edge_set}" {more} }}'


def _hops(*operations):
    return plan_from_sampling_spec(_spec(SEED + "".join(operations)), SCHEMA).hops


def test_operations_become_hops_of_their_names():
    plan = plan_from_sampling_spec(
        _spec(SEED + _op("one") + _op("two", "written", ["root", "one"], "sample_size: 3 strategy: RANDOM_WEIGHTED")),
        SCHEMA,
        label_features=("topic",),
        splits=SplitPlan(weights={"train": 1, "test": 1}),
    )

    assert plan == SamplingPlan(
        seed_node_set="paper",
        hops=(
            Hop(name="one", edge_set="cites", fan_out=5),
            Hop(
                name="two",
                edge_set="written",
                fan_out=3,
                inputs=("seed", "one"),
                strategy="weighted",
                weight_feature="#weight",
            ),
        ),
        expands_seed_again=True,
        label_features=("topic",),
        splits=SplitPlan(weights={"train": 1, "test": 1}),
    )


@pytest.mark.parametrize(
    ("edge_set", "strategy", "expected"),
    [
        ("written", "strategy: TOP_K", ("top_k", "#weight")),
        ("written", "", ("top_k", "#weight")),
        ("wrote", "", ("top_k", "weight")),
        ("wrote", "strategy: RANDOM_WEIGHTED", ("weighted", "weight")),
        ("wrote", "strategy: RANDOM_UNIFORM", ("uniform", "")),
        ("cites", "strategy: TOP_K", ("uniform", "")),
        ("cites", "strategy: RANDOM_WEIGHTED", ("uniform", "")),
    ],
)
def test_weights_are_those_of_the_edge_set_and_equal_where_it_has_none(edge_set, strategy, expected):
    seed = f'seed_op {{ op_name: "root" node_set_name: "{SCHEMA.edge_sets[edge_set].source}" }}'

    plan = plan_from_sampling_spec(_spec(seed + _op("hop", edge_set, more=f"sample_size: 2 {strategy}")), SCHEMA)

    assert (plan.hops[0].strategy, plan.hops[0].weight_feature) == expected


def test_an_input_that_is_named_twice_counts_once():
    assert _hops(_op("one", inputs=["root", "root"]))[0].inputs == ("seed",)


def test_operations_are_put_behind_those_they_start_from():
    hops = _hops(_op("c", inputs=["b", "a"]), _op("b", inputs=["a"]), _op("a"), _op("d"))

    assert [hop.name for hop in hops] == ["a", "b", "c", "d"]


def test_a_spec_without_operations_leaves_the_seeds():
    assert _hops() == ()


def test_a_pair_of_seeds_is_expanded_at_both_ends():
    plan = plan_from_sampling_spec(
        _spec(LINK + _op("one", inputs=["pair"]) + _op("two", "written", ["one", "pair"], "sample_size: 1")),
        SCHEMA,
        seed_edge_set="cites",
        seed_table=SeedTable(filename="pairs.csv"),
    )

    assert (plan.seed_node_set, plan.seed_edge_set) == ("", "cites")
    assert [hop.inputs for hop in plan.hops] == [("source", "target"), ("one", "source", "target")]
    assert plan.expands_seed_again


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`seed_type` .* must be seed_op or symmetric_link_seed_op; got neither"),
        ("seed_op { }", "`op_name` must not be empty; got an empty one in seed_op"),
        (LINK, "`seed_edge_set` must name .* got none for symmetric_link_seed_op 'pair'"),
        ('seed_op { op_name: "r" node_set_name: "x" }', r"`node_set_name` must be one of .*got 'x' in seed_op 'r'"),
        (SEED + _op(""), r"`op_name` must not be empty; got an empty one in sampling_ops\[0\]"),
        (SEED + _op("a") + _op("a"), r"`op_name` must be different .* got 'a' again in sampling_ops\[1\]"),
        (SEED + _op("root"), r"`op_name` must be different .* got 'root' again in sampling_ops\[0\]"),
        (SEED + _op("source"), r"`op_name` must be none of .* got 'source' in sampling_ops\[0\]"),
        (SEED + _op("a", inputs=[]), "`input_op_names` must name at least one operation; got none in sampling op 'a'"),
        (SEED + _op("a", inputs=["b"]), "`input_op_names` must be one of .* got 'b' in sampling op 'a'"),
        (SEED + _op("a", inputs=["b"]) + _op("b", inputs=["a"]), r"must not form a cycle; got .* \['a', 'b'\]"),
        (SEED + _op("a", inputs=["a"]), r"must not form a cycle; got .* \['a'\]"),
        (SEED + _op("a", "x"), "`edge_set_name` must be one of .* got 'x' in sampling op 'a'"),
        (SEED + _op("a", more=""), "`sample_size` must be at least 1; got none in sampling op 'a'"),
        (SEED + _op("a", more="sample_size: -2"), "`sample_size` must be at least 1; got -2 in sampling op 'a'"),
        (SEED + _op("a", "said", more="sample_size: 2"), "must be one number for each .* got 'weight' .* in hop 'a'"),
        (SEED + _op("a", "wrote"), "must end in node set 'author', .* got 'seed', .* in hop 'a'"),
    ],
)
def test_a_spec_that_means_nothing_here_is_refused_with_the_name_of_the_operation(text, message):
    with pytest.raises(ValueError, match=message):
        plan_from_sampling_spec(_spec(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (SEED, {"hops": ()}, "must not hold what the spec decides; got 'hops'"),
        (SEED, {"expands_seed_again": False}, "must not hold what the spec decides; got 'expands_seed_again'"),
        (SEED, {"seed_node_set": "author"}, "`seed_node_set` must agree with the spec; got 'author'"),
        (SEED, {"seed_edge_set": "cites"}, "`seed_edge_set` must agree with the spec; got 'cites'"),
        (LINK, {"seed_edge_set": "x"}, "`seed_edge_set` must be one of .* got 'x' in symmetric_link_seed_op 'pair'"),
        (LINK, {"seed_edge_set": "wrote"}, r"must lead from one node set to the same.*\['author', 'paper'\]"),
    ],
)
def test_fields_beside_the_spec_must_fit_it(text, fields, message):
    with pytest.raises(ValueError, match=message):
        plan_from_sampling_spec(_spec(text), SCHEMA, **fields)


def test_pairs_must_fit_the_readout_of_a_schema_that_has_one():
    schema = parse_schema(str(SCHEMA))
    schema.node_sets["_readout"].SetInParent()
    for end in ("source", "target"):
        schema.edge_sets[f"_readout/{end}"].source = "author"
        schema.edge_sets[f"_readout/{end}"].target = "_readout"

    with pytest.raises(ValueError, match=r"got 'cites' with the node sets \['author', 'paper'\]"):
        plan_from_sampling_spec(_spec(LINK), schema, seed_edge_set="cites")


def test_a_file_reads_back_and_a_mistake_in_it_is_placed(tmp_path):
    good, bad = tmp_path / "good.pbtxt", tmp_path / "bad.pbtxt"
    good.write_text(SEED + _op("one"))
    bad.write_text(SEED + "\nsampling_ops { size: 5 }")

    assert read_sampling_spec(str(good)) == _spec(SEED + _op("one"))
    with pytest.raises(ValueError, match=r"got a mistake in .*bad.pbtxt. Correct it: 2:\d+"):
        read_sampling_spec(str(bad))
    with pytest.raises(ValueError, match=", not a file"):
        read_sampling_spec(str(tmp_path / "none.pbtxt"))


def test_specs_of_the_oracles_builder_are_read_as_they_are(oracle, tmp_path):
    import tensorflow_gnn.proto.graph_schema_pb2 as oracle_pb2

    schema = text_format.Parse(str(SCHEMA), oracle_pb2.GraphSchema())
    seed = oracle.sampler.SamplingSpecBuilder(schema).seed("paper")
    cited = seed.sample([7, 3], "cites")
    authors = oracle.sampler.SamplingStrategy.RANDOM_UNIFORM
    spec = seed.join([cited]).sample(2, "written", authors).sample(1, "wrote").build()
    path = tmp_path / "sampling_spec.pbtxt"
    path.write_text(text_format.MessageToString(spec))

    plan = plan_from_sampling_spec(read_sampling_spec(str(path)), SCHEMA)

    names = [operation.op_name for operation in spec.sampling_ops]
    assert [hop.name for hop in plan.hops] == names
    described = {(hop.edge_set, hop.fan_out, hop.strategy, len(hop.inputs)) for hop in plan.hops}
    assert described == {
        ("cites", 7, "uniform", 1),
        ("cites", 3, "uniform", 1),
        ("written", 2, "uniform", 2),
        ("wrote", 1, "top_k", 1),
    }
    assert {hop.inputs for hop in plan.hops if hop.edge_set == "written"} == {("seed", "paper->paper.2")}

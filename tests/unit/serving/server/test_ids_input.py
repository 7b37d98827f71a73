"""Requests that name nodes of a graph index."""

import base64
import dataclasses
import json
import struct
import time

import pytest
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature
from tfx_gnn.graph.schema.schema_io import read_schema, write_schema
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_snapshot import snapshot_of_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.serving.server.graph_rows import GraphRows
from tfx_gnn.serving.server.ids_input import AskedSeed, SeedInput, UnknownNodes, records_of
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.model_versions import ModelVersions
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

PREDICT, INFER, SAMPLE = "/v1/models/toy:predict", "/v2/models/toy/infer", "/v1/models/toy:sample"
SHELVES = RecordedPlan(plan=SamplingPlan(seed_node_set="shelf"), sampling_seed=0)
ITEM_PLAN = SamplingPlan(seed_node_set="item", hops=(Hop(edge_set="near", fan_out=2),))
PAIRS = RecordedPlan(
    plan=SamplingPlan(seed_edge_set="on", hops=(Hop(edge_set="near", fan_out=1, inputs=("source",)),)), sampling_seed=0
)


def tensor(values, **more):
    return {"inputs": [{"name": "ids", "shape": [len(values)], "datatype": "BYTES", "data": values, **more}]}


def asked(name, **rows):
    return {"instances": [{"id": name, **rows}]}


def item(*names):
    return {"item": {"#id": list(names), "x": [2.5] * len(names)}}


def near(source, *targets):
    return {"near": {"#source": [source] * len(targets), "#target": list(targets)}}


def labels_of(reply):
    assert reply.status == 200, reply.body
    return [(row["id"], row["label"]) for row in reply.json["predictions"]]


def samples(sampler, *ids):
    return sampler.sample(sampler.find({"seed": ids}))


def sampled_count(metrics):
    return metrics.registry.get_sample_value("tfx_gnn_sampling_seconds_count")


@pytest.fixture
def make_input(items_index, items_graph, tmp_path):
    """Makes what reads ids for a model with some plan, whose requests hold what the plan samples."""

    def make(recorded):
        extra = tmp_path / "assets.extra"
        extra.mkdir(exist_ok=True)
        recorded.write(str(extra / "sampling_plan.json"))
        write_schema(RecordSampler(items_index, recorded).schema, str(extra / "graph_schema.pbtxt"))
        return SeedInput(items_graph, str(tmp_path), ServerMetrics())

    return make


def test_seeds_of_a_table_are_sampled_as_of_the_time_of_the_request(make_input, items_index):
    table = SeedTable(filename="s.csv", features={"time": "int64"}, input_features=("time",), now_feature="time")
    plan = dataclasses.replace(ITEM_PLAN, seed_table=table)
    seeds = make_input(RecordedPlan(plan=plan, sampling_seed=0))
    (expected,) = samples(RecordSampler(items_index, RecordedPlan(plan=ITEM_PLAN, sampling_seed=0)), "w")

    start = int(time.time())
    asked = [
        seeds.read({"id": "w", "context": {"time": 5}}, "instances[0]"),
        seeds.read("w", "ids[0]"),
        seeds.read({"id": "v", "nodes": item("v"), "context": {"time": "2026-02-01T00:00:00Z"}}, "instances[1]"),
    ]
    examples = [tf.train.Example.FromString(record) for record in seeds.sample([*asked, *seeds.warmup_items()])]
    times = [one.features.feature.pop("context/time").int64_list.value[0] for one in examples]

    assert [times[0], times[2]] == [5, 1_769_904_000]
    assert start <= times[1] <= times[3] <= time.time()
    assert examples[0].SerializeToString(deterministic=True) == expected
    with pytest.raises(Refusal, match=r"`instances\[0\]` must have keys among .*'context'"):
        make_input(RecordedPlan(plan=ITEM_PLAN, sampling_seed=0)).read({"id": "w", "context": {}}, "instances[0]")


@pytest.mark.parametrize(("age", "is_old"), [(86_400 * 40, True), (60, False)])
def test_an_old_graph_that_is_asked_as_of_now_is_told(tmp_path, caplog, age, is_old):
    tables, index_dir, extra = tmp_path / "tables", tmp_path / "index", tmp_path / "assets.extra"
    for folder in (tables, index_dir, extra):
        folder.mkdir()
    (tables / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { metadata { filename: "n.csv" } } }'
        'edge_sets { key: "e" value { source: "n" target: "n"'
        ' features { key: "at" value { dtype: DT_INT64 } } metadata { filename: "e.csv" } } }'
    )
    (tables / "n.csv").write_text("id\na\nb\n")
    (tables / "e.csv").write_text(f"source,target,at\na,b,5\nb,a,{int(time.time()) - age}\na,a,7\n")
    schema = read_tables_schema(str(tables))
    write_graph_index(str(index_dir), schema, layouts_of(schema, str(tables)))
    index = open_graph_index(str(index_dir))
    table = SeedTable(filename="s.csv", features={"time": "int64"}, input_features=("time",), now_feature="time")
    plan = SamplingPlan(
        seed_node_set="n",
        seed_table=table,
        hops=(Hop(edge_set="e", fan_out=2),),
        temporal=Temporal(seed_time="time", edge_times={"e": "at"}),
    )
    recorded = RecordedPlan(plan=plan, sampling_seed=0)
    recorded.write(str(extra / "sampling_plan.json"))
    write_schema(RecordSampler(index, recorded).schema, str(extra / "graph_schema.pbtxt"))

    seeds = SeedInput(ServedGraph(index, ServerOptions(), ServerMetrics()), str(tmp_path), ServerMetrics())

    assert ("requests that leave `context.time` out ask as of now" in caplog.text) is is_old
    counts = [
        tf.train.Example.FromString(record).features.feature["edges/e.#size"].int64_list.value[0]
        for record in seeds.sample([seeds.read({"id": "a", "context": {"time": at}}, "") for at in (5, 6, 8)])
    ]
    assert counts == [0, 1, 2]


def test_new_edges_that_nothing_can_be_drawn_by_are_refused_before_they_are_in_the_way(tmp_path):
    """An edge with a negative weight would fail every later request that reaches its source."""
    tables, index_dir, extra = tmp_path / "tables", tmp_path / "index", tmp_path / "assets.extra"
    for folder in (tables, index_dir, extra):
        folder.mkdir()
    (tables / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { metadata { filename: "n.csv" } } }'
        'edge_sets { key: "e" value { source: "n" target: "n"'
        ' features { key: "w" value { dtype: DT_FLOAT } } metadata { filename: "e.csv" } } }'
    )
    (tables / "n.csv").write_text("id\na\nb\n")
    (tables / "e.csv").write_text("source,target,w\na,b,1\n")
    schema = read_tables_schema(str(tables))
    write_graph_index(str(index_dir), schema, layouts_of(schema, str(tables)))
    index = open_graph_index(str(index_dir))
    hop = Hop(edge_set="e", fan_out=2, strategy="weighted", weight_feature="w")
    recorded = RecordedPlan(plan=SamplingPlan(seed_node_set="n", hops=(hop,)), sampling_seed=0)
    recorded.write(str(extra / "sampling_plan.json"))
    write_schema(RecordSampler(index, recorded).schema, str(extra / "graph_schema.pbtxt"))
    seeds = SeedInput(ServedGraph(index, ServerOptions(), ServerMetrics()), str(tmp_path), ServerMetrics())

    def edges(*weights):
        return {"e": {"#source": ["b"] * len(weights), "#target": ["a"] * len(weights), "w": list(weights)}}

    seeds.check_weights(GraphRows(nodes={}, edges=edges(0, 0.5, "1")), "")
    for weight in (-1, float("nan"), float("inf"), -1e300):
        with pytest.raises(Refusal, match=r"at least 0; got .* in 'w' of `edges\.e\.w\[1\]`\.") as refused:
            seeds.check_weights(GraphRows(nodes={}, edges=edges(1, weight)), "")
        assert refused.value.status == 400
    with pytest.raises(Refusal, match=r"got -1\.0 in 'w' of `instances\[0\]\.edges\.e\.w\[0\]`\."):
        seeds.read({"id": "b", "edges": edges(-1)}, "instances[0]")


def test_ids_are_answered_as_the_examples_of_training(items_server, items_index, items_plan):
    records = samples(RecordSampler(items_index, items_plan), "x", "w", "y", "z")
    examples = [{"b64": base64.b64encode(record).decode()} for record in records]

    by_id = items_server.ask("POST", PREDICT, {"instances": [{"id": name} for name in "xwyz"]})

    assert labels_of(by_id) == [("x", "blue"), ("w", "red"), ("y", "red"), ("z", "blue")]
    assert by_id.json == items_server.ask("POST", PREDICT, {"instances": examples}).json
    mixed = items_server.ask("POST", PREDICT, {"instances": [{"id": "x"}, examples[1], {"ids": "y"}]})
    # Vectorized functions may differ in the last bit between batches of three and of four.
    assert labels_of(mixed) == labels_of(by_id)[:3]
    for one, same in zip(mixed.json["predictions"], by_id.json["predictions"], strict=False):
        assert one["probabilities"] == pytest.approx(same["probabilities"], rel=1e-6)


@pytest.mark.parametrize("path", [SAMPLE, "/v1/models/toy/versions/1:sample"])
def test_examples_that_the_model_would_be_asked_about_are_answered(items_server, items_index, items_plan, path):
    new = {"nodes": item("v"), "edges": near("v", "w")}
    whole = snapshot_of_index(items_index)
    records = samples(RecordSampler(items_index, items_plan), "x", "w")
    with_new = samples(RecordSampler(whole.with_rows(nodes=item("v"), edges=near("v", "w")), items_plan), "v")
    example = {"b64": base64.b64encode(records[1]).decode()}
    graph = {"node_sets": {"item": {"#id": ["y"], "x": [0.5]}}, "readout": {"seed": 0}}

    reply = items_server.ask("POST", path, {"instances": [{"id": "x"}, example, {"id": "v", **new}, graph]})

    assert (reply.status, reply.headers["x-model-version"]) == (200, "1")
    assert list(reply.json) == ["examples"]
    found = [base64.b64decode(one["b64"]) for one in reply.json["examples"]]
    assert found[:3] == [records[0], records[1], with_new[0]]
    # What was answered can be asked about.
    by_example = items_server.ask("POST", PREDICT, {"instances": reply.json["examples"]})
    assert labels_of(by_example) == [("x", "blue"), ("w", "red"), ("v", "red"), ("y", "red")]


def test_columns_of_ids_are_answered_as_columns(items_server):
    reply = items_server.ask("POST", PREDICT, {"inputs": {"ids": ["x", {"b64": base64.b64encode(b"w").decode()}]}})

    assert reply.json["outputs"]["label"] == ["blue", "red"]


def test_tensors_of_ids_are_answered(items_server):
    data = b"".join(struct.pack("<I", len(name)) + name for name in (b"x", b"w"))
    head = json.dumps(tensor(["x", "w"], data=None, parameters={"binary_data_size": len(data)})).encode()
    replies = [
        items_server.ask("POST", INFER, tensor(["x", "w"])),
        items_server.ask("POST", INFER, head + data, {"Inference-Header-Content-Length": str(len(head))}),
    ]

    for reply in replies:
        outputs = {output["name"]: output["data"] for output in reply.json["outputs"]}
        assert (outputs["id"], outputs["label"]) == (["x", "w"], ["blue", "red"])


def test_model_and_metrics_tell_of_ids(items_server, toy_server):
    items_server.ask("POST", PREDICT, {"instances": [{"id": "x"}, {"id": "w"}]})
    lines = items_server.ask("GET", "/metrics").body.decode().splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    assert float(counts["tfx_gnn_ids_total"]) >= 2
    assert float(counts["tfx_gnn_sampling_seconds_count"]) >= 1
    inputs = items_server.ask("GET", "/v2/models/toy").json["inputs"]
    assert {"name": "ids", "datatype": "BYTES", "shape": [-1]} in inputs
    assert [one["name"] for one in toy_server.ask("GET", "/v2/models/toy").json["inputs"]] == ["examples", "graphs"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (PREDICT, {"instances": [{"id": "x"}, {"id": "q"}, {"id": "p"}]}, 404, r"`instances\[1\].id` .*'q', one of 2"),
        (PREDICT, {"instances": [{"id": 7}]}, 400, r"`instances\[0\].id` must be a text or .*got 7"),
        (PREDICT, {"instances": [{"id": None}]}, 400, "must be a text or .*got None"),
        (PREDICT, {"instances": [{"id": "\ud800"}]}, 400, "half of a surrogate pair"),
        (PREDICT, {"instances": [{"id": {"b64": "/w=="}}]}, 400, "must be text in UTF-8"),
        (PREDICT, {"instances": [{"id": "x", "hops": 2}]}, 400, r"`instances\[0\]` must have keys among .*'hops'"),
        (PREDICT, {"instances": [{"source": "x", "target": 7}]}, 400, r"`instances\[0\]` must be a text or"),
        (PREDICT, {"instances": [{"source": "x"}]}, 400, r"`instances\[0\]` must be a text or"),
        (PREDICT, {"instances": [{"id": "x", "nodes": []}]}, 400, r"`instances\[0\].nodes` must be an object of sets"),
        (PREDICT, asked("v", nodes={"item": [1]}), 400, r"`instances\[0\].nodes.item` must be an object of columns"),
        (PREDICT, asked("v", nodes={"item": {"#id": "v"}}), 400, r"`instances\[0\].nodes.item.#id` must be a list"),
        (
            PREDICT,
            asked("v", nodes={}, edges={"near": {}}),
            400,
            r"`instances\[0\].edges` must hold 1 to 4 rows; got 0",
        ),
        (PREDICT, asked("v", nodes=item(*"abcde")), 400, r"must hold 1 to 4 rows; got 5"),
        (PREDICT, asked("v", nodes={"itme": {"#id": ["v"]}}), 400, r"In `instances\[0\]`, `nodes/itme` must be a set"),
        (PREDICT, asked("v", nodes={"item": {"#id": ["v"]}}), 400, r"must have the columns \['#id', 'x'\]"),
        (PREDICT, asked("x", nodes=item("x")), 409, "must be new nodes; got 'x', which is there already"),
        (PREDICT, asked("v", nodes=item("v"), edges=near("v", "q")), 404, "#target among the nodes of 'item'; got 'q'"),
        (PREDICT, asked("v", nodes=item("u")), 404, r"`instances\[0\].id` must be the id of a node of 'item' .*'v'"),
        (PREDICT, {"inputs": {"ids": "x"}}, 400, "`inputs.ids` must be a list"),
        (PREDICT, {"inputs": {"ids": []}}, 400, "examples; got 0"),
        (SAMPLE, {"instances": [{"id": "x"}, {"id": "q"}]}, 404, r"`instances\[1\].id` must be the id of a node .*'q'"),
        (SAMPLE, {"instances": []}, 400, "A request must hold 1 to 1024 examples; got 0"),
        (SAMPLE, {"inputs": {"ids": ["x"]}}, 400, r"The body must have 'instances' alone; got \['inputs'\]"),
        (SAMPLE, {"instances": [], "signature_name": ""}, 400, "must have 'instances' alone"),
        (INFER, tensor(["q"]), 404, r"`inputs\[0\].data\[0\]` must be the id of a node of 'item' .*'q'"),
        (INFER, tensor([7], datatype="INT64"), 400, "must be a text or .*got 7"),
        (INFER, tensor([0.5], datatype="FP32"), 400, "datatype` must be 'BYTES' or 'INT64' for 'ids'; got 'FP32'"),
    ],
)
def test_id_is_refused_and_the_server_goes_on(items_server, path, body, status, message):
    reply = items_server.ask("POST", path, body)

    assert reply.status == status
    with pytest.raises(ValueError, match=message):
        raise ValueError(reply.json["error"])
    assert labels_of(items_server.ask("POST", PREDICT, {"instances": [{"id": "w"}]})) == [("w", "red")]


def test_requests_of_a_batch_are_sampled_together_and_unknown_ids_fail_alone(make_input, items_plan, items_index):
    source = make_input(items_plan)
    w, x, unknown = (
        AskedSeed(ids={"seed": name}, places={"seed": f"the id {name}"}, place="") for name in ("w", "x", "q")
    )

    first, refused, last = records_of([[w], [x, unknown], [b"example", x]], source)

    sampled = samples(RecordSampler(items_index, items_plan), "w", "x")
    assert (first, last) == ([sampled[0]], [b"example", sampled[1]])
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.reason) == (404, "unknown_id")
    assert "`the id q` must be the id of a node of 'item'" in refused.message
    assert sampled_count(source._metrics) == 1
    assert records_of([[b"example"], []], source) == [[b"example"], []]
    assert sampled_count(source._metrics) == 1


def test_new_nodes_are_answered_but_not_kept(items_server):
    new = {"nodes": item("v"), "edges": near("v", "x", "y", "z")}

    reply = items_server.ask("POST", PREDICT, {"instances": [{"id": "w"}, {"id": "v", **new}, {"id": "x"}]})

    assert labels_of(reply) == [("w", "red"), ("v", "red"), ("x", "blue")]
    assert items_server.ask("POST", PREDICT, {"instances": [{"id": "v"}]}).status == 404
    assert items_server.ask("POST", PREDICT, asked("v", **new)).json["predictions"] == reply.json["predictions"][1:2]


def test_rows_of_a_request_are_sampled_for_it_alone(make_input, items_plan, items_index):
    source = make_input(items_plan)
    edges = near("x", "y", "z")
    plain, changed, refused, new = (
        source.read(value, "here")
        for value in (
            "x",
            {"id": "x", "edges": edges},
            {"id": "x", "nodes": item("x")},
            {"id": "v", "nodes": item("v"), "edges": near("v", "w")},
        )
    )

    found = source.sample([plain, changed, refused, new, plain])

    whole = snapshot_of_index(items_index)
    assert found[0] == found[4] == samples(RecordSampler(items_index, items_plan), "x")[0]
    assert found[1] == samples(RecordSampler(whole.with_rows(edges=edges), items_plan), "x")[0] != found[0]
    assert isinstance(found[2], Refusal)
    with_new = whole.with_rows(nodes=item("v"), edges=near("v", "w"))
    assert found[3] == samples(RecordSampler(with_new, items_plan), "v")[0]


def test_new_nodes_need_no_labels(make_input):
    source = make_input(RecordedPlan(plan=dataclasses.replace(ITEM_PLAN, label_features=("x",)), sampling_seed=0))
    values = [{"id": "v", "nodes": {"item": {"#id": ["v"], **x}}} for x in ({}, {"x": [0.0]}, {"x": [1.0]})]

    found = source.sample([source.read(value, "here") for value in values])

    assert isinstance(found[0], bytes)
    assert found[0] == found[1] == found[2]


def test_new_nodes_need_no_columns_that_only_split_seeds(make_version, items_plan, items_tables, items_index, tmp_path):
    schema = read_tables_schema(str(items_tables))
    layouts = layouts_of(schema, str(items_tables), extra_columns={"item": ["x"]})
    (tmp_path / "index").mkdir()
    write_graph_index(str(tmp_path / "index"), schema, layouts)
    indexes = items_index, open_graph_index(str(tmp_path / "index"))
    graphs = [ServedGraph(index, ServerOptions(), ServerMetrics()) for index in indexes]
    folder = make_version(str(tmp_path / "models"), 1, items_plan)
    new = {"id": "v", "nodes": item("v"), "edges": near("v", "w")}

    plain, split = (
        source.sample([source.read(new, "here")])
        for source in (SeedInput(graph, folder, ServerMetrics()) for graph in graphs)
    )

    assert isinstance(plain[0], bytes)
    assert plain == split


def test_integers_are_read_as_integers(make_input):
    source = make_input(SHELVES)

    assert source.datatype == "INT64"
    assert source.read(-3, "here").ids == {"seed": -3}
    assert isinstance(source.sample([source.read(7, "here")])[0], bytes)
    for wrong in ("7", b"7", True, 7.0, 2**63):
        with pytest.raises(Refusal, match="`here` must be an integer of 64 bits, as the ids of 'shelf' are; got"):
            source.read(wrong, "here")


def test_pairs_are_read_as_pairs(make_input):
    source = make_input(PAIRS)
    pair = source.read({"source": "w", "target": -3}, "here")

    assert (source.are_pairs, source.datatype) == (True, "BYTES")
    assert isinstance(source.sample([pair])[0], bytes)
    with pytest.raises(Refusal, match="`here` must be a pair of ids, because the model predicts links; got 'w'"):
        source.read("w", "here")
    with pytest.raises(Refusal, match=r"`here\.target` must be an integer"):
        source.read({"source": "w", "target": "7"}, "here")
    both = [dataclasses.replace(pair, ids={"source": "q", "target": 8}), pair]
    missing, record = source.sample(both)
    assert missing == UnknownNodes(roots=("source", "target"))
    assert isinstance(record, bytes)
    assert "`here.source` must be the id of a node of 'item'" in source.unknown_ids([(both[0], missing)]).message


def test_version_that_ids_cannot_ask_is_not_served(items_graph, items_plan, make_version, tmp_path):
    make_version(str(tmp_path), 1, items_plan)
    versions = ModelVersions(str(tmp_path), 2, ServerMetrics(), graph=items_graph)
    versions.refresh()
    make_version(str(tmp_path), 2)
    versions.refresh()

    assert [one.version for one in versions.served] == [1]
    assert "must hold a model with assets.extra/sampling_plan.json, to be asked by ids" in versions.failures[2]

    other = dataclasses.replace(items_plan, plan=dataclasses.replace(items_plan.plan, hops=()))
    make_version(str(tmp_path), 3, other)
    versions.refresh()

    # Each version samples by its own plan.
    assert [one.version for one in versions.served] == [3, 1]
    (newest,), (oldest,) = (one.seeds.sample(one.seeds.warmup_items()) for one in versions.served)
    assert b"edges/near" not in newest
    assert b"edges/near" in oldest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda schema: schema.node_sets["item"].features["age"].MergeFrom(Feature(dtype=1)),
            "node set 'item' has no feature 'age'",
        ),
        (lambda schema: schema.node_sets["user"].SetInParent(), "node set 'user' is not sampled"),
        (lambda schema: schema.edge_sets["on"].SetInParent(), "edge set 'on' is not sampled"),
        (lambda schema: schema.context.features["day"].MergeFrom(Feature(dtype=1)), "the context has no feature 'day'"),
        (
            lambda schema: schema.node_sets["item"].features["x"].MergeFrom(Feature(dtype=9)),
            r"feature 'x' of node set 'item' is float32 of shape \[\], not int64 of shape \[\]",
        ),
    ],
)
def test_index_of_another_graph_is_refused(make_input, items_graph, tmp_path, change, message):
    make_input(RecordedPlan(plan=SamplingPlan(seed_node_set="item"), sampling_seed=0))
    path = str(tmp_path / "assets.extra" / "graph_schema.pbtxt")
    schema = read_schema(path)
    change(schema)
    write_schema(schema, path)

    with pytest.raises(ValueError, match=f"must hold the graph that the model was trained on; got .*{message}"):
        SeedInput(items_graph, str(tmp_path), ServerMetrics())


def test_plan_of_another_graph_is_refused(make_input, items_plan, items_graph, tmp_path):
    make_input(items_plan)
    other = SamplingPlan(seed_node_set="user")
    RecordedPlan(plan=other, sampling_seed=0).write(str(tmp_path / "assets.extra" / "sampling_plan.json"))

    with pytest.raises(ValueError, match=r"can be asked by ids of the graph index.*Cause: `seed_node_set` must be one"):
        SeedInput(items_graph, str(tmp_path), ServerMetrics())

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tfx_gnn.io import options_json
from tfx_gnn.models import GraphClassification, NodeClassification, NodeRegression
from tfx_gnn.sampling import GraphLevelExamples, Hop, SamplingPlan, SplitPlan, Temporal
from tfx_gnn_pipelines.assembly import build_components, component_ids
from tfx_gnn_pipelines.bulk_inference import BulkInferenceOptions
from tfx_gnn_pipelines.config import step_names
from tfx_gnn_pipelines.option_changes import with_dotted
from tfx_gnn_pipelines.project import Project, read_given, read_project, with_options
from tfx_gnn_pipelines.task import load_task

FILE = """
num_epochs: 3
prediction: {class_weights: balanced}
beam_args: [--runner=DirectRunner]
graph_trainer:
  hyperparameters: {units: 64, learning_rate: 1e-3}
  batching: {success_ratio: 0.9}
graph_pusher: {num_verification_requests: 2}
"""


@pytest.fixture
def task(tiny_project):
    return load_task("tiny_project.task:TASK")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text(FILE)
    return str(path)


def configured(task, given, tmp_path):
    return with_options(Project(task=task, folder=str(tmp_path)), given).configure()


def test_file_changes_what_it_names_and_nothing_else(task, file, tmp_path):
    before = configured(task, {}, tmp_path)

    config = configured(task, read_given(file, []), tmp_path)

    assert config.graph_trainer.num_epochs == 3
    assert isinstance(config.graph_trainer.task, NodeClassification)
    assert config.graph_trainer.task.class_weights == "balanced"
    assert config.graph_trainer.task.label_feature == before.graph_trainer.task.label_feature
    assert config.graph_evaluator.task == config.graph_trainer.task
    # 1e-3 is a text in YAML 1.1.
    assert config.graph_trainer.hyperparameters == {"units": 64, "learning_rate": 0.001}
    assert (config.graph_trainer.batching.success_ratio, config.graph_trainer.batching.kind) == (0.9, "packed")
    assert config.graph_pusher.num_verification_requests == 2
    assert config.beam_args == ("--runner=DirectRunner",)
    for name in {*step_names()} - {"graph_trainer", "graph_evaluator", "graph_pusher"}:
        assert getattr(config, name) == getattr(before, name)


def test_assignments_win_over_the_file_and_shortcuts_over_both(task, file, tmp_path):
    assignments = ["graph_trainer.hyperparameters.units=32", "graph_trainer.num_epochs=4", "num_epochs=5"]

    given = with_dotted(read_given(file, assignments), {"graph_trainer.training_seed": 7})

    trainer = configured(task, given, tmp_path).graph_trainer
    assert trainer.hyperparameters == {"units": 32, "learning_rate": 0.001}
    assert (trainer.num_epochs, trainer.training_seed) == (4, 7)


def test_task_of_another_kind_replaces_the_whole_one(task, tmp_path):
    given = read_given("", ["prediction={kind: node_regression, label_feature: price}"])

    config = configured(task, given, tmp_path)

    assert config.graph_trainer.task == config.graph_evaluator.task == NodeRegression(label_feature="price")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "graph_trainr.num_epochs=3",
            r"`graph_trainr` must be an .* got it in --set graph_trainr.num_epochs=3. Did you mean 'g",
        ),
        ("graph_trainer.num_epoch=3", r"`graph_trainer` must have no fields but .*; got \['num_epoch'\]"),
        ("graph_trainer.num_epochs=many", r"`num_epochs` must be an integer; got 'many' in `graph_trainer`"),
        ("graph_trainer.num_epochs=0", r"`num_epochs` must be at least 1; got 0.* This is an option of graph_trainer."),
        ("graph_trainer.task.label_feature=x", r"`graph_trainer.task` must be left out, .* Set `prediction` instead"),
        ("graph_trainer.num_epochs", r"`--set` must have the form NAME=VALUE; got 'graph_trainer.num_epochs'"),
        ("graph_trainer..x=1", r"`--set` must have the form NAME=VALUE; got 'graph_trainer..x=1'"),
        ("graph_trainer=[", r"`--set graph_trainer` must be YAML; got text that is not"),
        ("graph_trainer=", r"`graph_trainer` must be an object with fields of a GraphTrainerOptions; got None"),
        ("beam_args=x", r"`beam_args` must be a list; got 'x'"),
        ("num_epochs=!!binary aGk=", r"`--set num_epochs` must hold texts, numbers, lists and mappings; got another"),
    ],
)
def test_mistake_is_named_with_its_place_and_the_remedy(task, tmp_path, assignment, message):
    with pytest.raises(ValueError, match=message):
        configured(task, read_given("", [assignment]), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["prediction={kind: graph_classification, label_feature: topic}"],
            r"`prediction` must be of seeds where `plan` .*; got 'graph_classification'. .* `pooling: mean`",
        ),
        (
            ["plan=null", "graph_level_examples={}"],
            r"`prediction` must be of graphs where `graph_level_examples` .*; got 'node_classification'",
        ),
        (
            ["plan=null", "graph_level_examples={}", "prediction={kind: link_prediction}"],
            r"`prediction` must be of graphs where `graph_level_examples` .*; got 'link_prediction'",
        ),
    ],
)
def test_label_where_the_examples_have_none_is_refused_without_preprocessing(task, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        configured(task, read_given("", ["preprocessing_fn=''", *changes]), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph_trainr: {}", r"`graph_trainr` must be .* got it in '.*options.yaml'. Did you mean 'graph_trainer'\?"),
        ("- num_epochs", r"`.*options.yaml` must hold options by name; got \['num_epochs'\]"),
        ("{", r"`.*options.yaml` must be YAML; got text that is not"),
        ("num_epochs: !!binary aGk=", r"`.*options.yaml` must hold texts, numbers, lists and mappings; got another"),
        (
            "num_epochs: 3\nroot: x\nnum_epochs: 4",
            r"`.*options.yaml` must have each key once; got `num_epochs` in line 3 and in line 1",
        ),
        ("root: x\nbeam_args: &a [*a]", r"`.*options.yaml` must hold values that end; got one .* itself in line 2"),
        ("root: x\nplan: &a {hops: *a}", r"`.*options.yaml` must hold values that end; got one .* itself in line 2"),
        ("num_epochs: 010", r"`.*options.yaml` must have numbers in base 10; got 010 in line 1, which .* in base 8"),
        ("plan:\n  n: -1:30", r"`.*options.yaml` must have numbers in base 10; got -1:30 in line 2, which .* base 60"),
        ("n: 1:30.5", r"`.*options.yaml` must have numbers in base 10; got 1:30.5 in line 1, which .* in base 60"),
    ],
)
def test_file_that_holds_no_options_is_refused(tmp_path, text, message):
    path = tmp_path / "options.yaml"
    path.write_text(text)

    with pytest.raises(ValueError, match=message):
        read_given(str(path), [])


@pytest.mark.parametrize(("encoding", "line"), [("latin-1", 2), ("utf-16", 1), ("utf-16-le", 1), ("cp1252", 2)])
def test_file_in_another_encoding_is_refused(tmp_path, encoding, line):
    path = tmp_path / "options.yaml"
    path.write_bytes("num_epochs: 3\ndescription: läden\n".encode(encoding))

    with pytest.raises(
        ValueError, match=rf"`.*options.yaml` must be text in UTF-8; got other bytes in line {line}. Save"
    ):
        read_given(str(path), [])


def test_yaml_may_repeat_values_and_change_a_merged_key(tmp_path):
    path = tmp_path / "options.yaml"
    text = "graph_trainer: &t {num_epochs: 3, training_seed: 7}\ngraph_tuner: {trainer: {<<: *t, num_epochs: 0x10}}\n"
    path.write_bytes(text.encode("utf-8-sig"))

    given = read_given(str(path), ["graph_trainer.training_seed=0", "description='1:30'"])

    assert given["graph_trainer"] == {"num_epochs": 3, "training_seed": 0}
    assert given["graph_tuner"] == {"trainer": {"num_epochs": 16, "training_seed": 7}}
    assert given["description"] == "1:30"


def test_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match=r"`--options` must name a file; got 'none.yaml', which is not there"):
        read_given("none.yaml", [])


def test_example_of_the_document_fits(task, tmp_path):
    document = (Path(__file__).parents[2] / "docs/options.md").read_text()
    path = tmp_path / "options.yaml"
    path.write_text(document.partition("# options.yaml\n")[2].partition("```")[0])

    config = configured(task, read_given(str(path), []), tmp_path)

    assert config.graph_trainer.execution.jit_compile
    assert config.graph_trainer.num_epochs == 30


def test_project_of_the_document_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    document = (Path(__file__).parents[2] / "docs/options.md").read_text()
    (tmp_path / "project.yaml").write_text(document.partition("# project.yaml\n")[2].partition("```")[0])

    project = read_project(str(tmp_path))

    assert project.task.plan.hops[0].edge_set == "purchase"
    assert project.task.step_options["graph_tuner"]["num_trials"] == 20


def test_document_names_every_key():
    document = (Path(__file__).parents[2] / "docs/options.md").read_text()
    table = document.partition("## Names")[2].partition("\n\nA mapping")[0]
    named = set(re.findall(r"`(\w+)`", table))

    with pytest.raises(ValueError, match="`x` must be an option among") as refusal:
        read_given("", ["x=1"])

    allowed = set(re.findall(r"'(\w+)'", str(refusal.value).partition("; got")[0]))
    classes = {"PipelineTask", "PredictionTask", "SubgraphExampleGenOptions", "PipelineConfig"}
    assert named - allowed == {"task", *classes}
    assert allowed <= named


def test_graphs_of_tables_are_a_task(task, tmp_path):
    examples = GraphLevelExamples(label_features=("is_toxic",), splits=SplitPlan(weights={"train": 8, "val": 2}))
    graphs = dataclasses.replace(
        task,
        plan=None,
        graph_level_examples=examples,
        prediction=GraphClassification(label_feature="is_toxic", num_classes=2),
    )

    config = configured(graphs, {}, tmp_path)

    assert config.subgraph_example_gen.graph_level_examples == examples
    assert config.graph_example_validator.split_order == ("train", "val")
    assert config.graph_example_validator.label_features == ("is_toxic",)
    with pytest.raises(ValueError, match=r"`plan` or `graph_level_examples` must be given, and only one .* got both"):
        dataclasses.replace(graphs, plan=task.plan)


PROJECT = """
name: small
tables_dir: data
plan: {seed_node_set: user, label_features: [interest], hops: [{edge_set: purchase, fan_out: 3}]}
preprocessing_fn: small_code:preprocessing_fn
model_fn: small_code:model_fn
prediction: {kind: node_classification, label_feature: interest, num_classes: 4}
push_destination: served
graph_pusher: {num_verification_requests: 2}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    path = tmp_path / "small"
    path.mkdir()
    (path / "project.yaml").write_text(PROJECT)
    (path / "small_code.py").write_text("preprocessing_fn = model_fn = lambda graph: graph\n")
    return path


def test_project_file_holds_all_options_and_paths_from_its_folder(folder, monkeypatch):
    project = read_project(str(folder), assignments=["graph_trainer.num_epochs=3"])

    config = project.configure()

    assert config.subgraph_example_gen.plan.hops[0].fan_out == 3
    assert config.tables_dir == str(folder / "data")
    assert (config.root, config.push_destination) == (str(folder / "runs" / "small"), str(folder / "served"))
    assert (config.graph_pusher.num_verification_requests, config.graph_trainer.num_epochs) == (2, 3)
    assert sys.path[0] == str(folder)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(folder), "elsewhere"])
    assert read_project(str(folder / "project.yaml"), assignments=["graph_trainer.num_epochs=3"]) == project
    monkeypatch.chdir(folder)
    assert dataclasses.replace(read_project(""), task=project.task).configure() == config
    # Without a root, a compiled pipeline takes that of the cluster.
    assert project.configure(is_remote=True).root == ""


def test_project_file_may_name_a_task_of_python(folder, task):
    (folder / "project.yaml").write_text(
        "task: tiny_project.task:TASK\nnum_epochs: 7\ngraph_trainer: {training_seed: 5}\n"
    )

    config = read_project(str(folder)).configure()

    assert (config.graph_trainer.num_epochs, config.graph_trainer.training_seed) == (7, 5)
    assert config.subgraph_example_gen.plan == task.plan


def test_task_of_python_holds_options_of_steps(task, tmp_path):
    own = dataclasses.replace(
        task, step_options={"graph_trainer": {"training_seed": 5, "hyperparameters": {"units": 8}}}
    )

    trainer = configured(own, read_given("", ["graph_trainer.hyperparameters.rate=0.5"]), tmp_path).graph_trainer

    assert (trainer.training_seed, trainer.hyperparameters) == (5, {"units": 8, "rate": 0.5})
    with pytest.raises(ValueError, match=r"`step_options` must name steps among .*; got \['trainer'\]"):
        configured(dataclasses.replace(task, step_options={"trainer": {}}), {}, tmp_path)


def test_search_trains_as_the_pipeline_does_but_for_what_it_says(task, tmp_path):
    search = "{search_space: {units: {kind: choice, values: [8, 16]}}, num_trials: 2, trainer: {num_epochs: 1}}"

    config = configured(task, read_given("", ["graph_trainer.training_seed=5", f"graph_tuner={search}"]), tmp_path)

    assert configured(task, {}, tmp_path).graph_tuner is None
    assert (config.graph_tuner.num_trials, config.graph_tuner.trainer.num_epochs) == (2, 1)
    assert config.graph_tuner.trainer == dataclasses.replace(config.graph_trainer, num_epochs=1)
    assert component_ids(config)[4:7] == ("SizeConstraintLearner", "GraphTuner", "GraphTrainer")
    components = {component.id: component for component in build_components(config)}
    (found,) = components["GraphTuner"].outputs.values()
    assert components["GraphTrainer"].inputs["best_hyperparameters"] is found
    with pytest.raises(ValueError, match=r"`search_space` must be given for a GraphTunerOptions; got .*`graph_tuner`"):
        configured(task, read_given("", ["graph_tuner.num_trials=2"]), tmp_path)


def test_latest_blessed_model_is_found_and_wired_into_the_evaluator(task, tmp_path):
    config = configured(task, read_given("", ["latest_blessed_model_resolver={}"]), tmp_path)

    assert configured(task, {}, tmp_path).latest_blessed_model_resolver is None
    assert component_ids(config)[:2] == ("SubgraphExampleGen", "LatestBlessedModelResolver")
    components = {component.id: component for component in build_components(config)}
    resolver = components["LatestBlessedModelResolver"]
    assert resolver.exec_properties["push_destination"] == config.push_destination
    assert resolver.exec_properties["latest_version"] == "0"
    assert components["GraphEvaluator"].inputs["blessed_model"] is resolver.outputs["blessed_model"]


def test_data_are_compared_with_those_of_the_latest_blessed_model_on_request(task, tmp_path):
    asked = ["graph_example_validator.compares_with_latest_blessed=true"]
    config = configured(task, read_given("", [*asked, "latest_blessed_model_resolver={}"]), tmp_path)

    components = {component.id: component for component in build_components(config)}

    resolver, validator = components["LatestBlessedModelResolver"], components["GraphExampleValidator"]
    assert validator.inputs["blessed_model"] is resolver.outputs["blessed_model"]
    assert components["GraphPusher"].inputs["statistics"] is validator.outputs["statistics"]
    with pytest.raises(ValueError, match="`blessed_model` must be given with `compares_with_latest_blessed`"):
        build_components(configured(task, read_given("", asked), tmp_path))


def test_training_starts_from_the_latest_blessed_model_on_request_and_trials_do_not(task, tmp_path):
    asked = ["graph_trainer.warm_start=same_network"]
    search = "graph_tuner.search_space={units: {kind: choice, values: [2, 4]}}"
    config = configured(task, read_given("", [*asked, search, "latest_blessed_model_resolver={}"]), tmp_path)

    components = {component.id: component for component in build_components(config)}

    resolver = components["LatestBlessedModelResolver"]
    assert components["GraphTrainer"].inputs["blessed_model"] is resolver.outputs["blessed_model"]
    assert config.graph_tuner.trainer.warm_start == "none"
    with pytest.raises(ValueError, match=r"`blessed_model` must be given with `warm_start`.*resolver: {}` to a p"):
        build_components(configured(task, read_given("", asked), tmp_path))
    with pytest.raises(ValueError, match="`trainer` must train each trial from the start; got warm_start='same_netw"):
        configured(task, read_given("", [*asked, search, "graph_tuner.trainer.warm_start=same_network"]), tmp_path)


def test_run_reads_the_span_that_is_the_newest_when_it_starts(task, tmp_path):
    for span in ("1", "2"):
        shutil.copytree(task.tables_dir, tmp_path / "data" / span)
    pattern = str(tmp_path / "data" / "{SPAN}")
    given = {"tables_dir": pattern}

    config = configured(task, given, tmp_path)

    assert (config.tables_dir, config.tables_pattern, config.span) == (str(tmp_path / "data" / "2"), pattern, "2")
    parameters = build_components(config)[0].exec_properties
    assert (parameters["tables_dir"], parameters["span"]) == (pattern, "2")
    named = configured(task, with_dotted(given, read_given("", ["span=1"])), tmp_path)
    assert (named.tables_dir, named.span) == (str(tmp_path / "data" / "1"), "1")
    # Copies of the same tables are another span, though.
    assert parameters["tables_fingerprint"] == build_components(named)[0].exec_properties["tables_fingerprint"]


def test_window_hands_what_it_counted_to_the_next_one_by_the_pushed_model(task, tmp_path):
    for span in ("1", "2", "3"):
        shutil.copytree(task.tables_dir, tmp_path / "data" / span)
    table = next(tmp_path.glob("data/2/*.csv"))
    table.write_text(f"{table.read_text().strip()}\n")
    given = {"tables_dir": str(tmp_path / "data" / "{SPAN}"), "subgraph_example_gen": {"num_spans": 2}}
    given |= {"latest_blessed_model_resolver": {}, "graph_bulk_inferrer": {}}

    config = configured(task, given, tmp_path)

    assert config.find_tables_folders() == (str(tmp_path / "data" / "2"), str(tmp_path / "data" / "3"))
    components = {component.id: component for component in build_components(config)}
    made, transform = components["SubgraphExampleGen"], components["GraphTransform"]
    assert made.exec_properties["num_spans"] == 2
    assert components["InferenceExampleGen"].exec_properties["num_spans"] == 1
    assert transform.inputs["blessed_model"] is components["LatestBlessedModelResolver"].outputs["blessed_model"]
    assert components["GraphPusher"].inputs["analyzer_cache"] is transform.outputs["updated_analyzer_cache"]
    table.write_text(f"{table.read_text()}\n")
    (again, *_) = build_components(config)
    assert again.exec_properties["tables_fingerprint"] != made.exec_properties["tables_fingerprint"]


def test_compiled_pipeline_leaves_the_span_to_each_run(task, tmp_path):
    def remote(**given):
        project = with_options(Project(task=task, folder=str(tmp_path)), {"root": "gs://bucket/root", **given})
        return project.configure(is_remote=True)

    config = remote(tables_dir="gs://bucket/{SPAN}", span=3)

    assert (config.tables_dir, config.tables_pattern, config.span) == ("gs://bucket/{SPAN}", "", "3")
    assert config.tables_fingerprint.startswith("compiled ")
    with pytest.raises(ValueError, match=r"`tables_dir` must have placeholders among .*got \{WEEK\}"):
        remote(tables_dir="gs://bucket/{WEEK}")
    with pytest.raises(ValueError, match=r"`span` must be left out, unless .*; got '3' for 'gs://bucket/tables'"):
        remote(tables_dir="gs://bucket/tables", span=3)


def test_answers_in_bulk_are_of_every_node_and_only_by_a_blessed_model(task, tmp_path):
    given = "graph_bulk_inferrer={outputs: [predictions, embeddings], num_shards: 5}"
    config = configured(task, read_given("", [given]), tmp_path)

    assert configured(task, {}, tmp_path).graph_bulk_inferrer is None
    assert component_ids(config)[-3:] == ("GraphPusher", "InferenceExampleGen", "GraphBulkInferrer")
    components = {component.id: component for component in build_components(config)}
    assert tuple(components) == component_ids(config)
    asked, inferrer = components["InferenceExampleGen"], components["GraphBulkInferrer"]
    plan = options_json.from_json(asked.exec_properties["plan"], SamplingPlan)
    assert (plan.label_features, plan.splits.names, plan.hops) == ((), ("all",), config.subgraph_example_gen.plan.hops)
    assert asked.exec_properties["num_shards"] == 5
    assert asked.upstream_nodes == {components["GraphEvaluator"]}
    assert asked.inputs["same_span_as"].producer_component_id == "SubgraphExampleGen"
    assert {name: channel.producer_component_id for name, channel in inferrer.inputs.items()} == {
        "examples": "InferenceExampleGen",
        "model": "GraphTrainer",
        "blessing": "GraphEvaluator",
        "infra_blessing": "GraphSkewValidator",
    }
    assert inferrer.exec_properties["outputs"] == '["predictions", "embeddings"]'


def test_answers_layer_by_layer_are_of_an_index_of_the_span_that_was_trained_on(task, tmp_path):
    shutil.copytree(task.tables_dir, tmp_path / "data" / "1")
    given = {"tables_dir": str(tmp_path / "data" / "{SPAN}")}
    given |= {"subgraph_example_gen": {"rules": {"dangling_edges": "drop"}, "execution": "beam"}}
    given |= {"graph_trainer": {"export": {"layerwise_inference": True}}}

    config = configured(task, given | {"graph_layerwise_inferrer": {"neighborhoods": "full"}}, tmp_path)

    assert configured(task, given, tmp_path).graph_indexer is None
    assert component_ids(config)[-3:] == ("GraphPusher", "GraphIndexer", "GraphLayerwiseInferrer")
    components = {component.id: component for component in build_components(config)}
    assert tuple(components) == component_ids(config)
    assert components["GraphIndexer"].exec_properties["execution"] == '"beam"'
    indexer, inferrer = components["GraphIndexer"], components["GraphLayerwiseInferrer"]
    assert {name: channel.producer_component_id for name, channel in indexer.inputs.items()} == {
        "same_span_as": "SubgraphExampleGen"
    }
    sampled = components["SubgraphExampleGen"].exec_properties
    for name in ("tables_dir", "span", "tables_fingerprint", "rules", "access"):
        assert indexer.exec_properties[name] == sampled[name], name
    assert components["GraphEvaluator"] in indexer.upstream_nodes
    assert {name: channel.producer_component_id for name, channel in inferrer.inputs.items()} == {
        "graph_index": "GraphIndexer",
        "model": "GraphTrainer",
        "blessing": "GraphEvaluator",
        "infra_blessing": "GraphSkewValidator",
    }
    assert inferrer.exec_properties["neighborhoods"] == '"full"'


def test_skew_gate_asks_a_server_with_the_one_index_of_the_pipeline(task, tmp_path):
    asked = {"graph_skew_validator": {"asks_server": True, "max_served_by_id": 9}}
    layers = {"graph_trainer": {"export": {"layerwise_inference": True}}, "graph_layerwise_inferrer": {}}

    for given, inferrers in ((asked, ()), (asked | layers, ("GraphLayerwiseInferrer",))):
        config = configured(task, given, tmp_path)

        assert component_ids(config)[-3 - len(inferrers) :] == (
            "GraphIndexer",
            "GraphSkewValidator",
            "GraphPusher",
            *inferrers,
        )
        components = {component.id: component for component in build_components(config)}
        assert tuple(components) == component_ids(config)
        validator = components["GraphSkewValidator"]
        assert validator.inputs["graph_index"].producer_component_id == "GraphIndexer"
        assert validator.exec_properties["max_served_by_id"] == 9
        # It waits for nothing but its input, the examples.
        assert not components["GraphIndexer"].upstream_nodes
        assert list(components["GraphIndexer"].inputs) == ["same_span_as"]


def test_index_of_a_plan_with_times_tells_edges_apart_by_them(task, tmp_path):
    temporal = Temporal(seed_time="year", edge_times={"cites": "year"})
    dated = dataclasses.replace(task, plan=dataclasses.replace(task.plan, temporal=temporal))

    config = configured(dated, {"graph_skew_validator": {"asks_server": True}}, tmp_path)

    assert config.graph_indexer.edge_times == {"cites": "year"}


def test_skew_gate_that_could_ask_nothing_is_refused_before_training(task, tmp_path):
    def configure(task, **compared):
        return configured(task, {"graph_skew_validator": {"asks_server": True, **compared}}, tmp_path)

    inductive = dataclasses.replace(task.plan, splits=SplitPlan(visibility="inductive"))
    with pytest.raises(ValueError, match=r"got true for splits \['train'\]\. Subgraphs of each split that is compared"):
        configure(dataclasses.replace(task, plan=inductive), splits=["train"])
    plan = SamplingPlan(seed_edge_set="cites", hops=(Hop(edge_set="cites", fan_out=2, inputs=("source",)),))
    with pytest.raises(ValueError, match=r"`graph_skew_validator.asks_server` must be false .* Subgraphs of each"):
        configure(dataclasses.replace(task, plan=plan))
    graphs = GraphLevelExamples(splits=SplitPlan())
    with pytest.raises(ValueError, match=r"`graph_skew_validator.asks_server` must be false .* have no seeds"):
        configure(dataclasses.replace(task, plan=None, graph_level_examples=graphs))


def test_answers_layer_by_layer_are_refused_before_training_where_there_can_be_none(task, tmp_path):
    layers = {"graph_trainer": {"export": {"layerwise_inference": True}}}

    def configure(task, **given):
        return configured(task, {**given, "graph_layerwise_inferrer": {}}, tmp_path)

    with pytest.raises(ValueError, match=r"`graph_trainer.export.layerwise_inference` must be true .*got false"):
        configure(task)
    plan = SamplingPlan(seed_edge_set="cites", hops=(Hop(edge_set="cites", fan_out=2, inputs=("source",)),))
    with pytest.raises(ValueError, match=r"`seed_edge_set` must be left out .*that is `graph_bulk_inferrer`"):
        configure(dataclasses.replace(task, plan=plan), **layers)
    graphs = GraphLevelExamples(splits=SplitPlan())
    with pytest.raises(ValueError, match=r"`graph_layerwise_inferrer` must be left out for graph-level examples"):
        configure(dataclasses.replace(task, plan=None, graph_level_examples=graphs), **layers)


def test_answers_in_bulk_of_pairs_need_a_table(task, tmp_path):
    plan = SamplingPlan(seed_edge_set="cites", hops=(Hop(edge_set="cites", fan_out=2, inputs=("source",)),))
    links = dataclasses.replace(task, plan=plan)

    with pytest.raises(ValueError, match=r"`ids` must name a table of the seeds .* an option of graph_bulk_inferrer"):
        configured(links, read_given("", ["graph_bulk_inferrer={}"]), tmp_path)

    config = configured(links, read_given("", ["graph_bulk_inferrer.ids=pairs.csv"]), tmp_path)
    assert config.inference_example_gen.plan.seed_table.filename == "pairs.csv"


def test_answers_go_to_bigquery_only_from_cloud_storage(task, tmp_path):
    table = ["graph_bulk_inferrer.bigquery_table=shop.answers"]

    with pytest.raises(ValueError, match=r"`root` must be on Cloud Storage for .* 'shop.answers'; got .*run without"):
        configured(task, read_given("", table), tmp_path)

    config = configured(task, read_given("", [*table, "graph_bulk_inferrer.bigquery_table=''"]), tmp_path)
    assert config.graph_bulk_inferrer == BulkInferenceOptions()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: small", r"`tables_dir` must be given for a PipelineTask; got .* in `.*project.yaml`"),
        (
            PROJECT.replace("name: small", "name: Small-1"),
            r"`name` must have .* an option of .*project.yaml",
        ),
        (
            PROJECT.replace("name: small", "name: läden"),
            r"`name` must have .*; got 'läden'.* an option of .*project.yaml",
        ),
        (
            PROJECT.replace("tables_dir: data", "tables_dir: ''"),
            r"`tables_dir` must name the folder of the tables; got ''. .* an option of .*project.yaml",
        ),
        (PROJECT.replace("preprocessing_fn:", "preprocesing_fn:"), r"`preprocesing_fn` must be .* Did you mean 'prep"),
        (
            PROJECT.replace("fan_out: 3", "fan_out: many"),
            r"`plan.hops.0.fan_out` must be an integer; .* in `.*.yaml`",
        ),
        (PROJECT.replace("fan_out: 3", "fanout: 3"), r"must have no fields but .*'fan_out'.*; got \['fanout'\]"),
        ("task: 3", r"`task` must be 'package.module:ATTRIBUTE', a bundled name, or a mapping .*; got 3"),
        ("[1]", r"project.yaml` must hold options by name; got \[1\]"),
        ("pipelineInfo: {}", r"`PROJECT` must be a project; got the compiled pipeline .* Run it with --runner spec"),
    ],
)
def test_mistake_of_a_project_file_is_named(folder, text, message):
    (folder / "project.yaml").write_text(text)

    with pytest.raises(ValueError, match=message):
        read_project(str(folder)).configure()


def test_what_is_no_project_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`PROJECT` must be a folder with project.yaml; got .* without one"):
        read_project(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"`PROJECT` must name a file; got 'none.yaml'"):
        read_project("none.yaml")
    with pytest.raises(ValueError, match=r"got 'debian_section'. Did you mean 'debian_sections'\?"):
        read_project("debian_section")


def test_error_of_a_nested_option_is_not_its_own_cause():
    with pytest.raises(ValueError, match="rules") as refusal:
        with_options(read_project("debian_sections"), {"subgraph_example_gen": {"rules": {"x": 1}}}).configure()

    assert refusal.value.__cause__ is not refusal.value

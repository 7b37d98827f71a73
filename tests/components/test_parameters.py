from __future__ import annotations

import dataclasses
import shutil
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

import tfx_gnn
from tfx_gnn.components import SubgraphExampleGen, SubgraphExampleGenOptions, parameters
from tfx_gnn.components.subgraph_example_gen.executor import Executor
from tfx_gnn.models import GraphRegression, LinkPrediction, MultiTask, NodeClassification, Task
from tfx_gnn.sampling import SamplingPlan, SplitPlan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    function: str
    count: int = 1
    share: float = 0.5
    flag: bool = False
    limit: int | None = None
    inner: Inner = Inner()
    by_name: dict[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"`count` must not be negative; got {self.count}. Give a count.")


class Spec(ComponentSpec):
    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "folder": ExecutionParameter(type=str),
        **parameters.execution_parameters(Options, parameters.CODE_FINGERPRINT),
    }
    INPUTS: ClassVar[dict[str, ChannelParameter]] = {}
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {"examples": ChannelParameter(type=standard_artifacts.Examples)}


OPTIONS = Options(function="tfx_gnn.io.fingerprint:fingerprint_text")
MAX_EXACT_INT = 2**53

# What JSON of options may hold.
integers = st.integers(-(2**63), 2**63 - 1)
any_options = st.builds(
    Options,
    function=st.text(),
    count=st.integers(0, MAX_EXACT_INT),
    share=st.floats(allow_nan=False),
    flag=st.booleans(),
    limit=st.none() | integers,
    inner=st.builds(Inner, names=st.lists(st.text()).map(tuple)),
    by_name=st.dictionaries(st.text(), integers),
)


def fill(runtime_parameters=None, **arguments):
    return parameters.fill_spec(
        Spec, OPTIONS, runtime_parameters, code="function", **{"folder": "/somewhere", **arguments}
    )


def test_scalars_travel_as_they_are_and_all_else_as_json():
    options = dataclasses.replace(OPTIONS, flag=True, inner=Inner(names=("a", "b")), by_name={"z": 1, "a": 2})

    assert parameters.to_exec_properties(options) == {
        "function": "tfx_gnn.io.fingerprint:fingerprint_text",
        "count": 1,
        "share": 0.5,
        "flag": "true",
        "limit": "null",
        "inner": '{"names": ["a", "b"]}',
        "by_name": '{"a": 2, "z": 1}',
    }


@given(any_options)
def test_options_survive_the_wire(options):
    assert parameters.from_exec_properties(Options, parameters.to_exec_properties(options)) == options


@given(any_options)
def test_options_survive_a_wire_with_one_kind_of_number(options):
    as_kubeflow = {
        name: float(value) if isinstance(value, int) else value
        for name, value in parameters.to_exec_properties(options).items()
    }

    assert parameters.from_exec_properties(Options, as_kubeflow) == options


def test_whole_number_is_a_legal_float_option():
    properties = parameters.to_exec_properties(dataclasses.replace(OPTIONS, share=1))

    assert properties["share"] == 1.0
    assert isinstance(properties["share"], float)


def test_integer_that_kubeflow_would_round_is_refused():
    with pytest.raises(ValueError, match=r"`count` must lie in \[-2\*\*53, 2\*\*53\].*got 9007199254740993"):
        parameters.to_exec_properties(dataclasses.replace(OPTIONS, count=MAX_EXACT_INT + 1))


def test_other_parameters_are_not_options():
    properties = {**parameters.to_exec_properties(OPTIONS), "library_version": "0", "folder": "/x"}

    assert parameters.from_exec_properties(Options, properties) == OPTIONS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1.5}, "`count` must be of type int; got 1.5"),
        ({"count": "1"}, "`count` must be of type int; got '1'"),
        ({"share": "0.5"}, "`share` must be of type float; got '0.5'"),
        ({"function": 3}, "`function` must be of type str; got 3"),
        ({"inner": "{"}, "`text` must be JSON that describes a Inner"),
        ({"count": -1}, "`count` must not be negative; got -1"),
    ],
)
def test_value_that_cannot_be_the_option_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        parameters.from_exec_properties(Options, {**parameters.to_exec_properties(OPTIONS), **change})


def test_missing_parameter_is_refused():
    with pytest.raises(ValueError, match="`exec_properties` must hold 'function' of Options; got \\['count'\\]"):
        parameters.from_exec_properties(Options, {"count": 1})


def test_spec_carries_options_fingerprint_and_library_version():
    properties = fill().exec_properties

    assert properties["folder"] == "/somewhere"
    assert properties["count"] == 1
    assert len(properties["code_fingerprint"]) == 64
    assert properties["library_version"] == tfx_gnn.__version__


def test_spec_makes_output_channels_of_the_declared_types():
    assert fill().outputs["examples"].type is standard_artifacts.Examples


def test_runtime_parameter_takes_the_place_of_an_option():
    epochs = RuntimeParameter(name="epochs", ptype=int)
    folder = RuntimeParameter(name="where", ptype=str)

    properties = fill({"count": epochs, "folder": folder}).exec_properties

    assert properties["count"] is epochs
    assert properties["folder"] is folder
    assert properties["share"] == 0.5


@pytest.mark.parametrize("name", ["counts", "inner", "flag", "function", "code_fingerprint", "library_version"])
def test_runtime_parameter_cannot_override_code_or_what_is_no_scalar_option(name):
    with pytest.raises(ValueError, match=rf"`runtime_parameters` must override one of .*; got '{name}'"):
        fill({name: RuntimeParameter(name="p", ptype=str)})


def test_runtime_parameter_of_another_type_is_refused():
    with pytest.raises(TypeError, match=r"got ptype=<class 'str'> for 'count'.*name='p', ptype=int"):
        fill({"count": RuntimeParameter(name="p", ptype=str)})


def test_code_that_changed_after_the_pipeline_was_built_does_not_run():
    properties = fill().exec_properties

    parameters.check_code_is_unchanged(OPTIONS.function, properties)
    with pytest.raises(ValueError, match="must be the code that the pipeline was built with, fingerprint aaaaaaaaaaaa"):
        parameters.check_code_is_unchanged(OPTIONS.function, {**properties, "code_fingerprint": "a" * 64})


@pytest.fixture
def tables_dir(tmp_path):
    """A graph of one node."""
    (tmp_path / "graph_schema.pbtxt").write_text('node_sets { key: "n" value { metadata { filename: "n.csv" } } }')
    (tmp_path / "n.csv").write_text("id\na\n")
    return str(tmp_path)


def _example_gen(tables_dir, **arguments):
    plan = SamplingPlan(seed_node_set="n", splits=SplitPlan(allows_empty_splits=True))
    options = SubgraphExampleGenOptions(plan=plan)
    return SubgraphExampleGen(tables_dir=tables_dir, options=options, **arguments)


def test_tables_that_changed_after_the_pipeline_was_built_are_refused(tables_dir, tmp_path):
    component = _example_gen(tables_dir)
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "examples")
    (tmp_path / "n.csv").write_text("id\nb\n")

    with pytest.raises(ValueError, match="`tables_dir` must hold the tables that the pipeline was built with"):
        Executor().Do({}, {"examples": [examples]}, component.exec_properties)


def test_examples_are_of_the_newest_span_when_the_component_runs(tables_dir, tmp_path, tmp_path_factory):
    spans = tmp_path_factory.mktemp("spans")
    shutil.copytree(tables_dir, spans / "2026-01-30")
    component = _example_gen(f"{spans}/{{DATE}}", tables_fingerprint="spans")
    shutil.copytree(tables_dir, spans / "2026-01-31")
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "examples")

    Executor().Do({}, {"examples": [examples]}, component.exec_properties)

    assert (examples.span, examples.get_string_custom_property("span_name")) == (20484, "2026-01-31")


def test_hash_of_the_tables_is_that_of_their_span(tables_dir, tmp_path_factory):
    spans = tmp_path_factory.mktemp("spans")
    shutil.copytree(tables_dir, spans / "1")
    pattern = f"{spans}/{{SPAN}}"

    component = _example_gen(pattern)

    same = _example_gen(tables_dir).exec_properties["tables_fingerprint"]
    assert component.exec_properties["tables_fingerprint"] == same
    with pytest.raises(ValueError, match=r"`span` must be a span of .*which has 1; got '2'"):
        _example_gen(pattern, span="2")


@pytest.mark.parametrize(
    "arguments",
    [
        {"tables_fingerprint": "2026-11-20"},
        {"tables_fingerprint": "0" * 64},
        {"runtime_parameters": {"tables_dir": RuntimeParameter(name="tables", ptype=str)}},
    ],
    ids=["named version", "hash of the user", "known at the start"],
)
def test_tables_that_the_pipeline_does_not_know_are_not_compared(tables_dir, arguments):
    component = _example_gen(tables_dir, **arguments)

    assert component.exec_properties["tables_fingerprint"]
    assert parameters.tables_contents(component.exec_properties) == ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
    task: Task


@pytest.mark.parametrize(
    "task",
    [
        NodeClassification(label_feature="y", class_vocabulary="y", class_weights={"a": 2.0}),
        GraphRegression(label_feature="z", num_outputs=2, mean=(0.0, 1.0), std=(2.0, 3.0)),
        MultiTask(tasks={"a": LinkPrediction(hits_at=(1,)), "b": GraphRegression(label_feature="z")}),
    ],
    ids=lambda task: type(task).__name__,
)
def test_tasks_of_every_kind_arrive_as_they_were_sent(task):
    sent = parameters.to_exec_properties(TaskOptions(task=task))

    assert isinstance(sent["task"], str)
    assert parameters.from_exec_properties(TaskOptions, sent) == TaskOptions(task=task)


def test_a_task_of_an_earlier_version_classifies_nodes():
    sent = {"task": '{"class_vocabulary": "v", "label_feature": "y"}'}

    task = parameters.from_exec_properties(TaskOptions, sent).task

    assert task == NodeClassification(label_feature="y", class_vocabulary="v")

import dataclasses
import json

import pytest

from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
    Task,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    fan_out: int = 3

    def __post_init__(self):
        if self.fan_out < 1:
            raise ValueError("`fan_out` must be positive.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    steps: tuple[Step, ...]
    split: str | None = None


def test_nested_options_come_back_equal():
    plan = Plan(steps=(Step(name="a"), Step(name="b", fan_out=9)), split="train")

    text = to_json(plan)

    assert from_json(text, Plan) == plan
    assert text == to_json(from_json(text, Plan))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{",
            "`--plan` must be JSON that describes a Plan; got 1 characters of another kind: Expecting property ",
        ),
        (
            "[" * 100_000,
            "`--plan` must be JSON that describes a Plan; got 100000 characters .*: objects and lists must be",
        ),
        ("[1]", r"`--plan` must be an object with fields of a Plan; got \[1\]. Write {...}."),
        ('{"steps": [], "extra": 1}', r"`--plan` must have no fields but \['split', 'steps'\]; got \['extra'\]. Leave"),
        ('{"steps": [{"name": "a", "fan_out": 0}]}', "`fan_out` must be positive."),
        ("{}", r"`steps` must be given for a Plan; got \[\] in `--plan`. Add it."),
        ('{"steps": {"name": "a"}}', r"`steps` must be a list; got {'name': 'a'} in `--plan`. Write \[...\]"),
        ('{"steps": [{"name": "a"}, {"name": 3}]}', "`steps.1.name` must be a string; got 3 in `--plan`. Write one."),
        (
            '{"steps": [{"nam": "a"}]}',
            r"`steps.0` must have no fields but \['fan_out', 'name'\]; got \['nam'\] in `--p",
        ),
        (
            '{"steps": [{"name": "a", "fan_out": 1, "fan_out": 2}]}',
            "`--plan` must be JSON that describes a Plan; got .*: objects must have each key once; got 'fan_out' again",
        ),
        ('{"steps": [], "split": 3}', "`split` must be a string; got 3 in `--plan`"),
    ],
)
def test_text_that_describes_no_such_value_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        from_json(text, Plan, name="--plan")


@pytest.mark.parametrize("number", ["2.5", "true", '"2"', "1e400"])
def test_what_is_no_whole_number_is_not_cut_to_one(number):
    with pytest.raises(ValueError, match="must be an integer"):
        from_json(f'{{"name": "a", "fan_out": {number}}}', Step)


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1e300", "1" + "0" * 400])
def test_an_integer_that_64_bits_do_not_hold_is_refused(number):
    with pytest.raises(ValueError, match=r"^`fan_out` must be an integer of at most 64 bits; got .* in `--plan`\."):
        from_json(f'{{"name": "a", "fan_out": {number}}}', Step, name="--plan")


def test_the_largest_integer_of_64_bits_is_read():
    step = from_json('{"name": "a", "fan_out": 9223372036854775807}', Step)

    assert step.fan_out == 9223372036854775807


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weight:
    weight: float


def test_an_integer_that_no_float_holds_is_refused():
    with pytest.raises(ValueError, match=r"^`weight` must be a number that a float can hold; got 1000"):
        from_json(f'{{"weight": 1{"0" * 400}}}', Weight)


def test_a_large_integer_is_a_float():
    assert from_json(f'{{"weight": 1{"0" * 300}}}', Weight).weight == 1e300


def test_a_whole_float_is_an_integer():
    step = from_json('{"name": "a", "fan_out": 2.0}', Step)

    assert step.fan_out == 2
    assert type(step.fan_out) is int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switch:
    is_on: bool


@pytest.mark.parametrize(("written", "read"), [("true", True), ("false", False), ("1", True), ("0.0", False)])
def test_a_truth_value_is_read_as_one(written, read):
    assert from_json(f'{{"is_on": {written}}}', Switch).is_on is read


@pytest.mark.parametrize("written", ['"false"', "2", "null"])
def test_what_is_no_truth_value_is_refused(written):
    with pytest.raises(ValueError, match="must be true or false"):
        from_json(f'{{"is_on": {written}}}', Switch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps:
    by_number: dict[int, Step]


def test_keys_may_be_integers_although_json_has_only_strings():
    steps = Steps(by_number={-3: Step(name="a", fan_out=1), 10: Step(name="b", fan_out=2)})

    assert from_json(to_json(steps), Steps) == steps


def test_a_key_that_is_no_integer_is_refused():
    with pytest.raises(ValueError, match="`by_number` must have whole numbers for keys; got 'one' in `text`"):
        from_json('{"by_number": {"one": {"name": "a", "fan_out": 1}}}', Steps)


def test_a_key_that_is_spelled_in_two_ways_is_refused():
    step = '{"name": "a", "fan_out": 1}'

    with pytest.raises(ValueError, match=r"`by_number` must have each whole number once for a key; got \['01', '1'\]"):
        from_json(f'{{"by_number": {{"1": {step}, "01": {step}}}}}', Steps)


CLASSES = NodeClassification(label_feature="y", class_vocabulary="y", class_weights={"a": 2.0})
TASKS = {
    "node_classification": CLASSES,
    "graph_classification": GraphClassification(label_feature="y", num_classes=3, class_weights="balanced"),
    "node_regression": NodeRegression(label_feature="z", num_outputs=2, mean=(0.0, 1.0), std=(2.0, 3.0)),
    "graph_regression": GraphRegression(label_feature="z", standardize=True, pooling="sum|max"),
    "link_prediction": LinkPrediction(scoring="hadamard", hidden_units=(8,), hits_at=(1, 5)),
    "multi_task": MultiTask(tasks={"a": CLASSES, "b": LinkPrediction()}, loss_weights={"b": 0.5}),
}


@pytest.mark.parametrize("kind", TASKS)
def test_every_task_comes_back_from_json_as_any_task_and_as_itself(kind):
    text = to_json(TASKS[kind])

    assert json.loads(text)["kind"] == kind
    assert from_json(text, Task) == TASKS[kind]
    assert from_json(text, type(TASKS[kind])) == TASKS[kind]


def test_a_task_without_a_kind_classifies_nodes():
    task = from_json('{"label_feature": "y", "class_vocabulary": "v"}', Task)

    assert task == NodeClassification(label_feature="y", class_vocabulary="v")


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ('{"kind": "poetry", "label_feature": "y"}', Task, "must be one of .*'node_regression'.*; got 'poetry'"),
        ('{"kind": "link_prediction"}', NodeRegression, r"must be one of \['node_regression'\]; got 'link_prediction'"),
        ('{"kind": ["a"]}', Task, r"`kind` must be one of .*; got \['a'\]"),
        ('{"kind": "node_regression", "label_feature": "y", "units": 3}', Task, r"no fields but .*; got \['units'\]"),
        ('{"kind": "node_regression", "label_feature": "y", "loss": "x"}', Task, "^`loss` must be one of"),
        ('{"kind": "node_regression"}', Task, "^`label_feature` must be given for a NodeRegression; got "),
        ('{"kind": "node_regression", "label_feature": 5}', Task, "^`label_feature` must be a string; got 5"),
        ('{"label_feature": "y", "class_weights": 2}', Task, "`class_weights` must be a string or an object; got 2"),
        ('{"label_feature": "y", "class_weights": {"a": "b"}}', Task, "`class_weights.a` must be a number; got 'b'"),
        (
            '{"kind": "link_prediction", "hits_at": 3}',
            Task,
            r"`hits_at` must be a list; got 3 in `text`. Write \[...\]",
        ),
        ('{"kind": "node_regression", "label_feature": "y", "mean": "12"}', Task, "`mean` must be a list; got '12'"),
        (
            '{"kind": "multi_task", "tasks": {"a": {"kind": "link_prediction", "scoring": 1}}}',
            *(Task, "`tasks.a.scoring` must be a string; got 1"),
        ),
        ("3", Task, "`text` must be an object with fields of a Task; got 3"),
    ],
)
def test_text_that_is_no_task_is_refused(text, kind, cause):
    with pytest.raises(ValueError, match=cause):
        from_json(text, kind)


def test_a_task_of_ones_own_does_not_travel():
    class Poetry(NodeRegression):
        pass

    with pytest.raises(TypeError, match="Others cannot be written to JSON"):
        to_json(Poetry(label_feature="y"))

"""The toy classifier, asked by a server that is a function here."""

from __future__ import annotations

import base64
import json

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.examples_by_id import ExampleById
from tfx_gnn.components.graph_skew_validator.served_by_id import ServedByIdSkew, compare_by_id, differing_features
from tfx_gnn.components.graph_skew_validator.skew_accumulator import ExamplePair
from tfx_gnn.io import options_json
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.server.json_values import plain_rows, write_json
from tfx_gnn.serving.server.temporary_server import RefusedRequestError

FILE = RecordFile(split="test", shard=0, num_shards=1, path="/Split-test/graphs-00000-of-00001.gz")
LABEL = "nodes/_readout.color"


class Server:
    """Answers about some records by their names, as JSON."""

    def __init__(self, records, model, change_answer=lambda answer: answer):
        self._records, self._model, self._change_answer = records, model, change_answer

    def ask(self, verb, instance):
        if instance["id"] not in self._records:
            raise RefusedRequestError("404: no such node")
        record = self._records[instance["id"]]
        if verb == "sample":
            return {"b64": base64.b64encode(record).decode()}
        columns = {name: plain_rows(values) for name, values in self._model.outputs_of([record]).items()}
        return json.loads(write_json(self._change_answer({name: rows[0] for name, rows in columns.items()})))


@pytest.fixture(scope="module")
def saved_model_dir(toy_model_dir):
    return f"{toy_model_dir}/Format-Serving"


@pytest.fixture
def compare(saved_model_dir, toy_records):
    """Compares the examples of the test split with what a server samples and answers for w, x, y and z."""
    trained = dict(zip("wxyz", toy_records["test"], strict=True))
    examples = [
        ExampleById(pair=ExamplePair(file=FILE, record=i, raw=raw, transformed=b""), instance={"id": name})
        for i, (name, raw) in enumerate(trained.items())
    ]
    unlabelled = {name: changed(raw, lambda features: features.pop(LABEL)) for name, raw in trained.items()}

    def run(records=None, **server):
        asked = Server(unlabelled if records is None else records(unlabelled), ServingModel(saved_model_dir), **server)
        return compare_by_id(asked, examples, saved_model_dir, {"of several pairs": 3})

    return run


def changed(record, change):
    example = tf.train.Example.FromString(record)
    change(example.features.feature)
    return example.SerializeToString()


def test_equal_examples_and_answers_are_no_problem(compare):
    found = compare()

    assert found.problems(0.0) == []
    assert (found.num_asked, found.num_other_examples, found.num_refused) == ({"test": 4}, 0, 0)
    assert {output.key: output.num_values for output in found.outputs} == {
        "label": 4,
        "logits": 8,
        "probabilities": 8,
        "score": 4,
    }
    assert found.text() == (
        "by id through a server: 4 of 4 examples equal to the byte, answers 0; not comparable: 3 of several pairs"
    )
    assert options_json.from_json(options_json.to_json(found), ServedByIdSkew) == found


def test_other_subgraphs_and_their_answers_are_named(compare):
    def change(features):
        features["nodes/item.x"].float_list.value[0] = 0.75

    found = compare(lambda records: {**records, "y": changed(records["y"], change)})

    assert (found.num_other_examples, found.num_refused) == (1, 0)
    about_examples, about_answers = found.problems(1e-4)
    place = r"record 2 of graphs-00000-of-00001.gz (split 'test', seed 'y')"
    assert about_examples == (
        "by id, a server refuses 0 of 4 examples, and samples 1 otherwise than training, first "
        f"{place}: nodes/item.x, 0.5 in training, 0.75 when served by id (value 0, of 1 and 1)"
    )
    assert about_answers.startswith("by id, a server returns other logits, probabilities, score: logits: 2 of 8 values")
    assert place in about_answers
    assert found.text().startswith("by id through a server: 3 of 4 examples equal to the byte, answers 0.25")


def test_refused_ids_are_named(compare):
    found = compare(lambda records: {"x": records["x"]})

    assert (found.num_refused, found.num_other_examples) == (3, 0)
    (reason,) = found.problems(1e-4)
    assert reason == (
        "by id, a server refuses 3 of 4 examples, and samples 0 otherwise than training, first "
        "record 0 of graphs-00000-of-00001.gz (split 'test', seed 'w'): 404: no such node"
    )
    assert len(found.first_problems) == 3


def test_other_and_missing_outputs_are_named(compare):
    def change(answer):
        return {**{name: value for name, value in answer.items() if name != "score"}, "label": "green", "rank": 1}

    found = compare(change_answer=change)

    lacking, unknown, other = found.problems(1e-4)
    assert (lacking, unknown) == ("only by example a server returns score", "only by id a server returns rank")
    assert other == (
        "by id, a server returns other label: label: 4 of 4 values differ; 'red' in training, 'green' when served: "
        "record 0 of graphs-00000-of-00001.gz (split 'test', seed 'w')"
    )


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ServedByIdSkew(objection="The model has no plan."), "The model has no plan."),
        (ServedByIdSkew(num_not_comparable={"negatives": 2, "of an earlier span": 1}), "2 are negatives, 1 are of an"),
        (ServedByIdSkew(), "there is none"),
    ],
)
def test_nothing_to_compare_is_a_problem(found, reason):
    (problem,) = found.problems(1e-4)

    assert problem.startswith(f"no example can be compared with what a server samples by id: {reason}")
    assert found.text() == "by id through a server: no example"


def test_features_that_differ_are_listed_with_the_first_values(make_record):
    first = make_record({"a": [1, 2, 3], "b": ["x"], "c": [0.5], **{f"k{i}": [i] for i in range(4)}})
    second = make_record({"a": [1, 2], "b": ["y"]})

    assert differing_features(first, second) == (
        "a, 3 in training, no value when served by id (value 2, of 3 and 2); b; c; k0; k1, and 2 more"
    )
    assert differing_features(second, make_record({"a": [1, 2], "b": ["y"], "n": [float("nan")]})).startswith("n, no")
    assert differing_features(first, first) == ""

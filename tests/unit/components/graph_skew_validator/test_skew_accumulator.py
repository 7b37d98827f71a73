"""Both sides are functions here: a graph is a line of numbers, a paper each."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.answers import ServedAnswers, TrainingAnswer, TrainingAnswers
from tfx_gnn.components.graph_skew_validator.skew_accumulator import ExampleBlock, ExamplePair, SkewAccumulator
from tfx_gnn.records.examples_folder import RecordFile

FILE = RecordFile(split="val", shard=0, num_shards=1, path="/examples/Split-val/graphs.gz")


def graph(records):
    if b"refused" in records:
        raise tf.errors.InvalidArgumentError(None, None, "refused")
    rows = [[float(number) for number in record.split()] for record in records]
    return {"nodes/paper.#size": np.array([len(row) for row in rows]), "nodes/paper.x": np.concatenate(rows)}


def predict(records):
    sums = np.array([[sum(float(number) for number in record.split()), 0.0] for record in records])
    return {"logits": sums, "id": np.array([record.split()[0] for record in records], object)}


def relative_to_batch(answer, key):
    def answer_relatively(records):
        answers = answer(records)
        return {**answers, key: answers[key] / np.abs(answers[key]).max()}

    return answer_relatively


def accumulated(records, served_graph=graph, served_predict=predict, transformed=None, num_pairs=None):
    training = TrainingAnswers(
        answer=lambda given: TrainingAnswer(graph=graph(given), outputs=predict(given)), batch_size=2
    )
    accumulator = SkewAccumulator(training, ServedAnswers(graph=served_graph, predict=served_predict), 2)
    pairs = [
        ExamplePair(file=FILE, record=i, raw=raw, transformed=other)
        for i, (raw, other) in enumerate(zip(records, transformed or records, strict=True))
    ]
    accumulator.add(ExampleBlock(pairs=tuple(pairs[:num_pairs]), raw=tuple(records)))
    return accumulator


def x_of(accumulator):
    (x,) = [feature for feature in accumulator.graphs.features if feature.key == "nodes/paper.x"]
    return x


def logits_of(outputs):
    (logits,) = [output for output in outputs.results if output.key == "logits"]
    return logits


def test_equal_sides_have_no_difference():
    accumulator = accumulated([b"1 2", b"3", b"4 5 6"])

    assert (accumulator.num_examples, accumulator.num_compared) == ({"val": 3}, 3)
    assert (x_of(accumulator).num_values, x_of(accumulator).num_differing) == (6, 0)
    assert (accumulator.rounding.result.num_values, accumulator.rounding.result.num_differing) == (6, 0)
    # The first batch of the block is asked one by one as well.
    assert (logits_of(accumulator.outputs).num_values, logits_of(accumulator.one_by_one).num_values) == (6, 4)


def test_floats_are_those_of_the_whole_block():
    records = [b"1 2", b"3", b"4 8"]

    def rounds_at_the_end(given):
        answers = graph(given)
        answers["nodes/paper.x"][-1] += 1e-5
        return answers

    accumulator = accumulated(records, served_graph=rounds_at_the_end)

    assert (x_of(accumulator).num_differing, x_of(accumulator).item) == (1, 1)
    assert x_of(accumulator).largest_difference == pytest.approx(1e-5)
    assert accumulator.rounding.result.num_differing == 1
    assert accumulator.rounding.result.largest_difference == pytest.approx(1e-5 / 3, rel=1e-4)


def test_block_of_which_only_the_first_examples_are_compared():
    accumulator = accumulated([b"1 2", b"3", b"4 8"], num_pairs=1)

    assert (accumulator.num_examples, x_of(accumulator).num_values, x_of(accumulator).num_differing) == (
        {"val": 1},
        2,
        0,
    )


def test_features_that_depend_on_the_batch_show_as_rounding():
    records = [b"1 2", b"3", b"4 8"]
    accumulator = accumulated(records, served_graph=relative_to_batch(graph, "nodes/paper.x"))

    assert accumulator.rounding.result.largest_difference > 0.1


def test_logits_that_depend_on_the_batch_show_one_by_one():
    accumulator = accumulated([b"1 2", b"9"], served_predict=relative_to_batch(predict, "logits"))

    assert logits_of(accumulator.one_by_one).largest_difference == pytest.approx(1 - 3 / 9)
    assert accumulator.one_by_one.num_other_labels == 0


def test_stray_examples_are_counted_and_the_others_compared():
    records = [b"1 2", b"3", b"4 8", b"refused", b"5", b"6"]
    transformed = [b"1 2", b"7", b"4", b"1", b"5", b"6.5"]

    accumulator = accumulated(records, transformed=transformed)

    assert accumulator.num_of == {"unanswered": 1, "of_another_seed": 2, "of_another_size": 1}
    assert accumulator.num_compared == 2
    assert accumulator.first_of == {
        "unanswered": "record 3 of graphs.gz (split 'val'): refused",
        "of_another_seed": "record 1 of graphs.gz (split 'val', seed '3'): b'7' in training",
        "of_another_size": "record 2 of graphs.gz (split 'val', seed '4')",
    }
    assert (x_of(accumulator).num_values, x_of(accumulator).num_differing) == (3, 0)

import glob
import math

import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.fit_or_skip import dataset_filter_with_summary


def summaries(folder):
    """(step, name, value) of every scalar summary."""
    (path,) = glob.glob(f"{folder}/*")
    found = []
    for record in tf.data.TFRecordDataset(path):
        event = tf.compat.v1.Event.FromString(record.numpy())
        found.extend((event.step, value.tag, float(tf.make_ndarray(value.tensor))) for value in event.summary.value)
    return found


def filtered(folder, dataset, predicate, **options):
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        elements = list(dataset_filter_with_summary(dataset, predicate, **options))
    writer.close()
    return elements


def test_elements_are_kept_by_the_predicate(tmp_path):
    kept = filtered(tmp_path, tf.data.Dataset.range(10), lambda x: x % 3 == 0)

    assert [int(x) for x in kept] == [0, 3, 6, 9]


def test_the_removed_fraction_is_reported_every_few_inputs(tmp_path):
    filtered(tmp_path, tf.data.Dataset.range(10), lambda x: x < 4, summary_steps=4, summary_name="gone")

    expected_average = 0.0
    decay = math.exp(-1 / 4)
    reports = []
    kept = 0
    for t in range(1, 11):
        is_kept = t <= 4
        kept += is_kept
        weight = max(1 / t, 1 - decay)
        expected_average += weight * ((not is_kept) - expected_average)
        if t % 4 == 0:
            reports.append((max(kept - 1, 0), "gone", pytest.approx(expected_average, rel=1e-5)))
    assert summaries(tmp_path) == reports


def test_nothing_kept_is_reported_at_step_zero(tmp_path):
    filtered(tmp_path, tf.data.Dataset.range(4), lambda x: x < 0, summary_steps=2)

    assert summaries(tmp_path) == [(0, "dataset_removed_fraction", 1.0)] * 2


def test_a_decay_near_one_gives_the_plain_mean(tmp_path):
    filtered(tmp_path, tf.data.Dataset.range(8), lambda x: x % 4 != 0, summary_steps=8, summary_decay=0.99)

    assert summaries(tmp_path) == [(5, "dataset_removed_fraction", pytest.approx(0.25))]


def test_reports_agree_with_the_oracle(oracle, tmp_path):
    def run(library, name):
        folder = tmp_path / name
        writer = tf.summary.create_file_writer(str(folder))
        with writer.as_default():
            dataset = tf.data.Dataset.range(100)
            kept = list(library.dataset_filter_with_summary(dataset, lambda x: x % 7 != 3, summary_steps=9))
        writer.close()
        # The oracle lets the name of an inner scope into the name of the summary.
        return [int(x) for x in kept], [(step, name.split("/")[-1], value) for step, name, value in summaries(folder)]

    ours, theirs = run(lib, "ours"), run(oracle, "theirs")

    assert ours[0] == theirs[0]
    assert [report[:2] for report in ours[1]] == [report[:2] for report in theirs[1]]
    assert [report[2] for report in ours[1]] == pytest.approx([report[2] for report in theirs[1]], rel=1e-4)


def test_graphs_and_tuples_are_filtered(tmp_path, graph):
    graphs = tf.data.Dataset.from_tensors(graph).repeat(3)
    numbered = tf.data.Dataset.zip((graphs, tf.data.Dataset.range(3)))

    kept = filtered(tmp_path, numbered, lambda graph, i: (graph.node_sets["a"].total_size == 3) & (i != 1))

    assert [int(i) for _, i in kept] == [0, 2]
    assert kept[0][0].spec == graph.spec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"summary_steps": 0}, "Expected summary_steps > 0, actual summary_steps=0"),
        ({"summary_decay": 1.5}, "Expected 0 < summary_decay < 1, actual summary_decay=1.5"),
        ({"summary_decay": 1.0}, "Expected 0 < summary_decay < 1, actual summary_decay=1.0"),
        ({"summary_decay": 0.0}, "Expected 0 < summary_decay < 1, actual summary_decay=0.0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dataset_filter_with_summary(tf.data.Dataset.range(3), lambda x: x > 0, **options)

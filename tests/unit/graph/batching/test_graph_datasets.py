import glob
import math

import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.graph_datasets import dataset_filter_with_summary, dataset_from_generator


def make_graph(num_nodes, num_components=1, feature="x"):
    return lib.GraphTensor.from_pieces(
        node_sets={
            "a": lib.NodeSet.from_fields(
                sizes=[num_nodes] + [0] * (num_components - 1), features={feature: tf.zeros([num_nodes])}
            )
        }
    )


def test_numbers_of_nodes_may_differ_and_iterations_repeat():
    def graphs():
        yield make_graph(2)
        yield make_graph(5)

    dataset = dataset_from_generator(graphs)

    assert dataset.element_spec.node_sets_spec["a"]["x"] == tf.TensorSpec([None], tf.float32)
    assert dataset.element_spec.total_num_components == 1
    assert [int(graph.node_sets["a"].total_size) for graph in dataset.repeat(2)] == [2, 5, 2, 5]


def test_nests_of_pieces_and_tensors_are_yielded():
    graph = make_graph(2)
    adjacency = lib.Adjacency.from_indices(("a", [0]), ("a", [1]))
    edge_set = lib.EdgeSet.from_fields(sizes=[1], adjacency=adjacency)

    dataset = dataset_from_generator(
        lambda: [
            (
                {"nodes": graph.node_sets["a"], "edges": edge_set},
                adjacency,
                graph.context,
                5,
                tf.ragged.constant([[1], []]),
            )
        ]
    )

    spec = dataset.element_spec
    assert spec[0]["nodes"]["x"].shape.as_list() == [None]
    assert spec[1].source.shape.as_list() == [None]
    assert spec[3] == tf.TensorSpec([], tf.int32)
    (element,) = dataset
    assert element[0]["edges"].adjacency.target.numpy().tolist() == [1]
    assert element[4].to_list() == [[1], []]


@pytest.mark.parametrize(
    "second", [make_graph(2, num_components=2), make_graph(2, feature="y")], ids=["components", "features"]
)
def test_later_elements_must_fit_the_first(second):
    dataset = dataset_from_generator(lambda: [make_graph(2), second])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"pieces are not compatible: .* in element 1"):
        list(dataset)


def test_only_scalar_pieces_are_taken():
    batch = tf.data.Dataset.from_tensors(make_graph(2)).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"dataset_from_generator\(\) requires a scalar GraphTensor"):
        dataset_from_generator(lambda: [batch])


def test_a_generator_must_be_callable_and_yield_something():
    with pytest.raises(TypeError, match="`generator` must be callable, returning an iterable; got list"):
        dataset_from_generator([make_graph(2)])
    with pytest.raises(ValueError, match="must produce at least one value"):
        dataset_from_generator(list)


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

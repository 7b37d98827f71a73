"""TF-GNN's input pipeline guide, "Setting the size constraints and a batching strategy"."""

import functools

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn


@pytest.mark.parametrize(
    ("target_batch_size", "num_components", "num_docs", "num_cites"), [(1, 2, 7, 6), (2, 3, 13, 12), (3, 4, 19, 18)]
)
def test_tight_constraints_fit_any_batch(graphs, target_batch_size, num_components, num_docs, num_cites):
    dataset = graphs()

    found = tfgnn.find_tight_size_constraints(
        dataset, target_batch_size=target_batch_size, min_nodes_per_component={"docs": 1}
    )

    assert found == tfgnn.SizeConstraints(num_components, {"docs": num_docs}, {"cites": num_cites}, {"docs": 1})


def test_dynamic_batches_hold_as_many_graphs_as_fit(graphs):
    constraints = tfgnn.SizeConstraints(4, {"docs": 16}, {"cites": 20}, {"docs": 1})

    batches = tfgnn.dynamic_batch(graphs(((4, 3), (5, 6), (6, 2), (6, 2), (4, 3))), constraints)

    assert [batch.node_sets["docs"].sizes.numpy().tolist() for batch in batches] == [[[4], [5], [6]], [[6], [4]]]
    for batch in batches:
        padded, _ = tfgnn.pad_to_total_sizes(batch.merge_batch_to_components(), constraints)
        assert padded.spec.node_sets_spec["docs"].total_size == 16


# Nineteen small graphs to a large one: hardly any batch has two of these.
RARELY_LARGE = [(4, 3)] * 19 + [(40, 30)]


def serialized(graphs, sizes):
    """The graphs as tf.Examples, and their spec."""
    records = [tfgnn.write_example(graph).SerializeToString() for graph in graphs(sizes)]
    return tf.data.Dataset.from_tensor_slices(records), graphs(sizes).element_spec


@pytest.fixture(scope="module")
def learned(graphs):
    dataset, example_input_spec = serialized(graphs, RARELY_LARGE)
    per_replica_batch_size = 4

    sample_dataset = dataset
    sample_dataset = sample_dataset.shuffle(20, seed=1)  # Need a random sample.
    # Single examples: the guide's ParseExample takes batches, and these have no batch dimension yet.
    sample_dataset = sample_dataset.map(tfgnn.keras.layers.ParseSingleExample(example_input_spec))
    return tfgnn.learn_fit_or_skip_size_constraints(
        sample_dataset,
        per_replica_batch_size,
        min_nodes_per_component={"docs": 1},
        success_ratio=0.99,
        sample_size=1000,
    )


def test_learned_constraints_do_without_the_rarest_batches(graphs, learned):
    tight = tfgnn.find_tight_size_constraints(
        graphs(RARELY_LARGE), target_batch_size=4, min_nodes_per_component={"docs": 1}
    )

    assert learned.total_num_components == tight.total_num_components == 5
    assert learned.min_nodes_per_component == {"docs": 1}
    # Room for one or two of the large graphs, never for four.
    assert 40 + 3 * 4 < learned.total_num_nodes["docs"] <= 2 * 40 + 2 * 4 + 1
    assert tight.total_num_nodes["docs"] == 4 * 40 + 1


def test_several_ratios_and_batch_sizes_are_explored_at_once(graphs):
    learned = tfgnn.learn_fit_or_skip_size_constraints(
        graphs(RARELY_LARGE), [1, 4], success_ratio=[0.5, 1.0], sample_size=200
    )

    assert [[one.total_num_components for one in row] for row in learned] == [[2, 2], [5, 5]]
    assert [one.total_num_nodes["docs"] for one in learned[0]] == [5, 41]


def test_examples_without_a_batch_dimension_are_single_examples(graphs):
    dataset, example_input_spec = serialized(graphs, RARELY_LARGE)

    with pytest.raises(ValueError, match=r"`serialized` must"):
        dataset.map(tfgnn.keras.layers.ParseExample(example_input_spec))


def test_oversized_batches_are_skipped_and_reported(graphs, learned, tmp_path):
    # Two large graphs in a batch are too many; the third batch has four.
    sizes = [(4, 3), (4, 3), (4, 3), (4, 3), (4, 3), (40, 30), (4, 3), (4, 3), *[(40, 30)] * 4, *[(4, 3)] * 4]
    ds, example_input_spec = serialized(graphs, sizes)
    per_replica_batch_size, size_constraints = 4, learned

    ds = ds.batch(per_replica_batch_size)
    ds = ds.map(tfgnn.keras.layers.ParseExample(example_input_spec))
    preproc_input_spec = ds.element_spec
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():  # As a training loop has it, from where it makes its datasets.
        ds = tfgnn.dataset_filter_with_summary(
            ds, functools.partial(tfgnn.satisfies_total_sizes, total_sizes=size_constraints), summary_steps=4
        )
    # Apply preprocessing.
    preproc_input = tf_keras.layers.Input(type_spec=preproc_input_spec)
    graph = preproc_input.merge_batch_to_components()
    graph, mask = tfgnn.keras.layers.PadToTotalSizes(size_constraints)(graph)
    # Splitting the label off the *padded* tensor, as before.
    labels = tfgnn.keras.layers.ReadoutFirstNode(node_set_name="docs", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"docs": ["class_id"]})
    preproc_model = tf_keras.Model(preproc_input, (graph, labels, mask))
    ds = ds.map(preproc_model)

    batches = list(ds)
    writer.close()

    assert [graph.node_sets["docs"].sizes.numpy().tolist()[:4] for graph, _, _ in batches] == [
        [4, 4, 4, 4],
        [4, 40, 4, 4],
        [4, 4, 4, 4],
    ]
    assert all(mask.numpy().tolist() == [True] * 4 + [False] for _, _, mask in batches)
    assert ds.element_spec[0].edge_sets_spec["cites"].total_size == size_constraints.total_num_edges["cites"]
    assert reported(tmp_path) == [("dataset_removed_fraction", 0.25)]


def reported(folder):
    (path,) = folder.iterdir()
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    return [(value.tag, float(tf.make_ndarray(value.tensor))) for event in events for value in event.summary.value]

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.graph.batching.padding import padding_mask

CONSTRAINTS = tfx_gnn.SizeConstraints(4, {"paper": 6, "_readout": 5}, {"cites": 4, "_readout/seed": 5})


def make_graph():
    """Two components of two and one papers, one cite in the first, and a label in each."""
    return tfx_gnn.GraphTensor.from_pieces(
        node_sets={
            "paper": tfx_gnn.NodeSet.from_fields(features={"x": tf.constant([1.0, 2.0, 3.0])}, sizes=[2, 1]),
            "_readout": tfx_gnn.NodeSet.from_fields(features={"label": tf.constant([7, 8])}, sizes=[1, 1]),
        },
        edge_sets={
            "cites": tfx_gnn.EdgeSet.from_fields(
                sizes=[1, 0], adjacency=tfx_gnn.Adjacency.from_indices(("paper", [0]), ("paper", [1]))
            ),
            "_readout/seed": tfx_gnn.EdgeSet.from_fields(
                sizes=[1, 1], adjacency=tfx_gnn.Adjacency.from_indices(("paper", [0, 2]), ("_readout", [0, 1]))
            ),
        },
    )


SPEC = make_graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ({"node_set_name": "paper"}, [True] * 3 + [False] * 3),
        ({"edge_set_name": "cites"}, [True] + [False] * 3),
        ({"edge_set_name": "_readout/seed"}, [True] * 2 + [False] * 3),
        ({"node_set_name": "_readout"}, [True] * 2 + [False] * 3),
    ],
    ids=["nodes", "edges", "readout edges", "labels"],
)
@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
def test_real_items_are_told_from_padding(name, expected, jit_compile):
    shapes = []
    padded, component_mask = tfx_gnn.pad_to_total_sizes(make_graph(), CONSTRAINTS)

    @tf.function(jit_compile=jit_compile)
    def mask_of(graph, component_mask):
        mask = padding_mask(graph, component_mask, **name)
        shapes.append(mask.shape)
        return mask

    assert mask_of(padded, component_mask).numpy().tolist() == expected
    assert shapes == [[len(expected)]]


def test_shapes_are_static_after_padding_in_a_dataset():
    def pad(graph):
        padded, component_mask = tfx_gnn.pad_to_total_sizes(graph, CONSTRAINTS)
        return padding_mask(padded, component_mask, node_set_name="_readout")

    dataset = tf.data.Dataset.from_generator(lambda: [make_graph()], output_signature=SPEC).map(pad)

    assert dataset.element_spec == tf.TensorSpec([5], tf.bool)
    assert [mask.numpy().tolist() for mask in dataset] == [[True, True, False, False, False]]


def test_the_mask_weights_what_is_read():
    padded, component_mask = tfx_gnn.pad_to_total_sizes(make_graph(), CONSTRAINTS)

    labels = tfx_gnn.keras.layers.Readout(node_set_name="_readout", feature_name="label")(padded)
    mask = padding_mask(padded, component_mask, node_set_name="_readout")

    assert tf.boolean_mask(labels, mask).numpy().tolist() == [7, 8]


def test_any_components_may_be_left_out(run):
    def mask_of(graph, component_mask):
        return padding_mask(graph, component_mask, node_set_name="paper")

    assert run(mask_of, make_graph(), tf.constant([False, True])).numpy().tolist() == [False, False, True]


def test_a_graph_without_components_has_nothing_to_mask(run):
    empty = tfx_gnn.GraphTensor.from_pieces(node_sets={"a": tfx_gnn.NodeSet.from_fields(sizes=tf.zeros([0], tf.int32))})

    mask = run(lambda graph, mask: padding_mask(graph, mask, node_set_name="a"), empty, tf.zeros([0], tf.bool))

    assert mask.numpy().tolist() == []


def test_a_model_of_the_functional_api_can_make_masks(tmp_path):
    graph = tf_keras.Input(type_spec=SPEC)
    component_mask = tf_keras.Input([], dtype=tf.bool)
    mask = padding_mask(graph, component_mask, edge_set_name="cites")
    model = tf_keras.Model([graph, component_mask], mask)

    rebuilt = tf_keras.Model.from_config(model.get_config())

    for made in (model, rebuilt):
        assert made([make_graph(), tf.constant([False, True])]).numpy().tolist() == [False]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "exactly one of `node_set_name` and `edge_set_name`; got None and None"),
        ({"node_set_name": "paper", "edge_set_name": "cites"}, ValueError, "got 'paper' and 'cites'"),
        ({"node_set_name": "author"}, KeyError, "author"),
        ({"component_mask": [1.0, 0.0]}, ValueError, r"must be a bool tensor .*; got float32 of shape=\(2,\)"),
        ({"component_mask": [True]}, ValueError, r"got bool of shape=\(1,\) for 2 components"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    if "component_mask" in arguments:
        arguments = {"node_set_name": "paper", **arguments}

    with pytest.raises(error, match=message):
        padding_mask(make_graph(), **{"component_mask": [True, False], **arguments})


def test_a_batch_has_no_mask_of_its_own():
    batch = next(iter(tf.data.Dataset.from_tensors(make_graph()).batch(1)))

    with pytest.raises(ValueError, match=r"padding_mask\(\) requires a scalar GraphTensor"):
        padding_mask(batch, [True, False], node_set_name="paper")

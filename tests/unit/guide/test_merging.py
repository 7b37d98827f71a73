"""TF-GNN's input pipeline guide, "Merging a batch of inputs into components of one graph"."""

import numpy as np
import tensorflow as tf

import tfx_gnn as tfgnn


def test_three_graphs_become_components_of_one(data):
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(data.schema_text()))

    graph = tfgnn.parse_example(spec, tf.constant([data.record(i) for i in range(3)]))
    merged = graph.merge_batch_to_components()

    assert graph.shape.as_list() == [3]
    assert graph.node_sets["docs"].sizes.numpy().tolist() == [[4], [5], [6]]
    assert graph.node_sets["docs"]["x"].row_lengths().numpy().tolist() == [4, 5, 6]
    assert merged.shape.as_list() == []
    assert merged.node_sets["docs"].sizes.numpy().tolist() == [4, 5, 6]
    assert merged.node_sets["docs"]["x"].shape.as_list() == [15, 2]
    assert merged.node_sets["docs"]["id"].numpy().tolist() == [
        f"{i}-{doc}".encode() for i, num_docs in enumerate([4, 5, 6]) for doc in range(num_docs)
    ]
    # Indices 0, ..., 14 without a gap, and no edge from one input to another.
    writes = merged.edge_sets["writes"].adjacency
    assert writes.target.numpy().tolist() == list(range(15))
    assert writes.source.numpy().tolist() == [0] * 4 + [1] * 5 + [2] * 6
    cites = merged.edge_sets["cites"].adjacency
    component = np.repeat([0, 1, 2], [4, 5, 6])
    np.testing.assert_array_equal(component[cites.source], component[cites.target])
    np.testing.assert_array_equal(component[cites.target], np.repeat([0, 1, 2], [3, 6, 2]))


def test_the_context_stays_one_value_per_input():
    graphs = tf.data.Dataset.from_tensor_slices([[4, 10], [5, 20], [6, 30]]).map(
        lambda row: tfgnn.GraphTensor.from_pieces(
            context=tfgnn.Context.from_fields(features={"year": row[1:]}),
            node_sets={"docs": tfgnn.NodeSet.from_fields(sizes=row[:1], features={"x": tf.ones([row[0]])})},
        )
    )

    merged = graphs.batch(3).get_single_element().merge_batch_to_components()

    assert merged.context["year"].numpy().tolist() == [10, 20, 30]
    assert tfgnn.broadcast(merged, tfgnn.CONTEXT, node_set_name="docs", feature_name="year").numpy().tolist() == (
        [10] * 4 + [20] * 5 + [30] * 6
    )
    pooled = tfgnn.pool(merged, tfgnn.CONTEXT, reduce_type="sum", node_set_name="docs", feature_name="x")
    assert pooled.numpy().tolist() == [4.0, 5.0, 6.0]

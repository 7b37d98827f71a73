"""Differential tests of graphs and their tf.Examples: tensorflow-gnn must say the same."""

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph

FEW = settings(max_examples=25)


def plain_spec(spec):
    """Describes the fields of a graph spec of either library."""
    if hasattr(spec, "node_sets_spec"):
        return {
            "context": plain_spec(spec.context_spec),
            "nodes": {name: plain_spec(piece) for name, piece in spec.node_sets_spec.items()},
            "edges": {name: plain_spec(piece) for name, piece in spec.edge_sets_spec.items()},
            "shape": spec.shape.as_list(),
            "components": spec.total_num_components,
            "dtypes": (spec.indices_dtype, spec.row_splits_dtype),
        }
    fields = {
        "features": dict(spec.features_spec),
        "sizes": spec.sizes_spec,
        "counts": (spec.total_size, spec.total_num_components),
    }
    if hasattr(spec, "adjacency_spec"):
        fields["ends"] = spec.adjacency_spec.get_index_specs_dict()
    return fields


@st.composite
def batches(draw, graph_plans):
    """Draws plans of graphs with the same number of components."""
    num_components = draw(st.integers(1, 2))
    plan = graph_plans(min_components=num_components, max_components=num_components)
    return draw(st.lists(plan, min_size=1, max_size=3))


def relaxed(spec):
    return spec.relax(num_nodes=True, num_edges=True)


def stack(library, graphs):
    spec = relaxed(graphs[0].spec)
    return tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec).batch(len(graphs))


def test_graphs_are_the_same(oracle, plain, graph_plans):
    @FEW
    @given(graph_plans())
    def check(plan):
        ours, theirs = plan.build(tfx_gnn.graph), plan.build(oracle)
        assert plain(ours) == plain(theirs)
        assert plain_spec(ours.spec) == plain_spec(theirs.spec)
        for dtype in (tf.int32, tf.int64):
            assert plain_spec(ours.with_indices_dtype(dtype).with_row_splits_dtype(dtype).spec) == plain_spec(
                theirs.with_indices_dtype(dtype).with_row_splits_dtype(dtype).spec
            )
        for batch_size in (None, 3):
            assert plain_spec(relaxed(ours.spec)._batch(batch_size)) == plain_spec(
                relaxed(theirs.spec)._batch(batch_size)
            )

    check()


def test_batches_merge_the_same(oracle, plain, graph_plans):
    # Each makes four datasets.
    @settings(max_examples=6)
    @given(batches(graph_plans))
    def check(plans):
        results = []
        for library in (tfx_gnn.graph, oracle):
            dataset = stack(library, [plan.build(library) for plan in plans])
            merged = dataset.map(lambda graph: graph.merge_batch_to_components())
            batch, graph = next(iter(dataset)), next(iter(merged))
            results.append(
                (
                    plain(batch),
                    plain(graph),
                    plain(batch.merge_batch_to_components()),
                    plain_spec(dataset.element_spec),
                    plain_spec(merged.element_spec),
                    plain(batch.num_components),
                    [plain(node_set.total_size) for node_set in batch.node_sets.values()],
                )
            )
        assert results[0] == results[1]

    check()


def test_examples_are_written_the_same_and_read_by_each_other(oracle, plain, graph_plans):
    @FEW
    @given(graph_plans(min_components=1), st.sampled_from([None, "prefix/"]))
    def check(plan, prefix):
        ours, theirs = plan.build(tfx_gnn.graph), plan.build(oracle)

        written = [
            library.write_example(graph, prefix=prefix).SerializeToString(deterministic=True)
            for library, graph in ((tfx_gnn.graph, ours), (oracle, theirs))
        ]
        read = [
            library.parse_single_example(relaxed(graph.spec), tf.constant(written[0]), prefix=prefix)
            for library, graph in ((tfx_gnn.graph, ours), (oracle, theirs))
        ]

        assert written[0] == written[1]
        assert plain(read[0]) == plain(read[1]) == plain(ours)

    check()


def test_batches_of_examples_are_read_the_same(oracle, plain, graph_plans):
    @FEW
    @given(batches(graph_plans))
    def check(plans):
        serialized = tf.constant(
            [tfx_gnn.graph.write_example(plan.build(tfx_gnn.graph)).SerializeToString() for plan in plans]
        )
        results = []
        for library in (tfx_gnn.graph, oracle):
            spec = relaxed(plans[0].build(library).spec).with_row_splits_dtype(tf.int64)
            graph = library.parse_example(spec, serialized)
            results.append((plain(graph), plain(graph.merge_batch_to_components())))
        fused = tfx_gnn.graph.parse_and_merge(
            relaxed(plans[0].build(tfx_gnn.graph).spec).with_row_splits_dtype(tf.int64), serialized
        )
        assert results[0] == results[1]
        assert plain(fused) == results[0][1]

    check()


@pytest.mark.parametrize("num_components", [1, None])
def test_examples_are_described_the_same(oracle, graph_plans, num_components):
    @FEW
    @given(graph_plans(min_components=1, max_components=1))
    def check(plan):
        described = []
        for library in (tfx_gnn.graph, oracle):
            spec = plan.build(library).spec.relax(num_nodes=True, num_edges=True, num_components=num_components is None)
            features = library.get_io_spec(spec.with_indices_dtype(tf.int64))
            described.append(
                {
                    key: (feature.dtype, feature.shape)
                    if isinstance(feature, tf.io.FixedLenFeature)
                    else (feature.dtype, feature.value_key, tuple(feature.partitions))
                    for key, feature in features.items()
                }
            )
        assert described[0] == described[1]

    check()

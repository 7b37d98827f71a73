"""Graphs, their pieces and their specs are those of tensorflow-gnn."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfx_gnn


def pieces(graph):
    return [graph.context, *graph.node_sets.values(), *graph.edge_sets.values()]


def spec_pieces(spec):
    return [spec.context_spec, *spec.node_sets_spec.values(), *spec.edge_sets_spec.values()]


PROPERTIES = {
    "graph": lambda _, g: g,
    "spec": lambda _, g: g.spec,
    "names": lambda _, g: [list(g.node_sets), list(g.edge_sets), [list(piece.features) for piece in pieces(g)]],
    "shapes": lambda _, g: [[piece.rank, piece.shape.as_list()] for piece in [g, *pieces(g)]],
    "dtypes": lambda _, g: [[piece.indices_dtype, piece.row_splits_dtype] for piece in [g, *pieces(g)]],
    "sizes": lambda _, g: [piece.sizes for piece in pieces(g)],
    "totals": lambda _, g: [[piece.total_size, piece.total_num_components] for piece in pieces(g)],
    "components": lambda _, g: [piece.num_components for piece in [g, *pieces(g)]],
    "total components": lambda _, g: g.total_num_components,
    "features": lambda _, g: [piece.get_features_dict() for piece in pieces(g)],
    "feature": lambda _, g: [g.node_sets["a"]["ragged"], g.edge_sets["ab"]["name"], g.context["deep"]],
    "adjacency": lambda lib, g: [
        [edges.adjacency.source_name, edges.adjacency.target, edges.adjacency[lib.SOURCE], edges.adjacency.spec]
        for name, edges in g.edge_sets.items()
        if name != "hyper"
    ],
    "node set names": lambda lib, g: [edges.adjacency.node_set_name(lib.TARGET) for edges in g.edge_sets.values()],
    "indices": lambda _, g: [edges.adjacency.get_indices_dict() for edges in g.edge_sets.values()],
    "merged": lambda _, g: g.merge_batch_to_components(),
    "int32 indices": lambda _, g: g.with_indices_dtype(tf.int32),
    "int64 indices": lambda _, g: g.with_indices_dtype(tf.int64),
    "int32 splits": lambda _, g: g.with_row_splits_dtype(tf.int32),
    "int64 splits": lambda _, g: g.with_row_splits_dtype(tf.int64),
    "wrong indices": lambda _, g: g.with_indices_dtype(tf.float32),
    "wrong splits": lambda _, g: g.with_row_splits_dtype(tf.int16),
    "piece dtypes": lambda _, g: [
        piece.with_indices_dtype(tf.int64).with_row_splits_dtype(tf.int32) for piece in pieces(g)
    ],
    "replaced": lambda _, g: g.replace_features(
        context={"new": g.context["scalar"]},
        node_sets={"a": {}, "b": {"x": g.node_sets["b"]["deep"]}},
        edge_sets={"ab": {"y": g.edge_sets["ab"]["words"], "z": g.edge_sets["ab"]["flag"]}},
    ),
    "replaced in pieces": lambda _, g: [
        g.context.replace_features({"new": g.context["vector"]}),
        g.node_sets["a"].replace_features({"new": g.node_sets["a"]["ragged"]}),
        g.edge_sets["ab"].replace_features({}),
    ],
    "removed": lambda _, g: g.remove_features(
        context=["scalar"], node_sets={"a": ["deep", "name"]}, edge_sets={"ba": ["ragged"]}
    ),
    "replaced unknown": lambda _, g: g.replace_features(node_sets={"zz": {}}),
    "replaced by another size": lambda _, g: g.replace_features(node_sets={"a": {"x": tf.zeros([99])}}),
    "removed unknown": lambda _, g: g.remove_features(node_sets={"a": ["zz"]}),
    "removed of unknown": lambda _, g: g.remove_features(edge_sets={"zz": ["scalar"]}),
    "unknown set": lambda _, g: g.node_sets["zz"],
    "unknown feature": lambda _, g: g.node_sets["a"]["zz"],
    "kinds": lambda lib, g: [
        lib.is_graph_tensor(g),
        lib.is_graph_tensor(g.spec),
        lib.is_graph_tensor(g.context),
        lib.is_dense_tensor(g.node_sets["a"]["scalar"]),
        lib.is_dense_tensor(g.node_sets["a"]["deep"]),
        lib.is_ragged_tensor(g.node_sets["a"]["deep"]),
        lib.is_ragged_tensor(3),
    ],
    "scalar": lambda lib, g: lib.check_scalar_graph_tensor(g, "me"),
    "homogeneous": lambda lib, g: lib.check_homogeneous_graph_tensor(g, "me"),
    "homogeneous names": lambda lib, g: lib.get_homogeneous_node_and_edge_set_name(g),
    "constraints": lambda lib, g: lib.assert_constraints(g) is None or "an operation",
    "sets": lambda lib, g: [[kind, name] for kind, name, _ in lib.iter_sets(g)],
    "every feature": lambda lib, g: [list(item) for item in lib.iter_features(g)],
}

SPECS = {
    "piece specs": lambda _, g: [[spec.rank, spec.shape.as_list()] for spec in spec_pieces(g.spec)],
    "spec sizes": lambda _, g: [[spec.total_size, spec.total_num_components] for spec in spec_pieces(g.spec)],
    "sizes specs": lambda _, g: [[spec.sizes_spec, dict(spec.features_spec)] for spec in spec_pieces(g.spec)],
    "spec feature": lambda _, g: [g.spec.node_sets_spec["a"]["ragged"], g.spec.edge_sets_spec["ab"]["vector"]],
    "relaxed": lambda _, g: [
        g.spec.relax(num_components=components, num_nodes=nodes, num_edges=edges)
        for components in (False, True)
        for nodes in (False, True)
        for edges in (False, True)
    ],
    "relaxed pieces": lambda _, g: [
        g.spec.context_spec.relax(num_components=True),
        g.spec.node_sets_spec["a"].relax(num_components=True, num_nodes=True),
        g.spec.edge_sets_spec["ab"].relax(num_components=True, num_edges=True),
    ],
    "fits": lambda _, g: [
        spec.is_compatible_with(value)
        for spec in (g.spec, g.spec.relax(num_nodes=True), g.spec.with_row_splits_dtype(tf.int32))
        for value in (g, g.remove_features(node_sets={"a": ["scalar"]}), g.context)
    ],
    "batched": lambda _, g: [
        g.spec.relax(num_nodes=True, num_edges=True)._batch(size)._unbatch() for size in (None, 3)
    ],
    "batch specs": lambda _, g: [g.spec.relax(num_nodes=True, num_edges=True)._batch(size) for size in (None, 0, 3)],
    "value types": lambda _, g: [spec.value_type.__name__ for spec in (g.spec, *spec_pieces(g.spec))],
    "rebuilt": lambda lib, g: lib.GraphTensorSpec.from_piece_specs(
        g.spec.context_spec, dict(g.spec.node_sets_spec), dict(g.spec.edge_sets_spec)
    ),
    "rebuilt pieces": lambda lib, g: [
        lib.ContextSpec.from_field_specs(features_spec=dict(g.spec.context_spec.features_spec)),
        lib.NodeSetSpec.from_field_specs(
            features_spec=dict(g.spec.node_sets_spec["a"].features_spec),
            sizes_spec=g.spec.node_sets_spec["a"].sizes_spec,
        ),
        lib.EdgeSetSpec.from_field_specs(
            sizes_spec=g.spec.edge_sets_spec["ab"].sizes_spec,
            adjacency_spec=lib.AdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([None], g.indices_dtype)),
        ),
        lib.HyperAdjacencySpec.from_incident_node_sets({0: "a", 4: "b"}, tf.TensorSpec([None], tf.int64)),
    ],
    "values": lambda lib, g: lib.graph_tensor_to_values(g),
}


@pytest.mark.parametrize("kind", ["", "hyper and readout"])
def test_graphs_and_their_pieces(agree, graph_plans, kind):
    agree(
        {**PROPERTIES, **SPECS},
        graph_plans(kind=kind),
        num_examples=2,
        only_eager=[*SPECS, "constraints", "by another size"],
        # Theirs meets an attribute that its graphs do not have, and takes all sizes for those of one component.
        answers_more=["every feature", "constraints"],
        refuses=[
            *("homogeneous", "homogeneous names", "removed of unknown", "removed unknown", "replaced unknown"),
            *("unknown feature", "unknown set", "wrong indices", "wrong splits"),
        ],
    )


def test_batches_and_what_becomes_of_them(oracle, few, graph_plans, stacked, agreement):
    operations = {
        name: PROPERTIES[name]
        for name in PROPERTIES
        if name
        not in (
            "homogeneous",
            "homogeneous names",
            "replaced by another size",
            "constraints",
            "scalar",
            "every feature",
        )
    }
    operations["merged pieces"] = lambda _, g: [g.context.num_components, g.node_sets["a"].total_size]
    operations["relaxed"] = lambda _, g: g.spec.relax(num_nodes=True)
    operations["scalar"] = lambda lib, g: lib.check_scalar_graph_tensor(g, "me")
    operations["spec"] = lambda _, g: g.spec
    operations["unbatched"] = lambda _, g: list(tf.data.Dataset.from_tensors(g).unbatch())

    @few(2)
    @given(
        plan=graph_plans(any_dtypes=True, min_components=1, max_components=2),
        more=st.lists(st.integers(0, 99), min_size=3, max_size=3),
        batch_sizes=st.sampled_from([(3,), (2, 2), (2, 1, 2)]),
    )
    def check(plan, more, batch_sizes):
        plans = [plan, *(plan_like(plan, seed) for seed in more)]
        batches = [
            (library, stacked([other.build(library) for other in plans], *batch_sizes)) for library in (tfx_gnn, oracle)
        ]
        for operation in operations.values():
            agreement(operation, *batches)

    check()


def plan_like(plan, seed):
    """Another graph with as many components, with the sizes of the components moved around."""
    import dataclasses

    move = seed % max(plan.num_components, 1)
    turn = lambda sizes: {name: values[move:] + values[:move] for name, values in sizes.items()}  # noqa: E731
    return dataclasses.replace(
        plan, node_sizes=turn(plan.node_sizes), edge_sizes=turn(plan.edge_sizes), seed=plan.seed + seed
    )


WRONG = {
    "positional": lambda lib: lib.NodeSet.from_fields([1], {}),
    "features of other sizes": lambda lib: lib.NodeSet.from_fields(
        sizes=[2], features={"x": tf.zeros([2]), "y": tf.zeros([3])}
    ),
    "scalar sizes": lambda lib: lib.NodeSet.from_fields(sizes=3, features={}),
    "float sizes": lambda lib: lib.NodeSet.from_fields(sizes=[3.0], features={}),
    "scalar feature": lambda lib: lib.NodeSet.from_fields(sizes=[1], features={"x": tf.constant(1)}),
    "python features": lambda lib: lib.NodeSet.from_fields(sizes=[2], features={"x": [1, 2]}),
    "python context": lambda lib: lib.Context.from_fields(features={"x": [[1.0], [2.0]]}),
    "empty context": lambda lib: lib.Context.from_fields(),
    "context of shape": lambda lib: lib.Context.from_fields(shape=[None], features={"x": tf.zeros([2, 3])}),
    "ragged context": lambda lib: lib.Context.from_fields(features={"x": tf.ragged.constant([[1], [2, 3]])}),
    "float ends": lambda lib: lib.Adjacency.from_indices(("a", [0.5]), ("b", [0.5])),
    "mixed ends": lambda lib: lib.Adjacency.from_indices(
        ("a", tf.constant([0], tf.int32)), ("b", tf.constant([0], tf.int64))
    ),
    "ends in a matrix": lambda lib: lib.Adjacency.from_indices(("a", [[0], [1]]), ("b", [[0], [1]])),
    "no ends": lambda lib: lib.HyperAdjacency.from_indices({}),
    "named ends": lambda lib: lib.HyperAdjacency.from_indices({"x": ("a", [0])}),
    "hyper ends": lambda lib: lib.HyperAdjacency.from_indices({0: ("a", [0]), 3: ("b", [1])}),
    "unknown end": lambda lib: lib.HyperAdjacency.from_indices({0: ("a", [0])})[7],
    "edges without ends": lambda lib: lib.EdgeSet.from_fields(sizes=[1], features={}),
    "edges to nowhere": lambda lib: lib.GraphTensor.from_pieces(
        edge_sets={
            "e": lib.EdgeSet.from_fields(sizes=[1], adjacency=lib.Adjacency.from_indices(("a", [0]), ("b", [0])))
        }
    ),
    "context as nodes": lambda lib: lib.GraphTensor.from_pieces(node_sets={"a": lib.Context.from_fields()}),
    "nodes as context": lambda lib: lib.GraphTensor.from_pieces(context=lib.NodeSet.from_fields(sizes=[1])),
    "mixed dtypes": lambda lib: lib.GraphTensor.from_pieces(
        node_sets={
            "a": lib.NodeSet.from_fields(sizes=tf.constant([1], tf.int32)),
            "b": lib.NodeSet.from_fields(sizes=tf.constant([1], tf.int64)),
        }
    ),
    "no pieces": lambda lib: lib.GraphTensor.from_pieces(),
    "only a context": lambda lib: lib.GraphTensor.from_pieces(
        context=lib.Context.from_fields(features={"y": tf.zeros([2])})
    ),
    "spec without sizes": lambda lib: lib.NodeSetSpec.from_field_specs(features_spec={"x": tf.TensorSpec([None])}),
    "empty spec": lambda lib: lib.GraphTensorSpec.from_piece_specs(),
    "context spec": lambda lib: lib.ContextSpec.from_field_specs(features_spec={"x": tf.TensorSpec([2, 3])}),
    "homogeneous": lambda lib: lib.homogeneous(tf.constant([0, 1, 1]), tf.constant([1, 0, 0])),
    "homogeneous with features": lambda lib: lib.homogeneous(
        tf.constant([0, 1]),
        tf.constant([1, 0]),
        node_features=tf.zeros([2, 3]),
        edge_features={"w": tf.constant([1.0, 2.0])},
        context_features={"c": tf.constant([[1.0]])},
        node_set_name="n",
        edge_set_name="e",
    ),
    "homogeneous components": lambda lib: lib.homogeneous(
        tf.constant([0, 1]), tf.constant([1, 0]), node_sets_sizes=[2], edge_sets_sizes=[2]
    ),
    "homogeneous names": lambda lib: lib.get_homogeneous_node_and_edge_set_name(
        lib.homogeneous(tf.constant([0]), tf.constant([0]))
    ),
    "prefixes": lambda lib: [
        lib.get_aux_type_prefix(name) for name in ("_readout", "_readout/x", "_x_y:z", "_", "a", "_a b", "__a", "")
    ],
    "batched homogeneous": lambda lib: lib.check_homogeneous_graph_tensor(
        lib.homogeneous(tf.constant([0]), tf.constant([0])), "me"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_odd_arguments(oracle, agreement, name):
    agreement(WRONG[name], (tfx_gnn,), (oracle,))


#: What theirs takes, and then goes wrong without a word.
REFUSED_HERE = {
    "ends of other lengths": lambda lib: lib.Adjacency.from_indices(("a", [0, 1]), ("b", [0])),
    "mixed ranks": lambda lib: lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[1]), "b": lib.NodeSet.from_fields(sizes=[[1]])}
    ),
    "specs of other kinds": lambda lib: lib.GraphTensorSpec.from_piece_specs(
        node_sets_spec={"a": lib.ContextSpec.from_field_specs()}
    ),
}


@pytest.mark.parametrize("name", REFUSED_HERE)
def test_arguments_that_only_ours_refuses(oracle, name):
    assert REFUSED_HERE[name](oracle) is not None
    with pytest.raises(ValueError, match=r"must|has to"):
        REFUSED_HERE[name](tfx_gnn)

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn import Batch, EdgeLayout, FieldRule, GraphData, GraphLayout, HeteroGraphData, collate


class PairData(GraphData):
    def __inc__(self, key, value, *args, **kwargs):
        if key == "edge_index_s":
            return self.x_s.size(0)
        if key == "edge_index_t":
            return self.x_t.size(0)
        return super().__inc__(key, value, *args, **kwargs)


class BipartiteData(GraphData):
    def __inc__(self, key, value, *args, **kwargs):
        if key == "edge_index":
            return np.array([[self.x_s.size(0)], [self.x_t.size(0)]])
        return super().__inc__(key, value, *args, **kwargs)


class MyData(GraphData):
    def __cat_dim__(self, key, value, *args, **kwargs):
        if key == "foo":
            return None
        return super().__cat_dim__(key, value, *args, **kwargs)


def pair(cls=GraphData):
    return cls(
        x_s=np.arange(80.0).reshape(5, 16),
        edge_index_s=np.array([[0, 0, 0, 0], [1, 2, 3, 4]]),
        x_t=np.arange(64.0).reshape(4, 16),
        edge_index_t=np.array([[0, 0, 0], [1, 2, 3]]),
    )


PAIRS = GraphLayout(
    node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}},
    edge_sets={
        "s_bonds": EdgeLayout(source="s", target="s", index="edge_index_s"),
        "t_bonds": EdgeLayout(source="t", target="t", index="edge_index_t"),
    },
)
PAIR_RULES = {
    "edge_index_s": FieldRule(axis=-1, increment="x_s"),
    "edge_index_t": FieldRule(axis=-1, increment="x_t"),
}


def graph(size, edges=(), **values):
    index = np.array(edges, np.int64).reshape(-1, 2).T
    return GraphData(x=np.full([size, 2], size, np.float32), edge_index=index, **values)


def same(value, other):
    """Whether values are equal in type, dtype, shape and content."""
    if type(value) is not type(other):
        return False
    if isinstance(value, np.ndarray):
        # Strings have a dtype for each length.
        return (
            (value.dtype == other.dtype or value.dtype.kind == other.dtype.kind == "U")
            and value.shape == other.shape
            and value.tolist() == other.tolist()
        )
    if isinstance(value, GraphData):
        return value._stores.keys() == other._stores.keys() and all(
            same(store, other._stores[key]) for key, store in value._stores.items()
        )
    if isinstance(value, dict):
        return list(value) == list(other) and all(same(item, other[key]) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(same, value, other))
    return value == other


def test_graphs_stand_diagonally_in_a_batch():
    batch = collate([graph(3, [(0, 1), (1, 2)]), graph(2, [(1, 0)])])

    assert batch.edge_index.tolist() == [[0, 1, 4], [1, 2, 3]]
    assert batch.x[:, 0].tolist() == [3, 3, 3, 2, 2]
    assert batch.x.dtype == np.float32


def test_faces_grow_like_edges():
    one = GraphData(pos=np.zeros([3, 3]), face=[[0], [1], [2]])
    two = GraphData(pos=np.zeros([4, 3]), face=[[0], [2], [1]])

    assert collate([one, two]).face.tolist() == [[0, 3], [1, 5], [2, 4]]


def test_other_keys_named_index_ask_for_a_rule():
    fund = GraphData(x=np.zeros([3, 1]), index_fund=np.array([7, 8]))

    with pytest.raises(ValueError, match=r"`index_fund` must have a rule.*FieldRule\(\).*guesses_by_name=True"):
        collate([fund, fund])
    assert collate([fund, fund], rules={"index_fund": FieldRule()}).index_fund.tolist() == [7, 8, 7, 8]
    assert collate([fund, fund], exclude_keys=["index_fund"]).keys() == ["x", "batch", "ptr"]
    node = GraphData(x=np.zeros([3, 1]), index_fund=np.array([1, 2]))
    assert collate([node, node], guesses_by_name=True).index_fund.tolist() == [1, 2, 4, 5]
    counted = {"index_fund": FieldRule(increment="num_nodes")}
    assert collate([node, node], rules=counted).index_fund.tolist() == [1, 2, 4, 5]


def test_keys_named_batch_ask_for_a_rule_too():
    parts = GraphData(x=np.zeros([3, 1]), part_batch=np.array([0, 0, 1]), num_parts=2)

    with pytest.raises(ValueError, match="`part_batch` must have a rule"):
        collate([parts])
    assert collate([parts, parts], guesses_by_name=True).part_batch.tolist() == [0, 0, 1, 2, 2, 3]
    rules = {"part_batch": FieldRule(increment="num_parts")}
    assert collate([parts, parts], rules=rules).part_batch.tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("cls", "options"),
    [(PairData, {}), (GraphData, {"rules": PAIR_RULES}), (GraphData, {"layout": PAIRS})],
    ids=["__inc__", "rules", "layout"],
)
def test_pairs_of_graphs_grow_by_their_own_nodes(cls, options):
    batch = collate([pair(cls), pair(cls)], follow_batch=["x_s", "x_t"], **options)

    assert batch.x_s.shape == (10, 16)
    assert batch.x_t.shape == (8, 16)
    assert batch.edge_index_s.tolist() == [[0, 0, 0, 0, 5, 5, 5, 5], [1, 2, 3, 4, 6, 7, 8, 9]]
    assert batch.edge_index_t.tolist() == [[0, 0, 0, 4, 4, 4], [1, 2, 3, 5, 6, 7]]
    assert batch.x_s_batch.tolist() == [0] * 5 + [1] * 5
    assert batch.x_t_batch.tolist() == [0] * 4 + [1] * 4
    assert batch.x_s_ptr.tolist() == [0, 5, 10]
    assert batch.x_t_ptr.tolist() == [0, 4, 8]
    assert "batch" not in batch
    assert all(same(example, pair(cls)) for example in batch.to_data_list())


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (BipartiteData, {}),
        (GraphData, {"rules": {"edge_index": FieldRule(axis=-1, increment=("x_s", "x_t"))}}),
        (
            GraphData,
            {
                "layout": GraphLayout(
                    node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}},
                    edge_sets={"e": EdgeLayout(source="s", target="t")},
                )
            },
        ),
    ],
    ids=["__inc__", "rules", "layout"],
)
def test_both_ends_of_bipartite_edges_grow_by_their_own_nodes(cls, options):
    data = cls(x_s=np.ones([2, 16]), x_t=np.ones([3, 16]), edge_index=[[0, 0, 1, 1], [0, 1, 1, 2]])

    batch = collate([data, data], **options)

    assert batch.edge_index.tolist() == [[0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 3, 4, 4, 5]]
    assert (batch.x_s.shape, batch.x_t.shape) == ((4, 16), (6, 16))
    assert repr(batch) == f"{cls.__name__}Batch(edge_index=[2, 8], x_s=[4, 16], x_t=[6, 16])"
    assert all(same(example, data) for example in batch.to_data_list())


@pytest.mark.parametrize(
    ("cls", "rules"), [(MyData, {}), (GraphData, {"foo": FieldRule(axis=None)})], ids=["__cat_dim__", "rules"]
)
def test_values_are_stacked_along_a_new_dimension(cls, rules):
    data = cls(num_nodes=3, edge_index=[[0, 1, 1, 2], [1, 0, 2, 1]], foo=np.arange(16.0))

    batch = collate([data, data], rules=rules)

    assert batch.foo.tolist() == [[*range(16)]] * 2
    assert batch.num_nodes == 6
    assert batch.edge_index.shape == (2, 8)
    assert same(batch[1], data)


def test_increments_may_belong_to_columns():
    data = GraphData(x_s=np.ones([2, 1]), x_t=np.ones([3, 1]), pairs=np.array([[0, 2], [1, 0], [-1, -1]]))

    batch = collate([data, data], rules={"pairs": FieldRule(increment=("x_s", "x_t"))})

    assert batch.pairs.tolist() == [[0, 2], [1, 0], [-1, -1], [2, 5], [3, 3], [-1, -1]]
    assert same(batch[1], data)


def test_batch_and_ptr_tell_the_graph_of_each_node():
    batch = collate([graph(3), graph(2), graph(4)])

    assert batch.batch.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert batch.ptr.tolist() == [0, 3, 5, 9]
    assert (batch.num_graphs, len(batch), batch.num_nodes) == (3, 3, 9)


EXAMPLES = [
    graph(
        num_nodes,
        edges,
        y=np.array(num_nodes),
        weight=0.1 * num_nodes,
        count=num_nodes,
        flag=num_nodes > 2,
        name=f"n{num_nodes}",
        numbers=[1] * num_nodes,
        nested={"a": np.arange(num_nodes), "b": [np.array(1.5), np.zeros([1, 2])], "c": (np.ones([2], np.int8),)},
        texts=np.array(["a" * (num_nodes + 1)]),
    )
    for num_nodes, edges in ((0, []), (3, [(0, 2), (1, 2)]), (0, []), (2, [(1, 1)]), (0, []))
]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(1, None, 2), [1, 3]),
        (slice(None, None, -1), [4, 3, 2, 1, 0]),
        ([3, -1, 0], [3, 4, 0]),
        ([], []),
        (np.array([1, 1]), [1, 1]),
        (tf.constant([2]), [2]),
        ([True, False, False, True, False], [0, 3]),
        (np.zeros([5], bool), []),
    ],
)
def test_some_examples_come_back_exactly(index, expected):
    batch = collate(EXAMPLES)

    assert same(batch[index], [EXAMPLES[position] for position in expected])
    assert same(batch.index_select(index), [EXAMPLES[position] for position in expected])


def test_all_examples_come_back_exactly():
    batch = collate(EXAMPLES)

    assert same(batch.to_data_list(), EXAMPLES)
    assert [key for key, _ in batch] == batch.keys()
    assert same([batch[position] for position in (0, 1, -2, np.int64(4))], [EXAMPLES[i] for i in (0, 1, 3, 4)])


def test_values_of_each_kind_are_collated_by_kind():
    batch = collate(EXAMPLES)

    assert batch.y.tolist() == [0, 3, 0, 2, 0]
    assert batch.weight.tolist() == pytest.approx([0, 0.3, 0, 0.2, 0])
    assert batch.flag.tolist() == [False, True, False, False, False]
    assert batch.name == ["n0", "n3", "n0", "n2", "n0"]
    assert batch.numbers == [[], [1, 1, 1], [], [1, 1], []]
    assert batch.nested["a"].tolist() == [0, 1, 2, 0, 1]
    assert batch.nested["b"][0].tolist() == [1.5] * 5
    assert batch.nested["c"][0].shape == (10,)
    assert batch.num_nodes == 5


@pytest.mark.parametrize("index", [5, -6, [0, 5], np.array([-6])])
def test_an_example_outside_of_the_batch_is_refused(index):
    with pytest.raises(IndexError, match=r"must have i in \[-5, 5\), for a batch of 5 examples; got (5|-6)"):
        collate(EXAMPLES)[index]


def test_other_indices_are_refused():
    batch = collate(EXAMPLES)

    with pytest.raises(IndexError, match="one bool per example; got 2 for 5"):
        batch[[True, False]]
    with pytest.raises(TypeError, match="takes a key, an integer"):
        batch[1.5]
    with pytest.raises(KeyError, match="nothing"):
        batch["nothing"]


def test_a_batch_that_was_not_collated_cannot_be_taken_apart():
    batch = Batch(x=np.zeros([3, 1]), ptr=np.array([0, 3]))

    assert batch.num_graphs == 1
    with pytest.raises(RuntimeError, match="must be made from examples to be taken apart"):
        batch.to_data_list()
    with pytest.raises(RuntimeError, match="must be made from examples to be taken apart"):
        batch[0]


def test_values_that_were_replaced_are_taken_apart_and_added_ones_refused():
    batch = Batch.from_data_list([graph(1), graph(2)])
    batch.x = tf.constant([[1.0], [2.0], [3.0]])

    assert [example.x.tolist() for example in batch.to_data_list()] == [[[1.0]], [[2.0], [3.0]]]
    batch.hidden = batch.x
    with pytest.raises(ValueError, match="got 'hidden', which was added since"):
        batch.to_data_list()
    del batch.hidden
    batch.x = batch.x[:2]
    with pytest.raises(ValueError, match="`x` must have 3 rows in dimension 0"):
        batch.to_data_list()


def test_batches_of_batches_keep_the_ids_of_inner_graphs():
    inner = collate([graph(2, [(0, 1)]), graph(2, [(1, 0)])], follow_batch=["edge_index"])

    outer = collate([inner, inner])

    assert outer.batch.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert outer.ptr.tolist() == [0, 2, 4, 6, 8]
    assert outer.edge_index.tolist() == [[0, 3, 4, 7], [1, 2, 5, 6]]
    assert outer.edge_index_batch.tolist() == [0, 1, 2, 3]
    assert outer.num_graphs == 2
    assert all(
        same(batch, inner) and same(batch.to_data_list(), inner.to_data_list()) for batch in outer.to_data_list()
    )
    assert collate([outer, inner]).batch.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_empty_last_inner_graphs_keep_their_id():
    inner = collate([graph(2), graph(0)])

    assert collate([inner, inner]).batch.tolist() == [0, 0, 2, 2]
    assert collate([inner, inner]).ptr.tolist() == [0, 2, 2, 4, 4]


def hetero(cls=HeteroGraphData):
    data = cls()
    data["p"].x = np.zeros([2, 4])
    data["a"].num_nodes = 3
    data["p", "w", "a"].edge_index = [[0, 1], [2, 0]]
    data["p", "w", "a"].weight = np.array([5.0, 6.0])
    data.y = 1
    return data


def test_edges_between_types_grow_by_the_nodes_of_their_types():
    batch = collate([hetero(), hetero()])

    assert batch["p", "w", "a"].edge_index.tolist() == [[0, 1, 2, 3], [2, 0, 5, 3]]
    assert batch["p"].batch.tolist() == [0, 0, 1, 1]
    assert batch["a"].ptr.tolist() == [0, 3, 6]
    assert (batch["a"].num_nodes, batch.num_nodes, batch.num_edges) == (6, 10, 4)
    assert batch.y.tolist() == [1, 1]
    assert (batch.node_types, batch.edge_types) == (["p", "a"], [("p", "w", "a")])
    assert all(same(example, hetero()) for example in batch.to_data_list())


def test_overridden_methods_of_types_get_their_values():
    class Rooted(HeteroGraphData):
        def __inc__(self, key, value, store=None, *args):
            return store.num_nodes if key == "root" else super().__inc__(key, value, store, *args)

    data = Rooted()
    data["p"].x = np.zeros([2, 1])
    data["p"].root = np.array([1])

    assert collate([data, data])["p"].root.tolist() == [1, 3]


def test_the_number_of_nodes_is_not_guessed_from_edges():
    data = GraphData(edge_index=[[0], [1]])

    with pytest.raises(ValueError, match="`num_nodes` must be known, because `edge_index` grows by it"):
        collate([data, data])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32])
def test_narrow_indices_are_widened_instead_of_wrapped(dtype):
    data = GraphData(num_nodes=100, edge_index=np.array([[0], [99]], dtype))

    batch = collate([data] * 4)

    assert batch.edge_index.tolist() == [[0, 100, 200, 300], [99, 199, 299, 399]]
    assert batch.edge_index.dtype == (np.int32 if dtype == np.int32 else np.int64)
    assert same(batch[3], data)


def test_edges_without_any_nodes_are_refused():
    nothing = GraphData(num_nodes=0, edge_index=np.zeros([2, 0], np.int64))

    assert collate([nothing, nothing]).edge_index.shape == (2, 0)
    with pytest.raises(ValueError, match=r"`edge_index` must hold indices in \[0, 0\) in example 1.*got 0"):
        collate([nothing, GraphData(num_nodes=0, edge_index=[[0], [0]])])


@pytest.mark.parametrize("edges", [[[0], [3]], [[-1], [0]]])
def test_edges_that_reach_into_another_graph_are_refused(edges):
    data = GraphData(x=np.zeros([3, 1]), edge_index=edges)

    with pytest.raises(ValueError, match=r"`edge_index` must hold indices in \[0, 3\) in example 1.*got (3|-1)"):
        collate([graph(1), GraphData(x=np.zeros([3, 2], np.float32), edge_index=edges)])
    with pytest.raises(ValueError, match=r"in \[0, 3\) in example 0"):
        collate([data])


@pytest.mark.parametrize("value", [np.array([0.5, 1.0]), np.array([True, False])])
def test_only_integers_grow(value):
    data = GraphData(x=np.zeros([3, 1]), index_of=value)

    with pytest.raises(ValueError, match=r"`index_of` must hold integers.*got (float64|bool)"):
        collate([data, data], guesses_by_name=True)
    assert collate([data, data], rules={"index_of": FieldRule()}).index_of.dtype == value.dtype


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, r"same keys; got example 1 with \['b'\]"),
        ({"a": 1, "b": 2}, {"a": 1}, r"same keys; got example 1 without \['b'\]"),
        ({"a": 1}, {"b": 1}, r"without \['a'\] and with \['b'\]"),
        ({"a": 1}, {"a": 1.5}, r"`a` must have values of one type in all examples; got \['float', 'int'\]"),
        ({"a": 1}, {"a": "b"}, "one type"),
        ({"a": "b"}, {"a": np.zeros([1])}, "same types"),
        ({"a": np.zeros([1])}, {"a": 0.5}, "one type"),
        ({"a": np.zeros([1])}, {"a": np.zeros([1], np.float32)}, r"`a` must have one dtype.*\['float32', 'float64'\]"),
        (
            {"a": np.zeros([1, 2])},
            {"a": np.zeros([1, 3])},
            r"same shape.*but for dimension 0; got \(1, 2\) in example 0",
        ),
        ({"a": np.array(1)}, {"a": np.array([1])}, "same shape"),
        ({"a": [np.ones(1)] * 2}, {"a": [np.ones(1)]}, r"`a` must have the same types and lengths"),
        ({"a": []}, {"a": [np.ones(1)]}, r"`a` must have the same types and lengths"),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, r"`a` must have the same keys in all examples; got \['b'\]"),
        ({"a": 2**70}, {"a": 1}, "must fit into 64 bits"),
    ],
)
def test_examples_that_do_not_fit_together_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        collate([GraphData(**first), GraphData(**second)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"follow_batch": ["z"]}, ValueError, r"`follow_batch` must name keys of the examples; got 'z'"),
        ({"exclude_keys": ["z"]}, ValueError, r"`exclude_keys` must name keys of the examples; got 'z'"),
        ({"exclude_keys": "x"}, TypeError, r"must be a list of keys; got 'x'. Write \['x'\]"),
        ({"follow_batch": ["x"], "exclude_keys": ["x"]}, ValueError, r"got \['x'\] in both"),
        ({"follow_batch": ["name"]}, ValueError, "must name arrays; got 'name', which holds str"),
        ({"rules": {"x": 0}}, TypeError, "must hold FieldRules; got 0"),
        ({"rules": {"x": FieldRule(axis=3)}}, ValueError, "got axis 3 for shape"),
        ({"rules": {"edge_index": FieldRule(axis=-1, increment="z")}}, ValueError, "must name a key or a node set"),
        ({"rules": {"edge_index": FieldRule(axis=-1, increment="name")}}, ValueError, "a key of arrays or integers"),
        ({"rules": {"edge_index": FieldRule(axis=-1, increment=("x",) * 3)}}, ValueError, "a matrix with 3 rows"),
    ],
)
def test_options_that_do_not_fit_the_examples_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        collate([graph(2, [(0, 1)], name="a")], **options)


def test_what_is_no_list_of_examples_is_refused():
    with pytest.raises(ValueError, match="must hold at least one example; got none"):
        collate([])
    with pytest.raises(TypeError, match="must hold GraphData; got dict"):
        collate([{"x": 1}])
    with pytest.raises(TypeError, match="must be of one class; got GraphData and, in example 1, MyData"):
        collate([GraphData(a=1), MyData(a=1)])
    with pytest.raises(ValueError, match="`batch` must be free"):
        collate([graph(1, batch="b")])


def test_a_batch_becomes_a_graph_with_a_component_for_each_example():
    layout = GraphLayout(
        node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}, "u": {tfx_gnn.SIZE_NAME: "num_u"}},
        edge_sets={
            "s_bonds": EdgeLayout(source="s", target="s", index="edge_index_s", features={"w": "w"}),
            "t_bonds": EdgeLayout(source="t", target="t", index="edge_index_t"),
        },
        context={"y": "y", "foo": "foo"},
        rules={"foo": FieldRule(axis=None)},
    )
    examples = [pair(), pair()]
    for position, example in enumerate(examples):
        example.num_u, example.y, example.foo = position, position, np.array([1.0, 2.0])
        example.w = np.arange(4.0)

    graph = collate(examples, layout=layout).to_graph_tensor(layout)

    assert tfx_gnn.component_ids(graph, node_set_name="s").numpy().tolist() == [0] * 5 + [1] * 5
    assert tfx_gnn.component_offsets(graph, node_set_name="t").numpy().tolist() == [0, 4, 8]
    assert graph.node_sets["u"].sizes.numpy().tolist() == [0, 1]
    assert graph.edge_sets["t_bonds"].adjacency.target.numpy().tolist() == [1, 2, 3, 5, 6, 7]
    assert graph.edge_sets["s_bonds"]["w"].numpy().tolist() == [0.0, 1.0, 2.0, 3.0] * 2
    assert graph.context["y"].numpy().tolist() == [0, 1]
    assert graph.context["foo"].shape == [2, 2]
    assert graph.indices_dtype == tf.int32
    tfx_gnn.assert_constraints(graph)


def test_a_batch_of_types_becomes_a_graph():
    layout = GraphLayout(
        node_sets={"p": {"x": ("p", "x")}, "a": {tfx_gnn.SIZE_NAME: ("a", "num_nodes")}},
        edge_sets={
            "w": EdgeLayout(
                source="p",
                target="a",
                index=("p", "w", "a", "edge_index"),
                features={"weight": ("p", "w", "a", "weight")},
            )
        },
        context={"y": "y"},
    )

    graph = collate([hetero(), hetero()]).to_graph_tensor(layout)

    assert graph.edge_sets["w"].adjacency.target.numpy().tolist() == [2, 0, 5, 3]
    assert graph.edge_sets["w"]["weight"].numpy().tolist() == [5, 6, 5, 6]
    assert graph.node_sets["a"].sizes.numpy().tolist() == [3, 3]


def test_a_layout_that_does_not_fit_the_batch_is_refused():
    batch = collate([graph(2, [(0, 1)], foo=np.zeros([3]), name="a")])

    with pytest.raises(KeyError, match="must name keys of the batch; got 'z'"):
        batch.to_graph_tensor(GraphLayout(node_sets={"n": {"x": "z"}}))
    with pytest.raises(ValueError, match=r"one row per item of the context, \[1\]; got \[3\]"):
        batch.to_graph_tensor(GraphLayout(node_sets={"n": {"x": "x"}}, context={"foo": "foo"}))
    edges = {"e": EdgeLayout(source="n", target="n", index="foo")}
    with pytest.raises(ValueError, match=r"must have shape \[2, num_edges\]; got \(3,\)"):
        batch.to_graph_tensor(GraphLayout(node_sets={"n": {"x": "x"}}, edge_sets=edges))
    other = collate([pair(PairData)] * 2)
    edges = {"e": EdgeLayout(source="t", target="t", index="edge_index_s")}
    with pytest.raises(ValueError, match="must have grown by the numbers of nodes of 't' and 't'"):
        other.to_graph_tensor(GraphLayout(node_sets={"t": {"x": "x_t"}}, edge_sets=edges))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_examples_and_batches_are_copied_and_pickled(again):
    data = graph(2, [(0, 1)])
    twin, batch = again(data), again(collate([data, data]))
    twin.y = 1

    assert data.y is None
    assert same(batch[1], data)
    assert again(hetero())["p"].num_nodes == 2


@pytest.mark.parametrize("examples", [None, GraphData(a=1), iter([GraphData(a=1)])])
def test_examples_are_a_list(examples):
    with pytest.raises(TypeError, match="`examples` must be a list of GraphData"):
        collate(examples)

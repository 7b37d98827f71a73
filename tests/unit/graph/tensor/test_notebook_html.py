from __future__ import annotations

import html.parser

import tensorflow as tf

from tfx_gnn.graph import Adjacency, Context, EdgeSet, GraphTensor, HyperAdjacency, NodeSet

HOSTILE = '<script>alert("1")</script>'


class _Cells(html.parser.HTMLParser):
    """Collects the texts of the cells, and the elements."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "br":
            self.rows[-1][-1] += " "

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def _graph():
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"year": tf.constant([2020, 2021])}),
        node_sets={
            HOSTILE: NodeSet.from_fields(
                sizes=tf.constant([1, 2]),
                features={"x": tf.ones([3, 4]), "words": tf.ragged.constant([["a"], [], ["b"]])},
            )
        },
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=tf.constant([0, 1]),
                features={},
                adjacency=Adjacency.from_indices((HOSTILE, tf.constant([1])), (HOSTILE, tf.constant([2]))),
            ),
            "hyper": EdgeSet.from_fields(
                sizes=tf.constant([0, 1]),
                features={},
                adjacency=HyperAdjacency.from_indices({0: (HOSTILE, tf.constant([1])), 2: (HOSTILE, tf.constant([2]))}),
            ),
        },
    )


def test_a_graph_shows_its_numbers_and_its_features():
    cells = _Cells(_graph()._repr_html_())

    assert cells.rows[1:] == [
        ["context", "", "", "2", "year int32 [2]"],
        ["node set", HOSTILE, "", "3", "x float32 [3, 4] words string [3, ?] ragged"],
        ["edge set", "e", f"{HOSTILE} \u2192 {HOSTILE}", "1", ""],
        ["edge set", "hyper", f"0: {HOSTILE}, 2: {HOSTILE}", "1", ""],
    ]
    assert "script" not in cells.tags


def test_a_spec_shows_what_is_unknown():
    spec = _graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)

    cells = _Cells(spec._repr_html_())

    assert [row[3] for row in cells.rows[1:]] == ["?", "?", "?", "?"]
    assert cells.rows[2][4] == "x float32 [?, 4] words string [?, ?] ragged"
    assert "GraphTensorSpec of shape []" in spec._repr_html_().replace("<b>", "").replace("</b>", "")


def test_a_traced_graph_shows_what_is_known_while_tracing():
    shown = []

    @tf.function
    def trace(graph):
        shown.append(_Cells(graph._repr_html_()).rows[2][3])
        return graph.num_components

    trace.get_concrete_function(_graph().spec.relax(num_nodes=True))

    assert shown == ["?"]


def test_a_graph_without_sets_and_a_batch_have_a_table():
    empty = GraphTensor.from_pieces(context=Context.from_fields(features={}, sizes=tf.constant([1])))
    (batch,) = tf.data.Dataset.from_tensors(empty).batch(1).take(1)

    assert len(_Cells(empty._repr_html_()).rows) == 2
    assert "of shape [1]" in batch._repr_html_()

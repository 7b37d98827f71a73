"""The page of explanations: graphs with the weights of their edges and nodes, and tables of the largest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import EDGES
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.reports import explanation_texts as texts
from tfx_gnn.reports.explanation_texts import subject_text, weight_text
from tfx_gnn.reports.report_page import FAINT, SERIES_COLORS, draw_for_page, page_script, render_page, script_hash
from tfx_gnn.reports.subgraph_view import MAX_NODES
from tfx_gnn.serving.deletion_check import DeletionCheck
from tfx_gnn.serving.example_edges import ExampleGraph
from tfx_gnn.serving.explained_prediction import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUM_ROWS = 10
_MAX_GRAPHS = 50


def render_explanation_page(
    records: Sequence[bytes], explanations: Sequence[Explanation], ends: Mapping[str, Sequence[str]], *, model: str
) -> str:
    """Renders explanations as one self-contained HTML page.

    Args:
        records: serialized raw graph tf.Examples.
        explanations: their explanations, in the same order; at least one.
        ends: node sets at the ends of edge sets, as the model declares them.
        model: the model, for the heading.
    """
    script = page_script("subgraph.js")
    titles = [subject_text(one, number) for number, one in enumerate(explanations)]
    graphs: list[dict[str, Any]] = []
    notes: list[str] = []
    for title, record, one in zip(titles, records, explanations, strict=True):
        example = tf.train.Example.FromString(record)
        graph = ExampleGraph.of(example, ends)
        if sum(graph.node_sizes.values()) > MAX_NODES:
            notes.append(f"{title} has more than {MAX_NODES:,} nodes and is not drawn.")
        elif len(graphs) == _MAX_GRAPHS:
            notes.append(f"{title} is not drawn: {_MAX_GRAPHS} graphs are the most.")
        else:
            graphs.append(_viewed(graph, ends, example, one, title))
    return render_page(
        "explanation.html.j2",
        model=model,
        method=explanations[0].method,
        explanations=[
            {
                "title": title,
                "prediction": texts.prediction_text(one),
                "value": texts.value_sentence(one),
                "unit": one.unit,
                "tables": texts.weight_tables(one, _NUM_ROWS),
                "checked": texts.check_sentence(one),
                "is_doubtful": bool(texts.check_warning(one)),
                "moved_unit": "" if one.check is None else texts.unit_text(one.check.unit),
                "chart": "" if one.check is None else _draw_check(one.check, f"check-{number}"),
            }
            for number, (title, one) in enumerate(zip(titles, explanations, strict=True))
        ],
        cost=texts.cost_sentence(explanations),
        warnings=[
            f"{title}: {warning}"
            for title, one in zip(titles, explanations, strict=True)
            for warning in filter(None, (texts.check_warning(one), *one.warnings))
        ],
        examples=graphs,
        notes=notes,
        script=script,
        script_hash=script_hash(script),
    )


def _draw_check(check: DeletionCheck, identity: str) -> str:
    """Draws how far the prediction moves while parts are removed."""
    scale = 100.0 if check.unit == "probability" else 1.0

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        removed = check.num_removed
        low, high, random, explained = (
            [scale * value for value in values]
            for values in (check.random_low, check.random_high, check.random, check.explained)
        )
        axes.fill_between(removed, low, high, color=FAINT, alpha=0.25, linewidth=0)
        axes.plot(removed, random, color=FAINT, linewidth=1.5, linestyle="--")
        axes.plot(removed, explained, color=SERIES_COLORS[0], linewidth=1.5, marker="o", markersize=2.5)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))

    moves = "falls" if check.lowers else "rises"
    title = f"How far the prediction {moves}, in {texts.unit_text(check.unit)}, by the number of removed parts"
    return draw_for_page(draw, identity=identity, title=title)


def _viewed(
    graph: ExampleGraph,
    ends: Mapping[str, Sequence[str]],
    example: tf.train.Example,
    explained: Explanation,
    title: str,
) -> dict[str, Any]:
    """Makes the form that the viewer draws; see `subgraph_view`."""
    names = sorted(graph.node_sizes)
    places = {name: place for place, name in enumerate(names)}
    sets = []
    of_nodes = {(node.node_set, node.index): node for node in explained.nodes}
    for name in names:
        found = [of_nodes.get((name, index)) for index in range(graph.node_sizes[name])]
        features = {}
        if any(found):
            features["weight"] = ["" if node is None else weight_text(node.weight) for node in found]
        for column in sorted({column for node in found if node is not None for column in node.values}):
            features[column] = [
                "" if node is None or column not in node.values else texts.value_text(node.values[column])
                for node in found
            ]
        for feature in sorted({feature for node in found if node is not None for feature in node.features}):
            features[f"weight of {feature}"] = [
                "" if node is None else weight_text(node.features.get(feature)) for node in found
            ]
        if name in graph.node_ids:
            features = {"#id": [str(one_id) for one_id in graph.node_ids[name]], **features}
        weights = [0.0 if node is None else node.weight for node in found]
        sets.append({"name": name, "size": len(found), "features": features, "weights": weights})
    edges = []
    for name, indices in graph.edges.items():
        weights_of_set = {edge.position: edge.weight for edge in explained.edges if edge.edge_set == name}
        source, target = (places[end] for end in graph.ends[name])
        edges.append(
            {
                "name": name,
                "source": source,
                "target": target,
                "s": indices[0].tolist(),
                "t": indices[1].tolist(),
                "weights": [weights_of_set[position] for position in range(indices.shape[1])],
            }
        )
    seeds = [
        [places[ends[f"{READOUT_NODE_SET}/{root}"][0]], index]
        for root in ("seed", "source", "target")
        if f"{READOUT_NODE_SET}/{root}" in ends
        for index in example.features.feature[f"{EDGES}/{READOUT_NODE_SET}/{root}.#source"].int64_list.value
    ]
    return {"title": title, "labels": [], "sets": sets, "edges": edges, "seeds": seeds}

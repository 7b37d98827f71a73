"""Explanations as sentences and rows of texts, for tables on a terminal and on a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.reports.number_texts import as_amount, as_percent, shorten

if TYPE_CHECKING:
    from tfx_gnn.serving.explained_prediction import EdgeWeight, Explanation, NodeWeight

_MAX_TEXT = 60
_MAX_VALUES = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightTable:
    """The largest weights of one kind.

    Attributes:
        kind: what the rows are, such as "edge".
        has_values: whether rows have values of tables.
        rows: name, values and weight of a part, and its share of the absolute weights of its kind.
    """

    kind: str
    has_values: bool
    rows: Sequence[tuple[str, str, float, float]]


def weight_text(weight: float | None) -> str:
    """Formats a weight with its sign."""
    return "" if weight is None else f"{weight:+.4f}"


def value_text(value: Any) -> str:
    """Writes a value of a table: texts in quotes, numbers and times as they are, and what is missing as such."""
    if value is None:
        return "missing"
    if isinstance(value, list):
        more = len(value) - _MAX_VALUES
        shown = ", ".join(map(value_text, value[:_MAX_VALUES]))
        return f"[{shown}{f', and {more} more' if more > 0 else ''}]"
    if isinstance(value, str) and not _is_time(value):
        return f'"{shorten(value, _MAX_TEXT)}"'
    return str(value)


def _is_time(text: str) -> bool:
    return len(text) == len("2026-01-01T00:00:00Z") and text[10] == "T" and text.endswith("Z")


def values_text(values: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """Writes the values of an item, as in `age = 43, country = "DE"`; those of some columns if names are given."""
    return ", ".join(
        f"{name} = {value_text(value)}" for name, value in values.items() if names is None or name in names
    )


def weight_tables(explained: Explanation, most: int) -> list[WeightTable]:
    """Arranges the largest weights by kind; weights of 0, and kinds without others, are left out.

    Args:
        explained: the explanation.
        most: rows of a table, at least 1.
    """
    edges = [(_edge_name(edge), values_text(edge.values), edge.weight, edge.share) for edge in explained.edges]
    nodes = [(_node_name(node), values_text(node.values), node.weight, node.share) for node in explained.nodes]
    items = list(_item_features(explained))
    total = sum(abs(weight) for _, _, weight in items) or 1.0
    of_items = [
        (name, values, weight, abs(weight) / total)
        for name, values, weight in sorted(items, key=lambda one: -abs(one[2]))
    ]
    in_all = sum(map(abs, explained.features.values())) or 1.0
    features = [
        (key.removeprefix("nodes/"), ", ".join(explained.columns.get(key, ())), weight, abs(weight) / in_all)
        for key, weight in explained.features.items()
    ]
    tables = (
        ("edge", any(edge.values for edge in explained.edges), edges),
        ("feature of a node, an edge or the context", True, of_items),
        ("node", any(node.values for node in explained.nodes), nodes),
        ("feature, over all items", bool(explained.columns), features),
    )
    found = [
        WeightTable(kind=kind, has_values=has_values, rows=[row for row in rows[:most] if row[2]])
        for kind, has_values, rows in tables
    ]
    return [table for table in found if table.rows]


def _item_features(explained: Explanation) -> Iterator[tuple[str, str, float]]:
    """Yields the name of each feature of each item, the values that it is made of, and its weight."""
    items: list[tuple[str, str, Mapping[str, float], Mapping[str, Any]]] = [
        (_node_name(node), f"nodes/{node.node_set}.", node.features, node.values) for node in explained.nodes
    ]
    items += [(_edge_name(edge), f"edges/{edge.edge_set}.", edge.features, edge.values) for edge in explained.edges]
    context = {
        key.removeprefix("context/"): weight for key, weight in explained.features.items() if key.startswith("context/")
    }
    items.append(("context", "context/", context, explained.values))
    for name, start, weights, values in items:
        for feature, weight in weights.items():
            yield f"{name}, {feature}", values_text(values, explained.columns.get(start + feature, ())), weight


def _edge_name(one: EdgeWeight) -> str:
    """Names an edge by the ids of its ends, or their positions."""
    source, target = (
        index if own_id is None else own_id
        for index, own_id in ((one.source, one.source_id), (one.target, one.target_id))
    )
    return f"{one.edge_set}: {source} -> {target}"


def _node_name(one: NodeWeight) -> str:
    """Names a node by its id, or its position."""
    return f"{one.node_set} {one.index if one.id is None else one.id}"


def subject_text(explained: Explanation, number: int) -> str:
    """Names what an explanation is about, such as "u138: cooking"."""
    subject = f"example {number}" if explained.id is None else str(explained.id)
    return f"{subject}: {explained.target_name}"


def prediction_text(explained: Explanation) -> str:
    """Says in a sentence what was predicted, and what is true."""
    if explained.probability is not None:
        is_predicted = explained.predicted == explained.target_name
        words = f"Predicted {explained.predicted}"
        words += "" if is_predicted else f"; explained is {explained.target_name}"
        words += f" with a probability of {as_percent(explained.probability)}"
    elif isinstance(explained.predicted, str):
        words = f"Best candidate {explained.predicted}; explained is {explained.target_name}"
    else:
        words = f"Predicted {explained.predicted:.4g} {explained.unit}"
    return f"{words}; {_label_text(explained)}."


def _label_text(explained: Explanation) -> str:
    if explained.label is None:
        return "the true label is unknown, because the example does not hold it"
    named = f"the true {explained.label_name or 'label'} is"
    if isinstance(explained.predicted, str) and explained.probability is None:
        return f"{named} {explained.label} (1: a true pair)"
    if explained.probability is not None:
        return f"{named} {explained.label}{', as predicted' if explained.label == explained.predicted else ''}"
    return f"{named} {as_amount(float(explained.label))}"


def value_sentence(explained: Explanation) -> str:
    """Says in a sentence what the weights add up to, with units."""
    words = (
        f"The explained value is {explained.value:.4f} {explained.unit}, and {explained.value_without_edges:.4f} "
        "without edges"
    )
    if explained.edges_error is not None and explained.value_without_features is not None:
        words += (
            f" (the weights miss {explained.edges_error:.3g}); with features of 0 it is "
            f"{explained.value_without_features:.4f} (they miss {explained.features_error:.3g})"
        )
    return f"{words}."


def check_sentence(explained: Explanation) -> str:
    """Says in a sentence what the removal of parts shows; "" if no check was asked for."""
    check = explained.check
    if check is None:
        return ""
    place = check.named
    count = check.num_removed[place]
    what = "prediction"
    if check.unit == "probability":
        what = f"probability of {explained.target_name}"
    side, moves = ("for", "lowers") if check.lowers else ("against", "raises")
    named = f"{count} parts that speak" if count > 1 else "part that speaks"
    drawn = f"{count} random parts" if count > 1 else "a random part"
    mean, low, high = (
        moved_text(values[place], check.unit) for values in (check.random, check.random_low, check.random_high)
    )
    return (
        f"Removing the {named} most {side} it {moves} the {what} by {moved_text(check.explained[place], check.unit)} "
        f"{unit_text(check.unit)}; {drawn} of {check.num_parts:,} by {mean} [{low}, {high}]. Over "
        f"{check.num_removed[-1]} removals, the explanation is ahead by {moved_text(check.area, check.unit)} on average"
        f"{': the order makes no difference' if check.verdict == 'all orders alike' else ''}."
    )


def cost_sentence(explanations: Sequence[Explanation]) -> str:
    """Says in sentences how explanations were checked, and what it cost; "" if none was."""
    checks = [one.check for one in explanations if one.check is not None]
    if not checks:
        return ""
    num_predictions = sum(check.num_predictions for check in checks)
    num_kept = sum(check.num_kept for check in checks)
    kept = f" {num_kept:,} weighed edges and features could not be removed, and stayed." if num_kept else ""
    return (
        f"The checks took {num_predictions:,} predictions: {checks[0].num_orders} random orders of each example, of "
        "which brackets hold 90%. A removed edge is left out of the example; a removed feature takes the typical value "
        f"of its columns: the mean, the median of whole numbers, or the most frequent text.{kept}"
    )


def check_warning(explained: Explanation) -> str:
    """Returns a warning if an explanation is no better than random, else ""."""
    check = explained.check
    if check is None or check.verdict != "no better than random":
        return ""
    return (
        "This explanation is no better than random: removing the parts that it names first moves the prediction no "
        "further than removing others. Do not rely on its weights; try the other method, or more `explanation_steps`."
    )


def moved_text(moved: float, unit: str) -> str:
    """Formats a movement of a prediction: of a probability in percentage points."""
    return f"{100 * moved:.1f}" if unit == "probability" else f"{moved:.3g}"


def unit_text(unit: str) -> str:
    """Names the unit of movements."""
    return "percentage points" if unit == "probability" else unit

"""What each proposal says of a graph: its tables, what is sampled of them, and how columns become features."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.tables.prepared_tables import ROW_TIME, PreparedTables
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY
from tfx_gnn_pipelines.proposals.labels import is_rare
from tfx_gnn_pipelines.proposals.leaks import LabelLeak
from tfx_gnn_pipelines.proposals.preparations import Preparation, choose_preparation
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphProposal:
    """The graph of a project for tables.

    Attributes:
        tables_dir: folder of the tables: the given one, or that of the tables that were prepared.
        schema: graph schema of the tables.
        is_inferred: whether the schema was inferred; otherwise the folder holds it.
        keys: what refers to what in tables that were prepared, a sentence each.
        questions: what the tables leave open, a sentence each.
        hops: what to sample around each seed.
        features: preparations by set, as in "nodes/user", and column.
        num_dangling: by edge set, its rows that name a node that is not there, if there are any.
        leaks: what tells the label almost alone, and is kept out of the examples: features, and sets of edges.
    """

    tables_dir: str
    schema: GraphSchema
    is_inferred: bool
    keys: tuple[str, ...]
    questions: tuple[str, ...]
    hops: tuple[Hop, ...]
    features: Mapping[str, Mapping[str, Preparation]]
    num_dangling: Mapping[str, int]
    leaks: tuple[LabelLeak, ...]

    def leaks_in_words(self) -> Iterator[str]:
        """Says what is kept out because it tells the label, and what to write if it may."""
        for leak in self.leaks:
            if not leak.feature:
                yield (
                    f"{leak.place} is not followed: {leak.evidence}. Probably these edges are known only after the "
                    "label. If they are known before, add hops along them."
                )
                continue
            place = f"{leak.place.partition('/')[2]}.{leak.feature}"
            yield (
                f"{place} is left out of the examples: {leak.evidence}. Probably it is known only after the label, "
                "or says the same in other words. If it is known before, take it out of `excluded_features`, "
                "declare it in `features`, and write "
                f"graph_example_validator: {{accepted_features: [{leak.place}.{leak.feature}]}}."
            )

    def features_in_words(self) -> Iterator[str]:
        """Says which columns are read by their words, which are no features, by reason, and which rows are no edges."""
        for prefix, of_set in self.features.items():
            for column, preparation in of_set.items():
                if preparation.kind == "text":
                    yield (
                        f"{prefix}.{column} is read by its words and their pairs: most rows have a text of their own, "
                        f"of {preparation.reason}."
                    )
        by_reason: dict[str, list[str]] = {}
        for prefix, of_set in self.features.items():
            for column, preparation in of_set.items():
                if preparation.kind == "drop":
                    by_reason.setdefault(preparation.reason, []).append(f"{prefix}.{column}")
        for reason, places in by_reason.items():
            yield f"{', '.join(places)} {'is no feature' if len(places) == 1 else 'are no features'}: {reason}."
        for edge_set, number in self.num_dangling.items():
            yield f"Rows of {edge_set} that name a node that no table has, and are left out: {number:,}."


def describe_rare_class(share: float | None) -> Iterator[str]:
    """Says which metric decides, if it is not the usual one; `share` is that of the rarer of two classes."""
    if is_rare(share):
        yield f"The rarer class has {share:.1%} of the rows: ROC AUC decides whether a model is good, not accuracy."


def propose_features(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    roots: Collection[str],
    hops: tuple[Hop, ...],
    *,
    left_out: set[tuple[str, str]],
    known: Mapping[tuple[str, str], Preparation],
    missing_values: Mapping[tuple[str, str], int],
) -> dict[str, dict[str, Preparation]]:
    """Chooses a preparation of each column of the roots' sets and those that the hops reach, unless it is known."""
    reached = {*roots}
    for hop in hops:
        reached |= {schema.edge_sets[hop.edge_set].source, schema.edge_sets[hop.edge_set].target}
    names = [f"nodes/{name}" for name in sorted(reached)] + [
        f"edges/{name}" for name in sorted({hop.edge_set for hop in hops})
    ]
    features = {}
    for prefix in names:
        table = tables[prefix]
        of_set = {
            name: known.get((prefix, name))
            or choose_preparation(
                name, feature, table.values_of(name), missing_value=missing_values.get((prefix, name))
            )
            for name, feature in sorted(declared_set(schema, table.layout).features.items())
            if (prefix, name) not in left_out and not name.startswith("#")
        }
        if of_set:
            features[prefix] = of_set
    return features


def ask_about_features(features: Mapping[str, Mapping[str, Preparation]]) -> Iterator[str]:
    """Asks about columns that may be something else than the feature that they become."""
    for prefix, of_set in features.items():
        for name, preparation in of_set.items():
            if preparation.doubt:
                yield (
                    f"{prefix}.{name} holds {preparation.doubt}: it is read as a quantity. If they are codes, write "
                    f"`{name}: vocabulary` in project.yaml; if they name rows of a table, give --foreign-key."
                )


def prepare_times(
    times: Collection[tuple[str, str]], prepared: PreparedTables | None, seed_time: str
) -> dict[tuple[str, str], Preparation]:
    """Takes times, by set and name, relative to that of the seed; as numbers, later rows exceed them.

    Args:
        times: the features that hold times.
        prepared: tables that were written anew, where times of edges repeat those of rows.
        seed_time: feature with the times of the seeds; empty if none is known.
    """
    if not seed_time:
        return dict.fromkeys(times, Preparation(kind="drop", reason="a time, which later rows exceed"))
    repeated = {(f"edges/{name}", ROW_TIME) for name in (prepared.repeated_times if prepared else ())}
    age = Preparation(kind="age", options={"seed_time": seed_time})
    known = Preparation(kind="drop", reason="the age of its row is a feature already")
    return {one: known if one in repeated else age for one in times}


def count_dangling(schema: GraphSchema, tables: Mapping[str, SetTable], hops: tuple[Hop, ...]) -> dict[str, int]:
    """Counts by edge set the ends that name a node that is not there, where there are any."""
    num_dangling = {}
    for name in sorted({hop.edge_set for hop in hops}):
        edge_set, table = schema.edge_sets[name], tables[f"edges/{name}"]
        num_rows = sum(
            table.values_of(key).num_filled
            - table.values_of(key).count_in(tables[f"nodes/{node_set}"].values_of(ID_FEATURE))
            for key, node_set in ((SOURCE_KEY, edge_set.source), (TARGET_KEY, edge_set.target))
        )
        if num_rows:
            num_dangling[name] = num_rows
    return num_dangling

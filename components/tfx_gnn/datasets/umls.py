"""UMLS: 135 medical concepts and 6,529 facts about pairs of them, as tables of one graph.

The semantic network of the Unified Medical Language System, as used for knowledge graph
completion (Kok and Domingos, ICML 2007), with the splits in the wheel of PyKEEN.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.datasets.tables_folder import DescribedGraph, DescribedTable, write_tables_folder
from tfx_gnn.datasets.wheel_files import WheelFiles

WHEEL = WheelFiles(package="pykeen", folder="pykeen/datasets/umls")
"""Location of the data."""

FACTS_FILE = "facts.parquet"
"""Table of all facts with their splits, for `SeedTable`; the graph has only the training facts."""

_ASKED = {"relation": "asked_relation"}
_SPLITS = {"train": "train.txt", "val": "valid.txt", "test": "test.txt"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class UmlsReport:
    """Sizes of the data set.

    Attributes:
        num_concepts: nodes.
        num_relations: number of relations.
        num_facts: facts by split.
    """

    num_concepts: int
    num_relations: int
    num_facts: dict[str, int]


def build_umls(output_dir: str, *, wheel: str) -> UmlsReport:
    """Writes UMLS as Parquet tables with their graph schema.

    Edge set `fact` holds the facts of the training split, with the names of their relations; the facts of the
    other splits are not in any edge set. `facts.parquet` holds all facts, with columns `source`, `target`,
    `asked_relation` and `split`. They are the seeds of link prediction, for
    `SeedTable(filename="facts.parquet", features={"asked_relation": "string"},
    identity_features=("asked_relation",), splits_edges=False)`. `wheel` is the path of a wheel of PyKEEN, or of
    any zip archive with a folder pykeen/datasets/umls in it.
    """
    contents = WHEEL.read(wheel)
    splits = {split: _triples(WHEEL.file(contents, file), file) for split, file in _SPLITS.items()}
    known = splits["train"]
    concepts = _names(known, "source", "target")
    known_names = {"source": concepts, "target": concepts, "relation": _names(known, "relation")}
    for split, triples in splits.items():
        for column, names in known_names.items():
            unseen = triples.filter(pc.invert(pc.is_in(triples[column], value_set=names)))
            if unseen.num_rows:
                raise ValueError(
                    f"`{_SPLITS[split]}` must only use names in train.txt; got {column} {unseen[column][0].as_py()!r}. "
                    "Is it a file of another data set?"
                )
    facts = pa.concat_tables(
        triples.append_column("split", pa.array([split] * triples.num_rows, pa.string()))
        for split, triples in splits.items()
    )
    graph = DescribedGraph(
        node_sets={
            "concept": DescribedTable(
                table=pa.table({"id": concepts}), filename="node_concept.parquet", description="A medical concept."
            )
        },
        edge_sets={
            "fact": DescribedTable(
                table=known,
                filename="edge_fact.parquet",
                description="A fact of the training split: its source relates to its target.",
                features={"relation": "Name of the relation."},
            )
        },
        ends={"fact": ("concept", "concept")},
        # A label of the seeds must not have the same name as an edge feature.
        loose_tables={FACTS_FILE: facts.rename_columns([_ASKED.get(name, name) for name in facts.column_names])},
    )
    write_tables_folder(output_dir, graph)
    return UmlsReport(
        num_concepts=len(concepts),
        num_relations=len(known_names["relation"]),
        num_facts={split: triples.num_rows for split, triples in splits.items()},
    )


def _names(triples: pa.Table, *columns: str) -> pa.Array:
    """Returns the distinct names in the given columns, in alphabetical order."""
    chunks = [chunk for column in columns for chunk in triples[column].chunks]
    names = pc.unique(pa.chunked_array(chunks, pa.string()))
    return names.take(pc.array_sort_indices(names))


def _triples(content: bytes, file: str) -> pa.Table:
    rows = [line.split("\t") for line in content.decode().splitlines() if line]
    for number, row in enumerate(rows, start=1):
        if len(row) != 3:
            raise ValueError(
                f"`{file}` must have source, relation and target in each line, separated by tabs; got {len(row)} "
                f"fields in line {number}. Is the file complete?"
            )
    columns = np.array(rows, dtype=object).reshape(-1, 3).T
    return pa.table(
        {name: pa.array(columns[place], pa.string()) for name, place in (("source", 0), ("target", 2), ("relation", 1))}
    )

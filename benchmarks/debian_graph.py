"""The Debian graph at full size, copies of it, and what the benchmarks sample from it."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from comparison import Absent
from google.protobuf import text_format

from tfx_gnn.graph import read_schema, write_schema
from tfx_gnn.sampling import Hop, SamplingPlan, SeedTable

#: Environment variable with the folder of the tables.
TABLES_VARIABLE = "TFX_GNN_DEBIAN_TABLES"
#: Edge sets of the comparison with tensorflow-gnn: those and no others are in its tables.
FOUR_EDGE_SETS = ("built_from", "depends", "maintained_by", "recommends")
#: Nodes of the first and of the second step that are taken along an edge set.
FAN_OUTS = (8, 4)
#: Name of the table of seeds in `copy_tables`' folders, without suffix.
SEEDS = "seeds"

_SEED_SET = "package"
_RELATIONS = ("depends", "recommends", "suggests")


@functools.cache
def debian_tables() -> str | Absent:
    """Finds the tables of the full graph: those that are named, or new ones from apt's lists."""
    if folder := os.environ.get(TABLES_VARIABLE):
        return folder
    from tfx_gnn.datasets.debian import build_debian_graph
    from tfx_gnn.datasets.debian_index_files import find_index_files

    try:
        files = find_index_files()
    except ValueError as error:
        return Absent(f"{error} Or set {TABLES_VARIABLE} to an output of `tfx-gnn dataset debian`.")
    folder = tempfile.mkdtemp(prefix="debian_tables_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    build_debian_graph(folder, packages=files.packages, sources=files.sources)
    return folder


def heterogeneous_plan() -> SamplingPlan:
    """Two steps over relations in both directions, sources, maintainers and tags: 61 nodes in the mean."""
    first, second = FAN_OUTS
    near = (*_RELATIONS, *(f"{name}_back" for name in _RELATIONS))
    hops = [
        *(Hop(edge_set=name, fan_out=first) for name in _RELATIONS),
        *(Hop(edge_set=name, fan_out=first, direction="backward", name=f"{name}_back") for name in _RELATIONS),
        Hop(edge_set="built_from", fan_out=first),
        Hop(edge_set="maintained_by", fan_out=first),
        Hop(edge_set="built_from", fan_out=second, inputs=("built_from",), direction="backward", name="siblings"),
        Hop(edge_set="build_depends", fan_out=second, inputs=("built_from",)),
        *(Hop(edge_set=name, fan_out=second, inputs=near, name=f"{name}_of_near") for name in _RELATIONS),
        *(
            Hop(edge_set=name, fan_out=second, inputs=near, direction="backward", name=f"{name}_back_of_near")
            for name in _RELATIONS
        ),
        *(
            Hop(edge_set=name, fan_out=second, inputs=near, name=f"{name}_of_near")
            for name in ("built_from", "maintained_by", "tagged")
        ),
    ]
    return SamplingPlan(seed_node_set=_SEED_SET, label_features=("section",), hops=tuple(hops))


def four_edge_sets_plan(*, has_seed_table: bool = False) -> SamplingPlan:
    """Two steps along four edge sets, as in `four_edge_sets_spec`."""
    first, second = FAN_OUTS
    hops = [
        *(Hop(edge_set=name, fan_out=first, name=f"{name}_1") for name in FOUR_EDGE_SETS),
        *(
            Hop(edge_set=name, fan_out=second, name=f"{name}_2", inputs=("depends_1", "recommends_1"))
            for name in FOUR_EDGE_SETS
        ),
    ]
    return SamplingPlan(
        seed_node_set=_SEED_SET,
        label_features=("section",),
        hops=tuple(hops),
        seed_table=SeedTable(filename=f"{SEEDS}.parquet") if has_seed_table else None,
        expands_seed_again=True,
    )


def four_edge_sets_spec() -> str:
    """The same as a sampling spec of tensorflow-gnn, as text."""
    operations = [
        f'sampling_ops {{ op_name: "{hop.name}" {" ".join(f"input_op_names: {name!r}" for name in hop.inputs)} '
        f'edge_set_name: "{hop.edge_set}" sample_size: {hop.fan_out} strategy: RANDOM_UNIFORM }}'
        for hop in four_edge_sets_plan().hops
    ]
    return "\n".join([f'seed_op {{ op_name: "seed" node_set_name: "{_SEED_SET}" }}', *operations]) + "\n"


def copy_tables(tables_dir: str, output_dir: str, *, times: int = 1, num_seeds: int, as_csv: bool = False) -> None:
    """Writes the tables of `FOUR_EDGE_SETS`, several times the same graph, and a table of seeds.

    Args:
        tables_dir: the full graph.
        output_dir: folder to make.
        times: how often the graph is there; the ids of further copies have a suffix.
        num_seeds: seeds, all of the first copy and the same whatever `times` is.
        as_csv: writes CSV, with the columns that tensorflow-gnn wants, instead of Parquet.
    """
    os.makedirs(output_dir)
    schema = read_schema(os.path.join(tables_dir, "graph_schema.pbtxt"))
    for name in set(schema.edge_sets) - set(FOUR_EDGE_SETS):
        del schema.edge_sets[name]
    for name in set(schema.node_sets) - {
        end for edges in schema.edge_sets.values() for end in (edges.source, edges.target)
    }:
        del schema.node_sets[name]
    suffix = "csv" if as_csv else "parquet"
    for prefix, sets in (("node", schema.node_sets), ("edge", schema.edge_sets)):
        for name, entry in sets.items():
            settings = {setting.key: setting.value for setting in entry.metadata.extra}
            id_columns = [settings["id_column"]] if prefix == "node" else ["source", "target"]
            table = pq.read_table(
                os.path.join(tables_dir, entry.metadata.filename), columns=[*id_columns, *sorted(entry.features)]
            )
            if prefix == "node":
                table = table.rename_columns(["id", *table.column_names[1:]])
                id_columns = ["id"]
            if name == _SEED_SET:
                _write(_choose_seeds(table, num_seeds), os.path.join(output_dir, f"{SEEDS}.{suffix}"))
            entry.metadata.filename = f"{prefix}_{name}.{suffix}"
            entry.metadata.cardinality = table.num_rows * times
            del entry.metadata.extra[:]
            _write_copies(table, os.path.join(output_dir, entry.metadata.filename), id_columns, times)
    if as_csv:
        with open(os.path.join(output_dir, "graph_schema.pbtxt"), "w") as file:
            file.write(text_format.MessageToString(schema))
    else:
        write_schema(schema, os.path.join(output_dir, "graph_schema.pbtxt"))


def _choose_seeds(nodes: pa.Table, num_seeds: int) -> pa.Table:
    step = nodes.num_rows / num_seeds
    return nodes.select(["id"]).take([int(step * number) for number in range(num_seeds)])


def _write_copies(table: pa.Table, path: str, id_columns: list[str], times: int) -> None:
    copies = [table]
    for number in range(1, times):
        copy = table
        for position, column in enumerate(id_columns):
            ids = pc.binary_join_element_wise(copy[column], f"copy{number}", "~")
            copy = copy.set_column(position, column, ids)
        copies.append(copy)
    _write(pa.concat_tables(copies), path)


def _write(table: pa.Table, path: str) -> None:
    if path.endswith(".csv"):
        pa_csv.write_csv(table, path)
    else:
        pq.write_table(table, path, compression="zstd", row_group_size=1 << 16)

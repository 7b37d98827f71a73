"""The verb `sample`: from tables to graph tf.Examples."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.tables.table_access import SCHEMA_FILE, TableAccess

if TYPE_CHECKING:
    from tfx_gnn.components.subgraph_example_gen.stage import ExampleGenReport
    from tfx_gnn.sampling.plan.plan import SamplingPlan

_Kind = TypeVar("_Kind")

_ROWS = "Rows of the tables"


def sample(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of `graph_schema.pbtxt` and the tables that it names.")],
    examples_dir: Annotated[str, arguments.folder("Where to write graph tf.Examples, by split.")],
    plan: Annotated[
        str,
        typer.Option(
            help="What to sample around each seed: a JSON file, a sampling spec of TF-GNN (`.pbtxt`), or "
            "'package.module:NAME' of a SamplingPlan or of a function that returns one.",
            show_default=False,
        ),
    ] = "",
    graph_level_examples: Annotated[
        str,
        typer.Option(
            help="Instead of a plan, for tables of many small graphs: a JSON file, or 'package.module:NAME' of a "
            "GraphLevelExamples or of a function that returns one.",
            show_default=False,
        ),
    ] = "",
    label_features: Annotated[
        list[str] | None,
        typer.Option("--label-feature", help="Label to read out, for a sampling spec; repeat for several."),
    ] = None,
    allows_empty_splits: Annotated[
        bool,
        typer.Option("--allow-empty-splits", help="Let splits be empty, where there are few seeds."),
    ] = False,
    split_column: Annotated[str, typer.Option(help="Column of the seeds' splits, for a sampling spec.")] = "",
    seed_edge_set: Annotated[str, typer.Option(help="Edge set of the pairs, for a sampling spec of links.")] = "",
    sampling_seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    num_shards: Annotated[int, typer.Option(help="Files a split.")] = 2,
    invalid_rows: Annotated[
        str, typer.Option(help="Rows with missing or wrong values: `refuse` or `drop`.", rich_help_panel=_ROWS)
    ] = "refuse",
    duplicate_nodes: Annotated[
        str, typer.Option(help="Nodes with an id that is taken: `refuse` or `keep_first`.", rich_help_panel=_ROWS)
    ] = "refuse",
    duplicate_edges: Annotated[
        str,
        typer.Option(help="Edges with equal ends (and time): `keep`, `refuse` or `keep_first`.", rich_help_panel=_ROWS),
    ] = "keep",
    dangling_edges: Annotated[
        str, typer.Option(help="Edges of nodes that are not there: `refuse` or `drop`.", rich_help_panel=_ROWS)
    ] = "refuse",
    max_dropped_share: Annotated[
        float | None,
        typer.Option(
            help="Most that may be dropped of a table, in [0, 1], where `drop` is chosen; by default any share.",
            show_default=False,
            rich_help_panel=_ROWS,
        ),
    ] = None,
    schema_file: arguments.SchemaFile = SCHEMA_FILE,
    allow_outside_files: arguments.AllowOutsideFiles = False,
    max_record_mib: arguments.MaxRecordMib = 16,
    execution: Annotated[
        str, typer.Option(help="`in_memory`, or `beam` for graphs that one machine does not hold.")
    ] = "in_memory",
    num_partitions: Annotated[
        int, typer.Option(help="On Beam, partitions of the graph: a power of two, 0 to choose by size.")
    ] = 0,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Cut a subgraph out of the tables around every seed, or write many small graphs whole."""
    from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
    from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
    from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
    from tfx_gnn.tables.row_rules import RowRules

    if execution == "in_memory" and (num_partitions or beam_args):
        raise ValueError(
            "`--num-partitions` and `--beam-arg` must go with `--execution beam`; got "
            f"{num_partitions} and {beam_args or []}. Add it, or leave them out."
        )
    arguments.check_dropped_share(max_dropped_share, invalid_rows, dangling_edges)
    access = TableAccess(
        schema_file=schema_file, allow_outside_files=allow_outside_files, max_record_mib=max_record_mib
    )
    made_plan = None
    if plan:
        of_spec = {
            "label_features": tuple(label_features or ()),
            "seed_edge_set": seed_edge_set,
            "column": split_column,
        }
        made_plan = _load_plan(plan, tables_dir, access, of_spec)
        if allows_empty_splits:
            splits = dataclasses.replace(made_plan.splits, allows_empty_splits=True)
            made_plan = dataclasses.replace(made_plan, splits=splits)
    # Whether a text is one of the choices is checked by the options, as for every caller.
    rules: dict[str, Any] = {
        "invalid_rows": invalid_rows,
        "duplicate_nodes": duplicate_nodes,
        "duplicate_edges": duplicate_edges,
        "dangling_edges": dangling_edges,
    }
    how: dict[str, Any] = {"execution": execution}
    options = SubgraphExampleGenOptions(
        plan=made_plan,
        graph_level_examples=_load("graph_level_examples", graph_level_examples, GraphLevelExamples)
        if graph_level_examples
        else None,
        sampling_seed=sampling_seed,
        num_shards=num_shards,
        num_partitions=num_partitions,
        rules=RowRules(max_dropped_share=max_dropped_share, **rules),
        access=access,
        **how,
    )
    report = generate_subgraph_examples(
        tables_dir=tables_dir, examples_dir=examples_dir, options=options, beam_args=tuple(beam_args or ())
    )
    _print_report(report)
    arguments.say_written(examples=examples_dir)


def _load_plan(reference: str, tables_dir: str, access: TableAccess, of_spec: dict[str, Any]) -> SamplingPlan:
    """Makes the plan; `of_spec` holds what a sampling spec does not say itself."""
    from tfx_gnn.sampling.plan.plan import SamplingPlan
    from tfx_gnn.sampling.plan.sampling_spec import plan_from_sampling_spec, read_sampling_spec
    from tfx_gnn.sampling.plan.split_plan import SplitPlan
    from tfx_gnn.tables.graph_tables import read_tables_schema

    given = {name: value for name, value in of_spec.items() if value}
    if reference.endswith(".pbtxt"):
        splits = SplitPlan(column=given.pop("column", ""))
        spec = read_sampling_spec(reference)
        return plan_from_sampling_spec(spec, read_tables_schema(tables_dir, access=access), splits=splits, **given)
    if given:
        raise ValueError(
            "`--label-feature`, `--split-column` and `--seed-edge-set` must be part of the plan, unless it is a "
            f"sampling spec; got {list(given.values())} for {reference!r}. Write them into the plan."
        )
    return _load("plan", reference, SamplingPlan)


def _load(name: str, reference: str, kind: type[_Kind]) -> _Kind:
    from tfx_gnn.io import options_json, user_code

    if reference.endswith(".json"):
        try:
            with open(reference, encoding="utf-8") as file:
                return options_json.from_json(file.read(), kind, name=name)
        except ValueError as error:
            raise ValueError(
                f"`{name}` must name a JSON file of a {kind.__name__}; got {reference!r} with a mistake. "
                f"Correct it: {error}"
            ) from error
    value = user_code.load_object(reference)
    if callable(value):
        value = value()
    if not isinstance(value, kind):
        raise TypeError(
            f"`{name}` must name a {kind.__name__}, or a function that returns one; got {type(value).__name__} from "
            f"{reference!r}. Define or return one there."
        )
    return value


def _print_report(report: ExampleGenReport) -> None:
    statistics = report.statistics
    rows = Table("table", "rows read", "used", "dropped", box=None, pad_edge=False)
    for label, table in sorted(report.tables.items()):
        dropped = ", ".join(f"{count} {rule}" for rule, count in sorted(table.dropped.items()))
        rows.add_row(label, f"{table.rows_read:,}", f"{table.rows_used:,}", dropped or "0")
    arguments.console.print(rows)
    splits = ", ".join(f"{count:,} {split}" for split, count in report.num_seeds.items())
    if report.num_no_seeds:
        splits += f", {report.num_no_seeds:,} no seeds"
    arguments.console.print(
        f"{splits}; nodes {statistics.all_nodes.mean:.1f} on average, {statistics.all_nodes.max:,} at most; "
        f"edges {statistics.all_edges.mean:.1f}, {statistics.all_edges.max:,}",
        markup=False,
        soft_wrap=True,
    )
    missing = sum(report.num_missing_negatives.values())
    if missing:
        wanted = missing + sum(report.num_negatives.values())
        arguments.console.print(
            f"{missing:,} of {wanted:,} negative pairs could not be drawn: raise `num_draws`, or ask for fewer",
            markup=False,
            soft_wrap=True,
        )

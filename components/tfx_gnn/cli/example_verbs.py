"""Commands for graph tf.Examples: `sample` makes them from tables, `schema` describes and `validate` checks them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

if TYPE_CHECKING:
    from tfx_gnn.records.example_gen_report import ExampleGenReport
    from tfx_gnn.sampling.plan.plan import SamplingPlan

_Kind = TypeVar("_Kind")

_ROWS = "Rows of the tables"


@flags_of_options(
    SubgraphExampleGenOptions,
    leave_out=("plan", "graph_level_examples", "rules", "access"),
    as_values=True,
    shown=("num_shards", "sampling_seed"),
)
@flags_of_options(RowRules, into="rules", panel=_ROWS, shown=("invalid_rows", "dangling_edges"))
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL)
def sample(
    *,
    tables_dir: arguments.Tables,
    examples_dir: Annotated[str, arguments.folder("Where to write the graph tf.Examples, by split.")],
    plan: Annotated[
        str,
        typer.Option(
            help="What to sample around each seed: a project file (`project.yaml`), a JSON file of a plan, a TF-GNN "
            "sampling spec (`.pbtxt`), or 'package.module:NAME' of a SamplingPlan or a function that returns one.",
            show_default=False,
        ),
    ] = "",
    graph_level_examples: Annotated[
        str,
        typer.Option(
            help="Instead of a plan, for tables of many small graphs: a JSON file, or 'package.module:NAME' of a "
            "GraphLevelExamples or a function that returns one.",
            show_default=False,
        ),
    ] = "",
    label_features: Annotated[
        list[str] | None,
        typer.Option("--label-feature", help="With a sampling spec: label to read out; repeat for several."),
        FOLDED,
    ] = None,
    allows_empty_splits: Annotated[
        bool,
        typer.Option("--allow-empty-splits", help="Allow splits to be empty, as may happen with few seeds."),
        FOLDED,
    ] = False,
    split_column: Annotated[str, typer.Option(help="With a sampling spec: column of the seeds' splits."), FOLDED] = "",
    seed_edge_set: Annotated[
        str, typer.Option(help="With a sampling spec for link prediction: edge set of the seed pairs."), FOLDED
    ] = "",
    every_node: Annotated[
        bool,
        typer.Option(
            "--every-node",
            help="Sample around every node of the plan's seed node set, without labels and in one split, to ask a "
            "model about them by `infer`.",
        ),
    ] = False,
    ids: Annotated[
        str,
        typer.Option(
            help="The same around the nodes of a table, relative to the tables folder, with a column `id`; or, for a "
            "plan of links, around pairs, with `source` and `target`.",
            show_default=False,
            metavar="FILE",
        ),
    ] = "",
    span: arguments.Span = "",
    options: dict[str, Any],
    rules: RowRules,
    access: TableAccess,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Sample a subgraph around every seed from the tables, or write many small graphs whole."""
    from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
    from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
    from tfx_gnn.sampling.plan.inference_plan import plan_for_inference
    from tfx_gnn.tables.graph_tables import read_tables_schema
    from tfx_gnn.tables.spans import find_span

    if (every_node and ids) or ((every_node or ids) and not plan):
        raise ValueError(
            "`--every-node` or `--ids` must be given alone, with a plan; got "
            f"{'both' if every_node and ids else 'no plan'}. Choose one of them, and name the plan of the training."
        )
    if options["execution"] == "in_memory" and (options["num_partitions"] or beam_args):
        raise ValueError(
            "`--num-partitions` and `--beam-arg` must go with `--execution beam`; got "
            f"{options['num_partitions']} and {beam_args or []}. Add --execution beam, or leave them out."
        )
    arguments.check_row_rules(rules)
    found = find_span(tables_dir, span)
    made_plan = None
    if plan:
        of_spec = {
            "label_features": tuple(label_features or ()),
            "seed_edge_set": seed_edge_set,
            "column": split_column,
        }
        made_plan = _load_plan(plan, found.folder, access, of_spec)
        if every_node or ids:
            made_plan = plan_for_inference(made_plan, ids=ids, schema=read_tables_schema(found.folder, access=access))
        if allows_empty_splits:
            splits = dataclasses.replace(made_plan.splits, allows_empty_splits=True)
            made_plan = dataclasses.replace(made_plan, splits=splits)
    graphs = None
    if graph_level_examples:
        graphs = _load_object("graph_level_examples", graph_level_examples, GraphLevelExamples)
    whole = SubgraphExampleGenOptions(
        plan=made_plan, graph_level_examples=graphs, rules=rules, access=access, **options
    )
    report = generate_subgraph_examples(
        tables_dir=tables_dir,
        span=found.name,
        examples_dir=examples_dir,
        options=whole,
        beam_args=tuple(beam_args or ()),
    )
    _show_report(report)
    arguments.say_written(examples=examples_dir)


def _load_plan(reference: str, tables_dir: str, access: TableAccess, of_spec: dict[str, Any]) -> SamplingPlan:
    """Loads the plan; `of_spec` holds the options that complete a sampling spec."""
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
            f"sampling spec; got {list(given.values())} for {reference!r}. Put them in the plan."
        )
    if reference.endswith((".yaml", ".yml")):
        return _plan_of_project(reference)
    return _load_object("plan", reference, SamplingPlan)


def _plan_of_project(file: str) -> SamplingPlan:
    from tfx_gnn_pipelines.project import read_project

    plan = read_project(file).task.plan
    if plan is None:
        raise ValueError(
            f"`plan` must name a project that samples subgraphs; got {file!r}, which has `graph_level_examples`. Write "
            "them to a JSON file for `--graph-level-examples`."
        )
    return plan


def _load_object(name: str, reference: str, kind: type[_Kind]) -> _Kind:
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


def _show_report(report: ExampleGenReport) -> None:
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
    if report.tables_span and report.earlier_spans:
        spans = ", ".join(f"{one.num_seeds:,} of span {one.tables_span.name}" for one in report.earlier_spans)
        arguments.console.print(
            f"{spans} among these, the others of span {report.tables_span.name}", markup=False, soft_wrap=True
        )
    missing = sum(report.num_missing_negatives.values())
    if missing:
        wanted = missing + sum(report.num_negatives.values())
        arguments.console.print(
            f"{missing:,} of {wanted:,} negative pairs could not be drawn: raise `num_draws`, or ask for fewer",
            markup=False,
            soft_wrap=True,
        )


@flags_of_options(GraphSchemaGenOptions, shown=None)
def schema(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema, which is checked against the examples.")
    ],
    schema_dir: Annotated[str, arguments.folder("Where to write the standard TensorFlow Metadata schema.")],
    options: GraphSchemaGenOptions,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the examples and write the schema of their graphs."""
    from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema

    generate_graph_schema(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        schema_dir=schema_dir,
        options=options,
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(graph_schema=graph_schema_dir, schema=schema_dir)


@flags_of_options(
    GraphExampleValidatorOptions,
    leave_out=("compares_with_latest_blessed",),
    names={"edge_time_features": "--edge-time"},
    comma_separated=("split_order",),
    shown=("splits", "label_feature", "max_l_infinity_drift"),
)
def validate(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: arguments.GraphSchema,
    statistics_dir: Annotated[str, arguments.folder("Where to write statistics, in TFDV's format.")],
    anomalies_dir: Annotated[str, arguments.folder("Where to write anomalies, in TFDV's format and as JSON.")],
    blessing_dir: Annotated[str, arguments.folder("Where to write `BLESSED` or `NOT_BLESSED`, and the reasons.")],
    baseline_statistics_dir: Annotated[
        str,
        typer.Option(
            help="Statistics of earlier data, to measure drift against.", show_default=False, metavar="FOLDER"
        ),
    ] = "",
    options: GraphExampleValidatorOptions,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the graphs, splits and labels of examples, and bless the examples if they are fit for training.

    Exits with 1 if they are not blessed.
    """
    from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples

    validation = validate_graph_examples(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        statistics_dir=statistics_dir,
        anomalies_dir=anomalies_dir,
        blessing_dir=blessing_dir,
        baseline_statistics_dir=baseline_statistics_dir,
        options=options,
        beam_args=tuple(beam_args or ()),
    )
    counts = ", ".join(f"{number} of '{split}'" for split, number in validation.num_examples.items())
    arguments.console.print(f"whole examples: {counts}", markup=False)
    if validation.anomalies:
        table = Table("", "split", "check", "about", "count", "what, and where first", show_lines=True)
        for item in validation.anomalies:
            table.add_row(
                Text("error", style="red") if item.is_error else Text("warning", style="yellow"),
                item.split,
                item.check,
                item.about,
                str(item.num_examples or ""),
                item.description,
            )
        arguments.console.print(table)
    arguments.say_written(statistics=statistics_dir, anomalies=anomalies_dir, blessing=blessing_dir)
    errors = [f"{item.check} in split {item.split!r}" for item in validation.anomalies if item.is_error]
    arguments.end_with_blessing(blessed=validation.blessed, objections=list(dict.fromkeys(errors)))

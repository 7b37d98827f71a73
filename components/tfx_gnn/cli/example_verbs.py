"""Commands for graph tf.Examples: `sample` makes them from tables, `schema` describes and `validate` checks them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from tfx_gnn.cli import arguments
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.tables.table_access import TableAccess

if TYPE_CHECKING:
    from tfx_gnn.components.subgraph_example_gen.stage import ExampleGenReport
    from tfx_gnn.sampling.plan.plan import SamplingPlan

_Kind = TypeVar("_Kind")

_ROWS = "Rows of the tables"


def sample(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder with `graph_schema.pbtxt` and the tables that it names.")],
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
    ] = None,
    allows_empty_splits: Annotated[
        bool,
        typer.Option("--allow-empty-splits", help="Allow splits to be empty, as may happen with few seeds."),
    ] = False,
    split_column: Annotated[str, typer.Option(help="With a sampling spec: column of the seeds' splits.")] = "",
    seed_edge_set: Annotated[
        str, typer.Option(help="With a sampling spec for link prediction: edge set of the seed pairs.")
    ] = "",
    sampling_seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    num_shards: Annotated[int, typer.Option(help="Files per split.")] = 2,
    invalid_rows: Annotated[
        str, typer.Option(help="Rows with missing or wrong values: `refuse` or `drop`.", rich_help_panel=_ROWS)
    ] = "refuse",
    duplicate_nodes: Annotated[
        str, typer.Option(help="Nodes whose id occurred before: `refuse` or `keep_first`.", rich_help_panel=_ROWS)
    ] = "refuse",
    duplicate_edges: Annotated[
        str,
        typer.Option(
            help="Edges with the same ends (and time): `keep`, `refuse` or `keep_first`.", rich_help_panel=_ROWS
        ),
    ] = "keep",
    dangling_edges: Annotated[
        str, typer.Option(help="Edges whose source or target is missing: `refuse` or `drop`.", rich_help_panel=_ROWS)
    ] = "refuse",
    max_dropped_share: Annotated[
        float | None,
        typer.Option(
            help="Largest fraction of a table's rows that `drop` may drop, in [0, 1]; by default any.",
            show_default=False,
            rich_help_panel=_ROWS,
        ),
    ] = None,
    schema_file: arguments.SchemaFile = GRAPH_SCHEMA_FILE,
    allow_outside_files: arguments.AllowOutsideFiles = False,
    max_record_mib: arguments.MaxRecordMib = 16,
    execution: Annotated[
        str, typer.Option(help="`in_memory`, or `beam` for graphs that do not fit on one machine.")
    ] = "in_memory",
    num_partitions: Annotated[
        int, typer.Option(help="With `beam`, partitions of the graph: a power of two, or 0 to choose by size.")
    ] = 0,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Sample a subgraph around every seed from the tables, or write many small graphs whole."""
    from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
    from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
    from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples

    if execution == "in_memory" and (num_partitions or beam_args):
        raise ValueError(
            "`--num-partitions` and `--beam-arg` must go with `--execution beam`; got "
            f"{num_partitions} and {beam_args or []}. Add --execution beam, or leave them out."
        )
    rules = arguments.make_row_rules(
        invalid_rows=invalid_rows,
        duplicate_nodes=duplicate_nodes,
        duplicate_edges=duplicate_edges,
        dangling_edges=dangling_edges,
        max_dropped_share=max_dropped_share,
    )
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
    # The options class checks that the text is one of the choices.
    how: dict[str, Any] = {"execution": execution}
    options = SubgraphExampleGenOptions(
        plan=made_plan,
        graph_level_examples=_load_object("graph_level_examples", graph_level_examples, GraphLevelExamples)
        if graph_level_examples
        else None,
        sampling_seed=sampling_seed,
        num_shards=num_shards,
        num_partitions=num_partitions,
        rules=rules,
        access=access,
        **how,
    )
    report = generate_subgraph_examples(
        tables_dir=tables_dir, examples_dir=examples_dir, options=options, beam_args=tuple(beam_args or ())
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
    missing = sum(report.num_missing_negatives.values())
    if missing:
        wanted = missing + sum(report.num_negatives.values())
        arguments.console.print(
            f"{missing:,} of {wanted:,} negative pairs could not be drawn: raise `num_draws`, or ask for fewer",
            markup=False,
            soft_wrap=True,
        )


def schema(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema, which is checked against the examples.")
    ],
    schema_dir: Annotated[str, arguments.folder("Where to write the standard TensorFlow Metadata schema.")],
    splits: arguments.Splits = None,
    schema_file: Annotated[
        str,
        typer.Option(help="Name of the graph schema file next to the splits, if there is one.", metavar="FILE"),
    ] = GRAPH_SCHEMA_FILE,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the examples and write the schema of their graphs."""
    from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions
    from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema

    generate_graph_schema(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        schema_dir=schema_dir,
        options=GraphSchemaGenOptions(splits=tuple(splits or ()), schema_file=schema_file),
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(graph_schema=graph_schema_dir, schema=schema_dir)


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
    splits: arguments.Splits = None,
    split_order: Annotated[
        str,
        typer.Option(help="Splits in order, the training split first; a split must not reveal what a later one tests."),
    ] = "train,val,test",
    label_features: Annotated[
        list[str] | None,
        typer.Option(
            "--label-feature",
            help="Label of node set `_readout` or the context, which no feature may copy; repeat for several.",
            show_default=False,
        ),
    ] = None,
    seed_edge_set: Annotated[
        str,
        typer.Option(
            help="Edge set whose edges are predicted, so that examples must not contain them.", show_default=False
        ),
    ] = "",
    reverse_edge_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--reverse-edge-set",
            help="Edge set that holds the predicted edges reversed; repeat for several.",
            show_default=False,
        ),
    ] = None,
    pair_label_feature: Annotated[
        str, typer.Option(help="Feature of `_readout` that is 0 for negative pairs.", show_default=False)
    ] = "",
    seed_time_feature: Annotated[
        str,
        typer.Option(
            help="Feature with the time of each seed: no seed may be newer than one of a later split.",
            show_default=False,
        ),
    ] = "",
    edge_time_features: Annotated[
        list[str] | None,
        typer.Option(
            "--edge-time",
            help="An edge set and its time feature: no edge may be newer than its seed; repeat for several.",
            metavar="EDGE_SET=FEATURE",
            show_default=False,
        ),
    ] = None,
    only_earlier_edges: Annotated[
        bool, typer.Option("--only-earlier-edges", help="Also refuse edges with exactly the time of their seed.")
    ] = False,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Require that seeds of a later split occur in no earlier split.")
    ] = False,
    required_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--required-set",
            help="Set, such as 'nodes/paper', that must have items in every example; repeat for several.",
            show_default=False,
        ),
    ] = None,
    unstable_features: Annotated[
        list[str] | None,
        typer.Option(
            "--unstable-feature",
            help="tf.Example key to leave out of drift and skew; repeat for several.",
            show_default=False,
        ),
    ] = None,
    max_l_infinity_drift: Annotated[
        float, typer.Option(help="Largest L-infinity distance of a string feature from the baseline.")
    ] = 0.3,
    max_jensen_shannon_drift: Annotated[
        float, typer.Option(help="Largest Jensen-Shannon divergence of a numeric feature from the baseline.")
    ] = 0.3,
    max_l_infinity_skew: Annotated[
        float, typer.Option(help="Largest L-infinity distance of a string feature between splits.")
    ] = 0.3,
    max_jensen_shannon_skew: Annotated[
        float, typer.Option(help="Largest Jensen-Shannon divergence of a numeric feature between splits.")
    ] = 0.3,
    severities: Annotated[
        list[str] | None,
        typer.Option(
            "--severity",
            help="A check and the severity of its failure: error, warning or off; repeat for several.",
            metavar="CHECK=SEVERITY",
            show_default=False,
        ),
    ] = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the graphs, splits and labels of examples, and bless the examples if they are fit for training.

    Exits with 1 if they are not blessed.
    """
    from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
    from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples

    validation = validate_graph_examples(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        statistics_dir=statistics_dir,
        anomalies_dir=anomalies_dir,
        blessing_dir=blessing_dir,
        baseline_statistics_dir=baseline_statistics_dir,
        options=GraphExampleValidatorOptions(
            splits=tuple(splits or ()),
            split_order=tuple(filter(None, split_order.split(","))),
            label_features=tuple(label_features or ()),
            seed_edge_set=seed_edge_set,
            reverse_edge_sets=tuple(reverse_edge_sets or ()),
            pair_label_feature=pair_label_feature,
            seed_time_feature=seed_time_feature,
            edge_time_features=_read_pairs("--edge-time", edge_time_features),
            only_earlier_edges=only_earlier_edges,
            inductive=inductive,
            required_sets=tuple(required_sets or ()),
            unstable_features=tuple(unstable_features or ()),
            max_l_infinity_drift=max_l_infinity_drift,
            max_jensen_shannon_drift=max_jensen_shannon_drift,
            max_l_infinity_skew=max_l_infinity_skew,
            max_jensen_shannon_skew=max_jensen_shannon_skew,
            severities=_read_pairs("--severity", severities),
        ),
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


def _read_pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, separator, value = text.rpartition("=")
        if not separator or not name or not value:
            raise ValueError(f"`{option}` must have the form '<name>=<value>'; got {text!r}. Write it that way.")
        found[name] = value
    return found

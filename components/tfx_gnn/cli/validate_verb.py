"""The verb `validate`: checks examples before they are trained on."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.verdicts import end_with_blessing


def validate(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: arguments.GraphSchema,
    statistics_dir: Annotated[str, arguments.folder("Where to write statistics, in TFDV's form.")],
    anomalies_dir: Annotated[str, arguments.folder("Where to write anomalies, in TFDV's form and as JSON.")],
    blessing_dir: Annotated[str, arguments.folder("Where to write `BLESSED` or `NOT_BLESSED`, and the reasons.")],
    baseline_statistics_dir: Annotated[
        str, typer.Option(help="Statistics of earlier data, to measure drift.", show_default=False, metavar="FOLDER")
    ] = "",
    splits: arguments.Splits = None,
    split_order: Annotated[
        str, typer.Option(help="Splits from the first, which is trained on, to the last.")
    ] = "train,val,test",
    label_features: Annotated[
        list[str] | None,
        typer.Option(
            "--label-feature",
            help="Label of node set `_readout` or the context, of which no feature may be a copy; repeat for several.",
            show_default=False,
        ),
    ] = None,
    seed_edge_set: Annotated[
        str, typer.Option(help="Edge set whose edges are predicted: they must not show.", show_default=False)
    ] = "",
    reverse_edge_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--reverse-edge-set", help="Edge set that holds them reversed; repeat for several.", show_default=False
        ),
    ] = None,
    pair_label_feature: Annotated[
        str, typer.Option(help="Feature of `_readout` that is 0 for negative pairs.", show_default=False)
    ] = "",
    seed_time_feature: Annotated[
        str,
        typer.Option(help="Feature with the time of a seed: none is newer than a later split.", show_default=False),
    ] = "",
    edge_time_features: Annotated[
        list[str] | None,
        typer.Option(
            "--edge-time",
            help="An edge set and its feature of time: no edge is newer than its seed; repeat for several.",
            metavar="EDGE_SET=FEATURE",
            show_default=False,
        ),
    ] = None,
    only_earlier_edges: Annotated[
        bool, typer.Option("--only-earlier-edges", help="Edges of the very time of their seed are refused, too.")
    ] = False,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Seeds of later splits are unseen nodes in earlier ones.")
    ] = False,
    required_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--required-set",
            help="Set, as 'nodes/paper', that every example has; repeat for several.",
            show_default=False,
        ),
    ] = None,
    unstable_features: Annotated[
        list[str] | None,
        typer.Option(
            "--unstable-feature", help="Key that drift and skew leave out; repeat for several.", show_default=False
        ),
    ] = None,
    max_l_infinity_drift: Annotated[float, typer.Option(help="Allowed distance of strings to the baseline.")] = 0.3,
    max_jensen_shannon_drift: Annotated[
        float, typer.Option(help="Allowed divergence of numbers to the baseline.")
    ] = 0.3,
    max_l_infinity_skew: Annotated[float, typer.Option(help="Allowed distance of strings between splits.")] = 0.3,
    max_jensen_shannon_skew: Annotated[float, typer.Option(help="Allowed divergence of numbers between splits.")] = 0.3,
    severities: Annotated[
        list[str] | None,
        typer.Option(
            "--severity",
            help="A check and what it is when it does not pass: error, warning or off; repeat for several.",
            metavar="CHECK=SEVERITY",
            show_default=False,
        ),
    ] = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check graphs, splits and labels of the examples, and bless them if they may be trained on.

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
            edge_time_features=_pairs("--edge-time", edge_time_features),
            only_earlier_edges=only_earlier_edges,
            inductive=inductive,
            required_sets=tuple(required_sets or ()),
            unstable_features=tuple(unstable_features or ()),
            max_l_infinity_drift=max_l_infinity_drift,
            max_jensen_shannon_drift=max_jensen_shannon_drift,
            max_l_infinity_skew=max_l_infinity_skew,
            max_jensen_shannon_skew=max_jensen_shannon_skew,
            severities=_pairs("--severity", severities),
        ),
        beam_args=tuple(beam_args or ()),
    )
    counts = ", ".join(f"{number} of '{split}'" for split, number in validation.num_examples.items())
    arguments.console.print(f"whole examples: {counts}", markup=False)
    if validation.anomalies:
        table = Table("", "split", "check", "about", "count", "what, and where first", show_lines=True)
        for item in validation.anomalies:
            table.add_row(
                "[red]error[/red]" if item.is_error else "[yellow]warning[/yellow]",
                escape(item.split),
                item.check,
                escape(item.about),
                str(item.num_examples or ""),
                escape(item.description),
            )
        arguments.console.print(table)
    arguments.say_written(statistics=statistics_dir, anomalies=anomalies_dir, blessing=blessing_dir)
    errors = [f"{item.check} in split {item.split!r}" for item in validation.anomalies if item.is_error]
    end_with_blessing(blessed=validation.blessed, objections=list(dict.fromkeys(errors)))


def _pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, separator, value = text.rpartition("=")
        if not separator or not name or not value:
            raise ValueError(f"`{option}` must have the form '<name>=<value>'; got {text!r}. Write it so.")
        found[name] = value
    return found

"""Checks the tables, the plan and the splits, and makes a few examples of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.components import SubgraphExampleGenOptions
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records import examples_folder, warning_kinds
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.examples.graph_level_conversion import convert_graph_level_examples
from tfx_gnn.sampling.examples.seed_selection import make_seeds, seed_table_layout
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.graph_level_tables import check_graph_level_examples, make_graph_level_schema
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan.plan_checks import plan_problems
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import GraphTables, check_tables, list_table_files, read_tables, read_tables_schema
from tfx_gnn.tables.row_rules import DANGLING_RULES, RowProblem, RowRules
from tfx_gnn.tables.schema_layouts import layouts_of, try_layouts
from tfx_gnn.tables.table_files import Table, list_units, read_table, read_unit
from tfx_gnn.tables.table_layout import TableLayout
from tfx_gnn.transform.feature_preparations import kind_of
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.checks.seed_checks import (
    label_copies,
    later_training_seeds,
    predicted_labels,
    untrained_classes,
)
from tfx_gnn_pipelines.checks.unread_columns import find_unread_columns
from tfx_gnn_pipelines.config import PipelineConfig, is_uri

MAX_TABLE_BYTES = 256 * 2**20
"""Tables of more bytes are not read: only their files, columns and names are checked."""

MAX_EXAMPLES = 256
"""Examples of each split that transform and model are tried on."""

_MAX_CLASSES = 1024
_SHOWN_ROWS = 3
_STEP = "SubgraphExampleGen"
_DROPPING = RowRules(invalid_rows="drop")
"""Rules under which one wrong row does not hide the rest; the whole check names such rows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedExamples:
    """Examples to try the later steps on, and what is known of all of them.

    Attributes:
        schema: graph schema of the examples.
        num_examples: by split, how many examples there will be; empty if tables were not read.
        has_sample: whether examples were written.
    """

    schema: GraphSchema
    num_examples: Mapping[str, int]
    has_sample: bool


def check_examples(config: PipelineConfig, folder: str, found: FindingsCollector) -> CheckedExamples | None:
    """Checks schema, tables, plan and splits, and writes a few examples of each split into a folder.

    Returns None if the schema or the plan is wrong, so that the form of the examples is not known.
    """
    options = config.subgraph_example_gen
    schema = _read_schema(config, found)
    if schema is None:
        return None
    reads = _reads_tables(config, found)
    if not is_uri(config.tables_dir):
        for line in find_unread_columns(schema, config.tables_dir, options.access, found.files, options):
            found.add(_STEP, line, is_note=True)
    if reads and options.plan is not None:
        # Rows of many graphs follow other rules, which the conversion below checks.
        _check_rows(config, found)
    examples_schema = _check_names(options, schema, found)
    _check_asked(config, schema, found)
    _check_whole_neighborhoods(config, found)
    _check_split_names(config, found)
    if examples_schema is None:
        return None
    if not reads or found.has_errors:
        if not reads:
            found.not_checked.append("splits, transform and model on data: the tables were not read")
        return CheckedExamples(schema=examples_schema, num_examples={}, has_sample=False)
    num_examples: dict[str, int] = {}
    with found.caught(_STEP):
        num_examples = _write_sample(config, schema, folder, found)
        schema_io.write_schema(examples_schema, examples_folder.graph_schema_path(folder))
        counts = ", ".join(f"{count} in {split!r}" for split, count in num_examples.items())
        found.looked_at.append(f"seeds of all splits: {counts}")
    if num_examples:
        _check_used_splits(config, num_examples, found)
    return CheckedExamples(
        schema=examples_schema, num_examples=num_examples, has_sample=bool(num_examples) and not found.has_errors
    )


def check_heads(config: PipelineConfig, found: FindingsCollector) -> None:
    """Checks the schema, the first rows of each local table, and the names in the plan and of its splits."""
    options = config.subgraph_example_gen
    schema = _read_schema(config, found)
    if schema is None:
        return
    for _, layout in try_layouts(schema, config.tables_dir, options.access):
        with found.caught(_STEP):
            if isinstance(layout, ValueError):
                raise layout
            if not layout.bigquery and not is_uri(config.tables_dir):
                _read_head(layout)
    _check_names(options, schema, found)
    _check_asked(config, schema, found)
    _check_whole_neighborhoods(config, found)
    _check_split_names(config, found)


def _read_head(layout: TableLayout) -> None:
    """Reads the first rows of a table; a Parquet file without rows may have no row group to read."""
    for unit in list_units(layout)[:1]:
        next(read_unit(layout, unit, _DROPPING), None)


def _read_schema(config: PipelineConfig, found: FindingsCollector) -> GraphSchema | None:
    with found.caught(_STEP):
        return read_tables_schema(config.tables_dir, access=config.subgraph_example_gen.access, check_files=False)
    return None


def _reads_tables(config: PipelineConfig, found: FindingsCollector) -> bool:
    """Tells whether the tables are small enough to be read; refuses tables that are not there."""
    access = config.subgraph_example_gen.access
    try:
        files = list_table_files(config.tables_dir, access=access)
        schema = read_tables_schema(config.tables_dir, access=access)
        is_remote = any(layout.bigquery for layout in layouts_of(schema, config.tables_dir, access=access).all)
        num_bytes = sum(tf.io.gfile.stat(file).length for file in files)
    except (ValueError, OSError, tf.errors.OpError):
        # A table is missing; `check_tables` says which, beside the faults of the others.
        return True
    if is_remote:
        found.not_checked.append("rows of the tables: some are in BigQuery")
    elif num_bytes > MAX_TABLE_BYTES:
        found.not_checked.append(
            f"rows of the tables: they have {num_bytes / 2**30:.1f} GiB; see `tfx-gnn tables check`"
        )
    return not is_remote and num_bytes <= MAX_TABLE_BYTES


def _check_rows(config: PipelineConfig, found: FindingsCollector) -> None:
    options = config.subgraph_example_gen
    checked = check_tables(config.tables_dir, access=options.access)
    for fault in checked.faults.values():
        found.add(_STEP, fault)
    # Nodes first: a mistake among them is often the cause of one among the edges.
    ordered = sorted(checked.problems, key=lambda one: (not one.table.startswith("nodes/"), one.table, one.rule))
    by_rule = itertools.groupby(ordered, key=lambda one: (one.table, one.rule))
    for _, group in by_rule:
        problems = list(group)
        rule, choice = _chosen(problems[0], options.rules)
        remedy = f"See all with `tfx-gnn tables check --tables-dir {config.tables_dir}`."
        wanted = f"`{problems[0].table}` must {problems[0].requirement} in every row; got {len(problems):,} rows that"
        if choice != "refuse":
            # How to allow such rows is known.
            message = f"{wanted} do not, which `rules` allows by {rule}: {choice}. {remedy}"
            found.add(_STEP, message, warning=warning_kinds.ROWS_LEFT_OUT)
            continue
        for problem in problems[:_SHOWN_ROWS]:
            found.add(_STEP, problem.message)
        if len(problems) > _SHOWN_ROWS:
            found.add(_STEP, f"{wanted} do not, of which the first {_SHOWN_ROWS} are named. {remedy}")
    for label, report in checked.reports.items():
        found.looked_at.append(f"{label}: {report.rows_read} rows")


def _chosen(problem: RowProblem, rules: RowRules) -> tuple[str, str]:
    """Returns the option that says what becomes of such rows, and its value."""
    option = "invalid_rows"
    if problem.rule in DANGLING_RULES:
        option = "dangling_edges"
    elif "duplicate" in problem.rule:
        option = "duplicate_nodes" if problem.table.startswith("nodes/") else "duplicate_edges"
    return option, getattr(rules, option)


def _check_names(
    options: SubgraphExampleGenOptions, schema: GraphSchema, found: FindingsCollector
) -> GraphSchema | None:
    """Checks all names of the plan; returns the schema of the examples if they are right."""
    if options.plan is None:
        assert options.graph_level_examples is not None
        with found.caught(_STEP):
            check_graph_level_examples(options.graph_level_examples, schema)
            return make_graph_level_schema(schema, options.graph_level_examples)
        return None
    problems = list(plan_problems(options.plan, schema))
    for problem in problems:
        found.add_error(_STEP, problem)
    return None if problems else make_subgraph_schema(schema, options.plan)


def _check_asked(config: PipelineConfig, schema: GraphSchema, found: FindingsCollector) -> None:
    """Checks the first rows of the table of ids that the model is asked about in bulk, if there is one."""
    options = config.inference_example_gen
    if options is None or options.plan is None or options.plan.seed_table is None:
        return
    with found.caught("GraphBulkInferrer", argument="ids"):
        layout = seed_table_layout(config.tables_dir, options.plan, schema, access=options.access)
        if not is_uri(config.tables_dir):
            _read_head(layout)


def _check_whole_neighborhoods(config: PipelineConfig, found: FindingsCollector) -> None:
    """Warns of fan-outs that GraphLayerwiseInferrer refuses if a node of the graph has more edges."""
    plan, options = config.subgraph_example_gen.plan, config.graph_layerwise_inferrer
    if plan is None or options is None or options.neighborhoods == "full":
        return
    cut = [hop for hop in plan.hops if not hop.takes_all]
    if cut:
        found.add(
            "GraphLayerwiseInferrer",
            "`neighborhoods` must be 'full' if a node has more edges than a hop takes; got "
            f"{options.neighborhoods!r}, and {cut[0].fan_out} edges in hop {cut[0].name!r}. Set it if such nodes are "
            "possible: they are an error, which is found after the training.",
            warning=warning_kinds.CUT_NEIGHBORHOODS,
        )


def _check_split_names(config: PipelineConfig, found: FindingsCollector) -> None:
    """Checks that later steps name splits of the plan."""
    plan = config.subgraph_example_gen.plan or config.subgraph_example_gen.graph_level_examples
    assert plan is not None
    known = plan.splits.names
    for step, option, split in _used_splits(config):
        if split not in known:
            found.add(
                step,
                f"`{option}` must be one of the plan's splits {list(known)}; got {split!r}. "
                f"{did_you_mean(split, known)}",
            )


def _check_used_splits(config: PipelineConfig, num_examples: Mapping[str, int], found: FindingsCollector) -> None:
    for step, option, split in _used_splits(config):
        if not num_examples.get(split):
            found.add(
                step,
                f"`{option}` must name a split with examples; got {split!r}, which has none; there are "
                f"{dict(num_examples)}. Put rows into it, or name another split.",
                argument="splits",
            )


def _used_splits(config: PipelineConfig) -> Iterator[tuple[str, str, str]]:
    for split in config.graph_transform.analyze_splits:
        yield "GraphTransform", "analyze_splits", split
    yield "GraphTrainer", "train_split", config.graph_trainer.train_split
    yield "GraphTrainer", "eval_split", config.graph_trainer.eval_split
    yield "GraphEvaluator", "split", config.graph_evaluator.split
    yield "GraphEvaluator", "baseline_split", config.graph_evaluator.baseline_split


def _write_sample(config: PipelineConfig, schema: GraphSchema, folder: str, found: FindingsCollector) -> dict[str, int]:
    """Writes up to `MAX_EXAMPLES` of each split, with every class among them; returns how many there are of each."""
    options = config.subgraph_example_gen
    if options.plan is None:
        assert options.graph_level_examples is not None
        converter, report = convert_graph_level_examples(
            config.tables_dir, schema, options.graph_level_examples, rules=options.rules, access=options.access
        )
        for split in report.num_graphs:
            batches = converter.convert(split, stop=_MAX_CLASSES)
            examples_folder.write_split_shard(
                folder, split, 0, 1, (record for batch in batches for record in batch.records)
            )
        return dict(report.num_graphs)
    plan = options.plan
    tables = read_tables(
        config.tables_dir,
        node_sets=reached_node_sets(plan, schema),
        edge_sets=plan.table_edge_sets,
        extra_columns=tables_with_splits(plan).extra_columns_by_table,
        rules=options.rules,
        edge_times=plan.temporal.edge_times if plan.temporal else None,
        access=options.access,
    )
    seed_table = None
    if plan.seed_table:
        seed_table = read_table(
            seed_table_layout(config.tables_dir, plan, schema, access=options.access), options.rules
        )
    seeds, of_seeds = make_seeds(tables, plan, options.sampling_seed, seed_table=seed_table, rules=options.rules)
    sampler = InMemorySampler(tables, plan, sampling_seed=options.sampling_seed, edge_ranks=rank_edges(tables, plan))
    encoder = SubgraphExampleEncoder(tables, plan, seed_features=seed_table.columns if seed_table else None)
    labels = _label_columns(tables, plan, seed_table)
    _check_seeds(config, tables, seeds, labels, found, seed_table=seed_table)
    for split, of_split in seeds.items():
        chosen = of_split.take(choose_seeds(of_split, labels.values()))
        records = encoder.encode(sampler.sample(chosen)) if chosen.num_subgraphs else []
        examples_folder.write_split_shard(folder, split, 0, 1, iter(records))
    return dict(of_seeds.num_seeds)


def _check_seeds(
    config: PipelineConfig,
    tables: GraphTables,
    seeds: Mapping[str, Seeds],
    labels: Mapping[str, pa.Array],
    found: FindingsCollector,
    *,
    seed_table: Table | None,
) -> None:
    trainer, plan = config.graph_trainer, config.subgraph_example_gen.plan
    assert plan is not None
    for message in untrained_classes(trainer.task, labels, seeds, train_split=trainer.train_split):
        found.add(_STEP, message, warning=warning_kinds.UNTRAINED_CLASS, argument="splits")
    test_split = config.graph_evaluator.split
    later = later_training_seeds(seeds, train_split=trainer.train_split, test_split=test_split)
    if later:
        found.add(_STEP, later, warning=warning_kinds.LATER_TRAINING_SEEDS, argument="splits")
    if not plan.is_link_plan and trainer.train_split in seeds:
        _check_copies(config, plan, tables, seeds[trainer.train_split], found, seed_table=seed_table)


def _check_copies(
    config: PipelineConfig,
    plan: SamplingPlan,
    tables: GraphTables,
    seeds: Seeds,
    found: FindingsCollector,
    *,
    seed_table: Table | None,
) -> None:
    """Names features of the seeds that tell the label almost alone, unless the user accepts them."""
    name, columns = plan.seed_node_set, tables.node_tables[plan.seed_node_set].features
    left_out = {*plan.label_features, *plan.excluded_features.get(name, ())}
    left_out |= {plan.temporal.seed_time} if plan.temporal else set()
    # What is dropped reaches no model, and of times after the seed's an age shows nothing but that.
    declared = config.graph_transform.features.get(f"nodes/{name}", {})
    left_out |= {one for one, preparation in declared.items() if kind_of(preparation) in ("age", "drop")}
    accepted = config.graph_example_validator.accepted_features
    features = {
        one: values for one, values in columns.items() if one not in left_out and f"nodes/{name}.{one}" not in accepted
    }
    labels: Mapping[str, pa.Array] = columns
    if seed_table is not None:
        # One seed of each node: that a value is there again tells what the node's other seeds have, whatever it says.
        nodes, first = np.unique(seeds.readout_nodes[SEED], return_index=True)
        row_of_node = np.full(tables.node_tables[name].num_nodes, -1)
        row_of_node[nodes] = seeds.rows[first]
        rows = pa.array(row_of_node, mask=row_of_node < 0)
        labels = {one: values.take(rows) for one, values in seed_table.columns.items() if one in plan.label_features}
        seeds = dataclasses.replace(seeds.take(first), rows=nodes)
    for label, is_class in predicted_labels(config.graph_trainer.task).items():
        if label not in plan.label_features or label not in labels:
            continue
        for feature, evidence, is_exact in label_copies(features, labels[label], seeds, is_class=is_class):
            found.add(
                _STEP,
                f"`excluded_features` {'must' if is_exact else 'should'} name what is known only after the label; got "
                f"nodes/{name}.{feature} among the features: {evidence}. Add it there; or, if it is known before, "
                f"write graph_example_validator: {{accepted_features: [nodes/{name}.{feature}]}}.",
                warning=None if is_exact else warning_kinds.LABEL_NEARLY_TOLD,
                argument="excluded_features",
            )


def _label_columns(tables: GraphTables, plan: SamplingPlan, seed_table: Table | None) -> dict[str, pa.Array]:
    """Returns the columns of labels that may be classes, by row of the table of seeds."""
    if seed_table is not None:
        columns = seed_table.columns
    elif plan.is_link_plan:
        return {}
    else:
        columns = tables.node_tables[plan.seed_node_set].features
    found = {name: columns[name] for name in plan.label_features if name in columns}
    return {
        name: column
        for name, column in found.items()
        if not pa.types.is_floating(column.type) and not pa.types.is_list(column.type)
    }


def choose_seeds(seeds: Seeds, labels: Collection[pa.Array]) -> npt.NDArray[np.int64]:
    """Chooses seeds by position: the first of each class, and the first ones of all."""
    chosen = set(range(min(seeds.num_subgraphs, MAX_EXAMPLES)))
    for column in labels:
        codes = (
            column.take(pa.array(seeds.rows)).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        )
        _, first = np.unique(codes, return_index=True)
        if len(first) <= _MAX_CLASSES:
            chosen |= set(first.tolist())
    return np.asarray(sorted(chosen), np.int64)

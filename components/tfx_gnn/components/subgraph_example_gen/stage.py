"""SubgraphExampleGen: makes graph tf.Examples, sampled or graph-level, from tables of nodes and edges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.subgraph_example_gen.in_memory_examples import MadeExamples, make_in_memory
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import resumable_folder
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.file_names import SAMPLING_PLAN_FILE
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.records import examples_folder
from tfx_gnn.records.example_gen_report import ExampleGenReport, find_same_span
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatistics, SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.seed_selection import seed_table_layout
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.plan.graph_level_tables import check_graph_level_examples, make_graph_level_schema
from tfx_gnn.sampling.plan.pair_tables import pairs_layout
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import list_table_files, read_tables_schema
from tfx_gnn.tables.spans import TablesSpan, find_span, has_span
from tfx_gnn.tables.stable_tables import StableTables


def generate_subgraph_examples(
    *,
    tables_dir: str,
    examples_dir: str,
    options: SubgraphExampleGenOptions,
    tables_contents: str = "",
    span: str = "",
    same_span_as: str = "",
    beam_args: Sequence[str] = (),
) -> ExampleGenReport:
    """Makes one graph tf.Example per seed, per graph, or per pair of graphs, from tables.

    The records of a split do not depend on the number of shards, the number of
    workers or the execution. They are ordered by a hash of the seed's id, which spreads out
    rows that are neighbors in the table and often similar.

    An interrupted run is resumed: the shards that it finished stay in a
    hidden folder next to `examples_dir`, where the next run with the same inputs and options finds them.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the tables that it names, or a pattern of such folders, as in
            "data/{SPAN}"; see `find_span`.
        examples_dir: folder to create, with `Split-<name>` folders of gzipped TFRecord
            files, `graph_schema.pbtxt`, `statistics.json`, for a plan `sampling_plan.json` with it and
            the sampling seed, and, if rows were dropped, `dead_letters`.
        options: what to make.
        tables_contents: the `fingerprint_files` that the files of `list_input_files` must have; any if it is empty.
        span: number or date of the span to read, if `tables_dir` is a pattern; empty for the newest.
        same_span_as: folder of examples, of whose span the tables are read, if `tables_dir` is a pattern; empty for
            none.
        beam_args: options of the Beam runner, for `execution="beam"`.

    Returns:
        What was read and written.

    Raises:
        ValueError: if there is no such span, it is not that of `same_span_as`, the tables break a rule, the plan does
            not fit them, or a file of theirs changes before all of them are read; nothing is written then.
        FileExistsError: if `examples_dir` already holds files.
        BlockingIOError: if another process is doing the same work.
    """
    tables_span = None
    if has_span(tables_dir) and same_span_as:
        tables_span = find_same_span(tables_dir, same_span_as, span)
    elif has_span(tables_dir) or span:
        tables_span = find_span(tables_dir, span)
    tables_dir = tables_span.folder if tables_span else tables_dir
    tables = StableTables(lambda: list_input_files(tables_dir, options), contents=tables_contents)
    schema = read_tables_schema(tables_dir, access=options.access)
    examples_schema = _examples_schema(schema, options)
    with resumable_folder(examples_dir, fingerprint=_fingerprint(tables, options), name="examples_dir") as folder:

        def check_tables() -> None:
            try:
                tables.check()
            except ValueError:
                # No later run has these versions of the tables, so none would resume from the folder.
                tf.io.gfile.rmtree(folder)
                raise

        made = _make_examples(tables_dir, schema, folder, options, beam_args, check_tables=check_tables)
        log = ShardLog(folder)
        report = _report(made, log.read(), options.plan, tables_span)
        graph_schema.write_schema(examples_schema, examples_folder.graph_schema_path(folder))
        if options.plan is not None:
            recorded = RecordedPlan(plan=options.plan, sampling_seed=options.sampling_seed)
            recorded.write(os.path.join(folder, SAMPLING_PLAN_FILE))
        report.write(folder)
        if has_locks(folder):
            # Before the log is removed: syncing takes long, and a run that is killed meanwhile resumes from the log.
            sync_tree(folder)
        log.remove()
    return report


def list_input_files(tables_dir: str, options: SubgraphExampleGenOptions) -> tuple[str, ...]:
    """Lists the input files, sorted: the schema, all tables, and the table of seeds or pairs."""
    access = options.access
    files = set(list_table_files(tables_dir, access=access))
    if options.plan is not None and options.plan.seed_table is not None:
        schema = read_tables_schema(tables_dir, access=access)
        check_plan(options.plan, schema)
        files.update(seed_table_layout(tables_dir, options.plan, schema, access=access).files)
    spec = options.graph_level_examples
    if spec is not None and spec.pairs is not None:
        files.update(pairs_layout(tables_dir, spec.pairs, spec.splits, access=access).files)
    return tuple(sorted(files))


def _make_examples(
    tables_dir: str,
    schema: GraphSchema,
    folder: str,
    options: SubgraphExampleGenOptions,
    beam_args: Sequence[str],
    *,
    check_tables: Callable[[], None],
) -> MadeExamples:
    if options.execution == "in_memory":
        return make_in_memory(
            tables_dir=tables_dir, schema=schema, folder=folder, options=options, check_tables=check_tables
        )
    shared: dict[str, Any] = {
        "tables_dir": tables_dir,
        "folder": folder,
        "num_shards": options.num_shards,
        "rules": options.rules,
        "access": options.access,
        "check_tables": check_tables,
    }
    # Importing Beam takes seconds.
    from tfx_gnn.components.subgraph_example_gen.beam_examples import convert_on_beam, sample_on_beam
    from tfx_gnn.sampling.beam.index.build import IndexOptions

    if options.graph_level_examples is not None:
        return convert_on_beam(schema=schema, spec=options.graph_level_examples, beam_args=beam_args, **shared)
    assert options.plan is not None
    return sample_on_beam(
        plan=options.plan,
        sampling_seed=options.sampling_seed,
        index_options=IndexOptions(num_partitions=options.num_partitions, hub_degree=options.hub_degree),
        beam_args=beam_args,
        **shared,
    )


def _examples_schema(schema: GraphSchema, options: SubgraphExampleGenOptions) -> GraphSchema:
    """Returns the schema of the examples, and checks before any table is read that they can be made."""
    if options.plan is None:
        assert options.graph_level_examples is not None
        check_graph_level_examples(options.graph_level_examples, schema)
        return make_graph_level_schema(schema, options.graph_level_examples)
    check_plan(options.plan, schema)
    return make_subgraph_schema(schema, options.plan)


def _fingerprint(tables: StableTables, options: SubgraphExampleGenOptions) -> str:
    """Hashes what the shards depend on. Tables are not hashed by content: reading tens of GB would take long."""
    files = [f"{path} {version}" for path, version in tables.versions.items()]
    return fingerprint_text("\n".join([tfx_gnn.__version__, options_json.to_json(options), *files]))


def _report(
    made: MadeExamples,
    shards: Mapping[tuple[str, int], SubgraphStatistics],
    plan: SamplingPlan | None,
    tables_span: TablesSpan | None,
) -> ExampleGenReport:
    builder = SubgraphStatisticsBuilder()
    for of_shard in shards.values():
        builder.add_statistics(of_shard)
    statistics = builder.build()
    num_negatives: dict[str, int] = {}
    num_missing: dict[str, int] = {}
    if plan is not None and plan.negatives is not None:
        for split, num_seeds in made.num_seeds.items():
            num_negatives[split] = statistics.num_negatives.get(split, 0)
            num_missing[split] = plan.negatives.num_per_positive * num_seeds - num_negatives[split]
    return ExampleGenReport(
        statistics=statistics,
        num_negatives=num_negatives,
        num_missing_negatives=num_missing,
        tables_span=tables_span,
        **vars(made),
    )

"""SubgraphExampleGen: makes graph tf.Examples, sampled or graph-level, from tables of nodes and edges."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tfx_gnn.io.folder_listing import list_entries
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.renames import rename_file
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records import examples_folder
from tfx_gnn.records.example_gen_report import EarlierSpan, ExampleGenReport, find_same_span
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.seed_selection import seed_table_layout
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.plan.graph_level_tables import check_graph_level_examples, make_graph_level_schema
from tfx_gnn.sampling.plan.pair_tables import pairs_layout
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import list_table_files, read_tables_schema
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR
from tfx_gnn.tables.spans import SpansWindow, TablesSpan, find_window, has_span
from tfx_gnn.tables.stable_tables import StableTables

_LOG = logging.getLogger(__name__)


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

    With `num_spans`, the newest spans of the tables are read, each of which is a whole graph of its own: a seed that is
    in several of them has an example in each, sampled in that span's graph.

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
        same_span_as: folder of examples, of whose newest span the tables are read, if `tables_dir` is a pattern; empty
            for none. No window of spans is read then.
        beam_args: options of the Beam runner, for `execution="beam"`.

    Returns:
        What was read and written.

    Raises:
        ValueError: if there is no such span, it is not that of `same_span_as`, the tables break a rule, the plan does
            not fit them, or a file of theirs changes before all of them are read; nothing is written then.
        FileExistsError: if `examples_dir` already holds files.
        BlockingIOError: if another process is doing the same work.
    """
    if has_span(tables_dir) and same_span_as:
        window = SpansWindow(spans=(find_same_span(tables_dir, same_span_as, span),))
    else:
        window = find_window(tables_dir, span, num_spans=options.num_spans)
        _warn_of_gaps(window, options.num_spans)
    tables = {
        one.folder: StableTables(functools.partial(list_input_files, one.folder, options), contents=tables_contents)
        for one in window.spans
    }
    schemas = {one.folder: read_tables_schema(one.folder, access=options.access) for one in window.spans}
    examples_schema = _examples_schema(schemas[window.newest.folder], options)
    for one in window.spans[:-1]:
        _check_same_features(one, _examples_schema(schemas[one.folder], options), examples_schema, window.newest)
    with resumable_folder(
        examples_dir, fingerprint=_fingerprint(tables.values(), options), name="examples_dir"
    ) as folder:

        def make(
            one: TablesSpan, span_folder: str, of_span: SubgraphExampleGenOptions, only_split: str = ""
        ) -> MadeExamples:
            def check_tables() -> None:
                try:
                    tables[one.folder].check()
                except ValueError:
                    # No later run has these versions of the tables, so none would resume from the folder.
                    tf.io.gfile.rmtree(folder)
                    raise

            tf.io.gfile.makedirs(span_folder)  # A span without seeds of the first split writes nothing into it.
            return _make_examples(
                one.folder,
                schemas[one.folder],
                span_folder,
                of_span,
                beam_args,
                check_tables=check_tables,
                only_split=only_split,
            )

        made = make(window.newest, folder, options)
        of_earlier = {
            one: make(one, _span_folder(folder, one), _options_of_earlier(options), options.first_split)
            for one in window.spans[:-1]
        }
        log = ShardLog(folder)
        report = _report(folder, made, of_earlier, options, window)
        # After everything is made, so that an interrupted run, which goes on here, never misses a finished file.
        for one in of_earlier:
            _take_over_span(folder, one, options.first_split)
        graph_schema.write_schema(examples_schema, examples_folder.graph_schema_path(folder))
        if options.plan is not None:
            recorded = RecordedPlan(plan=options.plan, sampling_seed=options.sampling_seed)
            recorded.write(os.path.join(folder, SAMPLING_PLAN_FILE))
        report.write(folder)
        if has_locks(folder):
            # Before the logs are removed: syncing takes long, and a run that is killed meanwhile resumes from them.
            sync_tree(folder)
        for one in of_earlier:
            tf.io.gfile.rmtree(_span_folder(folder, one))
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
    only_split: str,
) -> MadeExamples:
    """Makes the examples of one tables folder; if `only_split` is given, those of other splits need not be written."""
    if options.execution == "in_memory":
        return make_in_memory(
            tables_dir=tables_dir,
            schema=schema,
            folder=folder,
            options=options,
            check_tables=check_tables,
            only_split=only_split,
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
    from tfx_gnn.sampling.beam.partitioned_graph.build import PartitionOptions

    if options.graph_level_examples is not None:
        return convert_on_beam(schema=schema, spec=options.graph_level_examples, beam_args=beam_args, **shared)
    assert options.plan is not None
    return sample_on_beam(
        plan=options.plan,
        sampling_seed=options.sampling_seed,
        partition_options=PartitionOptions(num_partitions=options.num_partitions, hub_degree=options.hub_degree),
        only_split=only_split,
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


def _check_same_features(
    earlier: TablesSpan, schema: GraphSchema, newest_schema: GraphSchema, newest: TablesSpan
) -> None:
    """Refuses a window of spans whose examples have different features."""
    found, expected = graph_layout(schema).features, graph_layout(newest_schema).features
    differing = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    if differing:
        raise ValueError(
            f"`num_spans` must name spans whose tables have the same features; got other {differing[:5]} in "
            f"{earlier.folder!r} than in {newest.folder!r}. Start the window after the change, by a smaller number, or "
            "bring the earlier tables into the new form."
        )


def _warn_of_gaps(window: SpansWindow, num_spans: int) -> None:
    names = [one.name for one in window.spans]
    if len(names) < num_spans:
        _LOG.warning("The window has %d spans, of %d that it may have: %s", len(names), num_spans, ", ".join(names))
    for earlier, later in window.gaps:
        _LOG.warning("A span seems to be missing in the window, between %s and %s", earlier, later)


def _options_of_earlier(options: SubgraphExampleGenOptions) -> SubgraphExampleGenOptions:
    """Options for earlier spans of a window, in which splits by time may be empty that the newest span has."""
    name = "plan" if options.plan is not None else "graph_level_examples"
    holder: Any = getattr(options, name)
    splits = dataclasses.replace(holder.splits, allows_empty_splits=True)
    return dataclasses.replace(options, **{name: dataclasses.replace(holder, splits=splits)})


def _span_folder(folder: str, one: TablesSpan) -> str:
    """Returns the folder in which the examples of an earlier span are made."""
    return os.path.join(folder, f".span-{one.name}")


def _take_over_span(folder: str, one: TablesSpan, split: str) -> None:
    """Moves the examples of an earlier span to those of the newest one."""
    made = examples_folder.split_dir(_span_folder(folder, one), split)
    target = examples_folder.split_dir(folder, split)
    tf.io.gfile.makedirs(target)
    for name in list_entries(made):
        path = examples_folder.earlier_span_path(os.path.join(target, name), one.name)
        rename_file(os.path.join(made, name), path)
    dead_letters = os.path.join(_span_folder(folder, one), DEAD_LETTERS_DIR)
    copy_files(dead_letters, os.path.join(folder, DEAD_LETTERS_DIR, f"span-{one.name}"))


def _fingerprint(tables: Iterable[StableTables], options: SubgraphExampleGenOptions) -> str:
    """Hashes what the shards depend on. Tables are not hashed by content: reading tens of GB would take long."""
    files = [f"{path} {version}" for one in tables for path, version in one.versions.items()]
    return fingerprint_text("\n".join([tfx_gnn.__version__, options_json.to_json(options), *files]))


def _report(
    folder: str,
    made: MadeExamples,
    of_earlier: Mapping[TablesSpan, MadeExamples],
    options: SubgraphExampleGenOptions,
    window: SpansWindow,
) -> ExampleGenReport:
    plan, first = options.plan, options.first_split
    builder = SubgraphStatisticsBuilder()
    for of_shard in ShardLog(folder).read().values():
        builder.add_statistics(of_shard)
    for one in of_earlier:
        for (split, _), of_shard in ShardLog(_span_folder(folder, one)).read().items():
            if split == first:
                builder.add_statistics(of_shard)
    statistics = builder.build()
    earlier = tuple(
        EarlierSpan(tables_span=one, num_seeds=found.num_seeds.get(first, 0), tables=found.tables)
        for one, found in of_earlier.items()
    )
    num_seeds = dict(made.num_seeds)
    if earlier:
        num_seeds[first] = num_seeds.get(first, 0) + sum(one.num_seeds for one in earlier)
    num_negatives: dict[str, int] = {}
    num_missing: dict[str, int] = {}
    if plan is not None and plan.negatives is not None:
        for split, count in num_seeds.items():
            num_negatives[split] = statistics.num_negatives.get(split, 0)
            num_missing[split] = plan.negatives.num_per_positive * count - num_negatives[split]
    return ExampleGenReport(
        statistics=statistics,
        num_seeds=num_seeds,
        num_no_seeds=made.num_no_seeds,
        num_negatives=num_negatives,
        num_missing_negatives=num_missing,
        tables=made.tables,
        tables_span=window.newest if window.newest.span is not None else None,
        earlier_spans=earlier,
        gaps=window.gaps,
    )

"""The TFX component TableSnapshotGen and its specification."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters
from tfx_gnn.components.table_snapshot_gen import executor
from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions
from tfx_gnn.snapshot.source_address import check_shows_no_secret


class TableSnapshotGenSpec(ComponentSpec):
    """Inputs, outputs and parameters of TableSnapshotGen."""

    PARAMETERS = {
        "source": ExecutionParameter(type=str),
        **parameters.execution_parameters(TableSnapshotGenOptions, "snapshot_id"),
    }
    INPUTS: Mapping[str, ChannelParameter] = {}
    OUTPUTS = {"snapshot": ChannelParameter(type=standard_artifacts.Examples)}
    TYPE_ANNOTATION = system_executions.Process


class TableSnapshotGen(base_component.BaseComponent):
    """Copies the tables of a database, all as of one moment, to Parquet files that keep types and declared keys.

    SubgraphExampleGen, GraphTransform and GraphIndexer take its output as `tables`, and a schema as `tables_schema`.

    | kind | name | type | meaning |
    |---|---|---|---|
    | output | snapshot | Examples | a Parquet file for each table, and `snapshot.json` |
    | parameter | source | str | URL of a database without a password, or path of a database file or a folder |
    | parameter | schemas | JSON | schemas whose tables are taken; empty for all |
    | parameter | tables | JSON | tables and views to take; empty for all tables |
    | parameter | exclude | JSON | tables to leave out |
    | parameter | snapshot_id | str | text that changes whenever a new snapshot is wanted |
    | parameter | library_version | str | version of this library |

    Args:
        source: where the tables are; see `snapshot_tables`. The process that runs the component needs the password in
            its environment, as PGPASSWORD or PGPASSFILE, because parameters are stored and shown.
        options: which tables.
        snapshot_id: text that changes whenever a new snapshot is wanted; otherwise the last one is taken from the
            cache. If it is empty, it is the time at which the pipeline is built, so each run of a pipeline in Python
            takes a new snapshot; of a compiled one, make it a runtime parameter.
        runtime_parameters: name of `source` or `snapshot_id` to the parameter that sets it when a compiled pipeline
            runs.

    Raises:
        ValueError: if `source` holds a password.
    """

    SPEC_CLASS = TableSnapshotGenSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        source: str,
        options: TableSnapshotGenOptions,
        snapshot_id: str = "",
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        check_shows_no_secret(source)
        super().__init__(
            spec=parameters.fill_spec(
                TableSnapshotGenSpec,
                options,
                runtime_parameters,
                source=source,
                snapshot_id=snapshot_id or dt.datetime.now(dt.timezone.utc).isoformat(),
            )
        )

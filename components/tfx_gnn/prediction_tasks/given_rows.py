"""The query of a task whose rows are given, by a query in SQL or by files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.candidates import (
    BETWEEN_SPLITS,
    NO_LABEL,
    NOT_THERE_YET,
    UNKNOWN_ENTITY,
    Candidates,
    entity_table,
    split_by_time,
)
from tfx_gnn.prediction_tasks.durations import parse_duration
from tfx_gnn.prediction_tasks.table_views import literal, quoted
from tfx_gnn.prediction_tasks.task_options import SPLITS, Anchors, PredictionTask, parse_time
from tfx_gnn.prediction_tasks.task_tables import Kind, TaskTables, kind_of
from tfx_gnn.tables.table_layout import ID_FEATURE

_ID = quoted(ID_FEATURE)
_NO_HORIZON = (
    "Labels are taken to depend on nothing later than the times of their rows. If they do, say how much later by "
    "`anchors.horizon`."
)
_HAS_ZONE = r"\d:\d{2}.*(Z|[A-Za-z]|[+-]\d{2}(:?\d{2})?)$"
_SPLIT_OF_FILE = "#split"


def candidates_in_rows(task: PredictionTask, tables: TaskTables, files: Mapping[str, str]) -> Candidates:
    """Takes rows of a query or of files as candidates.

    Args:
        task: the task, with `sql`, `table` or `split_tables`.
        tables: its tables.
        files: the path of the file of each split; "" stands for all splits. None with `sql`.

    Raises:
        ValueError: if a column is missing or of a wrong type, or rows break a rule.
    """
    entity = entity_table(task, tables)
    field = task.source
    statements = tuple(_views_with_keys(tables)) if task.sql else ()
    for statement in statements:
        tables.connection.execute(statement)
    source = f"({task.sql.strip().rstrip(';')}\n)" if task.sql else f"({_scan(files)})"
    types = _types(tables, source, field)
    names = {name: task.columns.get(name, name) for name in ("entity", "time", "label")}
    if "split" in task.columns or (files and "" not in files):
        names["split"] = task.columns.get("split", _SPLIT_OF_FILE)
    missing = sorted(set(names.values()) - set(types))
    if missing:
        raise ValueError(
            f"`{field}` must have rows with the columns {list(names.values())}; got {list(types)} without {missing}. "
            "Rename them there, or say in `columns` what they are called."
        )
    columns = {name: f"given.{quoted(column)}" for name, column in names.items()}
    places = {name: f"`{field}`, column {column!r}," for name, column in names.items()}
    if types[names["time"]] == "TIMESTAMP WITH TIME ZONE":
        _check_zones(tables, files, names["time"], places["time"])
    time, remarks = _time(columns["time"], types[names["time"]], places["time"])
    label, kind = _label(tables, source, columns["label"], types[names["label"]], places["label"])
    if "split" in columns:
        _check_splits(tables, source, columns["split"], places["split"])
        split = columns["split"]
    else:
        assert task.anchors is not None
        split = split_by_time(task.anchors, time)
    if not (task.anchors and task.anchors.horizon):
        remarks += (_NO_HORIZON,)
    key = columns["entity"]
    if types[names["entity"]] in ("FLOAT", "DOUBLE"):
        # pandas writes integers as 7.0 where the column has nulls.
        key = f"CAST({key} AS BIGINT)"
    node_type = tables.one(f"SELECT any_value(typeof({_ID})) FROM {entity.view}")[0] or "VARCHAR"
    own_time = tables.time_of(entity, "entity")
    is_there = f"coalesce({own_time} <= every_row.time, FALSE)" if own_time else "TRUE"
    query = (
        f"WITH every_row AS (\n"
        f"  SELECT TRY_CAST({key} AS {node_type}) AS id, {time} AS time, {split} AS split, {label} AS label\n"
        f"  FROM {source} AS given\n"
        f")\n"
        f"SELECT every_row.*, CASE WHEN entity.{_ID} IS NULL THEN '{UNKNOWN_ENTITY}' WHEN NOT {is_there} THEN "
        f"'{NOT_THERE_YET}' WHEN {_reaches_next_split(task.anchors)} THEN '{BETWEEN_SPLITS}' WHEN label IS NULL THEN "
        f"'{NO_LABEL}' ELSE '' END AS dropped\n"
        f"FROM every_row LEFT JOIN {entity.view} AS entity ON entity.{_ID} = every_row.id"
    )
    return Candidates(statements=statements, query=query, label_kind=kind, remarks=remarks)


def _types(tables: TaskTables, source: str, field: str) -> dict[str, str]:
    import duckdb

    try:
        described = tables.connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    except duckdb.Error as error:
        rule = "be one query that DuckDB can answer" if field == "sql" else "name files that DuckDB can read"
        raise ValueError(f"`{field}` must {rule}; got {' '.join(str(error).split())} Correct it.") from error
    return {name: dtype for name, dtype, *_ in described}


def _check_zones(tables: TaskTables, files: Mapping[str, str], column: str, place: str) -> None:
    """Refuses CSV files in which only some times have a zone: DuckDB takes the others for UTC without a word."""
    for path in files.values():
        if path.endswith(".parquet"):
            continue
        has_zone = f"regexp_matches({quoted(column)}, {literal(_HAS_ZONE)})"
        number, example = tables.one(
            f"SELECT count(*), any_value({quoted(column)}) FROM read_csv({literal(path)}, header = true, "
            f"all_varchar = true) WHERE NOT {has_zone}"
        )
        if number:
            raise ValueError(
                f"{place} must have a zone in all rows or in none; got {number:,} without one in {path}, such as "
                f"{example!r}. Add their zone, as in 2026-05-01T12:00:00Z."
            )


def _scan(files: Mapping[str, str]) -> str:
    return " UNION ALL BY NAME ".join(
        f"SELECT *{f', {literal(split)} AS {quoted(_SPLIT_OF_FILE)}' if split else ''} FROM {_reader(path)}"
        for split, path in files.items()
    )


def _reader(path: str) -> str:
    if path.endswith(".parquet"):
        return f"read_parquet({literal(path)})"
    if path.endswith((".csv", ".csv.gz")):
        # Types are those that all rows have.
        return f"read_csv({literal(path)}, header = true, sample_size = -1)"
    raise ValueError(f"`table` must name a file of the format .parquet or .csv; got {path!r}. Convert it.")


def _views_with_keys(tables: TaskTables) -> Iterator[str]:
    """Writes views of all tables for queries of users: with ids and foreign keys under the names that columns have."""
    for table in tables.tables.values():
        keys = {table.id_column: f"row_of_table.{_ID}"} if table.is_node_set else {}
        keys |= {column: f"row_of_table.{quoted(key)}" for key, (column, _) in table.ends.items()}
        joins = []
        for number, reference in enumerate(tables.references_of(table), 1):
            free = [name for name in reference.names if name not in keys and name not in table.kinds]
            if not reference.edge_set or not free:
                continue
            edges, step = tables.tables[reference.edge_set].view, f"step_{number}"
            joins.append(f" LEFT JOIN {edges} AS {step} ON {step}.{quoted(reference.row_end)} = row_of_table.{_ID}")
            keys[free[0]] = f"{step}.{quoted(reference.node_end)}"
        selected = [f"{sql} AS {quoted(name)}" for name, sql in keys.items()]
        selected += [f"row_of_table.{quoted(name)}" for name in table.kinds if name not in keys]
        yield (
            f"CREATE OR REPLACE VIEW {quoted(table.name)} AS SELECT {', '.join(selected)} FROM {table.view} AS "
            f"row_of_table{''.join(joins)}"
        )


def _time(column: str, dtype: str, place: str) -> tuple[str, tuple[str, ...]]:
    if dtype == "TIMESTAMP WITH TIME ZONE":
        return f"timezone('UTC', {column})", ()
    if kind_of(dtype) != "time":
        raise ValueError(
            f"{place} must hold dates or time stamps; got {dtype}. Convert it, as in to_timestamp(seconds) or "
            "CAST(text AS TIMESTAMP); in a CSV file, give all rows one form of time, with a zone or without."
        )
    return f"CAST({column} AS TIMESTAMP)", (f"{place[:-1]} has times without a zone: they are taken for UTC.",)


def _label(tables: TaskTables, source: str, column: str, dtype: str, place: str) -> tuple[str, Kind]:
    kind = kind_of(dtype)
    if kind == "truth":
        return f"CAST({column} AS BIGINT)", "truth"
    if kind == "number":
        are_truths = tables.one(f"SELECT coalesce(bool_and({column} IN (0, 1)), FALSE) FROM {source} AS given")[0]
        return (f"CAST({column} AS BIGINT)", "truth") if are_truths else (f"CAST({column} AS FLOAT)", "number")
    if kind != "text":
        raise ValueError(f"{place} must hold truth values, numbers or texts; got {dtype}. Convert it.")
    counted = f"SELECT count({column}), count(TRY_CAST({column} AS DOUBLE)) FROM {source} AS given"
    num_labels, num_numbers = tables.one(counted)
    if 0 < num_numbers < num_labels:
        raise ValueError(
            f"{place} must hold labels of one type; got {num_numbers:,} numbers and {num_labels - num_numbers:,} "
            "texts. Write all as numbers, or all as texts that are none."
        )
    return column, "text"


def _check_splits(tables: TaskTables, source: str, column: str, place: str) -> None:
    rows = tables.connection.execute(f"SELECT DISTINCT CAST({column} AS VARCHAR) FROM {source} AS given").fetchall()
    unknown = sorted(str(split) for (split,) in rows if split not in SPLITS)
    if unknown:
        raise ValueError(f"{place} must be one of {list(SPLITS)}; got {unknown}. {did_you_mean(unknown[0], SPLITS)}")


def _reaches_next_split(anchors: Anchors | None) -> str:
    if anchors is None or not anchors.horizon:
        return "FALSE"
    horizon = parse_duration(anchors.horizon, "anchors.horizon")
    bounds = (("train", anchors.validation_from), ("val", anchors.test_from))
    return (
        "".join(
            f"{' OR ' if split == 'val' else '('}(split = '{split}' AND time + to_seconds({horizon}) > "
            f"TIMESTAMP '{parse_time(bound, 'anchors')}')"
            for split, bound in bounds
        )
        + ")"
    )

"""What a prediction task is: what is predicted, for which entities, and as of which times."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Literal

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.durations import parse_duration
from tfx_gnn.prediction_tasks.query_parser import parse_predicted, parse_query
from tfx_gnn.prediction_tasks.query_syntax import aggregates_of

SPLITS = ("train", "val", "test")
"""The splits, earlier ones first."""

_SOURCES = ("predict", "sql", "table", "split_tables")
COLUMNS = ("entity", "time", "label", "split")
"""What the rows of a query or file hold, under these names unless `columns` has others."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anchors:
    """The times as of which something is predicted, and which split each belongs to.

    A time is a date or an ISO time stamp; without a zone it is taken for UTC, and a date for its beginning.

    Attributes:
        validation_from: first anchor of the validation split.
        test_from: first anchor of the test split.
        every: time between anchors, such as 30 days. Empty: the end of the target's window, so that windows touch.
        train_from: training anchors are not earlier. Empty: none is earlier than the first row that the target reads.
        complete_until: time until which the tables are complete: no window may end later. Empty: the time of the
            last row that the target reads.
        horizon: with `sql` or `table`, how long after its time a label may depend on rows: rows of a split whose labels
            would reach into the next split are left out. Empty: labels depend on nothing later.
    """

    validation_from: str
    test_from: str
    every: str = ""
    train_from: str = ""
    complete_until: str = ""
    horizon: str = ""

    @property
    def given(self) -> dict[str, str]:
        """The fields that have a value."""
        return {name: text for name, text in dataclasses.asdict(self).items() if text}

    def __post_init__(self) -> None:
        validation = parse_time(self.validation_from, "anchors.validation_from")
        test = parse_time(self.test_from, "anchors.test_from")
        if validation >= test:
            raise ValueError(
                "`anchors.test_from` must be later than `anchors.validation_from`; got "
                f"{self.test_from!r} and {self.validation_from!r}. Move one of them."
            )
        if self.train_from and parse_time(self.train_from, "anchors.train_from") >= validation:
            raise ValueError(
                "`anchors.train_from` must be earlier than `anchors.validation_from`; got "
                f"{self.train_from!r} and {self.validation_from!r}. Move one of them."
            )
        if self.complete_until:
            parse_time(self.complete_until, "anchors.complete_until")
        for name in ("every", "horizon"):
            if text := getattr(self, name):
                parse_duration(text, f"anchors.{name}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionTask:
    """Examples of a prediction task over the tables of a database: which entities, as of when, with which label.

    Exactly one of `predict`, `sql`, `table` and `split_tables` says what the labels are.

    Attributes:
        for_each: node set of the entities.
        predict: the label, in words: an aggregation over a window after the anchor, such as
            "count(orders, 0 to 30 days)", a condition such as "count(orders, 0 to 30 days) > 0", or a column of the
            entity; or what is recommended to it, such as "distinct(orders.product_id, 0 to 30 days) top 10".
        where: with `predict`, a condition for the entities of an anchor, such as "count(orders, -90 to 0 days) > 0".
        anchors: times and splits. With `predict`, it may be left out for a column of the entity: then splits follow a
            hash of the id. Left out, too, if given rows have splits.
        sql: a query whose rows have the columns entity, time and label, over all tables by their names.
        table: a CSV or Parquet file with these columns. A relative path starts at the folder of the project, or the
            current one.
        split_tables: such a file for each of the splits train, val and test.
        columns: other names that the given rows have for the columns entity, time, label and split.
        times: by table, the column with the time of its rows, where several could be; empty if they have none.
        unknown_entities: whether given rows of entities that are not there are an error, or dropped and counted.
    """

    for_each: str
    predict: str = ""
    where: str = ""
    anchors: Anchors | None = None
    sql: str = ""
    table: str = ""
    split_tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    times: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown_entities: Literal["refuse", "drop"] = "refuse"

    def __post_init__(self) -> None:
        if not self.for_each:
            raise ValueError("`for_each` must name the node set of the entities; got ''. Write, for example, users.")
        given = [name for name in _SOURCES if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"One of {list(_SOURCES)} must say what the labels are; got {given or 'none'}. Keep one.")
        if self.predict:
            self._check_words()
        else:
            self._check_rows()

    @property
    def source(self) -> str:
        """The field that says what the labels are."""
        return next(name for name in _SOURCES if getattr(self, name))

    def _check_words(self) -> None:
        if self.columns:
            raise ValueError(
                f"`columns` must go with `sql` or `table`; got {dict(self.columns)} beside `predict`. Leave it out."
            )
        if self.anchors and self.anchors.horizon:
            raise ValueError(
                f"`anchors.horizon` must go with `sql` or `table`; got {self.anchors.horizon!r} beside `predict`, "
                "whose windows tell it. Leave it out."
            )
        aggregates = list(aggregates_of(parse_predicted(self.predict)))
        for aggregate in aggregates:
            if aggregate.window.start < 0:
                raise ValueError(
                    "`predict` must have windows that start at the anchor or later, because the model sees what is "
                    f"earlier; got {self.predict!r}. Start at 0, or write it into `where`."
                )
        conditions = list(aggregates_of(parse_query(self.where, "where"))) if self.where else []
        for aggregate in conditions:
            if aggregate.window.end > 0:
                raise ValueError(
                    "`where` must have windows that end at the anchor or earlier, because a prediction cannot depend "
                    f"on what is later; got {self.where!r}. End at 0."
                )
        if (aggregates or conditions) and self.anchors is None:
            raise ValueError(
                "`anchors` must be given for windows, which are relative to them; got none. Write, for example, "
                "{every: 30 days, validation_from: 2026-05-01, test_from: 2026-07-01}."
            )

    def _check_rows(self) -> None:
        if self.where:
            raise ValueError(f"`where` must go with `predict`; got it beside `{self.source}`. Choose the rows there.")
        unknown = sorted(set(self.columns) - set(COLUMNS))
        if unknown:
            raise ValueError(
                f"`columns` must rename some of {list(COLUMNS)}; got {unknown}. {did_you_mean(unknown[0], COLUMNS)}"
            )
        if self.anchors and (self.anchors.every or self.anchors.train_from or self.anchors.complete_until):
            raise ValueError(
                "`anchors` must have `validation_from`, `test_from` and `horizon` alone beside "
                f"`{self.source}`, whose rows have their times; got {self.anchors.given}. Leave the others out."
            )
        has_splits = bool(self.split_tables) or "split" in self.columns
        if has_splits == (self.anchors is not None):
            raise ValueError(
                "`anchors` must say where validation and test begin, unless rows have splits, by `columns: {split: "
                f"...}}` or `split_tables`; got {'both' if has_splits else 'neither'}. Keep one of them."
            )
        if self.split_tables and (set(self.split_tables) - set(SPLITS) or "split" in self.columns):
            raise ValueError(
                f"`split_tables` must have files of the splits {list(SPLITS)}, which are not in `columns`; got "
                f"{sorted(self.split_tables)} and {dict(self.columns)}. Correct the names."
            )


def parse_time(text: str, name: str) -> dt.datetime:
    """Reads a date or time stamp as a time without a zone, in UTC; errors call the text `name`.

    Raises:
        ValueError: if it is none, or has fractions of a second.
    """
    try:
        # Python 3.10 reads no Z.
        found = dt.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be a date or time stamp, such as 2026-05-01 or 2026-05-01T12:00:00+02:00; got {text!r}. "
            "Correct it."
        ) from error
    if found.tzinfo is not None:
        found = found.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if found.microsecond:
        raise ValueError(f"`{name}` must be a whole second, as times of tables are; got {text!r}. Round it.")
    return found

"""Options of TableSnapshotGen."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSnapshotGenOptions:
    """Options that select the tables of a snapshot.

    Attributes:
        schemas: schemas of the database whose tables are taken; empty for all but the system's.
        tables: tables and views to take, as TABLE or SCHEMA.TABLE; empty for all tables and no view.
        exclude: tables to leave out, as TABLE or SCHEMA.TABLE.
    """

    schemas: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        both = sorted({*self.tables} & {*self.exclude})
        if both:
            raise ValueError(
                f"`exclude` must name other tables than `tables`; got {both} in both. Remove them from one of the two."
            )

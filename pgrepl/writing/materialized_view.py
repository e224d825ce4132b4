"""The rows of a materialized view: all of them new, or only those that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.query.rowset import LocalRows, SparkRows
from pgrepl.rows.write import define_now
from pgrepl.types.record import quote_field
from pgrepl.types.style import DEFAULT_STYLE
from pgrepl.types.text import writer
from pgrepl.writing.create_as import add_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.write import Write

_Text = tuple[str | None, ...]


def replace_rows(session: Session, view: Relation, rows: LocalRows | SparkRows) -> int:
    """Replace all rows, in one commit; returns the number of new ones (refresh_by_heap_swap)."""
    from pgrepl.lake import commit

    write = _write(session, view)
    write.truncate()
    count = add_rows(session, write, rows)
    commit.apply(session, [write])
    return count


def merge_rows(session: Session, view: Relation, rows: LocalRows) -> None:
    """Delete the rows that are gone and insert those that are new (refresh_by_match_merge)."""
    from pgrepl.lake import commit, local

    write = _write(session, view)
    columns = view.columns
    writers = [writer(column.type) for column in columns]

    def text(row: tuple[Any, ...]) -> _Text:
        return tuple([None if v is None else write(v, DEFAULT_STYLE) for write, v in zip(writers, row, strict=True)])

    texts = [text(row) for row in rows.rows]
    wanted = Counter(texts)
    _refuse_duplicates(view, wanted)
    gone = []
    for *old, place in local.rows(session, write.table, [column.num for column in columns], places=True):
        shown = text(tuple(old))
        if wanted[shown]:
            wanted[shown] -= 1
        else:
            gone.append(place)
    new = []
    for row, shown in zip(rows.rows, texts, strict=True):
        if wanted[shown]:
            wanted[shown] -= 1
            new.append(row)
    if gone or new:
        write.delete(gone)
        write.insert(new)
        commit.apply(session, [write])


def _write(session: Session, view: Relation) -> Write:
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    define_now(session)
    return Write(session, lake_table(session, view.oid))


def _refuse_duplicates(view: Relation, wanted: Counter[_Text]) -> None:
    for row, count in wanted.items():
        if count > 1 and None not in row:
            shown = ",".join("" if value is None else quote_field(value) for value in row)
            raise PgError(
                "21000",
                f'new data for materialized view "{view.name}" contains duplicate rows without any null columns',
                detail=f"Row: ({shown})",
            )

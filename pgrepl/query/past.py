"""A table's rows as of a time or an LSN, from the lake's snapshots, as far back as they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table
from pgrepl.rows.changes import members
from pgrepl.types import oids
from pgrepl.types.plain import lsn_text
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def rows_at(session: Session, table: Relation, moment: int | None, is_lsn: bool) -> Iterator[tuple[Any, ...]]:
    """The rows by the table's present columns; one that it did not have then is NULL. `moment`: an LSN of the lake, or
    microseconds since 2000. None: there are no rows."""
    if moment is None:
        return
    snapshot = _snapshot(session, table, moment, is_lsn)
    for member in members(session, table.oid, True):
        try:
            then = lake_table(session, member.relation.oid, snapshot)
        except PgError as error:
            raise _unknown(session, table, moment, is_lsn, "It did not exist then.") from error
        there = {column.attnum for column in then.columns}
        numbers = {own: other for own, other in member.numbers.items() if other in there}
        places = [number - 1 for number in numbers]
        for values in local.rows(session, then, list(numbers.values()), snapshot=snapshot):
            row: list[Any] = [None] * len(table.attributes)
            for place, value in zip(places, values, strict=True):
                row[place] = value
            yield tuple(row)


def _snapshot(session: Session, table: Relation, moment: int, is_lsn: bool) -> int:
    """The last snapshot that was committed then."""
    session.transaction.require_read()
    last = session.transaction.numbering.last_snapshot()
    if is_lsn:
        found: int | None = min(moment - 1, last)
    else:
        try:
            at = (_EPOCH + timedelta(microseconds=moment)).isoformat(sep=" ")
        except OverflowError:
            at = "9999" if moment > 0 else "0001"
        found = session.link.execute(SNAPSHOT_AT, (at,))[0][0]
    oldest = int(session.link.execute(sql.FIRST_SNAPSHOT)[0][0])
    if found is None or found < oldest:
        raise _unknown(session, table, moment, is_lsn, "The snapshots of then have been removed, or there were none.")
    return int(found)


def _unknown(session: Session, table: Relation, moment: int, is_lsn: bool, why: str) -> PgError:
    then = lsn_text(moment) if is_lsn else write_text(moment, oids.TIMESTAMPTZ, session.text_style)
    hint = "pgrepl.keep_snapshots says how long they are kept; a subscription WITH (history = versions) keeps more."
    return PgError("55000", f'the rows of table "{table.name}" as of {then} are not known', detail=why, hint=hint)
